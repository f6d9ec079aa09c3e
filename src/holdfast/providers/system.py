"""The machine: its clock and its source of randomness."""

from __future__ import annotations

import os
import time


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""
        return time.time_ns() // 1000


def random_bits(count: int) -> int:
    """That many bits nobody can guess."""
    return int.from_bytes(os.urandom((count + 7) // 8), "big") >> (-count % 8)
