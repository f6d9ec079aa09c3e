"""Opening a memory: the one place where stores and embedders are joined to what users hold."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from holdfast.errors import InvalidInput, StoreFailed, StoreUnsupported
from holdfast.memories.core import Core
from holdfast.memories.duties import Duties, WorkerMode, checked_mode
from holdfast.memories.local import LocalHoldfast
from holdfast.model.backup import checked_file
from holdfast.model.batch import Batch, Commit
from holdfast.ports import current
from holdfast.providers.system import SystemClock, SystemRandom

if TYPE_CHECKING:  # needed by type checkers only
    from pathlib import Path

    from holdfast.model.backup import Restored
    from holdfast.ports.clock import Clock
    from holdfast.ports.embedder import Embedder
    from holdfast.ports.store import Store

DEFAULT_FILE: Final = ".holdfast/holdfast.db"


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
    worker: WorkerMode = "background",
) -> Opening:
    """Open a memory: ``async with holdfast.open("memory.db") as hf``.

    ``url`` is a path, ``sqlite:///path`` (``?mode=ro`` to read only) or ``memory://`` (``?quiet=true`` without the
    warning that nothing is kept). Without one it is ``$HOLDFAST_URL``, else ``.holdfast/holdfast.db`` in the working
    folder. ``space`` is the space behind ``hf.banks`` and ``hf.values``. ``embedder`` is ``"none"``, ``"hashing"`` or
    an object with the methods of ``Embedder``; without one, search goes by words, and by vectors that are handed in.
    ``worker`` says who runs chores: a task beside the program (``"background"``), the commit that makes them due
    (``"inline"``), or nobody until ``hf.chores.drain()`` (``"manual"``).
    """
    chosen = clock or SystemClock()
    wanted = checked_mode(worker)

    async def make() -> LocalHoldfast:
        place = _place(url)
        found = _embedder(embedder)
        core = Core(await _opened(place, chosen, found), chosen, SystemRandom(), found)
        mode = "manual" if place.readonly else wanted
        duties = Duties(core, mode)
        if place.warns:
            core.commit = _warning_first(core)
        if mode == "background":
            duties.begin()
        return LocalHoldfast(core, duties, space)

    return Opening(make)


def file_of(url: str | os.PathLike[str] | None = None) -> Path | None:
    """The file that ``open`` would open; None for a memory that has none. Nothing is made."""
    # Deferred: only who looks for the file needs it.
    from pathlib import Path

    if url is None and not os.environ.get("HOLDFAST_URL"):
        return Path(DEFAULT_FILE).absolute()
    place = _place(url)
    return Path(place.path).absolute() if place.scheme == "sqlite" else None


async def restore(
    backup: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    *,
    discard: bool = False,
    dry_run: bool = False,
    anyway: bool = False,
) -> Restored:
    """Put a backup in the place of a memory's file, after what was erased since is erased in it again.

    ``to`` is the file, as a path or URL; without it the one that ``open`` would open. It must not be open anywhere:
    ``StoreBusy``. What stood there stays beside it as ``FILE.before-restore``, unless ``discard``. With ``dry_run``
    everything is tried and nothing is changed. When the file there is damaged so that it does not tell what was
    forgotten any more, that is refused: ``StoreDamaged``, unless ``anyway``.
    """
    # Deferred: only who restores needs them.
    import asyncio
    from pathlib import Path

    from holdfast.stores.sqlite.restoring import Order, Restoring

    file = file_of(to)
    if file is None:
        raise StoreUnsupported("only a file can be restored", hint="give the path of a file")
    checked_file(str(file))
    order = Order(
        backup=Path(checked_file(str(Path.cwd() / backup))),
        to=file,
        discard=discard,
        dry_run=dry_run,
        anyway=anyway,
    )
    return await asyncio.to_thread(Restoring(order, SystemClock(), SystemRandom()).run)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a memory lives, as its URL says."""

    scheme: str
    path: str
    option: str = ""

    @property
    def warns(self) -> bool:
        """Whether to tell that nothing will be kept."""
        return self.scheme == "memory" and self.option != "quiet=true"

    @property
    def readonly(self) -> bool:
        """Whether nothing will be written."""
        return self.option == "mode=ro"


