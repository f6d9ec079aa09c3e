"""Chores through the face: who runs them, and what can be seen and done about them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import holdfast
from holdfast.chores.pace import Pace
from holdfast.memories.core import partition
from holdfast.model.batch import Append, Enqueue, Operation
from holdfast.model.chore import Chore, ChoreDraft, ChoreState
from holdfast.model.entry import Draft
from holdfast.model.scope import Place, Scope
from holdfast.model.values import JsonValue
from holdfast.model.window import Window
from holdfast.testing.clock import ManualClock
from tests.acceptance.refusal import refused

Handler = Callable[[Chore], Awaitable[Sequence[Operation]]]


class Desk:
    """A memory whose worker knows the kind ``note``: it appends the payload to the chore's place."""

    def __init__(self, hf: holdfast.LocalHoldfast) -> None:
        self.hf = hf
        self.core = hf._core
        self.ran: list[str] = []
        hf._duties.worker.kinds.add("note", self.note)

    async def note(self, chore: Chore) -> Sequence[Operation]:
        self.ran.append(str(chore.payload))
        if chore.payload == "bad":
            raise ValueError("the secret words of the prompt")
        return (self.append(chore.place, f"noted {chore.payload}"),)

    def append(self, place: Place, content: str) -> Append:
        return Append(place, Draft(id=self.core.make_id(0), content=content, created_us=1))

    async def enqueue(
        self,
        payload: JsonValue,
        *,
        kind: str = "note",
        key: str = "k",
        space: str = "default",
        seconds: int = 0,
    ) -> str:
        where = partition(space, "notes", key)
        due_us = self.core.clock.now_us() + seconds * 1_000_000
        draft = ChoreDraft(
            id=self.core.make_id(where.bucket), kind=kind, place=where.place, due_us=due_us, payload=payload
        )
        return (await self.core.write(where, (Enqueue(draft),))).placed[0].id

    async def notes(self, key: str = "k", space: str = "default") -> list[str]:
        page = await self.hf.store.load(Scope(space, "notes", key), Window(limit=1000))
        return [entry.content for entry in page.entries]

    async def states(self) -> list[str]:
        return [chore.state for chore in await self.hf.chores.list()]


async def soon(look: Callable[[], Awaitable[bool]], seconds: float = 5) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not await look():  # noqa: ASYNC110 - what is looked at is in a store
            await asyncio.sleep(0.005)


async def test_in_the_background_a_commit_wakes_the_worker(url: str) -> None:
    async with holdfast.open(url) as hf:
        desk = Desk(hf)
        await desk.enqueue("one")

        async def noted() -> bool:
            return await desk.notes() == ["noted one"]

        await soon(noted, 0.5)  # well before the second after which a worker looks by itself
        assert await hf.chores.pending() == []
        assert await desk.states() == ["done"]


async def test_in_the_background_what_waits_is_run_when_it_is_due(url: str, clock: ManualClock) -> None:
    async with holdfast.open(url, clock=clock) as hf:
        desk = Desk(hf)
        await desk.enqueue("later", seconds=60)
        await asyncio.sleep(0.1)
        assert desk.ran == []
        clock.advance(seconds=60)

        async def ran() -> bool:
            return desk.ran == ["later"]

        await soon(ran, 3)


async def test_in_the_background_work_of_others_is_seen(tmp_path: Path) -> None:
    async with (
        holdfast.open(tmp_path / "m.db") as hf,
        holdfast.open(tmp_path / "m.db", worker="manual") as other,
    ):
        desk, elsewhere = Desk(hf), Desk(other)
        await asyncio.sleep(0.1)
        await elsewhere.enqueue("theirs")

        async def ran() -> bool:
            return desk.ran == ["theirs"]

        await soon(ran, 3)


async def test_inline_the_commit_returns_when_the_work_is_done(url: str) -> None:
    async with holdfast.open(url, worker="inline") as hf:
        desk = Desk(hf)
        for number in range(3):
            await desk.enqueue(number)
            assert await desk.notes() == [f"noted {n}" for n in range(number + 1)]
        await asyncio.gather(*(desk.enqueue(n, key=f"k{n % 3}") for n in range(3, 12)))
        assert await hf.chores.pending() == []


async def test_inline_a_chore_that_makes_another_due_does_not_wait_for_it(url: str) -> None:
    async with holdfast.open(url, worker="inline") as hf:
        desk = Desk(hf)

        async def chain(chore: Chore) -> Sequence[Operation]:
            await desk.enqueue("from inside")
            return ()

        hf._duties.worker.kinds.add("chain", chain)
        await desk.enqueue("x", kind="chain")
        assert await desk.notes() == ["noted from inside"]
        await desk.enqueue("y", kind="chain")
        assert await hf.chores.drain() == 0
        assert len(desk.ran) == 2


