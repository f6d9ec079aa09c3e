"""When work that failed is tried again."""

from __future__ import annotations

from typing import Final

FIRST_US: Final = 2_000_000
CEILING_US: Final = 300_000_000
_DOUBLINGS: Final = CEILING_US.bit_length()
"""More of them change nothing: the ceiling is reached long before."""


def backoff_us(attempt: int, jitter: float) -> int:
    """How long to wait after a failed attempt, counted from 1: twice as long each time, at most five minutes.

    ``jitter``, from 0.5 to 1, shortens the wait, so that what failed together does not come back together.
    """
    return int(min(CEILING_US, FIRST_US << min(attempt - 1, _DOUBLINGS)) * jitter)


def retry_us(now_us: int, attempt: int, max_attempts: int, jitter: float) -> int | None:
    """When to try again after a failed attempt; None when it was the last one."""
    return None if attempt >= max_attempts else now_us + backoff_us(attempt, jitter)
