"""Many processes with many threads on one file: nothing locked, lost or doubled, nobody waits long or starves."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final, cast

from holdfast.model.chore import ChoreState
from holdfast.model.scope import Scope
from holdfast.model.window import Window
from holdfast.testing.selftest import crowd
from holdfast.testing.selftest.crowd import EFFECTS, KEYS, Part, Report
from holdfast.testing.selftest.judging import check
from holdfast.testing.selftest.launching import launched
from holdfast.testing.selftest.outcome import Outcome, Progress, Tally, quiet
from holdfast.testing.selftest.scene import ALL, SPACE, Scene, opened, set_up

PROCESSES: Final = 8
THREADS: Final = 4
PAUSE_MS: Final = 10.0
WRITE_P99_MS: Final = 250.0
LONGEST_MS: Final = 1_000.0
FAIR_SHARE: Final = 0.25
PATIENCE_SECONDS: Final = 30.0
MANY: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Result:
    """What the processes did together."""

    parts: tuple[tuple[Report, ...], ...]
    log_bytes: int

    @property
    def reports(self) -> list[Report]:
        """The reports of all threads."""
        return [report for part in self.parts for report in part]

    @property
    def writes_ms(self) -> list[float]:
        """How long writes took, the quickest first."""
        return sorted(one for report in self.reports for one in report.writes_ms)

    @property
    def reads_ms(self) -> list[float]:
        """How long reads took, the quickest first."""
        return sorted(one for report in self.reports for one in report.reads_ms)

    @property
    def slowest_share(self) -> float:
        """How much the slowest process did, as a share of the mean."""
        done = [sum(len(report.writes_ms) + len(report.reads_ms) for report in part) for part in self.parts]
        return min(done, default=0) * len(done) / max(1, sum(done))


def processes_test(
    folder: Path,
    seconds: float = 60.0,
    *,
    processes: int = PROCESSES,
    threads: int = THREADS,
    pause_ms: float = PAUSE_MS,
    seed: int = 0,
    progress: Progress = quiet,
) -> Outcome:
    """Let processes add, load, search, set values and do chores on one file, then look for each thing they wrote.

    Every process opens the file once; its threads, each with an event loop of its own, share the handle. Blocks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "shared.db"
    tally = Tally()
    with asyncio.Runner() as runner:
        runner.run(_make(path))
        many = Crowd(
            path, [Part(str(path), number, threads, seconds, seed, pause_ms) for number in range(processes)]
        )
        reports = many.run(seconds, tally, progress)
        result = Result(tuple(reports), many.log_bytes)
        runner.run(_compare(path, result, tally))
    return _told(result, seconds, tally)


async def _make(path: Path) -> None:
    hf = await opened(path)
    await set_up(hf)
    await hf.aclose()


@dataclass(slots=True)
class Crowd:
    """The processes while they run, and how large the log of their file became."""

    path: Path
    parts: Sequence[Part]
    log_bytes: int = 0

    def run(self, seconds: float, tally: Tally, progress: Progress) -> list[tuple[Report, ...]]:
        """Start all of them, let them go at the same moment, and gather their reports."""
        started = [launched(crowd.__name__, json.dumps(asdict(part))) for part in self.parts]
        try:
            for process in started:
                cast("IO[bytes]", process.stdout).readline()
            for process in started:
                pipe = cast("IO[bytes]", process.stdin)
                pipe.write(b"go\n")
                pipe.flush()
            self._wait(seconds, progress)
            for process in started:
                process.communicate(timeout=PATIENCE_SECONDS)
        except (BrokenPipeError, subprocess.TimeoutExpired) as error:
            tally.find(f"a process has died or hangs: {error}")
        finally:
            for process in started:
                process.kill()
                process.communicate()
        if any(process.returncode for process in started):
            tally.find("a process ended with an error; see what it said")
        return [_report(part) for part in self.parts if part.report.exists()]

    def _wait(self, seconds: float, progress: Progress) -> None:
        whole = max(1, round(seconds))
        log = self.path.with_name(f"{self.path.name}-wal")
        for second in range(1, whole + 1):
            time.sleep(seconds / whole)
            with suppress(FileNotFoundError):
                self.log_bytes = max(self.log_bytes, log.stat().st_size)
            progress(second, whole)


def _report(part: Part) -> tuple[Report, ...]:
    return tuple(Report(**fields) for fields in json.loads(part.report.read_text("utf-8")))


