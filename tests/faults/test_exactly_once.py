"""Chores whose workers are killed all the time: each effect is there once, and none is stuck."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import textwrap
from asyncio.subprocess import PIPE, Process
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.model.batch import Enqueue
from holdfast.model.chore import LIVE, ChoreDraft, ChoreState
from holdfast.model.scope import Place
from holdfast.model.window import Window
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.making import Maker, in_bank, in_space
from tests.faults.conftest import WallClock

PLACES = 24
WORKER = """
    import asyncio, random, secrets, sys, time
    from holdfast.chores.kinds import Kinds
    from holdfast.chores.pace import Means, Pace
    from holdfast.chores.worker import Worker
    from holdfast.model.batch import Append
    from holdfast.model.entry import Draft
    from holdfast.model.ids import IdMaker
    from holdfast.stores.sqlite import SqliteStore

    class Clock:
        def now_us(self):
            return time.time_ns() // 1000

    make_id = IdMaker(Clock().now_us, secrets.randbits)

    async def mark(chore):
        await asyncio.sleep(random.uniform(0, 0.06))
        return (Append(chore.place, Draft(id=make_id(0), content=str(chore.payload), created_us=1)),)

    async def main():
        store = await SqliteStore.open(sys.argv[1], clock=Clock())
        kinds = Kinds()
        kinds.add("mark", mark)
        pace = Pace(lease=0.5, beat=0.15, look=0.05, parallel=4)
        means = Means(store=store, clock=Clock(), make_id=make_id, jitter=random.random, kinds=kinds, pace=pace)
        print("ready", flush=True)
        await Worker(means, secrets.token_hex(4)).serve(asyncio.Event())

    asyncio.run(main())
"""


@dataclass
class Crew:
    """Worker processes, of which one after the other is killed and replaced."""

    path: Path
    chance: random.Random
    workers: list[Process] = field(default_factory=list[Process])
    killed: int = 0

    async def hire(self) -> None:
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-c", textwrap.dedent(WORKER), str(self.path), stdout=PIPE
        )
        assert worker.stdout is not None
        assert await worker.stdout.readline() == b"ready\n"
        self.workers.append(worker)

    async def kill(self) -> None:
        worker = self.workers.pop(self.chance.randrange(len(self.workers)))
        assert worker.returncode is None, "a worker has ended by itself"
        worker.send_signal(signal.SIGKILL)
        await worker.wait()
        self.killed += 1

    async def go_on_until_done(self, store: SqliteStore) -> None:
        while await store.chores(in_space(), states=tuple(LIVE), limit=1):
            await self.hire()
            await asyncio.sleep(self.chance.uniform(0.02, 0.25))
            if len(self.workers) > 1:
                await self.kill()

    async def dismiss(self) -> None:
        while self.workers:
            await self.kill()


async def every_effect_is_there_once(path: Path, count: int, seed: int) -> None:
    store = await SqliteStore.open(path, clock=WallClock())
    make = Maker(WallClock())
    for number in range(count):
        # Being killed is an attempt; here it happens more often than eight times.
        draft = ChoreDraft(
            id=make.id(), kind="mark", place=Place("notes", f"k{number % PLACES}"), due_us=0,
            payload=str(number), max_attempts=1_000,
        )  # fmt: skip
        await store.commit(make.batch(Enqueue(draft)))
    crew = Crew(path, random.Random(seed))
    try:
        await crew.go_on_until_done(store)
    finally:
        await crew.dismiss()
    chores = await store.chores(in_space(), limit=10_000)
    assert Counter(chore.state for chore in chores) == {ChoreState.DONE: count}
    page = await store.load(in_bank(), Window(limit=10_000))
    assert Counter(entry.content for entry in page.entries) == Counter(map(str, range(count)))
    assert (await store.check()).ok
    await store.aclose()
    assert crew.killed >= 3
    assert sum(chore.attempts for chore in chores) > count, "nobody was killed at work"


async def test_every_effect_of_100_chores_is_there_once(tmp_path: Path) -> None:
    await every_effect_is_there_once(tmp_path / "m.db", 100, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
async def test_every_effect_of_1000_chores_is_there_once(tmp_path: Path, seed: int) -> None:
    await every_effect_is_there_once(tmp_path / "m.db", 1_000, seed)
