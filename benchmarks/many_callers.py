"""B: 64 callers at once on one event loop, held against the product's own batches of 1,000."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import holdfast
from benchmarks import files, machine
from benchmarks.figures import Section, median, print_section, quantile
from benchmarks.material import Material

CALLERS = 64
WANTED = 0.60
ALMOST_FULL = 127


@dataclass
class Plan:
    """A file, and what is added to it: by batches in this order, by caller ``n`` every 64th from the ``n``-th on."""

    title: str
    base: Path
    keys: list[str]
    entries: list[holdfast.NewEntry]


def own_keys(count: int, seed: int) -> Plan:
    """64 keys, each caller its own; they hold 0, 2, 4 … 126 entries when it begins."""
    material = Material(seed)
    keys = [f"key-{number}" for number in range(CALLERS)]
    base = files.scratch() / "own-keys.db"
    files.make(base, material.entries([key for step in range(126) for key in keys[(step + 2) // 2 :]]))
    entries = material.entries([keys[index % CALLERS] for index in range(count)])
    return Plan("64 keys, each caller its own", base, keys, entries)


def random_keys(count: int, seed: int, keys: int = 5_000) -> Plan:
    """Keys at random. One key in 50 is about to complete a page, so that one add in 128 or so does."""
    material = Material(seed)
    names = [f"key-{number}" for number in range(keys)]
    base = files.scratch() / "random-keys.db"
    kept = [name for name in names for _ in range(3)]
    files.make(base, material.entries(kept + [name for name in names[::50] for _ in range(ALMOST_FULL - 4)]))
    return Plan(f"{keys:,} keys at random", base, names, material.entries(material.drawn(names, count)))


def by_callers(plan: Plan) -> tuple[float, list[float]]:
    """The seconds that the callers took together, and those of each add."""

    async def run(_: holdfast.LocalHoldfast, bank: holdfast.Bank) -> tuple[float, list[float]]:
        await touch(bank, plan)
        started = perf_counter()
        times = await call_all(bank, plan.entries)
        return perf_counter() - started, times

    return files.using(plan.base, run)


async def call_all(bank: holdfast.Bank, entries: Sequence[holdfast.NewEntry]) -> list[float]:
    """All callers at once; the seconds of each add."""
    times: list[float] = []
    async with asyncio.TaskGroup() as group:
        for number in range(CALLERS):
            group.create_task(_call(bank, entries[number::CALLERS], times))
    return times


async def _call(bank: holdfast.Bank, entries: Sequence[holdfast.NewEntry], times: list[float]) -> None:
    for new in entries:
        started = perf_counter()
        await bank.add(new.content, key=new.key, vector=new.vector)
        times.append(perf_counter() - started)


def by_batches(plan: Plan) -> float:
    """The seconds of the same entries in batches of 1,000."""

    async def run(_: holdfast.LocalHoldfast, bank: holdfast.Bank) -> float:
        await touch(bank, plan)
        started = perf_counter()
        await add_batches(bank, plan.entries)
        return perf_counter() - started

    return files.using(plan.base, run)


async def add_batches(bank: holdfast.Bank, entries: Sequence[holdfast.NewEntry]) -> None:
    """Batches of 1,000, one after the other."""
    for start in range(0, len(entries), files.BATCH):
        await bank.add_many(entries[start : start + files.BATCH])


async def touch(bank: holdfast.Bank, plan: Plan) -> None:
    """One entry for each key, so that the writer knows them all, as it does in a process that has run for a while."""
    entries = [holdfast.NewEntry("a first word", key, vector=plan.entries[0].vector) for key in plan.keys]
    for start in range(0, len(entries), files.BATCH):
        await bank.add_many(entries[start : start + files.BATCH])


def on_a_copy(plan: Plan) -> Plan:
    return Plan(plan.title, files.copied(plan.base, f"{plan.base.stem}-run.db"), plan.keys, plan.entries)


def one_round(plan: Plan) -> tuple[float, float, list[float]]:
    """The seconds of batches and of callers, each on a copy of its own, and those of each add."""
    return by_batches(on_a_copy(plan)), *by_callers(on_a_copy(plan))


def measure(plan: Plan, rounds: int, most: int) -> Section:
    """Rounds of batches and callers in turn; the ratio is that of the middle round."""
    count = len(plan.entries)
    found = Section(f"B. {CALLERS} callers, {plan.title}: {rounds} rounds of {count:,} adds")
    kept, found.others_cpu = machine.quiet_rounds(lambda: one_round(plan), rounds, most)
    batches, callers, times = zip(*kept, strict=True)
    flat = [one for some in times for one in some]
    found.tell(f"bank.add_many, {files.BATCH:,} a batch", count / median(batches), "rows/s")
    found.tell(f"bank.add, {CALLERS} callers", count / median(callers), "rows/s")
    found.tell("  p50", median(flat) * 1e3, "ms")
    found.tell("  p99", quantile(flat, 0.99) * 1e3, "ms")
    ratios = [batched / called for batched, called, _ in kept]
    found.at_least("callers / batches", median(ratios), WANTED, "")
    print_section(found)
    return found
