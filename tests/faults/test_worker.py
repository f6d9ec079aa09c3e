"""A worker keeps its promises when handlers, leases and the store fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.chores.kinds import Due, Kinds
from holdfast.chores.pace import Means, Pace
from holdfast.chores.worker import Worker
from holdfast.errors import AlreadyExists, StoreFailed
from holdfast.model.batch import Append, Drop, Forget, Operation
from holdfast.model.chore import LIVE, Chore, ChoreState
from holdfast.model.entry import Draft
from holdfast.model.forget import Selector
from holdfast.model.window import Window
from holdfast.ports.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import FaultyStore
from holdfast.testing.making import Maker, in_bank, in_space
from tests.faults.conftest import WallClock

QUICK = Pace(lease=0.4, beat=0.1, look=0.05, stop=0.2, first_sweep=0.02, parallel=4)


class Shop:
    """A store that fails on order, and workers that know the kind ``mark``: its effect is one entry."""

    def __init__(self, store: Store) -> None:
        self.clock = WallClock()
        self.store = FaultyStore(store)
        self.make = Maker(self.clock)
        self.kinds = Kinds()
        self.ran: list[str] = []
        self.kinds.add("mark", self.mark)

    def worker(self, name: str = "w", pace: Pace = QUICK) -> Worker:
        means = Means(
            store=self.store, clock=self.clock, make_id=lambda _: self.make.id(), jitter=lambda: 1.0,
            kinds=self.kinds, pace=pace,
        )  # fmt: skip
        return Worker(means, name)

    async def mark(self, chore: Chore) -> Sequence[Operation]:
        self.ran.append(str(chore.payload))
        return (self.effect(chore),)

    def effect(self, chore: Chore) -> Append:
        return Append(chore.place, Draft(id=self.make.id(), content=str(chore.payload), created_us=1))

    async def enqueue(self, payload: str = "it", *, kind: str = "mark", key: str = "alice") -> str:
        operation = self.make.enqueue(kind, key=key, payload=payload)
        return (await self.store.commit(self.make.batch(operation))).placed[0].id

    async def chore(self) -> Chore:
        (chore,) = await self.store.chores(in_space())
        return chore

    async def effects(self) -> list[str]:
        return [entry.content for entry in (await self.store.load(in_bank(), Window(limit=10_000))).entries]

    async def at_rest(self) -> bool:
        return not await self.store.chores(in_space(), states=tuple(LIVE))

    async def take_over(self) -> Chore:
        """Lease what another worker holds, as if its lease had ended."""
        later_us = self.clock.now_us() + 3_600_000_000
        (chore,) = await self.store.lease(worker="other", now_us=later_us, until_us=later_us)
        return chore


@pytest.fixture(params=["memory", "sqlite"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    clock = WallClock()
    sqlite = request.param == "sqlite"
    store = await SqliteStore.open(tmp_path / "m.db", clock=clock) if sqlite else MemoryStore(clock)
    yield Shop(store)
    await store.aclose()


async def served(worker: Worker, until: Callable[[], Awaitable[bool]], seconds: float = 5) -> None:
    """Let a worker serve until something holds, then stop it."""
    task = asyncio.create_task(worker.serve(asyncio.Event()))
    try:
        async with asyncio.timeout(seconds):
            while not await until():
                assert not task.done()
                await asyncio.sleep(0.005)
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_a_result_and_the_end_of_its_chore_are_one_change(shop: Shop) -> None:
    await shop.enqueue()
    assert await shop.worker().drain() == 1
    chore = await shop.chore()
    change = await shop.store.change(in_space(), chore.change)
    assert change is not None
    assert [step.verb for step in change.steps] == ["finish", "append"]
    assert change.origin.author == "holdfast"


async def test_what_was_taken_over_writes_nothing(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    async def slow(chore: Chore) -> Sequence[Operation]:
        await shop.take_over()
        return (shop.effect(chore),)

    shop.kinds.add("slow", slow)
    await shop.enqueue(kind="slow")
    assert await shop.worker().drain() == 1
    assert await shop.effects() == []
    chore = await shop.chore()
    assert (chore.state, chore.worker, chore.last_error) == (ChoreState.LEASED, "other", None)
    assert caplog.records == []


async def test_what_fails_after_it_was_taken_over_is_not_noted(shop: Shop) -> None:
    async def slow(chore: Chore) -> Sequence[Operation]:
        await shop.take_over()
        raise ValueError

    shop.kinds.add("slow", slow)
    await shop.enqueue(kind="slow")
    await shop.worker().drain()
    assert (await shop.chore()).worker == "other"


async def test_a_lost_lease_stops_the_handler(shop: Shop) -> None:
    ended: list[str] = []

    async def slow(chore: Chore) -> Sequence[Operation]:
        await shop.take_over()
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(chore.id)
        return ()

    shop.kinds.add("slow", slow)
    chore = await shop.enqueue(kind="slow")
    async with asyncio.timeout(2):
        await shop.worker().drain()
    assert ended == [chore]


async def test_a_beating_lease_outlives_its_length(shop: Shop) -> None:
    """A run of three times the lease is neither taken over nor run twice, though another worker waits for it."""

    async def slow(chore: Chore) -> Sequence[Operation]:
        shop.ran.append("begun")
        await asyncio.sleep(3 * QUICK.lease)
        return (shop.effect(chore),)

    shop.kinds.add("slow", slow)
    await shop.enqueue(kind="slow")
    first = asyncio.create_task(shop.worker("w1").drain())
    await asyncio.sleep(0.05)
    await served(shop.worker("w2"), shop.at_rest)
    assert (await first, shop.ran, await shop.effects()) == (1, ["begun"], ["it"])


async def test_a_lease_that_cannot_be_renewed_once_is_renewed_later(shop: Shop) -> None:
    async def slow(chore: Chore) -> Sequence[Operation]:
        await asyncio.sleep(0.25)
        return (shop.effect(chore),)

    shop.kinds.add("slow", slow)
    await shop.enqueue(kind="slow")
    shop.store.fail("renew")
    await shop.worker().drain()
    assert shop.store.calls["renew"] == 2
    assert await shop.effects() == ["it"]


@pytest.mark.parametrize("after", [False, True])
async def test_a_result_that_could_not_be_written_is_written_later(shop: Shop, *, after: bool) -> None:
    """The handler ran once, and its effect is there once, whether or not the first write took effect."""
    await shop.enqueue()
    shop.store.fail("commit", after=after)
    await shop.worker().drain()
    assert (shop.ran, await shop.effects()) == (["it"], ["it"])
    assert (await shop.chore()).state is ChoreState.DONE


async def test_a_worker_that_cannot_lease_goes_on(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    for call in range(1, 4):
        shop.store.fail("lease", nth=call)
    shop.store.fail("next_due_us", nth=1)
    await shop.enqueue()
    await served(shop.worker(), shop.at_rest)
    assert await shop.effects() == ["it"]
    assert "StoreFailed (store_failed)" in caplog.text


async def test_a_worker_without_a_store_ends(shop: Shop) -> None:
    task = asyncio.create_task(shop.worker().serve(asyncio.Event()))
    await asyncio.sleep(0.05)
    await shop.store.aclose()
    await asyncio.wait((task,), timeout=2)
    assert task.done()
    assert task.exception() is None


async def test_a_drain_tells_that_the_store_fails(shop: Shop) -> None:
    shop.store.fail("lease")
    with pytest.raises(StoreFailed):
        await shop.worker().drain()


async def test_of_one_place_one_runs_and_of_many_not_too_many(shop: Shop) -> None:
    running: list[str] = []
    most = 0

    async def watched(chore: Chore) -> Sequence[Operation]:
        nonlocal most
        assert chore.place.key not in running
        running.append(chore.place.key)
        most = max(most, len(running))
        await asyncio.sleep(0.005)
        running.remove(chore.place.key)
        return await shop.mark(chore)

    shop.kinds.add("watched", watched)
    for number in range(40):
        await shop.enqueue(str(number), kind="watched", key=f"k{number % 8}")
    assert await shop.worker().drain() == 40
    assert most == QUICK.parallel
    assert [int(one) for one in await shop.effects()] == sorted(range(40), key=lambda n: (n % 8, n))


async def test_workers_share_without_overlap(shop: Shop) -> None:
    for number in range(60):
        await shop.enqueue(str(number), key=f"k{number % 12}")
    ran = await asyncio.gather(*(shop.worker(f"w{n}").drain() for n in range(3)))
    await served(shop.worker(), shop.at_rest)
    assert sorted(shop.ran) == sorted(await shop.effects()) == sorted(map(str, range(60)))
    assert sum(ran) <= 60


async def test_two_drains_of_one_worker_wait_for_each_other(shop: Shop) -> None:
    worker = shop.worker()
    for number in range(20):
        await shop.enqueue(str(number), key=f"k{number % 3}")
    assert sum(await asyncio.gather(worker.drain(), worker.drain())) == 20

    async def slow(chore: Chore) -> Sequence[Operation]:
        await asyncio.sleep(0.1)
        return (shop.effect(chore),)

    shop.kinds.add("slow", slow)
    await shop.enqueue("slow", kind="slow")
    first = asyncio.create_task(worker.drain())
    await asyncio.sleep(0.02)
    assert await worker.drain() == 0
    assert "slow" in await shop.effects()
    assert await first == 1


async def test_a_chore_does_not_wait_for_chores(shop: Shop) -> None:
    worker = shop.worker()

    async def waiting(chore: Chore) -> Sequence[Operation]:
        await shop.enqueue("made inside", key="bob")
        assert await worker.drain() == 0
        return (shop.effect(chore),)

    shop.kinds.add("waiting", waiting)
    await shop.enqueue(kind="waiting")
    async with asyncio.timeout(2):
        assert await worker.drain() == 2
    assert sorted(await shop.effects()) == ["it", "made inside"]


async def test_a_run_that_takes_too_long_is_a_failed_attempt(shop: Shop) -> None:
    async def endless(chore: Chore) -> Sequence[Operation]:
        await asyncio.sleep(30)
        return ()

    shop.kinds.add("endless", endless, seconds=0.25)
    await shop.enqueue(kind="endless")
    assert await shop.worker().drain() == 1
    chore = await shop.chore()
    assert (chore.state, chore.attempts) == (ChoreState.QUEUED, 1)
    assert "chore_timeout" in str(chore.last_error)


async def test_a_handler_that_cancels_itself_is_a_failed_attempt(shop: Shop) -> None:
    async def giving_up(chore: Chore) -> Sequence[Operation]:
        raise asyncio.CancelledError

    shop.kinds.add("giving up", giving_up)
    await shop.enqueue(kind="giving up")
    assert await shop.worker().drain() == 1
    assert "chore_cancelled_itself" in str((await shop.chore()).last_error)


async def test_a_result_that_the_store_refuses_is_a_failed_attempt(shop: Shop) -> None:
    taken = shop.make.append("taken")
    await shop.store.commit(shop.make.batch(taken))

    async def clumsy(chore: Chore) -> Sequence[Operation]:
        return (shop.effect(chore), taken)

    async def wordless(chore: Chore) -> Sequence[Operation]:
        return None  # type: ignore[return-value] # wrong on purpose

    shop.kinds.add("clumsy", clumsy)
    shop.kinds.add("wordless", wordless)
    await shop.enqueue(kind="clumsy")
    await shop.enqueue(kind="wordless", key="bob")
    assert await shop.worker().drain() == 2
    assert await shop.effects() == ["taken"]
    errors = [str(chore.last_error) for chore in await shop.store.chores(in_space())]
    assert errors[0].startswith("AlreadyExists (already_exists)")
    assert errors[1].startswith("TypeError at holdfast.chores.running")


async def test_what_was_forgotten_meanwhile_is_not_written_back(shop: Shop) -> None:
    async def slow(chore: Chore) -> Sequence[Operation]:
        await shop.store.commit(shop.make.batch(Forget(Selector(key="alice"))))
        return (shop.effect(chore),)

    shop.kinds.add("slow", slow)
    await shop.enqueue(kind="slow")
    await shop.worker().drain()
    assert await shop.effects() == []
    assert (await shop.chore()).state is ChoreState.CANCELLED


async def test_cancelling_hands_leases_back_at_once(shop: Shop) -> None:
    async def endless(chore: Chore) -> Sequence[Operation]:
        shop.ran.append("begun")
        await asyncio.sleep(30)
        return ()

    shop.kinds.add("endless", endless)
    await shop.enqueue(kind="endless")
    task = asyncio.create_task(shop.worker(pace=replace(QUICK, lease=60, beat=20)).drain())
    while not shop.ran:  # noqa: ASYNC110 - what is waited for is in another task
        await asyncio.sleep(0.005)
    task.cancel()
    await asyncio.wait((task,))
    chore = await shop.chore()
    assert (chore.state, chore.attempts) == (ChoreState.QUEUED, 0)


async def test_a_lease_that_is_under_way_when_all_ends_is_handed_back(shop: Shop) -> None:
    await shop.enqueue()
    shop.store.delay("lease", 0.05)
    for moment in (0.02, 0.05, 0.051, 0.052, 0.055):
        task = asyncio.create_task(shop.worker(pace=replace(QUICK, lease=60, beat=20)).drain())
        await asyncio.sleep(moment)
        task.cancel()
        await asyncio.wait((task,))
        assert (await shop.chore()).state in (ChoreState.QUEUED, ChoreState.DONE)


async def test_a_worker_at_rest_only_looks_now_and_then(shop: Shop) -> None:
    """It asks once in a while when something is due, and writes nothing; a chore that is due later is not asked for."""
    later = shop.make.enqueue("mark", due_us=shop.clock.now_us() + 3_600_000_000)
    await shop.store.commit(shop.make.batch(later))
    task = asyncio.create_task(shop.worker(pace=replace(QUICK, look=0.1)).serve(asyncio.Event()))
    await asyncio.sleep(0.55)
    task.cancel()
    await asyncio.wait((task,))
    assert shop.store.calls["lease"] == 1
    assert 2 <= shop.store.calls["next_due_us"] <= 7


async def test_due_work_of_unknown_kinds_is_no_reason_to_hurry(shop: Shop) -> None:
    await shop.enqueue(kind="unknown")
    task = asyncio.create_task(shop.worker(pace=replace(QUICK, look=0.1)).serve(asyncio.Event()))
    await asyncio.sleep(0.55)
    task.cancel()
    await asyncio.wait((task,))
    assert 2 <= shop.store.calls["lease"] <= 7
    assert (await shop.chore()).attempts == 0


async def test_what_is_due_soon_is_run_in_time(shop: Shop) -> None:
    due_us = shop.clock.now_us() + 150_000
    await shop.store.commit(shop.make.batch(shop.make.enqueue("mark", payload="it", due_us=due_us)))
    await served(shop.worker(pace=replace(QUICK, look=30)), shop.at_rest, 2)
    assert shop.clock.now_us() >= due_us


class Look:
    """A sweep that always finds one chore due, and counts how often it looked."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.looked = 0

    async def __call__(self) -> Sequence[Due]:
        self.looked += 1
        return [Due("acme", self.shop.make.enqueue("mark", payload="swept", dedupe="sweep").draft)]

    def often(self, times: int) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return self.looked >= times

        return look


