"""Stores and batches for the fault tests."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import pytest

from holdfast.model.batch import Append, Batch, Idempotency
from holdfast.model.entry import Draft
from holdfast.model.ids import IdMaker, bucket_of
from holdfast.model.scope import Place

SPACE, BANK = "acme", "notes"


class WallClock:
    """The machine's own time."""

    def now_us(self) -> int:
        return time.time_ns() // 1000


MakeBatch = Callable[..., Batch]


@pytest.fixture
def make_batch() -> MakeBatch:
    """Make batches of one append."""
    clock = WallClock()
    make_id = IdMaker(clock.now_us, secrets.randbits)

    def make(content: str, *, key: str = "alice", repeat: str | None = None) -> Batch:
        bucket = bucket_of(SPACE, BANK, key)
        place = Place(BANK, key)
        draft = Draft(id=make_id(bucket), content=content, created_us=clock.now_us())
        idempotency = None if repeat is None else Idempotency(place, repeat, content.encode())
        return Batch(SPACE, make_id(bucket), clock.now_us(), (Append(place, draft),), idempotency=idempotency)

    return make
