"""The copies that restores work on: each under a name of its own, which tells others whose it is and whether it lives."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.errors import StoreFailed
from holdfast.stores.sqlite.files import Identity, identity_of
from holdfast.stores.sqlite.write_lock import WriteLock

BESIDE: Final = ("-wal", "-shm", "-journal")
"""What the database keeps beside a file."""
_MARK: Final = ".restoring-"
_BITS: Final = 48
_NAME: Final = re.compile(r"(?P<file>.+)\.restoring-[0-9a-f]{12}(?P<live>-live)?(-wal|-shm|-journal|\.lock)?")
_LIVE: Final = "-live"
_TELLS: Final = re.compile(r"(-live)?(-wal|-shm|-journal|\.lock)?$")


class WorkFile:
    """A new file beside another, with a lock that tells that somebody works on it."""

    def __init__(self, target: Path, bits: int) -> None:
        self.path = target.with_name(f"{target.name}{_MARK}{bits % (1 << _BITS):012x}")
        self._lock = WriteLock(self.path.with_name(self.path.name + _LIVE), 0)
        self._identity: Identity | None = None

    def make(self) -> None:
        """Make it. A name that is taken is an error: nobody else's file is ever written."""
        self._lock.take()
        self.path.touch(exist_ok=False)
        self._identity = identity_of(self.path)

    @property
    def is_own(self) -> bool:
        """Whether the name still stands for the file that was made."""
        return self._identity is not None and identity_of(self.path) == self._identity

    def clear(self) -> None:
        """Remove what is left of it."""
        with suppress(OSError):
            _remove(self.path)
        self._lock.close()
        with suppress(OSError):
            _lock_of(self.path).unlink(missing_ok=True)


def is_work(name: str) -> bool:
    """Whether a file has a name that only restores give."""
    return _NAME.fullmatch(name) is not None


def is_taken(name: str, target: str) -> bool:
    """Whether a restore to a target, or the memory there, uses a name itself."""
    found = _NAME.fullmatch(name)
    beside = {target + suffix for suffix in (*BESIDE, ".lock")}
    return name in beside or (found is not None and found["file"] == target)


def clear_left(target: Path) -> None:
    """Remove what killed restores have left. The caller holds the lock on the target."""
    left = {
        target.with_name(_TELLS.sub("", name))
        for name in os.listdir(target.parent)  # noqa: PTH208 - names only
        if (found := _NAME.fullmatch(name)) is not None and found["file"] == target.name
    }
    for path in left:
        lock = WriteLock(path.with_name(path.name + _LIVE), 0)
        try:
            if lock.take_at_once():  # otherwise somebody tries a restore at this moment
                _remove(path)
                _lock_of(path).unlink(missing_ok=True)
        except (OSError, StoreFailed):
            continue  # it holds nothing that the restore needs
        finally:
            lock.close()


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}{_LIVE}.lock")


def _remove(path: Path) -> None:
    for suffix in ("", *BESIDE, ".lock"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
