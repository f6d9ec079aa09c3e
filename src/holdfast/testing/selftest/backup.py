"""Backing up while others write: each backup, restored, is the memory as it was at one moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.memories.local import LocalHoldfast
from holdfast.model.batch import Append, Batch, Operation, Put
from holdfast.model.document import DocumentRef
from holdfast.model.entry import Draft
from holdfast.model.ids import IdMaker
from holdfast.model.scope import Place, Scope
from holdfast.model.window import Window
from holdfast.ports.store import Store
from holdfast.providers.system import SystemClock, SystemRandom
from holdfast.stores.sqlite.restoring import Order, Restoring
from holdfast.testing.selftest.outcome import Outcome, Progress, Tally, quiet
from holdfast.testing.selftest.scene import opened

WRITERS: Final = 4
A_FILE: Final = 20
"""So many backups are made of one file, which grows meanwhile."""
PAUSE: Final = 0.002
SPACE: Final = "selftest"
BANK: Final = "notes"
ALL: Final = 10_000
SLOW_MS: Final = 5_000.0


@dataclass(slots=True)
class Writer:
    """Writes batch after batch: two entries in places of different banks and the number of the batch as a document."""

    number: int
    store: Store
    make_id: IdMaker
    acknowledged: int = 0
    waits: list[float] = field(default_factory=list[float])

    @property
    def key(self) -> str:
        """Where it writes."""
        return f"writer-{self.number}"

    async def write(self) -> None:
        """Write the next batch."""
        number = self.acknowledged + 1
        now_us = SystemClock().now_us()
        ref = DocumentRef(BANK, self.key, "working", "count")
        operations: list[Operation] = [Put(ref, self.make_id(0), number)]
        for bank in (BANK, f"{BANK}-{self.number}"):
            draft = Draft(id=self.make_id(0), content=f"{self.key} wrote {number}", created_us=now_us)
            operations.append(Append(Place(bank, self.key), draft))
        began = time.perf_counter()
        await self.store.commit(Batch(SPACE, self.make_id(0), now_us, tuple(operations)))
        self.waits.append(time.perf_counter() - began)
        self.acknowledged = number


def backup_test(folder: Path, n: int = 100, *, seed: int = 0, progress: Progress = quiet) -> Outcome:
    """Make ``n`` backups under write load, restore each and compare. Blocks; not for a running event loop.

    The seed is that of the order of things only: what is written does not depend on it.
    """
    began = time.perf_counter()
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    test = _Backups(folder, Tally(), progress, n)
    while test.done < n:
        asyncio.run(test.one_file(folder / f"memory-{seed}-{test.done}.db"))
    seconds = time.perf_counter() - began
    tally, waits = test.tally, sorted(test.waits)
    longest = waits[-1] * 1000 if waits else 0.0
    if longest > SLOW_MS:
        tally.find(f"a writer waited for {longest:.0f} ms")
    figures = {
        "backups": test.done,
        "acknowledged": tally.acknowledged,
        "lost": tally.lost,
        "partial": tally.partial,
        "longest_write_ms": longest,
        "write_p50_ms": waits[len(waits) // 2] * 1000 if waits else 0.0,
        "slowest_backup_ms": max(test.took, default=0.0) * 1000,
        "largest_mb": test.largest / 1e6,
    }
    line = (
        f"{test.done} backups restored, {tally.acknowledged} acknowledged batches written meanwhile: {tally.lost} lost,"
        f" {tally.partial} partial; longest write {longest:.0f} ms, slowest backup"
        f" {figures['slowest_backup_ms']:.0f} ms of {figures['largest_mb']:.1f} MB, {seconds:.0f} s in all"
    )
    return Outcome("backup", line, figures, tuple(tally.findings))


@dataclass(slots=True)
class _Backups:
    folder: Path
    tally: Tally
    progress: Progress
    wanted: int
    done: int = 0
    largest: int = 0
    took: list[float] = field(default_factory=list[float])
    waits: list[float] = field(default_factory=list[float])

    async def one_file(self, path: Path) -> None:
        """Write to one file through two handles, and back it up again and again."""
        handles = [await opened(path), await opened(path)]
        make_id = IdMaker(SystemClock().now_us, SystemRandom())
        writers = [Writer(number, handles[number % 2].store, make_id) for number in range(WRITERS)]
        over = asyncio.Event()
        writing = [asyncio.create_task(_write_on(writer, over)) for writer in writers]
        try:
            for _ in range(min(A_FILE, self.wanted - self.done)):
                await asyncio.sleep(PAUSE)
                await self._one(handles[0], writers, self.folder / "restored" / path.name)
        finally:
            over.set()
            await asyncio.gather(*writing)
            for handle in handles:
                await handle.aclose()
            self.tally.acknowledged += sum(writer.acknowledged for writer in writers)
            for writer in writers:
                self.waits += writer.waits

    async def _one(self, hf: LocalHoldfast, writers: Sequence[Writer], restored: Path) -> None:
        before = [writer.acknowledged for writer in writers]
        backup = self.folder / f"backup-{self.done}.db"
        restored.parent.mkdir(exist_ok=True)
        began = time.perf_counter()
        made = await hf.store.backup(str(backup))
        self.took.append(time.perf_counter() - began)
        self.largest = max(self.largest, made.bytes)
        try:
            order = Order(backup=backup, to=restored, discard=True)
            await asyncio.to_thread(Restoring(order, SystemClock(), SystemRandom()).run)
            await self._compare(restored, hf.store, writers, before)
        except HoldfastError as error:
            self.tally.lost += sum(before)
            self.tally.find(f"backup {self.done} cannot be restored: {error}")
        await hf.store.drop_backup(str(backup))
        self.done += 1
        self.progress(self.done, self.wanted)

    async def _compare(
        self, path: Path, live: Store, writers: Sequence[Writer], before: Sequence[int]
    ) -> None:
        """One moment: the journal is the beginning of the live one, and everything is as it says."""
        copy = await opened(path)
        try:
            store = copy.store
            report = await store.check()
            for finding in report.findings:
                self.tally.find(f"check: {finding.where}: {finding.what}")
            changes = await _journal(store)
            if changes != (await _journal(live))[: len(changes)]:
                self.tally.find(f"backup {self.done} is not the memory of any moment")
            counts = [await self._count(store, writer) for writer in writers]
            for writer, count, least in zip(writers, counts, before, strict=True):
                if count < least:
                    self.tally.lost += least - count
                    self.tally.find(f"{writer.key}: {least - count} batches acknowledged before are missing")
            if sum(counts) != len(changes):
                self.tally.partial += 1
                self.tally.find(f"{sum(counts)} batches are there, the journal tells of {len(changes)}")
        finally:
            await copy.aclose()

    async def _count(self, store: Store, writer: Writer) -> int:
        """How many batches of a writer are there; each whole."""
        ref = DocumentRef(BANK, writer.key, "working", "count")
        document = await store.document(Scope(SPACE), ref)
        count = document.value if document is not None and isinstance(document.value, int) else 0
        wanted = [f"{writer.key} wrote {number}" for number in range(1, count + 1)]
        for bank in (BANK, f"{BANK}-{writer.number}"):
            page = await store.load(Scope(SPACE, bank, writer.key), Window(limit=ALL))
            if [entry.content for entry in page.entries] != wanted:
                self.tally.partial += 1
                self.tally.find(f"{writer.key}: {len(page.entries)} entries in {bank}, {count} batches")
        return count


async def _write_on(writer: Writer, over: asyncio.Event) -> None:
    while not over.is_set():
        await writer.write()
        await asyncio.sleep(PAUSE)


async def _journal(store: Store) -> list[str]:
    """The ids of all changes, in order."""
    found: list[str] = []
    after = 0
    while page := await store.changes(Scope(SPACE), after=after, limit=ALL):
        found += [change.id for change in page]
        after = page[-1].cursor
    return found
