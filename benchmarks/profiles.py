"""Where the time goes: ``python -m benchmarks.profiles one|own|random [--batches]``.

Two runs: one with the time of every statement and the processor time of every thread, one under cProfile, which makes
small functions look dearer than they are.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import apsw

import holdfast
from benchmarks import files, many_callers, one_caller
from benchmarks.many_callers import CALLERS, Plan

Run = Callable[[holdfast.Bank], Coroutine[Any, Any, object]]
_WRITER = "holdfast-writer"


@dataclass
class Statements:
    """Seconds and runs of each statement of the writer."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    runs: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    connections: list[apsw.Connection] = field(default_factory=list[apsw.Connection])

    def watch(self, connection: apsw.Connection) -> None:
        """Time what a connection of the writer runs."""
        if threading.current_thread().name == _WRITER:
            self.connections.append(connection)
            # As Any: the driver's stub leaves open what the event holds.
            cast("Any", connection).trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note)

    def _note(self, event: dict[str, Any]) -> None:
        statement = cast("str", event["sql"])[:60]
        self.seconds[statement] += event["nanoseconds"] / 1e9
        self.runs[statement] += 1

    def pages_written(self) -> int:
        """Pages that went into the log."""
        return sum(one.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0] for one in self.connections)

    def forget(self) -> None:
        """Start anew."""
        self.seconds.clear()
        self.runs.clear()


def thread_times() -> dict[str, tuple[float, float]]:
    """Seconds that each thread ran, and that it was ready but another ran in its place."""
    found: dict[str, tuple[float, float]] = {}
    for thread in threading.enumerate():
        fields = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text("ascii").split()
        found[thread.name] = int(fields[0]) / 1e9, int(fields[1]) / 1e9
    return found


@contextmanager
def writer_profiled() -> Generator[list[cProfile.Profile]]:
    """Profile the writer thread that starts meanwhile."""
    made: list[cProfile.Profile] = []

    def begin(*_: object) -> None:
        if threading.current_thread().name == _WRITER:
            made.append(cProfile.Profile())
            made[-1].enable()

    threading.setprofile(begin)
    try:
        yield made
    finally:
        threading.setprofile(None)


def tell_statements(file: Path, plan: Plan, run: Run) -> None:
    """The run with the times of statements and threads."""
    found = Statements()
    apsw.connection_hooks.append(found.watch)

    async def timed(_: holdfast.LocalHoldfast, bank: holdfast.Bank) -> None:
        await many_callers.touch(bank, plan)
        found.forget()
        pages, before, started = found.pages_written(), thread_times(), perf_counter()
        await run(bank)
        took, after = perf_counter() - started, thread_times()
        pages = found.pages_written() - pages
        count, commits = len(plan.entries), found.runs["commit"]
        print(
            f"{count:,} entries, {count / took:,.0f}/s, {commits:,} transactions, {pages / commits:.1f} pages each"
        )
        for name, (ran, waited) in after.items():
            ran_before, waited_before = before.get(name, (0.0, 0.0))
            busy, kept = ran - ran_before, waited - waited_before
            print(
                f"  {name:22} on a core {busy / took:4.0%} of the time, {busy / count * 1e6:6.1f} us an entry;"
                f" waiting for a core {kept / took:4.0%}"
            )
        for statement, seconds in sorted(found.seconds.items(), key=lambda item: -item[1])[:14]:
            print(f"  {seconds / count * 1e6:7.1f} us an entry  {found.runs[statement]:7,} x  {statement}")

    files.using(file, timed)
    apsw.connection_hooks.remove(found.watch)


def tell_functions(file: Path, plan: Plan, run: Run, lines: int) -> None:
    """The run under cProfile."""
    loop = cProfile.Profile()

    async def profiled(_: holdfast.LocalHoldfast, bank: holdfast.Bank) -> None:
        await many_callers.touch(bank, plan)
        loop.enable()
        await run(bank)
        loop.disable()

    with writer_profiled() as writers:
        files.using(file, profiled)
    for title, profile in (("event loop", loop), *(("writer", one) for one in writers)):
        print(f"\n--- {title}")
        pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(lines)


def run_of(plan: Plan, callers: int, *, batches: bool) -> Run:
    """What is profiled."""

    async def alone(bank: holdfast.Bank) -> object:
        return await one_caller.timed(bank, plan.entries)

    async def together(bank: holdfast.Bank) -> object:
        return await many_callers.call_all(bank, plan.entries)

    async def batched(bank: holdfast.Bank) -> object:
        await many_callers.add_batches(bank, plan.entries)
        return None

    return batched if batches else alone if callers == 1 else together


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiles", description=__doc__)
    parser.add_argument("what", choices=("one", "own", "random"))
    parser.add_argument("--batches", action="store_true", help="batches of 1,000 instead of callers")
    parser.add_argument("--count", type=int, default=6_400)
    parser.add_argument("--lines", type=int, default=30)
    chosen = parser.parse_args(arguments)
    make = many_callers.random_keys if chosen.what == "random" else many_callers.own_keys
    plan = make(chosen.count, seed=4)
    run = run_of(plan, 1 if chosen.what == "one" else CALLERS, batches=chosen.batches)
    with files.machine_alone():
        tell_statements(many_callers.on_a_copy(plan).base, plan, run)
        tell_functions(many_callers.on_a_copy(plan).base, plan, run, chosen.lines)


if __name__ == "__main__":
    main()
