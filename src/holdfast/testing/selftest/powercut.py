"""Cutting the power at random moments: what was acknowledged is on what is left of the disk, and nothing in part."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.stores.sqlite.tuning import Synchronous, Tuning
from holdfast.testing.selftest.disk import Disk, mounted
from holdfast.testing.selftest.judging import check, judge
from holdfast.testing.selftest.outcome import Outcome, Progress, Tally, quiet
from holdfast.testing.selftest.platter import Event, Platter
from holdfast.testing.selftest.scene import Player, opened, set_up
from holdfast.testing.selftest.script import Lane, lanes_of

LANES: Final = 3
STEPS: Final = 36
CUTS_A_RECORDING: Final = 125
CHECKPOINT_PAGES: Final = 48
FILE: Final = "memory.db"
EXAMINING: Final = Tuning(synchronous="off")
"""What is left is opened on a disk that stays: its syncs tell nothing."""


class Recorder(Disk):
    """A disk that writes down everything that changes it."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def made(self, file: str) -> None:
        self.events.append(Event("make", file))

    def writing(self, file: str, offset: int, data: bytes) -> bytes:
        self.events.append(Event("write", file, offset, data))
        return data

    def truncating(self, file: str, size: int) -> None:
        self.events.append(Event("truncate", file, size))

    def syncing(self, file: str) -> None:
        self.events.append(Event("sync", file))

    def deleting(self, file: str, *, safely: bool) -> None:
        self.events.append(Event("delete safely" if safely else "delete", file))


@dataclass(slots=True)
class Recording:
    """What a run wrote to its disk, and how long that was at each acknowledgement of each lane."""

    lanes: list[Lane]
    events: list[Event]
    acknowledged: list[list[int]] = field(default_factory=lambda: [[] for _ in range(LANES)])

    def steps_by(self, moment: int) -> list[int]:
        """How many steps of each lane were acknowledged by then."""
        return [sum(at <= moment for at in lane) for lane in self.acknowledged]


def powercut_test(
    folder: Path,
    n: int = 1000,
    *,
    seed: int = 0,
    progress: Progress = quiet,
    synchronous: Synchronous = "full",
) -> Outcome:
    """Cut the power ``n`` times, and look at what is left each time. Blocks; not for a running event loop.

    With ``synchronous="normal"`` it has to find losses: that proves that it would see them.
    """
    began = time.perf_counter()
    tally = Tally()
    chance = Random(f"powercut/{seed}")
    losing = cuts = 0
    with asyncio.Runner() as runner:
        while cuts < n:
            tuning = Tuning(synchronous=synchronous, checkpoint_pages=CHECKPOINT_PAGES)
            with _filled(folder / "run", {}) as place:
                recording = runner.run(record(place, chance.getrandbits(32), tuning))
            count = min(CUTS_A_RECORDING, n - cuts)
            for moment, left in _cuts(recording, count, chance):
                lost = tally.lost
                with _filled(folder / "left", left) as place:
                    runner.run(_examine(place, recording, moment, tally))
                losing += tally.lost > lost
                cuts += 1
                progress(cuts, n)
    seconds = time.perf_counter() - began
    line = (
        f"{cuts} power cuts, {tally.acknowledged} acknowledged writes to be found: {tally.lost} lost"
        f" in {losing} cuts, {tally.partial} partial"
    )
    figures = {
        "cuts": cuts,
        "cuts_that_lost": losing,
        "acknowledged": tally.acknowledged,
        "lost": tally.lost,
        "partial": tally.partial,
        "under_way_and_written": tally.undecided,
        "ms_a_cut": seconds * 1000 / max(1, cuts),
    }
    return Outcome("powercut", line, figures, tuple(tally.findings))


@contextmanager
def _filled(folder: Path, files: Mapping[str, bytes]) -> Generator[Path]:
    """A folder with these files, for a while."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    yield folder
    shutil.rmtree(folder)


async def record(folder: Path, seed: int, tuning: Tuning) -> Recording:
    """Let the lanes write side by side, in an empty folder, on a disk that writes everything down."""
    disk = Recorder()
    recording = Recording(lanes_of(seed, LANES), disk.events)
    with mounted(disk) as vfs:
        hf = await opened(folder / FILE, vfs=vfs, tuning=tuning)
        scene = await set_up(hf)
        await asyncio.gather(
            *(
                _play(Player(scene, lane), disk, acknowledged)
                for lane, acknowledged in zip(recording.lanes, recording.acknowledged, strict=True)
            )
        )
        await hf.aclose()
    return recording


async def _play(player: Player, disk: Recorder, acknowledged: list[int]) -> None:
    for step in range(1, STEPS + 1):
        await player.play(step)
        acknowledged.append(len(disk.events))


def _cuts(recording: Recording, count: int, chance: Random) -> Iterator[tuple[int, Mapping[str, bytes]]]:
    """Moments in order, each with what is left then."""
    platter = Platter()
    reached = 0
    for moment in sorted(chance.randint(0, len(recording.events)) for _ in range(count)):
        for event in recording.events[reached:moment]:
            platter.add(event)
        reached = moment
        yield moment, platter.after_power_cut(chance)


async def _examine(folder: Path, recording: Recording, moment: int, tally: Tally) -> None:
    """Open what is left in a folder, and compare it with what was acknowledged by then."""
    steps = recording.steps_by(moment)
    tally.acknowledged += sum(steps)
    try:
        hf = await opened(folder / FILE, tuning=EXAMINING)
        scene = await set_up(hf)
        await judge(scene, recording.lanes, steps, tally)
        await check(scene, tally)
        await hf.aclose()
    except HoldfastError as error:
        tally.lost += sum(steps)
        tally.find(f"the file cannot be used after a cut at {moment}: {error}")
