"""Letting each call to the disk fail in turn: a typed error or success, nothing lost, and the same handle goes on."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

import apsw

from holdfast.errors import HoldfastError, StoreFailed
from holdfast.memories.local import LocalHoldfast
from holdfast.stores.sqlite.tuning import Tuning
from holdfast.testing.selftest.disk import Disk, mounted
from holdfast.testing.selftest.judging import check, judge
from holdfast.testing.selftest.outcome import Outcome, Progress, Tally, quiet
from holdfast.testing.selftest.scene import Player, Scene, opened, set_up
from holdfast.testing.selftest.script import KINDS, Forget, Lane

Call: TypeAlias = Literal["open", "read", "write", "truncate", "sync", "size", "delete"]
Fault: TypeAlias = Literal["error", "full", "short"]
FAULTS: Final[dict[Call, tuple[Fault, ...]]] = {
    "open": ("error",),
    "read": ("error",),
    "write": ("error", "full", "short"),
    "truncate": ("error", "full"),
    "sync": ("error",),
    "size": ("error",),
    "delete": ("error",),
}
STEPS: Final = len(KINDS) + 2
LONGEST_SECONDS: Final = 5.0
FILE: Final = "memory.db"
TUNING: Final = Tuning(checkpoint_pages=24)
"""The log is moved every few writes, so that those calls fail as well."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Point:
    """One failure: the call of that kind with this number, and how it fails."""

    call: Call
    number: int
    fault: Fault

    def __str__(self) -> str:
        return f"{self.fault} at {self.call} {self.number}"


