"""The clock: nothing else in holdfast reads the time."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Tells the time in microseconds since the epoch, UTC."""

    def now_us(self) -> int:
        """The time now; it may jump either way, as machine clocks do."""
        ...