SWEEPS = in_space("~holdfast")


async def test_a_drain_looks_first_for_what_is_due_by_the_state(shop: Shop) -> None:
    shop.kinds.watch("look", Look(shop), seconds=3600)
    assert await shop.worker().drain() == 1
    assert await shop.worker().drain() == 1
    assert await shop.effects() == ["swept"] * 2
    assert await shop.store.chores(SWEEPS) == []


async def test_of_all_workers_one_looks_in_each_interval(shop: Shop) -> None:
    """Restarts change nothing about that: when the next look is due stands in the store."""
    look = Look(shop)
    shop.kinds.watch("look", look, seconds=3600)
    for _ in range(2):
        tasks = [asyncio.create_task(shop.worker(f"w{n}").serve(asyncio.Event())) for n in range(3)]
        await asyncio.sleep(0.2)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert (look.looked, await shop.effects()) == (1, ["swept"])
    waiting = await shop.store.chores(SWEEPS, states=(ChoreState.QUEUED,))
    assert [chore.due_us > shop.clock.now_us() + 3_500_000_000 for chore in waiting] == [True]


async def test_a_look_comes_again_after_its_interval(shop: Shop) -> None:
    look = Look(shop)
    shop.kinds.watch("look", look, seconds=0.05)
    await served(shop.worker(), look.often(3))


