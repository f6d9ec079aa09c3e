"""D: background work: how many chores a worker ends in a second, and how soon it begins one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import holdfast
from benchmarks import files, machine
from benchmarks.figures import Section, median, print_section, quantile
from holdfast.memories.core import Core, partition
from holdfast.model.batch import Enqueue, Operation
from holdfast.model.chore import Chore, ChoreDraft

KIND = "empty"
DUE = 20_000


class Desk:
    """A memory with a worker for empty chores, which notes when each begins."""

    def __init__(self, hf: holdfast.LocalHoldfast) -> None:
        self.hf = hf
        self.core: Core = hf._core  # noqa: SLF001 - kinds join the worker inside the product
        self.begun: asyncio.Queue[float] = asyncio.Queue()
        hf._duties.worker.kinds.add(KIND, self.run)  # noqa: SLF001 - as above

    async def run(self, chore: Chore) -> Sequence[Operation]:
        self.begun.put_nowait(perf_counter())
        return ()

    def due(self, key: str) -> Enqueue:
        where = partition("default", "chores", key)
        draft = ChoreDraft(
            id=self.core.make_id(where.bucket), kind=KIND, place=where.place, due_us=self.core.clock.now_us()
        )
        return Enqueue(draft)

    async def make_due(self, keys: Sequence[str]) -> None:
        where = partition("default", "chores", "all")
        for start in range(0, len(keys), files.BATCH):
            await self.core.write(where, [self.due(key) for key in keys[start : start + files.BATCH]])


def fresh(name: str) -> Path:
    file = files.scratch() / name
    files.remove(file)
    return file


def drained(keys: Sequence[str]) -> float:
    """The seconds in which chores that are due at these keys are run and ended."""

    async def run() -> float:
        async with holdfast.open(fresh("drained.db"), worker="manual") as hf:
            desk = Desk(hf)
            await desk.make_due(keys)
            started = perf_counter()
            assert await hf.chores.drain() == len(keys)
            return perf_counter() - started

    return asyncio.run(run())


def picked_up(count: int) -> tuple[float, list[float]]:
    """One chore after the other: the seconds of all, and from each commit to the beginning of its chore."""

    async def run() -> tuple[float, list[float]]:
        async with holdfast.open(fresh("picked-up.db")) as hf:
            desk = Desk(hf)
            await hf.chores.drain()
            times: list[float] = []
            started = perf_counter()
            for number in range(count):
                where = partition("default", "chores", f"key-{number % 64}")
                await desk.core.write(where, (desk.due(where.place.key),))
                committed = perf_counter()
                times.append(max(0.0, await desk.begun.get() - committed))
            return perf_counter() - started, times

    return asyncio.run(run())


def lease_times(places: int, limit: int) -> list[float]:
    """The seconds of leases among many chores that are due."""

    async def run() -> list[float]:
        async with holdfast.open(fresh("leased.db"), worker="manual") as hf:
            await Desk(hf).make_due([f"key-{number % places}" for number in range(DUE)])
            times: list[float] = []
            for number in range(20):
                now_us, started = hf.clock.now_us(), perf_counter()
                name = f"w{number}"
                await hf.store.lease(
                    worker=name, now_us=now_us, until_us=now_us + 60_000_000, kinds=(KIND,), limit=limit
                )
                times.append(perf_counter() - started)
                await hf.store.release(name)
            return times

    return asyncio.run(run())


def measure(count: int, rounds: int, most: int) -> Section:
    """Rounds of everything; each figure is that of the middle round."""
    found = Section(f"D. Chores: {rounds} rounds of {count:,}")

    def one_round() -> tuple[float, float, float, list[float]]:
        own = drained([f"key-{number}" for number in range(count)])
        one = drained(["one"] * (count // 4))
        return own, one, *picked_up(count // 8)

    kept, found.others_cpu = machine.quiet_rounds(one_round, rounds, most)
    own, one, alone, times = zip(*kept, strict=True)
    flat = [time for some in times for time in some]
    found.at_least("empty chores, each in its own place", count / median(own), 2_000, "/s")
    found.at_least("empty chores of one place, one at a time", (count // 4) / median(one), 300, "/s")
    found.at_least("made due and run one after the other", (count // 8) / median(alone), 300, "/s")
    found.tell("  from commit to its beginning, p50", median(flat) * 1e3, "ms")
    found.at_most("  from commit to its beginning, p99", quantile(flat, 0.99) * 1e3, 50, "ms")
    for places in (DUE, 1):
        for limit in (1, 32):
            name = f"a lease of {limit} among {DUE:,} due in {places:,} places, p50"
            found.tell(name, median(lease_times(places, limit)) * 1e3, "ms")
    print_section(found)
    return found
