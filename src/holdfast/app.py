"""Opening a memory: the one place where stores and embedders are joined to what users hold."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from pathlib import Path
from threading import Lock
from typing import Final, cast
from urllib.parse import parse_qsl, unquote

from holdfast.errors import InvalidInput, StoreUnsupported
from holdfast.memories.core import Core
from holdfast.memories.local import LocalHoldfast
from holdfast.model.batch import Batch, Commit
from holdfast.ports import current
from holdfast.ports.clock import Clock
from holdfast.ports.embedder import Embedder
from holdfast.ports.store import Store
from holdfast.providers.system import SystemClock, random_bits

DEFAULT_FILE: Final = Path(".holdfast", "holdfast.db")
_log: Final = logging.getLogger("holdfast")


class Opening:
    """A memory that is about to be opened: ``async with`` it, or ``await`` it and close it yourself."""

    __slots__ = ("_hf", "_make")

    def __init__(self, make: Callable[[], Awaitable[LocalHoldfast]]) -> None:
        self._make = make
        self._hf: LocalHoldfast | None = None

    def __await__(self) -> Generator[object, None, LocalHoldfast]:
        return self._make().__await__()

    async def __aenter__(self) -> LocalHoldfast:
        self._hf = await self._make()
        return self._hf

    async def __aexit__(self, *exc: object) -> None:
        if self._hf is not None:
            await self._hf.aclose()


def open(
    url: str | os.PathLike[str] | None = None,
    *,
    space: str = "default",
    embedder: str | Embedder = "none",
    clock: Clock | None = None,
) -> Opening:
    """Open a memory: ``async with holdfast.open("memory.db") as hf``.

    ``url`` is a path, ``sqlite:///path`` (``?mode=ro`` to read only) or ``memory://`` (``?quiet=true`` without the
    warning that nothing is kept). Without one it is ``$HOLDFAST_URL``, else ``.holdfast/holdfast.db`` in the working
    folder. ``space`` is the space behind ``hf.banks`` and ``hf.values``. ``embedder`` is ``"none"``, ``"hashing"`` or
    an object with the methods of ``Embedder``; without one, search goes by words, and by vectors that are handed in.
    """
    chosen = clock or SystemClock()

    async def make() -> LocalHoldfast:
        place = _place(url)
        core = Core(await _opened(place, chosen), chosen, random_bits, _embedder(embedder))
        if place.warns:
            core.commit = _warning_first(core)
        return LocalHoldfast(core, space)

    return Opening(make)


class _Place:
    """Where a memory lives, as its URL says."""

    __slots__ = ("options", "path", "scheme")

    def __init__(self, scheme: str, path: str, options: dict[str, str]) -> None:
        self.scheme, self.path, self.options = scheme, path, options
        allowed = {"sqlite": {"mode": ("ro", "rw")}, "memory": {"quiet": ("true", "false")}}[scheme]
        for name, value in options.items():
            if name not in allowed or value not in allowed[name]:
                known = ", ".join(f"{option}={'|'.join(values)}" for option, values in allowed.items())
                raise InvalidInput(
                    f"unknown option {name}={value} in the URL", code="url_invalid", hint=known
                )

    @property
    def warns(self) -> bool:
        """Whether to tell that nothing will be kept."""
        return self.scheme == "memory" and self.options.get("quiet") != "true"


def _place(url: str | os.PathLike[str] | None) -> _Place:
    given = os.fspath(url) if url is not None else os.environ.get("HOLDFAST_URL")
    if not given:
        if url is not None:
            raise InvalidInput(
                "the URL is empty", code="url_invalid", hint="leave it out for the default file"
            )
        DEFAULT_FILE.parent.mkdir(exist_ok=True)
        _log.info("the memory is kept in %s", DEFAULT_FILE.absolute())
        return _Place("sqlite", str(DEFAULT_FILE), {})
    scheme, separator, rest = given.partition("://")
    if not separator:
        if given == ":memory:":
            raise InvalidInput("unknown place :memory:", code="url_invalid", hint="use memory://")
        return _Place("sqlite", given, {})
    path, _, query = rest.partition("?")
    if scheme == "memory":
        return _Place(scheme, path, dict(parse_qsl(query, keep_blank_values=True)))
    if scheme == "sqlite":
        if not path.startswith("/") or path == "/":
            raise InvalidInput(f"no file in {given!r}", code="url_invalid", hint="sqlite:///file.db")
        return _Place(scheme, unquote(path[1:]), dict(parse_qsl(query, keep_blank_values=True)))
    if scheme in ("postgresql", "postgres", "http", "https"):
        raise StoreUnsupported(
            f"{scheme}:// needs an engine that is not part of this version",
            hint="use a file path or memory://",
        )
    raise InvalidInput(
        f"unknown scheme {scheme!r}", code="url_invalid", hint="a path, sqlite:///… or memory://"
    )


async def _opened(place: _Place, clock: Clock) -> Store:
    if place.scheme == "memory":
        # Deferred: only the engine that is used is loaded.
        from holdfast.stores.memory import MemoryStore

        return MemoryStore(clock)
    # Deferred: loads apsw, which `import holdfast` must not.
    from holdfast.stores.sqlite import SqliteStore

    return await SqliteStore.open(place.path, clock=clock, readonly=place.options.get("mode") == "ro")


def _embedder(wanted: str | Embedder) -> Embedder | None:
    if not isinstance(wanted, str):
        return wanted
    if wanted == "none":
        return None
    if wanted == "hashing":
        # Deferred: few memories use it.
        from holdfast.providers.hashing import HashEmbedder

        return HashEmbedder()
    if wanted == "minilm":
        raise InvalidInput(
            "the embedder minilm is a package that is not part of this version",
            code="embedder_unavailable",
            hint='use "none", "hashing" or an Embedder object',
        )
    raise InvalidInput(f"unknown embedder {wanted!r}", code="embedder_invalid", hint='"none" or "hashing"')


class _Late:
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


def _process_default() -> LocalHoldfast:
    """The memory behind ``holdfast.default()`` where no ``use`` is in force: made once, opened when first used."""
    with _making:
        if not _defaults:
            clock = SystemClock()
            place = _place(None)
            store = cast("Store", _Late(lambda: _opened(place, clock)))
            core = Core(store, clock, random_bits)
            if place.warns:
                core.commit = _warning_first(core)
            _defaults.append(LocalHoldfast(core))
        return _defaults[0]


_making: Final = Lock()
_defaults: Final[list[LocalHoldfast]] = []
current.fill(_process_default)


def _warning_first(core: Core) -> Callable[[Batch], Awaitable[Commit]]:
    async def commit(batch: Batch) -> Commit:
        core.commit = core.store.commit
        _log.warning("memory:// keeps nothing after the process ends; open a file, or add ?quiet=true")
        return await core.commit(batch)

    return commit
