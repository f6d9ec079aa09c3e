"""Handing over: what waits for the writer, how much may wait, and telling whoever waited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from holdfast.model.batch import Append, Batch

if TYPE_CHECKING:  # the writing side is loaded with the first write
    from holdfast.stores.sqlite.ledger import Ledger
    from holdfast.stores.sqlite.prepared import Bodies

BRIEF_OPERATIONS: Final = 4
SWIFT_SECONDS: Final = 0.001
"""A lone caller commits on his own thread, which may be that of an event loop, while a commit takes less than this."""
Job: TypeAlias = "Callable[[Ledger], object]"


@dataclass(slots=True)
class Request:
    """What waits for the writer: a batch with its bodies, or a job; and whom to tell."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[object]
    batch: Batch | None = None
    bodies: Bodies | None = None
    job: Job | None = None
    bare: bool = False
    result: object = None
    error: Exception | None = None


class Gate:
    """Bounds what waits before the writer; callers of any event loop wait their turn."""

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def try_enter(self) -> bool:
        """Take a place in the queue if one is free."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return True
            return False

    def enter_anyway(self) -> None:
        """Take a place, beyond the last one if need be."""
        with self._lock:
            self._free -= 1

    async def enter(self) -> None:
        """Take a place in the queue, waiting while it is full."""
        while True:
            with self._lock:
                if self._free > 0:
                    self._free -= 1
                    return
                loop = asyncio.get_running_loop()
                turn = loop.create_future()
                self._waiting.append((loop, turn))
            await turn

    @property
    def inside(self) -> int:
        """How many places are taken."""
        return self._size - self._free

    def leave(self, count: int) -> None:
        """Give places back; called by the writer."""
        with self._lock:
            self._free += count
            waiting, self._waiting = self._waiting, []
        for loop, turn in waiting:
            with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(_tell, turn)


def _tell(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


class Swiftness:
    """How long lone commits take: smoothed, so that one that writes a bunch of words changes little."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def note(self, seconds: float) -> None:
        """One commit took so long."""
        self._seconds += (seconds - self._seconds) / 16

    @property
    def swift(self) -> bool:
        """Whether an event loop may wait for the next one."""
        return self._seconds < SWIFT_SECONDS


def brief(request: Request) -> bool:
    """Whether a request takes little more than its sync: a few small entries, and nothing that is large already."""
    operations = cast("Batch", request.batch).operations
    bodies = request.bodies or {}
    return len(bodies) == len(operations) <= BRIEF_OPERATIONS and all(
        isinstance(operation, Append) and bodies[index].brief for index, operation in enumerate(operations)
    )


def resolve(requests: list[Request]) -> None:
    """Tell the callers, waking each event loop once."""
    if len(requests) == 1:
        with suppress(RuntimeError):  # as below
            requests[0].loop.call_soon_threadsafe(_tell_all, requests)
        return
    loops: dict[asyncio.AbstractEventLoop, list[Request]] = {}
    for request in requests:
        loops.setdefault(request.loop, []).append(request)
    for loop, served in loops.items():
        with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(_tell_all, served)


def _tell_all(requests: list[Request]) -> None:
    for request in requests:
        future = request.future
        if future.done():
            continue
        if request.error is not None:
            future.set_exception(request.error)
        else:
            future.set_result(request.result)
