"""What has passed its time is erased, and leaves a receipt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import cast

import pytest

import holdfast
from holdfast.chores.pace import Pace
from holdfast.memories.retention import JOURNAL_DAYS, SLICE, TRASH_DAYS
from holdfast.model.batch import Batch, Commit, Forget
from holdfast.model.chore import ChoreState
from holdfast.model.scope import Scope
from holdfast.model.values import moment
from holdfast.model.window import Window
from holdfast.testing.clock import ManualClock


@pytest.fixture
async def hf(url: str, clock: ManualClock) -> AsyncIterator[holdfast.LocalHoldfast]:
    async with holdfast.open(url, clock=clock, worker="manual") as opened:
        yield opened


async def receipts(hf: holdfast.LocalHoldfast, space: str = "default") -> list[dict[str, object]]:
    scope = Scope(space, "~receipts", "receipts")
    return [cast("dict[str, object]", one.value) for one in await hf.store.documents(scope, "receipt")]


async def left(hf: holdfast.LocalHoldfast, bank: holdfast.Bank, space: str = "default") -> list[str]:
    """All that the store holds of a bank, whether or not retention hides it."""
    page = await hf.store.load(Scope(space, bank.id), Window(limit=10_000, hidden=True))
    return [entry.content for entry in page.entries]


async def test_entries_past_the_retention_of_their_bank_go(
    hf: holdfast.LocalHoldfast, clock: ManualClock
) -> None:
    chat = await hf.banks.create("chat", retention_days=30)
    notes = await hf.banks.create("notes", kind="general")
    await chat.add("old secret", key="alice", speaker="user")
    await notes.add("old note", key="alice")
    clock.advance(days=20)
    await chat.add("newer turn", key="alice", speaker="user")
    clock.advance(days=10)
    assert await hf.chores.drain() == 0  # the last microsecond still counts
    clock.advance(microseconds=1)
    assert await hf.chores.drain() == 1
    assert await left(hf, chat) == ["newer turn"]
    assert await left(hf, notes) == ["old note"]
    assert await hf.store.residue([b"old secret"]) == {}
    (receipt,) = await receipts(hf)
    assert (receipt["by"], cast("dict[str, int]", receipt["counts"])["entries"]) == ("retention", 1)
    assert await hf.chores.drain() == 0


async def test_a_shorter_retention_applies_to_what_is_there(
    hf: holdfast.LocalHoldfast, clock: ManualClock
) -> None:
    notes = await hf.banks.create("notes", kind="general")
    for name in ("alice", "bob"):
        await notes.add(f"a note on {name}", key=name)
    clock.advance(days=10)
    assert await hf.chores.drain() == 0
    await notes.configure(retention_days=5)
    assert await hf.chores.drain() == 1
    assert await left(hf, notes) == []


async def test_what_expired_goes(hf: holdfast.LocalHoldfast, clock: ManualClock) -> None:
    notes = await hf.banks.create("notes", kind="general")
    soon = moment(clock.now_us() + 60_000_000)
    entry = await notes.add("short-lived secret", key="alice", expires_at=soon)
    await notes.add("lasting", key="alice")
    await hf.values.set("token", "secret value", ttl_ms=60_000)
    await hf.values.set("lang", "en")
    assert await hf.chores.drain() == 0
    clock.advance(seconds=61)
    assert await hf.chores.drain() == 1
    assert await hf.store.versions(Scope("default"), entry.id) == []
    assert await left(hf, notes) == ["lasting"]
    assert (await hf.values.get("token"), await hf.values.get("lang")) == (None, "en")
    assert await hf.store.residue([b"short-lived secret", b"secret value"]) == {}


async def test_what_was_deleted_can_be_restored_for_30_days_and_then_goes(
    hf: holdfast.LocalHoldfast, clock: ManualClock
) -> None:
    notes = await hf.banks.create("notes", kind="general")
    kept, gone = [await notes.add(f"deleted secret {n}", key="alice") for n in range(2)]
    for entry in (kept, gone):
        await notes.delete(entry.id)
    clock.advance(days=TRASH_DAYS)
    assert await hf.chores.drain() == 0
    await notes.restore(kept.id)
    clock.advance(seconds=1)
    assert await hf.chores.drain() == 1
    assert await left(hf, notes) == ["deleted secret 0"]
    assert await hf.store.residue([b"deleted secret 1"]) == {}


async def test_a_memory_with_nothing_to_erase_is_not_written_to(
    hf: holdfast.LocalHoldfast, clock: ManualClock
) -> None:
    chat = await hf.banks.create("chat", retention_days=30)
    await chat.add("hello", key="alice", speaker="user")
    before = await hf.changes()
    clock.advance(days=1)
    assert await hf.chores.drain() == 0
    assert await hf.changes() == before
    assert await hf.chores.list() == []


async def test_old_changes_and_old_chores_go(hf: holdfast.LocalHoldfast, clock: ManualClock) -> None:
    notes = await hf.banks.create("notes", kind="general", retention_days=1)
    await notes.add("a note", key="alice")
    clock.advance(days=2)
    assert await hf.chores.drain() == 1
    (done,) = await hf.chores.list(kind="retention")
    old = await hf.changes()
    clock.advance(days=JOURNAL_DAYS, seconds=1)
    assert await hf.chores.drain() == 2  # with the one that looks whether the forget has to be finished
    (newer,) = await hf.chores.list(kind="retention")
    assert (newer.state, newer.id == done.id) == (ChoreState.DONE, False)
    assert {change.id for change in await hf.changes()}.isdisjoint(change.id for change in old)
    await hf.chores.drain()  # the other chore may have ended after the trim
    assert await hf.chores.drain() == 0


async def test_each_space_is_looked_after_by_itself(hf: holdfast.LocalHoldfast, clock: ManualClock) -> None:
    banks: dict[str, holdfast.Bank] = {}
    for name in ("acme", "globex", "initech"):
        bank = banks[name] = await hf.space(name).banks.create("notes", kind="general", retention_days=5)
        await bank.add(f"a note of {name}", key="alice")
        clock.advance(days=2)
    clock.advance(days=1, seconds=1)  # the notes are 7, 5 and 3 days old
    assert await hf.chores.drain() == 2
    assert [len(await receipts(hf, name)) for name in banks] == [1, 1, 0]
    assert [len(await left(hf, bank, name)) for name, bank in banks.items()] == [0, 0, 1]
    assert [len(await hf.space(name).chores.list(kind="retention")) for name in banks] == [1, 1, 0]


async def test_more_than_fits_into_a_batch_goes_slice_by_slice(
    hf: holdfast.LocalHoldfast, clock: ManualClock
) -> None:
    """A run that fails half-way keeps what it has done; the next one goes on."""
    notes = await hf.banks.create("notes", kind="general", retention_days=1)
    count = 2 * SLICE + 10
    await notes.add_many([holdfast.NewEntry(f"note {n}", f"k{n % 7}") for n in range(count)])
    clock.advance(days=2)
    commit, forgets = hf._core.commit, 0

    async def failing(batch: Batch) -> Commit:
        nonlocal forgets
        if any(isinstance(operation, Forget) for operation in batch.operations):
            forgets += 1
            if forgets == 2:
                raise holdfast.StoreFailed("on order")
        return await commit(batch)

    hf._core.commit = failing
    assert await hf.chores.drain() == 1
    (chore,) = await hf.chores.list(kind="retention")
    assert (chore.attempts, len(await left(hf, notes))) == (1, count - SLICE)
    clock.advance(seconds=2)
    assert await hf.chores.drain() == 1
    assert (forgets, await left(hf, notes)) == (4, [])
    assert [chore.state for chore in await hf.chores.list(kind="retention")] == ["done"]
    assert len(await receipts(hf)) == 3


async def test_in_the_background_nobody_has_to_ask(url: str, clock: ManualClock) -> None:
    async with holdfast.open(url, clock=clock) as hf:
        worker = hf._duties.worker
        worker._means = replace(worker._means, pace=Pace(first_sweep=0.1, look=0.05))
        notes = await hf.banks.create("notes", kind="general", retention_days=1)
        await notes.add("a note", key="alice")
        clock.advance(days=2)
        async with asyncio.timeout(5):
            while await left(hf, notes):  # noqa: ASYNC110 - what is looked at is in a store
                await asyncio.sleep(0.02)
            while await hf.chores.list(states=["queued", "leased"], kind="retention"):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.02)
        assert "retention-sweep" in [chore.kind for chore in await hf.space("~holdfast").chores.list()]
