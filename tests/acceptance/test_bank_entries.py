"""One entry: read, corrected, deleted, brought back, erased."""

from __future__ import annotations

import asyncio

import holdfast
from holdfast import Origin
from holdfast.testing.clock import ManualClock
from tests.acceptance.refusal import refused


async def test_an_update_is_a_new_version(general: holdfast.Bank, clock: ManualClock) -> None:
    first = await general.add("tea", key="alice", title="drink", metadata={"a": 1}, thread="t")
    clock.advance(seconds=1)
    second = await general.update(first.id, content="coffee", origin=Origin(author="bob"))
    assert (second.id, second.version, second.seq, second.content) == (first.id, 2, 1, "coffee")
    assert (second.title, second.metadata, second.thread) == ("drink", {"a": 1}, "t")
    assert (second.created_at, second.origin.author) == (first.created_at, "bob")
    assert second.updated_at > first.updated_at
    assert second == await general.get(first.id)
    third = await general.update(first.id, title="", metadata={"b": 2})
    assert (third.content, third.title, third.metadata) == ("coffee", None, {"b": 2})
    assert [entry.content for entry in await general.history(first.id)] == ["tea", "coffee", "coffee"]
    assert not await general.search("tea")
    assert len(await general.search("coffee")) == 1


async def test_updates_that_are_refused(general: holdfast.Bank) -> None:
    entry = await general.add("tea", key="alice")
    with refused("update_empty"):
        await general.update(entry.id)
    with refused("content_empty"):
        await general.update(entry.id, content=" ")
    with refused("reserved_metadata_key"):
        await general.update(entry.id, metadata={"id": 1})
    with refused("version_conflict", holdfast.VersionConflict):
        await general.update(entry.id, content="coffee", expected_version=2)
    for missing in ("0" * 32, "no id at all", ""):
        with refused("entry_not_found", holdfast.EntryNotFound):
            await general.update(missing, content="coffee")
    assert (await general.get(entry.id)).version == 1


async def test_updates_at_once_lose_nothing(general: holdfast.Bank) -> None:
    entry = await general.add("tea", key="alice")
    await asyncio.gather(
        general.update(entry.id, content="coffee"),
        general.update(entry.id, title="drink"),
        general.update(entry.id, metadata={"a": 1}),
    )
    after = await general.get(entry.id)
    assert (after.content, after.title, after.metadata, after.version) == ("coffee", "drink", {"a": 1}, 4)


async def test_delete_hides_and_restore_brings_back(general: holdfast.Bank) -> None:
    entry = await general.add("tea", key="alice")
    assert await general.delete(entry.id) is None
    with refused("entry_not_found"):
        await general.get(entry.id)
    with refused("entry_not_found"):
        await general.delete(entry.id)
    assert not await general.search("tea")
    assert (await general.load(key="alice")).entries == ()
    back = await general.restore(entry.id)
    assert (back.content, back.version, back.id) == ("tea", 2, entry.id)
    assert len(await general.search("tea")) == 1
    with refused("not_deleted", holdfast.Conflict):
        await general.restore(entry.id)


async def test_restore_reaches_thirty_days(general: holdfast.Bank, clock: ManualClock) -> None:
    entry = await general.add("tea", key="alice")
    await general.delete(entry.id)
    clock.advance(days=30)
    await general.restore(entry.id)
    await general.delete(entry.id)
    clock.advance(days=30, seconds=1)
    with refused("entry_not_found", holdfast.EntryNotFound):
        await general.restore(entry.id)


async def test_a_hard_delete_erases(general: holdfast.Bank, hf: holdfast.LocalHoldfast) -> None:
    entry = await general.add("a secret about tea", key="alice")
    await general.update(entry.id, content="another secret about tea")
    receipt = await general.delete(entry.id, hard=True)
    assert receipt is not None
    assert (receipt.counts["entries"], receipt.counts["versions"]) == (1, 2)
    for call in (general.get(entry.id), general.history(entry.id), general.delete(entry.id, hard=True)):
        with refused("entry_not_found"):
            await call
    assert sum((await hf.store.residue([b"secret about tea"])).values()) == 0


async def test_a_deleted_entry_can_still_be_erased(general: holdfast.Bank) -> None:
    entry = await general.add("tea", key="alice")
    await general.delete(entry.id)
    assert await general.delete(entry.id, hard=True) is not None


async def test_history_names_the_changes(space: holdfast.Space, general: holdfast.Bank) -> None:
    entry = await general.add("tea", key="alice", origin=Origin(run_id="r-1"))
    await general.update(entry.id, content="coffee")
    await general.delete(entry.id)
    changes = await space.history(entry.id)
    assert [change.steps[0].verb for change in changes] == ["append", "revise", "retire"]
    assert (changes[0].id, changes[0].origin.run_id) == (entry.change, "r-1")
    assert [step.verb for step in (await space.history(general.id))[0].steps] == ["put", "put"]
    assert await space.history("nothing") == []


async def test_changes_are_a_feed(space: holdfast.Space, general: holdfast.Bank) -> None:
    start = (await space.changes())[-1].cursor
    entries = [await general.add(f"tea {number}", key="alice") for number in range(5)]
    feed = await space.changes(after=start, limit=3)
    assert [change.id for change in feed] == [entry.change for entry in entries[:3]]
    rest = await space.changes(after=feed[-1].cursor)
    assert [change.id for change in rest] == [entry.change for entry in entries[3:]]
