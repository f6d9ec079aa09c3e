"""The driver's face, as far as it is used here: one typed boundary to the C library."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias, cast

import apsw

Column: TypeAlias = int | float | str | bytes | None
Record: TypeAlias = tuple[Column, ...]


class Cursor(Protocol):
    """Rows of one statement."""

    @property
    def get(self) -> Column:
        """The single value of the first row; None when there is no row."""
        ...

    def fetchone(self) -> Record | None:
        """The next row."""
        ...

    def fetchall(self) -> list[Record]:
        """All remaining rows."""
        ...

    def __iter__(self) -> Iterator[Record]:
        """The remaining rows."""
        ...


class Connection(Protocol):
    """A connection; not for use by two threads at once."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def execute(self, statements: str, bindings: Sequence[Column] = (), /) -> Cursor:
        """Run a statement with bound values."""
        ...

    def executemany(self, statements: str, rows: Iterable[Sequence[Column]], /) -> Cursor:
        """Run a statement for each row of values."""
        ...

    def set_busy_timeout(self, milliseconds: int, /) -> None:
        """How long to wait for a lock."""
        ...

    def create_scalar_function(self, name: str, function: Callable[..., Column], /) -> None:
        """Make a function known to statements."""
        ...

    def set_wal_hook(self, hook: Callable[[Connection, str, int], int], /) -> None:
        """Call with the number of pages in the log after each commit."""
        ...

    def wal_checkpoint(self, *, mode: int) -> tuple[int, int]:
        """Move the log into the file: pages in the log, and pages moved."""
        ...

    def close(self, force: bool = False) -> None:  # noqa: FBT001, FBT002 - the driver's own signature
        """Close."""
        ...


def open_connection(path: str, *, readonly: bool, vfs: str | None) -> Connection:
    """A bare connection to a file."""
    flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    return cast("Connection", apsw.Connection(path, flags=flags | apsw.SQLITE_OPEN_NOMUTEX, vfs=vfs))


def open_at_rest(path: Path) -> Connection:
    """A bare connection to read a file that nobody writes, from a folder that need not be writable."""
    log = path.with_name(path.name + "-wal")
    if os.access(path.parent, os.W_OK) or (log.exists() and log.stat().st_size):
        return open_connection(str(path), readonly=True, vfs=None)
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOMUTEX
    return cast("Connection", apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=flags))


STEP_PAGES: Final = 1_024


def copy_file(
    source: Connection,
    target: str,
    *,
    afterwards: Callable[[Connection], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Copy the database behind a connection, as it is at one moment, into a new file, and make that safe.

    The caller holds a snapshot: without one the copy begins anew whenever somebody writes. ``afterwards`` changes the
    copy before it is made safe; when ``stop`` says so, the copy ends early, unusable.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    origin = cast("apsw.Connection", source)
    copy = apsw.Connection(target, flags=flags, vfs=origin.open_vfs)
    try:
        target_side = cast("Connection", copy)
        target_side.execute("pragma synchronous=off")  # made safe once, at the end
        with copy.backup("main", origin, "main") as work:
            while not work.done and not stop():
                work.step(STEP_PAGES)
        if afterwards is not None and not stop():
            target_side.execute("pragma secure_delete=on")
            afterwards(target_side)
    finally:
        copy.close()
    make_safe(Path(target))


def make_safe(file: Path) -> None:
    """Have the system write a file, and the folder that names it, to the disk.

    Only for a file that this process has not open: closing it in this way gives back all locks on it.
    """
    _sync(file, os.O_RDWR)
    make_names_safe(file.parent)


def make_names_safe(folder: Path) -> None:
    """Have the system write to the disk which files a folder holds."""
    if os.name != "nt":  # Windows syncs no folders
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    opened = os.open(path, flags)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