async def test_a_lost_look_is_begun_again(shop: Shop) -> None:
    look = Look(shop)
    shop.kinds.watch("look", look, seconds=3600)
    pace = replace(QUICK, heal=0.05)
    await served(shop.worker(pace=pace), look.often(1))
    while not (waiting := await shop.store.chores(SWEEPS, states=(ChoreState.QUEUED,))):
        await served(shop.worker(pace=pace), shop.at_rest)
    await shop.store.commit(shop.make.batch(Drop(waiting[0].id), space="~holdfast"))
    await served(shop.worker(pace=pace), look.often(2))


async def test_a_look_that_fails_is_tried_again_like_any_chore(shop: Shop) -> None:
    async def broken() -> Sequence[Due]:
        raise KeyError("secret")

    async def failed() -> bool:
        return any(chore.last_error is not None for chore in await shop.store.chores(SWEEPS))

    shop.kinds.watch("look", broken, seconds=3600)
    await served(shop.worker(), failed)
    (chore,) = await shop.store.chores(SWEEPS)
    assert (chore.state, chore.attempts) == (ChoreState.QUEUED, 1)
    assert str(chore.last_error).startswith("KeyError at tests.faults.test_worker")


async def test_a_look_does_not_begin_at_once(shop: Shop) -> None:
    look = Look(shop)
    shop.kinds.watch("look", look, seconds=0.01)
    await served(shop.worker(), look.often(1))
    due_us = shop.clock.now_us()
    await asyncio.sleep(0.02)
    task = asyncio.create_task(shop.worker(pace=replace(QUICK, first_sweep=30)).serve(asyncio.Event()))
    before = look.looked
    await asyncio.sleep(0.2)
    task.cancel()
    await asyncio.wait((task,))
    assert look.looked == before
    assert await shop.store.next_due_us() in range(due_us - 60_000_000, shop.clock.now_us())


async def test_what_is_on_its_way_is_not_made_due_again(shop: Shop) -> None:
    shop.kinds.watch("look", Look(shop), seconds=3600)
    worker = shop.worker()
    await worker.sweep()
    before = await shop.store.changes(in_space())
    await worker.sweep()
    assert await shop.store.changes(in_space()) == before
    assert len(await shop.store.chores(in_space())) == 1


def test_a_kind_has_one_handler(shop: Shop) -> None:
    with pytest.raises(AlreadyExists):
        shop.kinds.add("mark", shop.mark)


async def test_nothing_of_an_error_but_its_place_is_logged(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    async def telling(chore: Chore) -> Sequence[Operation]:
        try:
            raise ValueError("secret")
        except ValueError as error:
            raise StoreFailed("secret " * 100) from error

    shop.kinds.add("telling", telling)
    await shop.enqueue(kind="telling")
    with caplog.at_level(logging.INFO, "holdfast"):
        await shop.worker().drain()
    error = str((await shop.chore()).last_error)
    assert error.startswith("StoreFailed (store_failed) at tests.faults.test_worker:")
    assert " from ValueError at tests.faults.test_worker:" in error
    assert len(error) <= 200
    assert "secret" not in caplog.text + error
