"""Ids: sortable, unique, opaque, routed."""

from __future__ import annotations

import os
import threading
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.model.ids import BUCKETS, IdMaker, bucket_of, bucket_of_id, checked_id, is_id
from holdfast.providers.system import SystemClock, SystemRandom
from holdfast.testing.clock import ManualClock


def maker(clock: ManualClock | None = None) -> IdMaker:
    return IdMaker((clock or ManualClock()).now_us, SystemRandom())


@given(st.integers(0, BUCKETS - 1))
def test_an_id_is_a_uuid_that_carries_its_bucket(bucket: int) -> None:
    made = maker()(bucket)
    assert is_id(made)
    assert bucket_of_id(made) == bucket
    parsed = UUID(made)
    assert (parsed.version, parsed.variant) == (7, "specified in RFC 4122")


def test_ids_of_one_maker_grow() -> None:
    clock = ManualClock()
    make = maker(clock)
    made: list[str] = []
    for number in range(3000):
        made.append(make(number % BUCKETS))
        if number % 1000 == 999:
            clock.advance(milliseconds=(1, -5, 1)[number // 1000])
    assert made == sorted(set(made))


def test_a_millisecond_that_is_full_borrows_from_the_next() -> None:
    make = IdMaker(ManualClock().now_us, lambda bits: (1 << bits) - 1)
    made = [make(0) for _ in range(200_000)]
    assert made == sorted(set(made))


def test_threads_never_share_an_id() -> None:
    make = IdMaker(SystemClock().now_us, SystemRandom())
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend([make(1) for _ in range(2000)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8000


def test_buckets_are_for_ever() -> None:
    assert bucket_of("default", "notes", "alice") == bucket_of("default", "notes", "alice")
    assert bucket_of("a", "bc", "d") != bucket_of("ab", "c", "d")
    assert [bucket_of("default", "notes", key) for key in ("alice", "bob", "")] == [73, 932, 382]
    assert len({bucket_of("s", "b", str(number)) for number in range(20_000)}) == BUCKETS


@pytest.mark.parametrize("text", ["", "0" * 31, "0" * 33, "A" * 32, "g" * 32, 5, None, "\uff10" * 32])
def test_what_is_no_id(text: object) -> None:
    assert not is_id(text)
    with pytest.raises(InvalidInput, match="not an id"):
        checked_id(text, what="the id")


def test_random_bits_fill_their_range() -> None:
    random_bits = SystemRandom()
    for bits in (1, 7, 8, 9, 16, 63):
        found = [random_bits(bits) for _ in range(200)]
        assert all(0 <= number < 1 << bits for number in found)
        assert max(found) >= 1 << (bits - 1)


def test_random_bits_are_fetched_anew_and_not_shared_with_a_child() -> None:
    random_bits = SystemRandom()
    assert len({random_bits(64) for _ in range(5_000)}) == 5_000
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(sender, random_bits(64).to_bytes(8, "big"))
        os._exit(0)
    os.waitpid(child, 0)
    assert int.from_bytes(os.read(receiver, 8), "big") != random_bits(64)
    os.close(receiver)
    os.close(sender)
