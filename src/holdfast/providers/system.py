"""The machine: its clock and its source of randomness."""

from __future__ import annotations

import os
import threading
import time
from typing import Final

_POOL_BYTES: Final = 1024


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""
        return time.time_ns() // 1000


class SystemRandom:
    """Bits of the operating system that nobody can guess, fetched many at a time: each fetch lets other threads in."""

    __slots__ = ("_at", "_lock", "_pool", "_process")

    def __init__(self) -> None:
        self._pool = b""
        self._at = 0
        self._process = 0
        self._lock = threading.Lock()

    def __call__(self, count: int) -> int:
        """That many bits; never the same ones again, not in the child of a fork either."""
        size = (count + 7) // 8
        with self._lock:
            if self._at + size > len(self._pool) or self._process != os.getpid():
                self._pool, self._at, self._process = os.urandom(max(size, _POOL_BYTES)), 0, os.getpid()
            drawn = self._pool[self._at : self._at + size]
            self._at += size
        return int.from_bytes(drawn, "big") >> (-count % 8)
