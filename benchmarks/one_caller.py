"""A: one caller, one add after the other, held against the floor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import holdfast
from benchmarks import files, floor, machine
from benchmarks.figures import Section, median, print_section, quantile
from benchmarks.material import Material
from holdfast.memories.duties import WorkerMode

KEYS = 64
WANTED = 0.65


@dataclass
class Plan:
    """A file whose keys hold 0, 2, 4 … 126 entries, and what is added to it key by key.

    So pages are completed as they are in the long run: one with every 128th add.
    """

    base: Path
    warm: list[holdfast.NewEntry]
    measured: list[holdfast.NewEntry]
    trace: floor.Trace = field(default_factory=lambda: floor.Trace([], []))
    adds: list[floor.Add] = field(default_factory=list[floor.Add])


def planned(count: int, seed: int) -> Plan:
    material = Material(seed)
    keys = [f"key-{number}" for number in range(KEYS)]
    base = files.scratch() / "one.db"
    files.make(base, material.entries([key for step in range(126) for key in keys[(step + 2) // 2 :]]))
    plan = Plan(
        base, material.entries(keys), material.entries([keys[index % KEYS] for index in range(count)])
    )
    product = files.copied(base, "one-traced.db")
    with floor.traced_writer() as sent:
        add_all(product, plan, "manual")  # the worker of the background writes what no add does
    plan.trace = floor.trace_of(sent)
    plan.adds = [floor.add_of(transaction) for transaction in plan.trace.transactions[KEYS:]]
    assert len(plan.adds) == count
    floor.check(files.copied(base, "one-checked.db"), product, plan.trace, plan.adds, KEYS)
    return plan


def add_all(file: Path, plan: Plan, worker: WorkerMode = "background") -> list[float]:
    """The seconds of each measured add through the face."""

    async def run(_: holdfast.LocalHoldfast, bank: holdfast.Bank) -> list[float]:
        for new in plan.warm:
            await bank.add(new.content, key=new.key, vector=new.vector)
        return await timed(bank, plan.measured)

    return files.using(file, run, worker)


async def timed(bank: holdfast.Bank, entries: Sequence[holdfast.NewEntry]) -> list[float]:
    """The seconds of each add."""
    times: list[float] = []
    last = perf_counter()
    for new in entries:
        await bank.add(new.content, key=new.key, vector=new.vector)
        now = perf_counter()
        times.append(now - last)
        last = now
    return times


@dataclass(frozen=True)
class Round:
    """The seconds of the floor, of the floor behind a thread, and of each add through the face."""

    floor: float
    behind: float
    times: list[float]
    moving: float
    pages: float

    @property
    def face(self) -> float:
        return sum(self.times)

    @property
    def ratio(self) -> float:
        return self.floor / self.face


def prepared_floor(plan: Plan) -> floor.Floor:
    """The floor on a copy of its own, up to where measuring begins."""
    bare = floor.Floor(files.copied(plan.base, "one-floor.db"), plan.trace.settings)
    bare.repeat(plan.trace.transactions[:KEYS])
    bare.commits = bare.pages_written = 0
    return bare


def one_round(plan: Plan) -> Round:
    """Each on a copy of its own."""
    bare = prepared_floor(plan)
    seconds = bare.run(plan.adds)
    bare.connection.close()
    times = add_all(files.copied(plan.base, "one-face.db"), plan)
    threaded = prepared_floor(plan)
    behind = asyncio.run(threaded.run_behind_a_thread(plan.adds))
    threaded.connection.close()
    return Round(seconds, behind, times, bare.moving / seconds, bare.pages_written / bare.commits)


def measure(count: int, rounds: int, most: int) -> Section:
    """Rounds of floor and face in turn; the ratio is that of the middle round."""
    found = Section(f"A. One caller: {rounds} rounds of {count:,} adds over {KEYS} keys")
    plan = planned(count, seed=1)
    kept, found.others_cpu = machine.quiet_rounds(lambda: one_round(plan), rounds, most)
    times = [one for kept_round in kept for one in kept_round.times]
    found.tell("floor: bare apsw loop", count / median([one.floor for one in kept]), "adds/s")
    found.tell("  pages in the log a commit", kept[0].pages, "")
    found.tell("  share of the time moving the log", median([one.moving for one in kept]), "")
    found.tell("floor awaited behind a thread", count / median([one.behind for one in kept]), "adds/s")
    found.tell("face: bank.add", count / median([one.face for one in kept]), "adds/s")
    found.tell("  p50", median(times) * 1e3, "ms")
    found.tell("  p99", quantile(times, 0.99) * 1e3, "ms")
    found.at_least("face / floor", median([one.ratio for one in kept]), WANTED, "")
    found.tell("floor awaited behind a thread / floor", median([one.floor / one.behind for one in kept]), "")
    print_section(found)
    return found
