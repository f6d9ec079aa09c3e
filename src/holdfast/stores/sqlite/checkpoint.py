"""The checkpointer: moves the write-ahead log into the file, on its own connection, never inside a commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import apsw

from holdfast.errors import HoldfastError
from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.files import put_away
from holdfast.stores.sqlite.write_lock import WriteLock
from holdfast.stores.sqlite.writer import Writer

SMALL: Final = 256
ROUNDS: Final = 8


class Checkpointer:
    """A thread that works when the writer says that the log has grown."""

    def __init__(self, connect: Callable[[], Connection], writer: Writer, lock: WriteLock) -> None:
        self._connect = connect
        self._writer = writer
        self._lock = lock
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="holdfast-checkpoint", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after the work at hand."""
        self._closing = True
        self._writer.checkpoint_due.set()
        self._thread.join()

    def _run(self) -> None:
        connection: Connection | None = None
        while True:
            self._writer.checkpoint_due.wait()
            self._writer.checkpoint_due.clear()
            if self._closing:
                break
            try:
                connection = connection or self._connect()
                self._checkpoint(connection)
            except apsw.BusyError:
                continue  # another process is doing it
            except (apsw.Error, HoldfastError, OSError):
                # A checkpoint only saves space; the next one that is due tries again, on a new connection.
                put_away(connection)
                connection = None
        put_away(connection)

    def _checkpoint(self, connection: Connection) -> None:
        """Copy most of the log beside the writer, and the short rest while it holds still: then the log can restart.

        Without the last step a busy writer would always be a few pages ahead, and the log would grow for ever.
        """
        for _ in range(ROUNDS):
            total, done = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            if total <= SMALL:
                return  # another process has done it, and the log has begun anew: no need to stop the writers
            if self._closing or total - done > SMALL:
                continue
            with self._writer.turn, self._lock.held():
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            return