_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "sqlite": ("", "mode=ro", "mode=rw"),
    "memory": ("", "quiet=true", "quiet=false"),
}


def _place(url: str | os.PathLike[str] | None) -> _Place:
    given = os.environ.get("HOLDFAST_URL") if url is None else os.fspath(url)
    if given:
        return _place_of(given)
    if url is not None:
        raise InvalidInput("the URL is empty", code="url_invalid", hint="leave it out for the default file")
    return _default_place()


def _default_place() -> _Place:
    # Deferred: only who opens without a URL needs them.
    import logging
    from pathlib import Path

    file = Path(DEFAULT_FILE).absolute()
    file.parent.mkdir(exist_ok=True)
    logging.getLogger("holdfast").info("the memory is kept in %s", file)
    return _Place("sqlite", str(file))


def _place_of(url: str) -> _Place:
    scheme, separator, rest = url.partition("://")
    if not separator:
        if url == ":memory:":
            raise InvalidInput("unknown place :memory:", code="url_invalid", hint="use memory://")
        return _Place("sqlite", checked_file(url))
    if scheme in ("postgresql", "postgres", "http", "https"):
        raise StoreUnsupported(
            f"{scheme}:// needs an engine that is not part of this version",
            hint="use a file path or memory://",
        )
    options = _OPTIONS.get(scheme)
    if options is None:
        raise InvalidInput(
            f"unknown scheme {scheme!r}", code="url_invalid", hint="a path, sqlite:///… or memory://"
        )
    path, _, option = rest.partition("?")
    if option not in options:
        raise InvalidInput(
            f"unknown option {option!r} in the URL",
            code="url_invalid",
            hint=" or ".join(filter(None, options)),
        )
    if scheme == "sqlite" and (not path.startswith("/") or path == "/"):
        raise InvalidInput(f"no file in {url!r}", code="url_invalid", hint="sqlite:///file.db")
    return _Place(scheme, checked_file(path[1:]), option)


async def _opened(place: _Place, clock: Clock, embedder: Embedder | None = None) -> Store:
    if place.scheme == "memory":
        # Deferred: only the engine that is used is loaded.
        from holdfast.stores.memory import MemoryStore

        return MemoryStore(clock)
    # Deferred: loads apsw, which `import holdfast` must not.
    from holdfast.stores.sqlite import SqliteStore

    if place.readonly:
        _check_there(place.path)
    return await SqliteStore.open(
        place.path,
        clock=clock,
        readonly=place.readonly,
        embedder=None if embedder is None else embedder.name,
    )


def _check_there(path: str) -> None:
    # Deferred: only who opens to read needs it.
    from pathlib import Path

    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        raise StoreFailed(f"no such file: {path}", hint="mode=ro makes none") from None
    except (OSError, ValueError):
        # Whatever else is wrong with the path is told by the store.
        return


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


def _process_default() -> LocalHoldfast:
    """The memory behind ``holdfast.default()`` where no ``use`` is in force: made once, opened when first used."""
    with _making:
        if not _defaults:
            clock = SystemClock()
            place = _place(None)
            # Deferred: it loads asyncio, which `import holdfast` does without.
            from holdfast.memories.late import late_store

            async def opened() -> Store:
                store = await _opened(place, clock)
                duties.begin()
                return store

            core = Core(late_store(opened), clock, SystemRandom())
            duties = Duties(core, "background")
            if place.warns:
                core.commit = _warning_first(core)
            _defaults.append(LocalHoldfast(core, duties))
        return _defaults[0]


_making: Final = Lock()
_defaults: Final[list[LocalHoldfast]] = []
current.fill(_process_default)


def _warning_first(core: Core) -> Callable[[Batch], Awaitable[Commit]]:
    behind = core.commit

    async def commit(batch: Batch) -> Commit:
        # Deferred: who opens a file has nothing to be told.
        import logging

        core.commit = behind
        logging.getLogger("holdfast").warning(
            "memory:// keeps nothing after the process ends; open a file, or add ?quiet=true"
        )
        return await core.commit(batch)

    return commit