async def _compare(path: Path, result: Result, tally: Tally) -> None:
    """Find each acknowledged thing once in the file, and nothing else."""
    hf = await opened(path)
    scene = await set_up(hf)
    written = [content for report in result.reports for content in report.contents]
    tally.acknowledged = len(written)
    found: list[str] = []
    for number in range(KEYS):
        found += await _contents(scene, f"shared-{number}", tally)
    _same("entries", written, found, tally)
    done = [chore for report in result.reports for chore in report.done_chores]
    _same("effects of chores", done, await _contents(scene, EFFECTS, tally), tally)
    chores = await hf.store.chores(Scope(SPACE, scene.bank.id), limit=MANY)
    finished = [chore.id for chore in chores if chore.state is ChoreState.DONE]
    _same("finished chores", done, finished, tally)
    if len(chores) != sum(report.chores for report in result.reports):
        tally.find(f"{len(chores)} chores are there, not as many as were made")
    for report in result.reports:
        for name, value in report.values.items():
            if await hf.values.get(name) != value:
                tally.lost += 1
                tally.find(f"the value {name} is not the last one written")
    await check(scene, tally)
    await hf.aclose()


async def _contents(scene: Scene, key: str, tally: Tally) -> list[str]:
    """What a key holds; its entries have to be numbered without a gap."""
    scope = Scope(SPACE, scene.bank.id, key)
    found: list[str] = []
    seqs: list[int] = []
    window = Window(limit=ALL)
    while True:
        page = await scene.hf.store.load(scope, window)
        found += [entry.content for entry in page.entries]
        seqs += [entry.seq for entry in page.entries]
        if page.next is None:
            break
        window = Window(limit=ALL, after=page.next)
    if seqs != list(range(1, len(seqs) + 1)):
        tally.find(f"{key}: the entries are not numbered 1, 2, 3 and so on")
    return found


def _same(what: str, acknowledged: Sequence[str], found: Sequence[str], tally: Tally) -> None:
    wanted, there = Counter(acknowledged), Counter(found)
    lost = sum((wanted - there).values())
    doubled = sum((there - wanted).values())
    tally.lost += lost
    tally.partial += doubled
    if lost or doubled:
        tally.find(f"{what}: {lost} lost, {doubled} too many")


def _told(result: Result, seconds: float, tally: Tally) -> Outcome:
    writes, reads = result.writes_ms, result.reads_ms
    errors = Counter[str]()
    for report in result.reports:
        errors.update(report.errors)
    for error, count in errors.items():
        tally.find(f"{count} times: {error}")
    figures = {
        "seconds": seconds,
        "writes": len(writes),
        "reads": len(reads),
        "acknowledged": tally.acknowledged,
        "lost": tally.lost,
        "doubled": tally.partial,
        "errors": errors.total(),
        "write_p50_ms": _percentile(writes, 50),
        "write_p99_ms": _percentile(writes, 99),
        "longest_write_ms": _percentile(writes, 100),
        "read_p99_ms": _percentile(reads, 99),
        "longest_read_ms": _percentile(reads, 100),
        "slowest_share": result.slowest_share,
        "largest_log_mb": result.log_bytes / 1e6,
    }
    _judge(figures, tally)
    longest = max(figures["longest_write_ms"], figures["longest_read_ms"])
    line = (
        f"{len(result.parts)} processes, {len(writes)} writes and {len(reads)} reads in {seconds:.0f} s:"
        f" {errors.total()} errors, {tally.lost} lost, {tally.partial} doubled; p99 of a write"
        f" {figures['write_p99_ms']:.0f} ms, longest wait {longest:.0f} ms,"
        f" slowest process {figures['slowest_share']:.0%} of the mean"
    )
    return Outcome("processes", line, figures, tuple(tally.findings))


def _judge(figures: dict[str, float], tally: Tally) -> None:
    if figures["write_p99_ms"] > WRITE_P99_MS:
        tally.find(f"one write in a hundred took over {WRITE_P99_MS:.0f} ms")
    if max(figures["longest_write_ms"], figures["longest_read_ms"]) > LONGEST_MS:
        tally.find(f"somebody waited for over {LONGEST_MS:.0f} ms")
    if figures["slowest_share"] < FAIR_SHARE:
        tally.find(f"the slowest process did less than {FAIR_SHARE:.0%} of the mean")


def _percentile(ascending: Sequence[float], percent: int) -> float:
    if not ascending:
        return 0.0
    return ascending[min(len(ascending) - 1, len(ascending) * percent // 100)]
