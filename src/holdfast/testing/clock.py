"""A clock that stands still until a test moves it."""

from __future__ import annotations

from typing import Final

from holdfast.model.values import DAY_US

START_US: Final = 1_800_000_000_000_000
"""Where a manual clock starts when nothing else is said: 15 January 2027."""


class ManualClock:
    """A clock that moves only when it is told to, in either direction."""

    __slots__ = ("_now_us",)

    def __init__(self, start_us: int = START_US) -> None:
        self._now_us = start_us

    def now_us(self) -> int:
        """The time now, in microseconds since the epoch."""
        return self._now_us

    def advance(
        self, *, microseconds: int = 0, milliseconds: int = 0, seconds: int = 0, days: int = 0
    ) -> int:
        """Move on by the sum of the parts (back, when it is negative) and tell the new time."""
        self._now_us += microseconds + 1_000 * milliseconds + 1_000_000 * seconds + DAY_US * days
        return self._now_us

    def set(self, now_us: int) -> None:
        """Jump to a time."""
        self._now_us = now_us
