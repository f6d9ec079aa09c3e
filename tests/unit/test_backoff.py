"""Back-off: how long a chore that failed waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.backoff import CEILING_US, backoff_us, retry_us

SECOND = 1_000_000


def test_the_wait_doubles_from_two_seconds_to_five_minutes() -> None:
    waits = [backoff_us(attempt, 1.0) // SECOND for attempt in range(1, 12)]
    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


@pytest.mark.parametrize(("jitter", "seconds"), [(1.0, 8), (0.75, 6), (0.5, 4)])
def test_jitter_takes_up_to_half_of_the_wait(jitter: float, seconds: int) -> None:
    assert backoff_us(3, jitter) == seconds * SECOND


@given(attempt=st.integers(1, 10**9), jitter=st.floats(0.5, 1.0))
def test_every_wait_is_between_half_of_the_full_one_and_the_full_one(attempt: int, jitter: float) -> None:
    full = backoff_us(attempt, 1.0)
    assert full // 2 <= backoff_us(attempt, jitter) <= full <= CEILING_US
    assert full <= backoff_us(attempt + 1, 1.0)


def test_the_last_attempt_is_not_followed_by_another() -> None:
    assert retry_us(100, 7, 8, 1.0) == 100 + 128 * SECOND
    assert retry_us(100, 8, 8, 1.0) is None
    assert retry_us(100, 9, 8, 1.0) is None
