"""Faults that only this engine knows, and the typed error for what the disk refuses."""

from __future__ import annotations

import apsw

from holdfast.errors import AlreadyExists, StoreFailed


class IdTaken(AlreadyExists):
    """A gathered append met an id that exists: any batch of the transaction may be the one."""


def _is_full(error: Exception) -> bool:
    """Whether the disk has no room: for a write, or for the index of the log, which is told in another way."""
    return isinstance(error, apsw.FullError) or (
        isinstance(error, apsw.IOError)
        and getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_SHMSIZE  # the stubs do not know it
    )


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
