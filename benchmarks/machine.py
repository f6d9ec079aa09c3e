"""The machine: how fast its disk syncs and its memory copies, and how busy others keep it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Generic, TypeVar

import numpy as np

from benchmarks.figures import Section, median, print_section, quantile
from benchmarks.files import scratch

_BLOCK = b"\x5a" * 4_096
_COPIED = 256 << 20
QUIET = 0.12
"""What others may use of the machine in a round that counts."""

T = TypeVar("T")


def sync_times(count: int) -> list[float]:
    """How long an append of 4 KiB with fdatasync takes, again and again."""
    file = scratch() / "sync.tmp"
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    times: list[float] = []
    try:
        for _ in range(count):
            started = perf_counter()
            os.write(handle, _BLOCK)
            os.fdatasync(handle)
            times.append(perf_counter() - started)
    finally:
        os.close(handle)
        file.unlink()
    return times


def copy_rate() -> float:
    """Bytes a second that memory copies."""
    source = np.ones(_COPIED, dtype=np.uint8)
    target = np.zeros(_COPIED, dtype=np.uint8)
    times: list[float] = []
    for _ in range(7):
        started = perf_counter()
        np.copyto(target, source)
        times.append(perf_counter() - started)
    return _COPIED / min(times)


@dataclass(frozen=True)
class Watched(Generic[T]):
    """A result, and the share of the machine that other processes used while it was measured."""

    result: T
    others: float


def watched(run: Callable[[], T]) -> Watched[T]:
    """Run something and see what other processes do meanwhile."""
    busy, own, started = _busy(), _own(), perf_counter()
    result = run()
    taken = (_busy() - busy) - (_own() - own)
    return Watched(result, max(0.0, taken / ((perf_counter() - started) * (os.cpu_count() or 1))))


def quiet_rounds(run: Callable[[], T], wanted: int, most: int) -> tuple[list[T], float]:
    """As many quiet rounds as wanted, or after ``most`` rounds the quietest; and what others used at most in them."""
    rounds: list[Watched[T]] = []
    while len(rounds) < most and sum(one.others <= QUIET for one in rounds) < wanted:
        rounds.append(watched(run))
    kept = sorted(rounds, key=lambda one: one.others)[:wanted]
    return [one.result for one in kept], kept[-1].others


def settled(run: Callable[[], Section], most: int) -> Section:
    """The section of a quiet run, or of the quietest of ``most``; printed."""
    (found,), others = quiet_rounds(run, 1, most)
    found.others_cpu = others
    print_section(found)
    return found


def _busy() -> float:
    """Seconds of processor time that the machine has spent on anything, or that its host took away."""
    fields = Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _waiting, interrupts, soft, stolen = (int(field) for field in fields[:8])
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(syncs: int) -> Section:
    """The limits of this machine, to hold the other figures against."""
    found = Section("The machine")
    times = sync_times(syncs)
    found.tell("fdatasync of a 4 KiB append, a second", len(times) / sum(times), "/s")
    found.tell("fdatasync of a 4 KiB append, p50", median(times) * 1e3, "ms")
    found.tell("fdatasync of a 4 KiB append, p95", quantile(times, 0.95) * 1e3, "ms")
    found.tell("memory copied", copy_rate() / 1e9, "GB/s")
    return found
