"""Whatever chores fail or are overtaken, and however many workers share them: each effect is there once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.chores.kinds import Kinds
from holdfast.chores.pace import Means, Pace
from holdfast.chores.worker import Worker
from holdfast.model.batch import Append, Operation
from holdfast.model.chore import Chore, ChoreState
from holdfast.model.entry import Draft
from holdfast.model.window import Window
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from holdfast.testing.making import Maker, in_bank, in_space

PACE = Pace(parallel=3, stop=0.1)
KEYS = ("alice", "bob", "carol")
ENDINGS = ("fail", "dawdle", "give back")


@dataclass(frozen=True)
class Plan:
    """Where a chore stands, when it is due, and what happens to its first runs before one comes to a good end."""

    key: str
    due: int
    before: tuple[str, ...]


PLANS = st.lists(
    st.builds(
        Plan,
        key=st.sampled_from(KEYS),
        due=st.integers(-5, 5),
        before=st.lists(st.sampled_from(ENDINGS), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


class Scene:
    """Workers on one store, whose chores end as planned."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.make = Maker(self.clock)
        self.plans = plans
        self.runs: Counter[int] = Counter()

    def worker(self, name: str) -> Worker:
        kinds = Kinds()
        kinds.add("planned", self.run)
        means = Means(
            store=self.store, clock=self.clock, make_id=lambda _: self.make.id(), jitter=lambda: 0.5,
            kinds=kinds, pace=PACE,
        )  # fmt: skip
        return Worker(means, name)

    async def run(self, chore: Chore) -> Sequence[Operation]:
        number = int(str(chore.payload))
        run, before = self.runs[number], self.plans[number].before
        self.runs[number] += 1
        ending = before[run] if run < len(before) else "succeed"
        await asyncio.sleep(0)
        if ending == "fail":
            raise ValueError
        if ending == "dawdle":  # every lease ends meanwhile: others may take all over
            self.clock.advance(seconds=61)
            await asyncio.sleep(0)
        if ending == "give back" and chore.worker is not None:
            await self.store.release(chore.worker)
        return (Append(chore.place, Draft(id=self.make.id(), content=str(number), created_us=1)),)

    async def play(self, workers: int) -> None:
        for number, plan in enumerate(self.plans):
            due_us = self.clock.now_us() + plan.due * 1_000_000
            chore = self.make.enqueue(
                "planned", key=plan.key, payload=str(number), due_us=due_us, max_attempts=1_000
            )
            await self.store.commit(self.make.batch(chore))
        crew = [self.worker(f"w{n}") for n in range(workers)]
        while await self.store.next_due_us() is not None:
            await asyncio.gather(*(worker.drain() for worker in crew))
            self.clock.advance(seconds=61)


@given(plans=PLANS, workers=st.integers(1, 3))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_each_effect_is_there_once(plans: list[Plan], workers: int) -> None:
    async def play() -> None:
        scene = Scene(plans)
        async with asyncio.timeout(10):
            await scene.play(workers)
        chores = await scene.store.chores(in_space())
        assert {chore.state for chore in chores} == {ChoreState.DONE}
        page = await scene.store.load(in_bank(), Window(limit=100))
        assert Counter(entry.content for entry in page.entries) == Counter(map(str, range(len(plans))))

    asyncio.run(play())
