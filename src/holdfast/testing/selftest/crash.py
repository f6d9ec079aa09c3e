"""Killing a writer at random moments: what was acknowledged is there, and what was under way is there whole or not."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.memories.local import LocalHoldfast
from holdfast.testing.selftest import forking
from holdfast.testing.selftest.forking import Children, Order, steps_told
from holdfast.testing.selftest.judging import check, judge
from holdfast.testing.selftest.outcome import Outcome, Progress, Tally, quiet
from holdfast.testing.selftest.scene import opened, set_up
from holdfast.testing.selftest.script import Lane, lanes_of

LANES: Final = 3
KILLS_A_FILE: Final = 40
LONGEST_SECONDS: Final = 0.03
QUICK_SECONDS: Final = 1.0


@dataclass(slots=True)
class Victim:
    """One file, and how far its lanes are known to have come."""

    path: Path
    lanes: list[Lane]
    seed: int
    steps: list[int] = field(default_factory=lambda: [0] * LANES)
    hf: LocalHoldfast | None = None
    kills: int = 0
    spoilt: bool = False


def crash_test(
    folder: Path,
    n: int = 1000,
    *,
    seed: int = 0,
    progress: Progress = quiet,
    writer: str = forking.__name__,
) -> Outcome:
    """Kill a writing process ``n`` times, and look after each time. Blocks; not for a running event loop.

    ``writer`` names the module that is run to fork the writers.
    """
    began = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    with Children(writer) as children, asyncio.Runner() as runner:
        killing = _Killing(folder, children, runner, Random(f"crash/{seed}"))
        while killing.kills < n:
            killing.one()
            progress(min(killing.kills, n), n)
        killing.leave()
    seconds = time.perf_counter() - began
    tally = killing.tally
    line = (
        f"{killing.kills} kills, {tally.acknowledged} acknowledged writes: {tally.lost} lost,"
        f" {tally.partial} partial; slowest reopening {killing.slowest * 1000:.0f} ms, {seconds:.0f} s in all"
    )
    return Outcome("crash", line, _figures(killing, seconds), tuple(tally.findings))


def _figures(killing: _Killing, seconds: float) -> dict[str, float]:
    tally = killing.tally
    return {
        "kills": killing.kills,
        "killed_openings": killing.openings,
        "acknowledged": tally.acknowledged,
        "lost": tally.lost,
        "partial": tally.partial,
        "under_way_and_written": tally.undecided,
        "slowest_reopening_ms": killing.slowest * 1000,
        "ms_a_kill": seconds * 1000 / max(1, killing.kills),
    }


class _Killing:
    """The kills of one test: several on each file, some of them while it recovers from the last."""

    def __init__(self, folder: Path, children: Children, runner: asyncio.Runner, chance: Random) -> None:
        self.tally = Tally()
        self.kills = self.openings = 0
        self.slowest = 0.0
        self._folder = folder
        self._children = children
        self._runner = runner
        self._chance = chance
        self._victim: Victim | None = None

    def one(self) -> None:
        """Kill a writer, perhaps others that only open, and look at what is left."""
        victim = self._victim
        if victim is None or victim.spoilt or victim.kills >= KILLS_A_FILE:
            self.leave()
            victim = self._victim = self._new_file()
        before = list(victim.steps)
        self._kill(victim, victim.steps, from_start=self._chance.random() < 0.15)
        self.tally.acknowledged += sum(victim.steps) - sum(before)
        while victim.hf is None and self._chance.random() < 0.25:
            self._kill(victim, [], from_start=True)
            self.openings += 1
        self._runner.run(self._look(victim))

    def leave(self) -> None:
        """Close the file that is open."""
        if self._victim is not None and self._victim.hf is not None:
            self._runner.run(self._victim.hf.aclose())
        self._victim = None

    def _new_file(self) -> Victim:
        seed = self._chance.getrandbits(32)
        path = self._folder / f"crash-{self.kills}.db"
        return Victim(path, lanes_of(seed, LANES), seed)

    def _kill(self, victim: Victim, steps: list[int], *, from_start: bool) -> None:
        """Start a child and kill it: soon after its start, or some time after its first acknowledgement."""
        child = self._children.start(Order(str(victim.path), victim.seed, tuple(steps)))
        what = ""
        while not from_start and what not in ("ack", "over"):
            what = self._hear(steps)
        time.sleep(self._chance.random() * LONGEST_SECONDS)
        os.kill(child, signal.SIGKILL)
        self._children.reap()
        while what != "end":
            what = self._hear(steps)
        self.kills += 1
        victim.kills += 1

    def _hear(self, steps: list[int]) -> str:
        told = self._children.read()
        steps_told(told, steps)
        if told[0] == "over":
            self.tally.find("a writer ended by itself; see what it said")
        return told[0]

    async def _look(self, victim: Victim) -> None:
        """Open the file if it is not open, and compare; at times leave it open while the next writer is killed."""
        known = len(self.tally.findings)
        try:
            await self._examine(victim)
        except HoldfastError as error:
            self.tally.lost += sum(victim.steps)
            self.tally.find(f"the file cannot be used after a kill: {error}")
        victim.spoilt = len(self.tally.findings) > known
        if victim.hf is not None and self._chance.random() < 0.7:
            await victim.hf.aclose()
            victim.hf = None

    async def _examine(self, victim: Victim) -> None:
        if victim.hf is None:
            began = time.perf_counter()
            victim.hf = await opened(victim.path)
            await victim.hf.banks.list()
            seconds = time.perf_counter() - began
            self.slowest = max(self.slowest, seconds)
            if seconds > QUICK_SECONDS:
                self.tally.find(f"reopening took {seconds:.1f} s")
        scene = await set_up(victim.hf)
        victim.steps = await judge(scene, victim.lanes, victim.steps, self.tally)
        await check(scene, self.tally)
