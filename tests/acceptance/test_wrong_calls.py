"""Calls that are wrong: each is told what it is about, with a code and the next step, and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Cursor, NewEntry, Origin, OriginMatch
from holdfast.model.values import DAY_US, moment
from holdfast.testing.clock import ManualClock
from tests.acceptance.refusal import refused


@pytest.mark.parametrize("limit", [0, -1, "a", True, None, 1.5, 10_001, 2**70])
async def test_limits_of_lists(space: holdfast.Space, limit: Any) -> None:
    for call in (space.changes(limit=limit), space.banks.list(limit=limit)):
        with refused("limit_invalid", holdfast.InvalidInput):
            await call


@pytest.mark.parametrize("after", [-1, "a", True, None, 2**63])
async def test_cursors_of_the_feed(space: holdfast.Space, after: Any) -> None:
    with refused("cursor_invalid", holdfast.InvalidInput):
        await space.changes(after=after)


async def test_banks_are_listed_by_a_kind_and_a_prefix(space: holdfast.Space) -> None:
    wrong: Any = "x"
    with refused("kind_invalid", holdfast.InvalidInput):
        await space.banks.list(kind=wrong)
    wrong = 5
    with refused("prefix_invalid", holdfast.InvalidInput):
        await space.banks.list(prefix=wrong)


async def test_text_that_no_file_can_hold_is_told_as_such(
    space: holdfast.Space, general: holdfast.Bank
) -> None:
    await general.add("tea", key="alice")
    for call in (
        space.values.list("\ud800"), general.keys(prefix="\ud800"), space.banks.list(prefix="a\udfff")
    ):  # fmt: skip
        with refused("prefix_invalid", holdfast.InvalidInput):
            await call
    with refused("cursor_invalid", holdfast.InvalidInput):
        await general.list(after=Cursor("\ud800", 0, 1))


async def test_a_bank_cannot_be_called_by_the_id_of_another(space: holdfast.Space) -> None:
    first = await space.banks.create("first")
    with pytest.raises(holdfast.AlreadyExists, match="is the id of a bank"):
        await space.banks.create(first.id)
    second = await space.banks.create("f" * 32)
    with pytest.raises(holdfast.AlreadyExists, match="is the id of a bank"):
        await second.configure(name=first.id)


async def test_forget_takes_a_list_of_ids(space: holdfast.Space, general: holdfast.Bank) -> None:
    entry = await general.add("tea", key="alice")
    wrong: Any
    for wrong in (entry.id, b"x", 5, None):
        with pytest.raises(holdfast.InvalidInput, match="ids takes a list") as caught:
            await space.forget(ids=wrong)
        assert caught.value.code == "ids_invalid"
    for wrong in ([5], [entry]):
        with refused("id_invalid", holdfast.InvalidInput):
            await space.forget(ids=wrong)
    wrong = ["alice"]
    with refused("key_invalid", holdfast.InvalidInput):
        await space.forget(key=wrong)
    with refused("subject_invalid", holdfast.InvalidInput):
        await space.forget(subject=wrong)
    assert (await general.get(entry.id)).content == "tea"


async def test_undo_takes_ids_as_arguments(space: holdfast.Space, general: holdfast.Bank) -> None:
    change = (await general.add("tea", key="alice")).change
    wrong: Any
    for wrong in ([change], (change,), (await space.changes())[-1], 5, None):
        with pytest.raises(holdfast.InvalidInput, match="as arguments") as caught:
            await space.undo(wrong)
        assert caught.value.code == "ids_invalid"
    assert len(await general.load(key="alice")) == 1


@pytest.mark.parametrize("after", [5, "alice", (1, 2, 3), Cursor("a", "b", 1), Cursor("a", 1, 2**63)])  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
async def test_cursors_of_pages(general: holdfast.Bank, after: Any) -> None:
    for call in (general.load(key="alice", after=after), general.list(after=after)):
        with refused("cursor_invalid", holdfast.InvalidInput):
            await call


@pytest.mark.parametrize("order", ["sideways", [], {}, None])
async def test_orders(general: holdfast.Bank, order: Any) -> None:
    with refused("order_invalid", holdfast.InvalidInput):
        await general.load(key="alice", order=order)


async def test_the_keys_of_a_bank(general: holdfast.Bank) -> None:
    wrong: Any = 5
    with refused("prefix_invalid", holdfast.InvalidInput):
        await general.keys(prefix=wrong)
    with refused("cursor_invalid", holdfast.InvalidInput):
        await general.keys(after=wrong)


@pytest.mark.parametrize("origin", [{}, {"channel": "web"}, "web", 0, OriginMatch(author="a")])
async def test_an_origin_is_an_origin(general: holdfast.Bank, origin: Any) -> None:
    entry = await general.add("tea", key="alice", origin=Origin(channel="web"))
    for call in (
        general.add("cake", key="alice", origin=origin),
        general.add_many([NewEntry("cake", "alice")], origin=origin),
        general.add_many([NewEntry("cake", "alice", origin=origin)]),
        general.update(entry.id, content="cake", origin=origin),
    ):
        with refused("origin_invalid", holdfast.InvalidInput):
            await call
    assert [one.content for one in await general.list()] == ["tea"]


async def test_what_selects_by_origin(space: holdfast.Space) -> None:
    several: list[Any] = [{}, "run-7", Origin(author="a")]
    for wrong in several:
        for call in (space.changes(origin=wrong), space.undo(origin=wrong), space.forget(origin=wrong)):
            with refused("origin_invalid", holdfast.InvalidInput):
                await call


@pytest.mark.parametrize("entries", ["tea", None, 5, ["tea"], [{"content": "tea", "key": "alice"}]])
async def test_many_entries_are_a_list_of_them(general: holdfast.Bank, entries: Any) -> None:
    with refused("entries_invalid", holdfast.InvalidInput):
        await general.add_many(entries)
    assert await general.add_many(iter([])) == []  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


async def test_values_by_keys_and_prefix(space: holdfast.Space) -> None:
    wrong: Any
    for wrong in ("abc", 5, None):
        with refused("keys_invalid", holdfast.InvalidInput):
            await space.values.get_many(wrong)
    wrong = [["a"]]
    with refused("key_invalid", holdfast.InvalidInput):
        await space.values.get_many(wrong)
    wrong = 5
    with refused("prefix_invalid", holdfast.InvalidInput):
        await space.values.list(wrong)


async def test_a_refusal_names_the_next_step(general: holdfast.Bank) -> None:
    wrong: Any = {"channel": "web"}
    with pytest.raises(holdfast.InvalidInput) as caught:
        await general.add("tea", key="alice", origin=wrong)
    assert caught.value.hint == "origin=holdfast.Origin(…)"


async def test_ensure_with_another_kind(space: holdfast.Space, general: holdfast.Bank) -> None:
    assert (await space.banks.ensure("notes")).id == general.id
    assert (await space.banks.ensure("notes", kind="general")).id == general.id
    with refused("bank_kind_differs", holdfast.AlreadyExists):
        await space.banks.ensure("NOTES", kind="conversation")
    assert (await space.banks.ensure("new")).info.kind == "conversation"
    wrong: Any = "x"
    with refused("kind_invalid", holdfast.InvalidInput):
        await space.banks.ensure("notes", kind=wrong)


async def test_configure_brings_the_chunk_as_create_does(space: holdfast.Space) -> None:
    bank = await space.banks.create("chat")
    for window, chunk in ((6, 3), (2, 1), (100, 50)):
        info = await bank.configure(history_window=window)
        assert (info.history_window, info.window_chunk) == (window, chunk)
    info = await bank.configure(history_window=40, window_chunk=5)
    assert (info.history_window, info.window_chunk) == (40, 5)
    assert (await bank.configure(description="talk")).window_chunk == 5
    with refused("window_chunk_invalid", holdfast.InvalidInput):
        await bank.configure(history_window=6, window_chunk=4)


async def test_reading_a_file_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "missing.db"
    with pytest.raises(holdfast.StoreFailed, match="no such file") as caught:
        await holdfast.open(f"sqlite:///{file}?mode=ro")
    assert (caught.value.code, caught.value.hint) == ("store_failed", "mode=ro makes none")
    assert not file.parent.exists()


async def test_the_memory_offers_what_its_default_space_does(hf: holdfast.LocalHoldfast) -> None:
    bank = await hf.banks.create("notes", kind="general")
    entry = await bank.add("tea", key="alice")
    assert [change.id for change in await hf.history(entry.id)] == [entry.change]
    assert await hf.changes() == await hf.space().changes()
    undone = await hf.undo(entry.change)
    await hf.undo(undone.id)
    assert (await hf.forget(ids=[entry.id], by="me", reason="asked")).counts["entries"] == 1
    assert await bank.keys() == []
    seen: holdfast.Holdfast = hf
    assert len(await seen.changes(limit=2)) == 2


async def test_keys_count_what_retention_shows(space: holdfast.Space, clock: ManualClock) -> None:
    bank = await space.banks.create("short", kind="general", retention_days=7)
    start = clock.now_us()
    await bank.add("first", key="alice")
    await bank.add("only", key="bob")
    clock.advance(days=1)
    await bank.add("second", key="alice")
    # Said long before, but the last to arrive.
    await bank.add("imported", key="alice", created_at=moment(start - 3 * DAY_US))
    clock.set(start + 7 * DAY_US)
    assert [(one.key, one.entries, one.last_us) for one in await bank.keys()] == [
        ("alice", 2, start + DAY_US),
        ("bob", 1, start),
    ]
    clock.advance(microseconds=1)
    assert [(one.key, one.entries, one.last_us) for one in await bank.keys()] == [
        ("alice", 1, start + DAY_US)
    ]
    assert len(await bank.list()) == 1
    clock.advance(days=1)
    assert await bank.keys() == []


async def test_keys_go_on_past_those_that_retention_hides(space: holdfast.Space, clock: ManualClock) -> None:
    bank = await space.banks.create("short", kind="general", retention_days=7)
    for key in "abcd":
        await bank.add("tea", key=key)
    clock.advance(days=8)
    for key in "bdef":
        await bank.add("cake", key=key)
    assert [(one.key, one.entries) for one in await bank.keys(limit=2)] == [("b", 1), ("d", 1)]
    assert [one.key for one in await bank.keys(limit=2, after="d")] == ["e", "f"]
    assert await bank.keys(after="f") == []
