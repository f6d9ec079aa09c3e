"""Locks of the operating system on an open file, which it gives back when their holder dies; one kind a platform."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Protocol


class Latch(Protocol):
    """What a platform offers: one holder a file among all that have opened it, in this process or in another."""

    def take(self, file: int, /) -> None:
        """Wait, for ever if need be, and hold."""
        ...

    def try_take(self, file: int, /) -> bool:
        """Hold if nobody does; whether it is held now."""
        ...

    def give_back(self, file: int, /) -> None:
        """Hold no longer."""
        ...


class RegionLatch:
    """The latch of Windows: a lock on the first byte. Its wait gives up after ten seconds, and is begun again."""

    def __init__(
        self, locking: Callable[[int, int, int], None], *, wait: int, try_once: int, unlock: int
    ) -> None:
        self._locking = locking
        self._wait = wait
        self._try_once = try_once
        self._unlock = unlock

    def take(self, file: int, /) -> None:
        while not self._locked(file, self._wait):
            pass

    def try_take(self, file: int, /) -> bool:
        return self._locked(file, self._try_once)

    def give_back(self, file: int, /) -> None:
        os.lseek(file, 0, os.SEEK_SET)
        self._locking(file, self._unlock, 1)

    def _locked(self, file: int, mode: int) -> bool:
        # The lock is laid on the bytes that follow the position of the file.
        os.lseek(file, 0, os.SEEK_SET)
        try:
            self._locking(file, mode, 1)
        except PermissionError:
            return False  # tried once, and somebody holds it
        except OSError as error:
            if error.errno != _GAVE_UP:
                raise
            return False
        return True


_GAVE_UP = 36
"""EDEADLOCK of the C library of Windows: ten tries were in vain."""

if sys.platform == "win32":
    import msvcrt

    LATCH: Latch = RegionLatch(
        msvcrt.locking, wait=msvcrt.LK_LOCK, try_once=msvcrt.LK_NBLCK, unlock=msvcrt.LK_UNLCK
    )
else:
    import fcntl

    class FileLatch:
        """The latch of Linux, macOS and the BSDs: ``flock``, whose lock belongs to the open file, not to the process."""

        def take(self, file: int, /) -> None:
            fcntl.flock(file, fcntl.LOCK_EX)

        def try_take(self, file: int, /) -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        def give_back(self, file: int, /) -> None:
            fcntl.flock(file, fcntl.LOCK_UN)

    LATCH: Latch = FileLatch()
