"""C: 1,000,000 entries in one bank: reading, adding, opening, and what the file is made of.

The file is built through the face once and kept below ``work``, until the schema or the material changes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path
from time import perf_counter
from typing import cast

import holdfast
from benchmarks import files, fresh_process, machine, material
from benchmarks.figures import WORK, Section, median, quantile
from benchmarks.material import Material
from benchmarks.one_caller import timed
from holdfast.stores.sqlite.db import open_connection

FULL = 1_000_000
SMALL = 10_000
BATCH = 2_000
BLOCKS = 20
ATTEMPTS = 4
LAST = 50
SEED = 7
VERSION = "1"


@dataclass(frozen=True)
class Sizes:
    """How much is measured; the defaults are those of the targets."""

    entries: int = FULL
    adds: int = 20_000
    adds_to_small: int = 2_000
    loads: int = 1_500


async def fill(bank: holdfast.Bank, source: Material, keys: Sequence[str], *, tells: bool = False) -> None:
    """Add an entry for each key, batch by batch."""
    started = perf_counter()
    for start in range(0, len(keys), BATCH):
        await bank.add_many(list(source.light_entries(keys[start : start + BATCH])))
        done = start + BATCH
        if tells and done % 100_000 == 0:
            print(f"  built {done:,}: {done / (perf_counter() - started):,.0f} rows/s", flush=True)


def built(keys: Sequence[str]) -> tuple[Path, float]:
    """The file that holds an entry for each key, and how many rows a second it was built with."""
    schema = resources("holdfast.stores.sqlite").joinpath("schema.sql").read_bytes()
    mark = hashlib.sha256(schema + VERSION.encode()).hexdigest()[:8]
    file = WORK / f"{len(keys)}-{mark}.db"
    note = file.with_suffix(".json")
    if not note.exists():
        WORK.mkdir(exist_ok=True)
        for old in WORK.glob(f"{len(keys)}-*"):
            old.unlink()
        making = files.scratch() / file.name
        files.make(making, [])
        started = perf_counter()
        files.using(making, lambda _, bank: fill(bank, Material(SEED), keys, tells=True))
        rate = len(keys) / (perf_counter() - started)
        files.settle(making)
        making.rename(file)
        note.write_text(json.dumps(rate), "ascii")
    return file, json.loads(note.read_text("ascii"))


def measure_file(file: Path, entries: int, rate: float) -> Section:
    """What the file is made of."""
    found = Section("C. The file, by table and index")
    found.tell("built with bank.add_many (when it was built)", rate, "rows/s")
    connection = open_connection(str(file), readonly=False, vfs=None)
    whole = file.stat().st_size
    found.tell("size", whole / 1e6, "MB")
    found.tell("size an entry", whole / entries, "bytes")
    rows = connection.execute(
        "select name, sum(pgsize) from dbstat where aggregate=true group by name order by 2 desc"
    )
    for name, size in cast("list[tuple[str, int]]", rows.fetchall()):
        if size >= whole / 1_000:
            found.tell(f"  {name}", size / 1e6, "MB")
    connection.close()
    return found


def measure_opening(file: Path, runs: int = 7) -> Section:
    """Importing and opening, in fresh processes."""
    found = Section(f"C. Fresh processes ({runs} of each, the middle one)")
    fresh_process.measure_import(found, runs)
    fresh_process.measure_open(found, file, runs)
    return found


def measure_loads(file: Path, keys: list[list[str]], loads: int) -> Section:
    """The last 50 entries of keys at random, as many of each class; the OS holds the file."""
    _read_through(file)
    found = Section(f"C. The last {LAST} of a key: {loads:,} loads of each class")

    async def run(_: holdfast.LocalHoldfast, bank: holdfast.Bank) -> list[list[float]]:
        await bank.load(key=keys[0][0], limit=LAST)
        drawn = [Material(SEED).drawn(names, loads) for names in keys]
        mixed = [(at, name) for turn in zip(*drawn, strict=True) for at, name in enumerate(turn)]
        times: list[list[float]] = [[] for _ in keys]
        for at, name in mixed:
            started = perf_counter()
            page = await bank.load(key=name, limit=LAST)
            times[at].append(perf_counter() - started)
            assert len(page.entries) <= LAST
        return times

    times = files.using(file, run)
    flat = [one for some in times for one in some]
    found.at_most("load: p50", median(flat) * 1e3, 0.3, "ms")
    found.at_most("load: p99", quantile(flat, 0.99) * 1e3, 1.5, "ms")
    for (_, size), some in zip(material.CLASSES, times, strict=True):
        found.tell(f"  keys of {size:,}: p50", median(some) * 1e3, "ms")
        found.tell(f"  keys of {size:,}: p99", quantile(some, 0.99) * 1e3, "ms")
    return found


def _read_through(file: Path) -> None:
    with file.open("rb") as stream:
        while stream.read(1 << 24):
            pass


@dataclass
class AddTimes:
    """The seconds of adds: the first of each key to the large bank, then those that count; those to the small bank."""

    first: list[float]
    large: list[float]
    small: list[float]


async def add_in_turn(large: Path, small: Path, keys: Sequence[str], sizes: Sizes) -> AddTimes:
    """Blocks of adds to the large and the small bank in turn, so that a busy machine is busy for both."""
    source = Material(SEED + 1)
    names = sorted(set(keys))
    few = list(keys[:SMALL])
    files.remove(small)
    async with holdfast.open(large) as many_hf, holdfast.open(small) as few_hf:
        many_bank = await many_hf.banks.get(files.BANK)
        few_bank = await few_hf.banks.create(files.BANK, kind="general", dedupe="off")
        await fill(few_bank, source, few)
        found = AddTimes(await timed(many_bank, source.entries(names)), [], [])
        for _ in range(BLOCKS):
            block = source.entries(source.drawn(keys, sizes.adds // BLOCKS))
            found.large += await timed(many_bank, block)
            block = source.entries(source.drawn(few, sizes.adds_to_small // BLOCKS))
            found.small += await timed(few_bank, block)
    return found


def measure_adds(file: Path, keys: Sequence[str], sizes: Sizes) -> Section:
    """Adds to a copy of the large bank, after one to each key: the writer knows them all by then."""
    copy = files.copied(file, "large-run.db")
    small = files.scratch() / "small-run.db"
    title = f"C. One caller: {sizes.adds:,} adds to the bank, in turn with {sizes.adds_to_small:,} to one of {SMALL:,}"
    found = Section(title)
    times = asyncio.run(add_in_turn(copy, small, keys, sizes))
    found.tell(f"add at {SMALL:,}: p50", median(times.small) * 1e3, "ms")
    found.tell(f"add at {len(keys):,}: p50", median(times.large) * 1e3, "ms")
    found.at_most("p50 of both, ratio", median(times.large) / median(times.small), 1.5, "")
    found.at_most("add: p99", quantile(times.large, 0.99) * 1e3, 10, "ms")
    found.at_most("add: longest", max(times.large) * 1e3, 100, "ms")
    found.tell("first add to a key: p50", median(times.first) * 1e3, "ms")
    found.tell("first add to a key: p99", quantile(times.first, 0.99) * 1e3, "ms")
    found.tell("first add to a key: longest", max(times.first) * 1e3, "ms")
    files.remove(copy)
    files.remove(small)
    return found


def measure(sizes: Sizes) -> list[Section]:
    """Build what is missing, then all of C."""
    keys = material.arrival(SEED)[: sizes.entries]
    file, rate = built(keys)
    held = set(keys)
    classes = [[name for name in names if name in held] for names in material.class_keys()]
    runs: list[Callable[[], Section]] = [
        lambda: measure_loads(file, classes, sizes.loads),
        lambda: measure_opening(file),
        lambda: measure_adds(file, keys, sizes),
        lambda: measure_file(file, sizes.entries, rate),
    ]
    return [machine.settled(run, ATTEMPTS) for run in runs]
