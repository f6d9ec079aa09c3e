"""Faults that only this engine knows, and the typed error for what the disk refuses or the file cannot give."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Final

import apsw

from holdfast.errors import AlreadyExists, HoldfastError, StoreBusy, StoreDamaged, StoreFailed

DAMAGE: Final = (
    apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError, apsw.TooBigError, apsw.NoMemError,
    apsw.FormatError, apsw.RangeError,
)  # fmt: skip
"""What the database says of a file that is damaged. The statements are constant: one that is wrong meets a wrong file."""
UNREADABLE: Final = (LookupError, ValueError, TypeError, ArithmeticError, MemoryError, RecursionError)
"""What reading a value comes to that is not one that was ever written."""


class IdTaken(AlreadyExists):
    """A gathered append met an id that exists: any batch of the transaction may be the one."""


def _is_full(error: Exception) -> bool:
    """Whether the disk has no room: for a write, or for the index of the log, which is told in another way."""
    return isinstance(error, apsw.FullError) or (
        isinstance(error, apsw.IOError)
        and getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_SHMSIZE  # the stubs do not know it
    )


class Spoilt(StoreDamaged):
    """A row whose guard does not fit; whoever knows the file makes it an error for the caller."""

    def __init__(self, table: str, name: object) -> None:
        super().__init__(f"{table}: {named(name)} is not what was written")


def named(name: object) -> str:
    """How a record is named in words."""
    return name.hex() if isinstance(name, bytes) else str(name)[:80]


def damaged(path: Path, what: object) -> StoreDamaged:
    """The error for damage: the file, what is wrong, and the commands that come next."""
    text = what.message if isinstance(what, HoldfastError) else str(what) or type(what).__name__
    damage = StoreDamaged(f"{path} is damaged: {text}", hint=next_step(path))
    if isinstance(what, Exception):
        damage.__cause__ = what
    return damage


def next_step(path: Path) -> str:
    """What to do about a damaged file."""
    file = quote(str(path))
    return f"run: holdfast check {file}; then: holdfast repair {file}, or restore a backup"


def failed(what: str, error: Exception, *, hint: str) -> StoreFailed:
    """The error for a call that the disk refused; a full one has a code of its own."""
    failure = (
        StoreFailed(
            f"{what}: the disk is full", code="disk_full", hint="free space on the disk, then do it again"
        )
        if _is_full(error)
        else StoreFailed(f"{what}: {error}", hint=hint)
    )
    failure.__cause__ = error
    return failure


def read_error(path: Path, error: Exception) -> HoldfastError | None:
    """The typed error for what a read met; None for what is no fault of the file."""
    if isinstance(error, HoldfastError) and not isinstance(error, Spoilt):
        return error
    if isinstance(error, (Spoilt, *DAMAGE, *UNREADABLE)):
        return damaged(path, error)
    if isinstance(error, apsw.BusyError):
        busy = StoreBusy(f"{path} is locked by another program", hint="try again, or stop that program")
        busy.__cause__ = error
        return busy
    if isinstance(error, apsw.Error):
        return failed(f"{path} could not be read", error, hint="check the disk and try again")
    return None
