"""Ids: sortable by time, unique, opaque, and routed: each carries the bucket of its partition.

The layout is that of a UUID version 7 written as 32 hex digits: 48 bits of milliseconds, the version, 12 + 52 bits that
grow inside a millisecond and are random otherwise, and, last, the 10 bits of the bucket.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import blake2b

from holdfast.errors import InvalidInput

BUCKETS = 1024
_HEX = frozenset("0123456789abcdef")
_VERSION = 0x7 << 76
_VARIANT = 0x2 << 62
_FREE_BITS = 64
_FREE_MAX = (1 << _FREE_BITS) - 1


def bucket_of(space: str, bank: str, key: str) -> int:
    """The bucket, 0 to 1023, that a partition lives in; the same on every engine and for ever."""
    digest = blake2b(f"{len(space)}:{space}{len(bank)}:{bank}{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % BUCKETS


def bucket_of_id(identifier: str) -> int:
    """The bucket that an id was made for."""
    return int(identifier[-3:], 16) & (BUCKETS - 1)


def is_id(text: object) -> bool:
    """Whether the text has the form of an id."""
    return isinstance(text, str) and len(text) == 32 and _HEX.issuperset(text)


def checked_id(text: object, *, what: str) -> str:
    """The id itself, or a typed error."""
    if not isinstance(text, str) or not is_id(text):
        raise InvalidInput(f"{what} is not an id: {text!r}", code="id_invalid")
    return text


class IdMaker:
    """Makes ids from a clock and a source of random bits; those of one maker strictly increase."""

    __slots__ = ("_free", "_lock", "_millis", "_now", "_random")

    def __init__(self, now_us: Callable[[], int], random_bits: Callable[[int], int]) -> None:
        self._now = now_us
        self._random = random_bits
        self._millis = 0
        self._free = 0
        self._lock = threading.Lock()

    def __call__(self, bucket: int) -> str:
        """The next id for a bucket."""
        with self._lock:
            millis = self._now() // 1000
            if millis > self._millis:
                self._millis = millis
                self._free = self._random(_FREE_BITS - 1)
            else:
                self._free += 1 + self._random(16)
                if self._free > _FREE_MAX:
                    self._millis += 1
                    self._free = self._random(_FREE_BITS - 1)
            millis, free = self._millis, self._free
        high, low = free >> 52, free & ((1 << 52) - 1)
        return f"{(millis << 80) | _VERSION | (high << 64) | _VARIANT | (low << 10) | bucket:032x}"
