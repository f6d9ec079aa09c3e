"""A store that is opened by the first call that needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from threading import Lock
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:  # Protocols are needed by type checkers only
    from holdfast.ports.store import Store


def late_store(open_store: Callable[[], Awaitable[Store]]) -> Store:
    """A store that opens another at its first use."""
    return cast("Store", _LateStore(open_store))


class _LateStore:
    """A store that is opened by the first call that needs it, whichever task, thread or event loop makes it."""

    def __init__(self, open_store: Callable[[], Awaitable[Store]]) -> None:
        self._open_store = open_store
        self._lock = Lock()
        self._opened: Future[Store | None] | None = None

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        async def call(*arguments: object, **named: object) -> object:
            method = cast("Callable[..., Awaitable[object]]", getattr(await self._store(), name))
            return await method(*arguments, **named)

        return call

    async def aclose(self) -> None:
        """Close what was opened; nothing is opened for it."""
        if self._opened is not None:
            await (await self._store()).aclose()

    async def _store(self) -> Store:
        while True:
            with self._lock:
                opening = self._opened
                mine = opening is None
                if opening is None:
                    opening = self._opened = Future()
            if mine:
                return await self._open(opening)
            # Shielded: cancelling one who waits must not cancel what others wait for.
            found = await asyncio.shield(asyncio.wrap_future(opening))
            if found is not None:
                return found

    async def _open(self, opening: Future[Store | None]) -> Store:
        found: Store | None = None
        try:
            store = found = await self._open_store()
        finally:
            # After a failure those that wait try for themselves.
            if found is None:
                self._opened = None
            opening.set_result(found)
        return store
