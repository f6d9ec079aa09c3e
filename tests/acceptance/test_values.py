"""Values: the contract of the seed's MemoryStore."""

from __future__ import annotations

import enum
import math
from types import MappingProxyType
from typing import Any

import pytest

import holdfast
from holdfast.testing.clock import ManualClock
from tests.acceptance.refusal import refused


@pytest.fixture
def values(space: holdfast.Space) -> holdfast.Values:
    return space.values


@pytest.mark.parametrize(
    "value",
    [
        False, True, 0, 1, -(10**30), 0.5, -0.0, "", "мир \0 🔑", [], {}, [None, [1, {"a": None}]],
        {"z": 1, "a": {"b": [1.5, "x"]}}, {"": ""},
    ],
)  # fmt: skip
async def test_json_round_trips(values: holdfast.Values, value: Any) -> None:
    await values.set("k", value)
    found = await values.get("k")
    assert found == value
    assert type(found) is type(value)
    assert str(found) == str(value)  # the order of keys as well


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("value_none", None),
        ("value_invalid", math.nan),
        ("value_invalid", [math.inf]),
        ("value_invalid", "\ud800"),
        ("value_invalid", {"\udfff": 1}),
        ("value_invalid", {1: "a"}),
        ("value_invalid", (1, 2)),
        ("value_invalid", {"a": (1,)}),
        ("value_invalid", {1, 2}),
        ("value_invalid", b"x"),
        ("value_invalid", Colour.RED),
        ("value_invalid", MappingProxyType({"a": 1})),
        pytest.param("value_invalid", 10**5000, id="huge"),
        ("document_too_large", "x" * (16 * 1024 * 1024)),
    ],
)
async def test_what_is_not_json_is_refused(values: holdfast.Values, code: str, value: Any) -> None:
    with refused(code, holdfast.InvalidInput):
        await values.set("k", value)
    assert await values.get("k") is None


async def test_depth(values: holdfast.Values) -> None:
    def nested(depth: int) -> Any:
        return [nested(depth - 1)] if depth else 1

    await values.set("k", nested(64))
    with refused("value_too_deep", holdfast.InvalidInput):
        await values.set("k", nested(65))
    own: list[Any] = []
    own.append(own)
    with refused("value_too_deep", holdfast.InvalidInput):
        await values.set("k", own)


@pytest.mark.parametrize("key", ["", "a\0b", "x" * 513, "\ud800", 5, None])
async def test_keys_that_are_no_keys(values: holdfast.Values, key: Any) -> None:
    for call in (values.get(key), values.set(key, 1), values.delete(key)):
        with refused("key_invalid", holdfast.InvalidInput):
            await call
    assert issubclass(holdfast.InvalidInput, ValueError)


async def test_missing_and_deleted(values: holdfast.Values) -> None:
    assert await values.get("k") is None
    await values.delete("k")
    await values.set("k", 1)
    await values.delete("k")
    assert await values.get("k") is None
    assert await values.list() == []


async def test_values_are_copies(values: holdfast.Values) -> None:
    given: dict[str, Any] = {"tags": ["a"]}
    await values.set("k", given)
    given["tags"].append("b")
    first = await values.get("k")
    assert isinstance(first, dict)
    first["more"] = 1
    assert await values.get("k") == {"tags": ["a"]}


async def test_list_keeps_the_order_of_first_insertion(values: holdfast.Values) -> None:
    for key in ("b", "a:1", "a:2", "A:3", "a%", "a_", " "):
        await values.set(key, 1)
    await values.set("b", 2)
    assert await values.list() == ["b", "a:1", "a:2", "A:3", "a%", "a_", " "]
    assert await values.list("") == await values.list(None)
    assert await values.list("a:") == ["a:1", "a:2"]
    assert await values.list("a%") == ["a%"]
    assert await values.list("_") == []
    await values.delete("b")
    await values.set("b", 3)
    assert (await values.list())[-1] == "b"


async def test_many_values(values: holdfast.Values) -> None:
    for number in range(40):
        await values.set(f"k{number:02}", number)
    found = await values.get_many([*(f"k{number:02}" for number in range(39, -1, -1)), "missing", "k00"])
    assert list(found.items()) == [(f"k{number:02}", number) for number in range(39, -1, -1)]


async def test_a_time_to_live_ends_after_its_millisecond(values: holdfast.Values, clock: ManualClock) -> None:
    clock.advance(microseconds=300)
    await values.set("k", 1, ttl_ms=10)
    clock.advance(milliseconds=10)
    clock.advance(microseconds=699)
    assert await values.get("k") == 1
    clock.advance(microseconds=1)
    assert await values.get("k") is None
    assert await values.list() == []


async def test_a_value_that_is_set_after_the_clock_was_put_back_can_be_read(
    values: holdfast.Values, clock: ManualClock
) -> None:
    await values.set("seen", "by a clock that is ahead")
    await values.get("seen")
    clock.advance(seconds=-3600)
    await values.set("k", "fresh", ttl_ms=60_000)
    assert await values.get("k") == "fresh"
    assert await values.list() == ["seen", "k"]


async def test_a_time_to_live_of_zero(values: holdfast.Values, clock: ManualClock) -> None:
    await values.set("k", 1, ttl_ms=0)
    assert await values.get("k") == 1
    clock.advance(milliseconds=1)
    assert await values.get("k") is None


async def test_setting_again_replaces_the_time_to_live(values: holdfast.Values, clock: ManualClock) -> None:
    await values.set("k", 1, ttl_ms=10)
    await values.set("k", 2)
    clock.advance(days=1000)
    assert await values.get("k") == 2
    await values.set("k", 3, ttl_ms=10**18)
    clock.advance(days=1000)
    assert await values.get("k") == 3


async def test_an_expired_key_that_is_set_again_is_new(values: holdfast.Values, clock: ManualClock) -> None:
    await values.set("a", 1, ttl_ms=1)
    await values.set("b", 1)
    clock.advance(milliseconds=2)
    await values.set("a", 2)
    assert await values.list() == ["b", "a"]


async def test_a_clock_that_runs_back_revives_nothing(values: holdfast.Values, clock: ManualClock) -> None:
    await values.set("k", 1, ttl_ms=5)
    clock.advance(milliseconds=6)
    assert await values.get("k") is None
    clock.advance(milliseconds=-6)
    assert await values.get("k") is None
    assert await values.list() == []


@pytest.mark.parametrize("ttl_ms", [-1, True, 1.0, "5"])
async def test_times_that_are_no_times(values: holdfast.Values, ttl_ms: Any) -> None:
    with refused("ttl_invalid", holdfast.InvalidInput):
        await values.set("k", 1, ttl_ms=ttl_ms)


async def test_spaces_have_their_own_values(hf: holdfast.LocalHoldfast) -> None:
    await hf.space("acme").values.set("k", 1)
    await hf.values.set("k", 2)
    assert await hf.space("acme").values.get("k") == 1
    assert await hf.space("default").values.get("k") == 2
    assert await hf.space("globex").values.get("k") is None


async def test_more_values_than_a_page(values: holdfast.Values) -> None:
    for number in range(1005):
        await values.set(f"k{number}", number)
    assert len(await values.list()) == 1005
