"""The guard of a row tells whether the columns are what was written."""

from __future__ import annotations

from enum import IntEnum

import pytest

from holdfast.stores.sqlite.codec import row_hash
from holdfast.stores.sqlite.db import Column


class Text(str):
    __slots__ = ()


class Number(IntEnum):
    ONE = 1


def test_the_guard_of_a_row_is_the_same_for_ever() -> None:
    row = (b"\x01\x02", 1, 1 << 40, -5, 0.5, None, "tea", "caf\u00e9 \U0001f375")
    assert row_hash(*row).hex() == "89064a5ee0816621"


@pytest.mark.parametrize(
    "other",
    [
        ("tea", 2, None),
        ("Tea", 1, None),
        ("tea", 1, 0),
        ("tea", 1),
        (b"tea", 1, None),
        ("tea", "1", None),
        ("tea1", None),
    ],
)
def test_another_row_has_another_guard(other: tuple[Column, ...]) -> None:
    assert row_hash("tea", 1, None) != row_hash(*other)


def test_how_a_value_came_to_be_does_not_matter() -> None:
    joined = bytes([116, 101, 97]).decode()
    assert row_hash("tea", 1) == row_hash(joined, 1) == row_hash(Text("tea"), Number.ONE)
