"""Damaging a file at random bytes: what changed is found, what is read is right or refused, a repair keeps the rest."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.ports.store import CheckReport
from holdfast.stores.sqlite.checking import check_file
from holdfast.stores.sqlite.repair import read_salvage, repair_file
from holdfast.testing.selftest.damage_oracle import KINDS, State, pages_by_kind, records_by_page, state_of
from holdfast.testing.selftest.damage_scene import Seen, make_file, read_all
from holdfast.testing.selftest.outcome import Outcome, Progress, Tally, quiet

AIMS: Final = (*KINDS, "any")
SIZES: Final = (1, 2, 4, 8, 16, 32, 64)
TRIES: Final = 20
NEEDED: Final = 0.999
JUDGED: Final = ("entries", "documents", "journal", "vectors", "words")
Check = Callable[[Path], CheckReport]


@dataclass(slots=True)
class Count:
    """What was counted over all damaged files."""

    changed: Counter[str] = field(default_factory=Counter[str])
    found: Counter[str] = field(default_factory=Counter[str])
    harmless: int = 0
    on_read: int = 0
    short: int = 0
    lost: int = 0
    missed: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Original:
    """The file before any damage."""

    data: bytes
    state: State
    seen: Seen
    aims: dict[str, list[int]]
    records: dict[int, set[tuple[str, object]]]
    page_size: int


def damage_test(
    folder: Path, n: int = 1000, *, seed: int = 0, progress: Progress = quiet, check: Check = check_file
) -> Outcome:
    """Damage ``n`` copies of a file at 1 to 64 bytes each. Blocks; not for a running event loop.

    Every kind of record is aimed at in turn, so that each is hit often enough to say something of it. ``check`` is what
    has to find the damage.
    """
    began = time.perf_counter()
    tally, count = Tally(), Count()
    chance = Random(f"damage/{seed}")
    with asyncio.Runner() as runner:
        original = _original(runner, folder / "original", chance)
        for number in range(n):
            place = folder / "damaged"
            place.mkdir(parents=True)
            aim = AIMS[number % len(AIMS)]
            data, hit = _damaged(original, aim, chance)
            path = place / "memory.db"
            path.write_bytes(data)
            _examine(runner, path, original, hit, count, tally, check)
            shutil.rmtree(place)
            progress(number + 1, n)
    shutil.rmtree(folder / "original")
    return _outcome(n, count, tally, (time.perf_counter() - began) * 1000 / max(1, n))


def _original(runner: asyncio.Runner, folder: Path, chance: Random) -> Original:
    folder.mkdir(parents=True)
    path = folder / "memory.db"
    runner.run(make_file(path, chance))
    data = path.read_bytes()
    seen = runner.run(read_all(path))
    state = state_of(path)
    return Original(data, state, seen, pages_by_kind(path), records_by_page(path), state.page_size)


def _damaged(original: Original, aim: str, chance: Random) -> tuple[bytes, set[int]]:
    """The bytes of a damaged copy, and the pages that were hit."""
    size = chance.choice(SIZES)
    if aim == "any":
        at = chance.randrange(len(original.data) - size)
    else:
        page = chance.choice(original.aims[aim])
        at = (page - 1) * original.page_size + _used_place(original, page, size, chance)
    data = bytearray(original.data)
    data[at : at + size] = chance.randbytes(size)
    first, last = at // original.page_size + 1, (at + size - 1) // original.page_size + 1
    return bytes(data), {first, last}


def _used_place(original: Original, page: int, size: int, chance: Random) -> int:
    """A place in a page where something stands, as far as a few tries find one: what is free changes nothing."""
    start, at = (page - 1) * original.page_size, 0
    for _ in range(TRIES):
        at = chance.randrange(original.page_size - size)
        if any(original.data[start + at : start + at + size]):
            break
    return at


def _examine(
    runner: asyncio.Runner,
    path: Path,
    original: Original,
    hit: set[int],
    count: Count,
    tally: Tally,
    check: Check,
) -> None:
    at = f"page {min(hit)}"
    try:
        findings = bool(check(path).findings)
    except HoldfastError:
        findings = True
    changed = state_of(path).differing(original.state)
    for kind in changed:
        count.changed[kind] += 1
        count.found[kind] += findings
    count.harmless += not changed
    if changed and not findings:
        count.missed.append(f"{', '.join(sorted(changed))} changed at {at}, and no check found it")
    _compare_read(runner, path, original, count, tally, at)
    _compare_repair(path, original, hit, count, tally, at)


def _compare_read(
    runner: asyncio.Runner, path: Path, original: Original, count: Count, tally: Tally, at: str
) -> None:
    try:
        seen = runner.run(read_all(path))
    except HoldfastError:
        count.on_read += 1
        return
    if wrong := seen.records - original.seen.records:
        tally.find(f"{at}: a read gave what was never written: {min(map(str, wrong))[:100]}")
    count.short += seen.records != original.seen.records


def _compare_repair(
    path: Path, original: Original, hit: set[int], count: Count, tally: Tally, at: str
) -> None:
    target = path.with_name("repaired.db")
    try:
        repair_file(path, target)
    except HoldfastError as error:
        tally.find(f"{at}: not repaired: {error}")
        return
    for finding in check_file(target).findings[:3]:
        tally.find(f"{at}: repaired, and not whole: {finding.where}: {finding.what}")
    salvage = read_salvage(target)
    risked = set[tuple[str, object]]().union(*(original.records.get(page, set()) for page in hit))
    everything = set[tuple[str, object]]().union(*original.records.values())
    for table, name in everything - risked:
        if table not in ("tail", "pages", "vectors") and name not in salvage.rows[table]:
            tally.find(f"{at}: the repair lost {table} {name!r}, which was not hit")
    count.lost += sum(name not in salvage.rows[table] for table, name in risked if table == "entries")


def _outcome(n: int, count: Count, tally: Tally, ms: float) -> Outcome:
    judged = sum(count.changed[kind] for kind in JUDGED)
    found = sum(count.found[kind] for kind in JUDGED)
    if judged and found < judged * NEEDED:
        for missed in count.missed:
            tally.find(missed)
    parts = ", ".join(f"{kind} {count.found[kind]}/{count.changed[kind]}" for kind in KINDS)
    line = (
        f"{n} damaged files, aimed at each kind in turn; damages found of those that changed it: {parts};"
        f" {count.harmless} changed nothing; {count.on_read} refused on read, {count.short} read short of something,"
        f" 0 read wrong; repairs lost {count.lost} of the entries that were hit and none besides"
        if tally.findings == []
        else f"{n} damaged files: found {parts}"
    )
    figures: dict[str, float] = {
        "files": n,
        "harmless": count.harmless,
        "on_read": count.on_read,
        "short": count.short,
    }
    for kind in KINDS:
        figures[f"changed_{kind}"], figures[f"found_{kind}"] = count.changed[kind], count.found[kind]
    return Outcome(
        "damage", line, {**figures, "missed": len(count.missed), "ms_a_file": ms}, tuple(tally.findings)
    )