async def test_inline_a_failing_chore_does_not_fail_the_commit(
    url: str, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with holdfast.open(url, worker="inline", clock=clock) as hf:
        desk = Desk(hf)
        await desk.enqueue("bad")
        (chore,) = await hf.chores.pending()
        assert (chore.state, chore.attempts) == (ChoreState.QUEUED, 1)
        assert 1_000_000 <= chore.due_us - clock.now_us() <= 2_000_000
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


async def test_manually_nothing_runs_until_it_is_asked_for(url: str) -> None:
    async with holdfast.open(url, worker="manual") as hf:
        desk = Desk(hf)
        for number in range(3):
            await desk.enqueue(number)
        assert desk.ran == []
        ran = await hf.chores.run_once()
        assert ran is not None
        assert (ran.kind, ran.payload, desk.ran) == ("note", 0, ["0"])
        assert await hf.chores.drain() == 2
        assert await hf.chores.run_once() is None
        assert await hf.chores.drain() == 0
        assert desk.ran == ["0", "1", "2"]
        assert await desk.notes() == ["noted 0", "noted 1", "noted 2"]


async def test_draining_ends_in_time_and_hands_back(url: str) -> None:
    async with holdfast.open(url, worker="manual") as hf:
        desk = Desk(hf)

        async def endless(chore: Chore) -> Sequence[Operation]:
            await asyncio.sleep(60)
            return ()

        hf._duties.worker.kinds.add("endless", endless)
        await desk.enqueue(1)
        await desk.enqueue(2, kind="endless", key="other")
        assert await hf.chores.drain(timeout=0.2) == 1
        (left,) = await hf.chores.pending()
        assert (left.kind, left.state, left.attempts) == ("endless", ChoreState.QUEUED, 0)


async def test_kinds_that_nobody_knows_are_left_alone(url: str) -> None:
    async with holdfast.open(url, worker="inline") as hf:
        desk = Desk(hf)
        await desk.enqueue("x", kind="of a later version")
        assert await hf.chores.drain() == 0
        (left,) = await hf.chores.list(kind="of a later version")
        assert (left.state, left.attempts) == (ChoreState.QUEUED, 0)
        assert await hf.chores.list(kind="note") == []


async def test_the_dead_are_seen_and_taken_up_again(url: str, clock: ManualClock) -> None:
    async with holdfast.open(url, worker="manual", clock=clock) as hf:
        desk = Desk(hf)
        chore = await desk.enqueue("bad")
        for _ in range(8):
            assert await hf.chores.dead() == []
            assert await hf.chores.drain() == 1
            clock.advance(seconds=300)
        assert await hf.chores.drain() == 0
        (dead,) = await hf.chores.dead()
        assert (dead.id, dead.attempts, dead.state) == (chore, 8, ChoreState.DEAD)
        assert dead.last_error is not None
        assert dead.last_error.startswith("ValueError at tests")
        assert "secret" not in dead.last_error
        await hf.chores.retry(chore)
        (queued,) = await hf.chores.pending()
        assert (queued.attempts, queued.due_at) == (0, queued.due_at)
        assert await hf.chores.drain() == 1
        await hf.chores.drop(chore)
        assert await desk.states() == ["cancelled"]
        with refused("conflict", holdfast.Conflict):
            await hf.chores.cancel(chore)


async def test_chores_of_another_space_look_missing(url: str) -> None:
    async with holdfast.open(url, worker="manual") as hf:
        desk = Desk(hf)
        chore = await desk.enqueue("x", space="acme")
        assert await hf.chores.list() == []
        for call in (hf.chores.drop, hf.chores.cancel, hf.chores.retry):
            with refused("chore_not_found", holdfast.ChoreNotFound):
                await call(chore)
        acme = hf.space("acme").chores
        assert [one.id for one in await acme.pending()] == [chore]
        assert await hf.chores.drain() == 1  # running is for all spaces together
        assert await desk.notes(space="acme") == ["noted x"]


async def test_a_retry_in_the_background_is_run_at_once(url: str) -> None:
    async with holdfast.open(url) as hf:
        desk = Desk(hf)
        chore = await desk.enqueue("again", seconds=3600)
        await hf.chores.drop(chore)
        await hf.chores.retry(chore)

        async def ran() -> bool:
            return desk.ran == ["again"]

        await soon(ran, 0.5)


async def test_wrong_calls(hf: holdfast.LocalHoldfast) -> None:
    with refused("worker_invalid", holdfast.InvalidInput):
        holdfast.open("memory://?quiet=true", worker="sometimes")  # type: ignore[arg-type] # wrong on purpose
    for states, code in ((["sleeping"], "state_invalid"), ("dead", "states_invalid"), ([3], "state_invalid")):
        with refused(code, holdfast.InvalidInput):
            await hf.chores.list(states=states)  # type: ignore[arg-type] # wrong on purpose
    for limit in (0, 10_001, True):
        with refused("limit_invalid", holdfast.InvalidInput):
            await hf.chores.list(limit=limit)
    for call in (hf.chores.retry, hf.chores.drop):
        with refused("id_invalid", holdfast.InvalidInput):
            await call("no id")
        with refused("chore_not_found", holdfast.ChoreNotFound):
            await call("0" * 32)
    assert await hf.chores.list(states=["dead", ChoreState.QUEUED]) == []


async def test_who_only_reads_has_no_worker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        await Desk(hf).enqueue("x")
    async with holdfast.open(f"sqlite:///{tmp_path}/m.db?mode=ro") as reader:
        desk = Desk(reader)
        assert len(await reader.chores.pending()) == 1
        with refused("store_read_only", holdfast.StoreReadOnly):
            await reader.chores.drain()
        assert caplog.records == []
        await asyncio.sleep(0.1)
        assert desk.ran == []


async def test_closing_hands_back_what_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hf = await holdfast.open(tmp_path / "m.db")
    desk = Desk(hf)
    begun, listening = asyncio.Event(), asyncio.Event()

    async def endless(chore: Chore) -> Sequence[Operation]:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            listening.set()
        return ()

    worker = hf._duties.worker
    worker.kinds.add("endless", endless)
    worker._means = replace(worker._means, pace=Pace(stop=0.05))
    await desk.enqueue("x", kind="endless")
    await begun.wait()
    with caplog.at_level(logging.DEBUG, "holdfast"):
        await hf.aclose()
    assert listening.is_set()
    assert caplog.records == []
    async with holdfast.open(tmp_path / "m.db", worker="manual") as again:
        (left,) = await again.chores.pending()
        assert (left.state, left.attempts, left.worker is None) == (ChoreState.QUEUED, 0, False)


async def test_closing_lets_short_work_end(tmp_path: Path) -> None:
    hf = await holdfast.open(tmp_path / "m.db")
    desk = Desk(hf)
    begun = asyncio.Event()

    async def short(chore: Chore) -> Sequence[Operation]:
        begun.set()
        await asyncio.sleep(0.1)
        return (desk.append(chore.place, "short work"),)

    hf._duties.worker.kinds.add("short", short)
    await desk.enqueue("x", kind="short")
    await begun.wait()
    await hf.aclose()
    async with holdfast.open(tmp_path / "m.db") as again:
        assert [chore.state for chore in await again.chores.list()] == ["done"]


def test_a_worker_follows_the_program_to_another_event_loop(url: str) -> None:
    async def first() -> Desk:
        desk = Desk(await holdfast.open(url))
        await desk.enqueue("one")
        await asyncio.sleep(0.1)
        return desk

    async def second(desk: Desk) -> None:
        await desk.enqueue("two")

        async def ran() -> bool:
            return desk.ran == ["one", "two"]

        await soon(ran, 1)
        await desk.hf.aclose()

    desk = asyncio.run(first())
    asyncio.run(second(desk))


async def test_a_worker_serves_another_thread_and_is_closed_from_there(url: str) -> None:
    hf = await holdfast.open(url)
    desk = Desk(hf)
    await asyncio.sleep(0.1)

    async def elsewhere() -> None:
        await desk.enqueue("from a thread")

        async def ran() -> bool:
            return desk.ran == ["from a thread"]

        await soon(ran, 1)
        assert await hf.chores.drain() == 0
        await hf.aclose()

    await asyncio.to_thread(asyncio.run, elsewhere())
    with refused("store_closed", holdfast.StoreClosed):
        await hf.chores.pending()


def test_a_program_ends_without_closing(tmp_path: Path) -> None:
    async def leave() -> None:
        desk = Desk(await holdfast.open(tmp_path / "m.db"))

        async def endless(chore: Chore) -> Sequence[Operation]:
            await asyncio.sleep(60)
            return ()

        desk.hf._duties.worker.kinds.add("endless", endless)
        await desk.enqueue("x", kind="endless")
        await asyncio.sleep(0.1)

    asyncio.run(asyncio.wait_for(leave(), 5))

    async def look() -> None:
        async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
            (left,) = await hf.chores.pending()
            assert (left.state, left.attempts) == (ChoreState.QUEUED, 0)

    asyncio.run(look())