class Saboteur(Disk):
    """A disk that counts calls and lets one of them fail, once."""

    def __init__(self, point: Point | None = None) -> None:
        self.calls: Counter[Call] = Counter()
        self.struck = False
        self._point = point
        self._cut_short = False
        self._counting = threading.Lock()

    def strike(self, point: Point) -> None:
        """Let a call fail that is still to come."""
        self._point = point

    def opening(self, file: str) -> None:
        if self._fails("open"):
            raise apsw.CantOpenError("the disk cannot open the file")

    def reading(self, file: str) -> None:
        if self._fails("read"):
            raise apsw.IOError("the disk cannot read")

    def writing(self, file: str, offset: int, data: bytes) -> bytes:
        fault = self._fails("write")
        if fault == "error":
            raise apsw.IOError("the disk cannot write")
        if fault == "full":
            raise apsw.FullError("no space is left")
        self._cut_short = fault == "short"
        return data[: len(data) // 2] if fault == "short" else data

    def written(self, file: str) -> None:
        if self._cut_short:
            self._cut_short = False
            raise apsw.FullError("no space is left for the rest")

    def truncating(self, file: str, size: int) -> None:
        fault = self._fails("truncate")
        if fault == "full":
            raise apsw.FullError("no space is left")
        if fault:
            raise apsw.IOError("the disk cannot cut the file")

    def syncing(self, file: str) -> None:
        if self._fails("sync"):
            raise apsw.IOError("the disk cannot make the file safe")

    def measuring(self, file: str) -> None:
        if self._fails("size"):
            raise apsw.IOError("the disk cannot tell the size")

    def deleting(self, file: str, *, safely: bool) -> None:
        if self._fails("delete"):
            raise apsw.IOError("the disk cannot delete")

    def _fails(self, call: Call) -> Fault | None:
        with self._counting:
            self.calls[call] += 1
            point = self._point
            if point is None or point.call != call or point.number != self.calls[call]:
                return None
            self.struck = True
            return point.fault


def faults_test(folder: Path, n: int = 1000, *, seed: int = 0, progress: Progress = quiet) -> Outcome:
    """Run a script once for each of ``n`` failures, spread evenly over all of them; 0 for all. Blocks.

    What is promised: the call that meets the failure raises a ``HoldfastError`` or succeeds. What was acknowledged
    stays. A change that was refused for a failed write or sync is not there, unless it says that only the scrubbing
    of a forget is unfinished. The same handle goes on working as soon as the disk does.
    """
    began = time.perf_counter()
    tally = Tally()
    lane = Lane(seed, 0)
    with asyncio.Runner() as runner:
        plain = runner.run(_Run(folder / "plain", None, lane, tally).play())
        points = chosen(points_of(plain.disk.calls), n)
        runs: list[_Run] = []
        for done, point in enumerate(points, 1):
            runs.append(runner.run(_Run(folder / "run", point, lane, tally).play()))
            progress(done, len(points))
    errors = sum(run.errors for run in runs)
    struck = sum(run.disk.struck for run in runs)
    slowest = max((run.slowest for run in runs), default=0.0)
    line = (
        f"{len(points)} failures of the disk, {struck} met: {errors} typed errors, {tally.lost} acknowledged writes"
        f" lost, {tally.partial} partial; slowest call {slowest * 1000:.0f} ms"
    )
    figures = {
        "failures": len(points),
        "possible": len(points_of(plain.disk.calls)),
        "met": struck,
        "typed_errors": errors,
        "disk_full": sum(run.full for run in runs),
        "refused_and_written": tally.undecided,
        "acknowledged": tally.acknowledged,
        "lost": tally.lost,
        "partial": tally.partial,
        "slowest_call_ms": slowest * 1000,
        "ms_a_failure": (time.perf_counter() - began) * 1000 / max(1, len(points)),
    }
    return Outcome("faults", line, figures, tuple(tally.findings))


def points_of(calls: Counter[Call]) -> list[Point]:
    """Every failure that the calls of a run leave room for."""
    return [
        Point(call, number, fault)
        for call, faults in FAULTS.items()
        for number in range(1, calls[call] + 1)
        for fault in faults
    ]


def chosen(points: Sequence[Point], n: int) -> list[Point]:
    """So many of the points, spread evenly; 0 for all."""
    if not 0 < n < len(points):
        return list(points)
    return [points[index * len(points) // n] for index in range(n)]


class _Run:
    """One run of the script on a disk that fails once."""

    def __init__(self, folder: Path, point: Point | None, lane: Lane, tally: Tally) -> None:
        self.disk = Saboteur(point)
        self.errors = self.full = 0
        self.slowest = 0.0
        self._folder = folder
        self._point = point
        self._lane = lane
        self._tally = tally
        self._position = 0

    async def play(self) -> _Run:
        """Open, write, read and close, then open once more on a whole disk."""
        self._folder.mkdir(parents=True)
        try:
            await self._story()
        except Exception as error:  # noqa: BLE001 - whatever comes through here is what the test looks for
            self._tally.find(f"{self._point}: {type(error).__name__}: {error}")
        self._tally.acknowledged += self._position
        shutil.rmtree(self._folder)
        return self

    async def _story(self) -> None:
        path = self._folder / FILE
        with mounted(self.disk) as vfs:
            hf = await self._twice(lambda: opened(path, vfs=vfs, tuning=TUNING))
            await self._use(hf)
            await self._timed(hf.aclose())
        again = await opened(path)
        await self._compare(await set_up(again), "after opening again")
        await again.aclose()

    async def _use(self, hf: LocalHoldfast) -> None:
        scene = await self._twice(lambda: set_up(hf))
        player = Player(scene, self._lane)
        while self._position < STEPS:
            before = self.errors
            await self._step(player)
            if self.errors > before:
                await self._settle_position(scene)
                await player.catch_up()
        await self._twice(lambda: scene.bank.search("tea coffee", key=self._lane.key))
        await self._twice(lambda: scene.bank.load(key=self._lane.key))
        await self._twice(hf.store.check)
        await self._twice(hf.store.settle)
        await self._compare(scene, "on the same handle")

    async def _step(self, player: Player) -> None:
        try:
            await self._timed(player.play(self._position + 1))
        except HoldfastError as error:
            self._note(error)
        else:
            self._position += 1

    async def _settle_position(self, scene: Scene) -> None:
        """After an error the step is not done; only a forget may be, when the scrubbing after it was refused."""
        refused = self._position + 1
        self._position = (await self._judged(scene))[0]
        if self._position == refused and not isinstance(self._lane.step(refused), Forget):
            self._tally.find(f"{self._point}: step {refused} was refused, and is there")

    async def _judged(self, scene: Scene) -> list[int]:
        return await self._twice(lambda: judge(scene, [self._lane], [self._position], self._tally))

    async def _compare(self, scene: Scene, when: str) -> None:
        known = len(self._tally.findings)
        undecided = self._tally.undecided
        await self._judged(scene)
        await self._twice(lambda: check(scene, self._tally))
        if len(self._tally.findings) > known or self._tally.undecided > undecided:
            self._tally.find(f"{self._point}: that was found {when}")

    async def _twice(self, call: Callable[[], Awaitable[T]]) -> T:
        """The call may fail once; the disk then works again, and so has the call."""
        try:
            return await self._timed(call())
        except HoldfastError as error:
            self._note(error)
        return await self._timed(call())

    async def _timed(self, call: Awaitable[T]) -> T:
        began = time.perf_counter()
        try:
            return await asyncio.wait_for(call, LONGEST_SECONDS)
        finally:
            self.slowest = max(self.slowest, time.perf_counter() - began)

    def _note(self, error: HoldfastError) -> None:
        """Count a typed error, which has to come from the failure and to say what to do."""
        self.errors += 1
        self.full += error.code == "disk_full"
        expected = self._point is not None and self._point.fault in ("full", "short")
        if not isinstance(error, StoreFailed) or not error.hint or (error.code == "disk_full") != expected:
            self._tally.find(f"{self._point}: {type(error).__name__} {error.code}: {error}")
