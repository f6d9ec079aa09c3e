"""The lock that the writers of all processes queue on: one operating-system lock on a file beside the database."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Final, Self

from holdfast.errors import StoreBusy, StoreFailed
from holdfast.stores.sqlite.latches import LATCH

IMPATIENT_SECONDS: Final = 0.5


class WriteLock:
    """Held while a transaction is written. The system gives it back when its holder ends, however that happens.

    A holder that stands still keeps it: the others raise ``StoreBusy`` once they have waited for ``wait_ms``. Used by
    one thread of a handle at a time.
    """

    def __init__(self, path: Path, wait_ms: int) -> None:
        self._database = path
        self._path = path.with_name(path.name + ".lock")
        self._seconds = wait_ms / 1000
        self._file = -1
        self._waiter: Waiter | None = None

    def held(self) -> Self:
        """Hold the lock in a ``with`` block, waiting for other processes first."""
        return self

    def __enter__(self) -> None:
        self.take()

    def __exit__(self, *exc: object) -> None:
        self.give_back()

    def take_at_once(self) -> bool:
        """Hold the lock if nobody does; whether it is held now, to be given back."""
        if self._file < 0:
            self._open()
        return not self._late and LATCH.try_take(self._file)

    def give_back(self) -> None:
        """Hold it no longer."""
        LATCH.give_back(self._file)

    @property
    def _late(self) -> bool:
        return self._waiter is not None and self._waiter.late

    def take(self) -> None:
        """Hold the lock, waiting for other processes first."""
        late = self._late
        if self.take_at_once():
            return
        if self._waiter is None:
            self._waiter = Waiter(self._file)
        # Who follows one that has waited in vain need not wait as long for the same holder.
        seconds = min(self._seconds, IMPATIENT_SECONDS) if late else self._seconds
        if not self._waiter.wait(seconds):
            raise StoreBusy(
                f"another process holds the write lock of {self._database} and does not let go",
                hint="nothing was written; look for a stopped process that has the file open, then try again",
            )

    def _open(self) -> None:
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreFailed(
                f"the lock file {self._path} cannot be opened: {error}",
                hint="make the folder of the file writable, or open it with ?mode=ro",
            ) from error
        _close_in_children(self._file)

    def close(self) -> None:
        """Close the lock file; it stays in place for others."""
        waiter, self._waiter = self._waiter, None
        file, self._file = self._file, -1
        if file >= 0:
            _open_files.discard(file)
            if waiter is None or waiter.close():
                os.close(file)


_open_files: Final[set[int]] = set()
_registered: Final[list[bool]] = []


def _close_in_children(file: int) -> None:
    """Close the file in processes forked from here: one that outlived its parent would go on holding the lock."""
    _open_files.add(file)
    if sys.platform != "win32" and not _registered:
        os.register_at_fork(after_in_child=_close_all)
        _registered.append(True)


def _close_all() -> None:
    for file in _open_files:
        os.close(file)
    _open_files.clear()


class Waiter:
    """A thread that waits for the lock in place of a writer, because no system can end such a wait in time.

    It is made when a writer first finds the lock taken. The system keeps those who wait in order, so nothing polls.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._state = threading.Condition()
        self._wanted = False
        self._taken = False
        self._waiting = False
        self._closed = False
        threading.Thread(target=self._run, name="holdfast-lock", daemon=True).start()

    @property
    def late(self) -> bool:
        """Whether the thread still waits for a lock that its writer has given up on."""
        with self._state:
            return self._waiting

    def wait(self, seconds: float) -> bool:
        """Have the thread take the lock; False when that takes too long."""
        with self._state:
            self._wanted = True
            self._state.notify_all()
            self._state.wait_for(lambda: self._taken, seconds)
            taken, self._taken, self._wanted = self._taken, False, False
            return taken

    def close(self) -> bool:
        """Let the thread end; False when it still waits, and will close the file itself."""
        with self._state:
            self._closed = True
            self._state.notify_all()
            return not self._waiting

    def _run(self) -> None:
        while self._asked():
            LATCH.take(self._file)
            with self._state:
                self._waiting = False
                if self._closed:
                    os.close(self._file)
                    return
                if self._wanted:
                    self._taken = True
                    self._state.notify_all()
                else:
                    LATCH.give_back(self._file)

    def _asked(self) -> bool:
        """Wait to be asked; False at the end."""
        with self._state:
            self._state.wait_for(lambda: self._closed or (self._wanted and not self._taken))
            self._waiting = not self._closed
            return self._waiting
