"""Carrying a script out on a memory, and looking at what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from holdfast.memories.bank import StoredBank
from holdfast.memories.core import Core, quantised
from holdfast.memories.duties import Duties
from holdfast.memories.local import LocalHoldfast
from holdfast.model.bank import NewEntry
from holdfast.model.entry import Entry, Quantised
from holdfast.model.scope import Scope
from holdfast.model.window import Window
from holdfast.ports.store import Store
from holdfast.providers.system import SystemClock, SystemRandom
from holdfast.rules.words import index_terms
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.tuning import PROMISED, Tuning
from holdfast.testing.selftest.script import (
    DIMENSIONS,
    FIGURES,
    WORDS,
    Add,
    Forget,
    Lane,
    SetValue,
    State,
    Step,
    Update,
    vector_of,
)

BANK: Final = "selftest"
SPACE: Final = "default"
ALL: Final = 1_000
PROBE: Final = [1.0] * DIMENSIONS
TERMS: Final = sorted({term for word in (*WORDS, *FIGURES) for term in index_terms(word)})


@dataclass(frozen=True, slots=True)
class Scene:
    """An open memory and the bank that scripts write to."""

    hf: LocalHoldfast
    bank: StoredBank


async def opened(
    path: Path,
    *,
    vfs: str | None = None,
    tuning: Tuning = PROMISED,
    through: Callable[[Store], Store] | None = None,
) -> LocalHoldfast:
    """A memory as ``holdfast.open`` makes it, on a disk and with settings of one's own; ``through`` wraps its store."""
    clock = SystemClock()
    store: Store = await SqliteStore.open(path, clock=clock, vfs=vfs, tuning=tuning)
    core = Core(store if through is None else through(store), clock, SystemRandom())
    return LocalHoldfast(core, Duties(core))


async def set_up(hf: LocalHoldfast) -> Scene:
    """The bank, made when it is missing."""
    return Scene(hf, await hf.banks.ensure(BANK, kind="general", dedupe="off"))


class Player:
    """Carries out the steps of one lane."""

    __slots__ = ("_ids", "_scene", "lane")

    def __init__(self, scene: Scene, lane: Lane) -> None:
        self._scene = scene
        self._ids: dict[int, str] = {}
        self.lane = lane

    async def catch_up(self) -> None:
        """Learn the ids of the entries that are there."""
        self._ids = {entry.seq: entry.id for entry in await entries_of(self._scene, self.lane)}

    async def play(self, number: int) -> None:
        """Carry out one step."""
        await self._take(self.lane.step(number))

    async def _take(self, step: Step) -> None:
        bank, hf, key = self._scene.bank, self._scene.hf, self.lane.key
        match step:
            case Add(contents=(content,)):
                one = await bank.add(content, key=key, vector=vector_of(content))
                self._ids[one.seq] = one.id
            case Add(contents=contents):
                new = [NewEntry(content, key, vector=vector_of(content)) for content in contents]
                self._ids.update((each.seq, each.id) for each in await bank.add_many(new))
            case Update(seq=seq, content=content):
                await bank.update(self._ids[seq], content=content, vector=vector_of(content))
            case SetValue(value=value):
                await hf.values.set(key, value)
            case Forget(seq=seq):
                await hf.forget(bank=BANK, ids=[self._ids[seq]])


async def entries_of(scene: Scene, lane: Lane) -> list[Entry]:
    """All entries of a lane, in the order of their seqs."""
    scope = Scope(SPACE, scene.bank.id, lane.key)
    found: list[Entry] = []
    window = Window(limit=ALL)
    while True:
        page = await scene.hf.store.load(scope, window)
        found += page.entries
        if page.next is None:
            return found
        window = Window(limit=ALL, after=page.next)


@dataclass(frozen=True, slots=True)
class Look:
    """What a lane holds, and where its indexes do not agree with its entries."""

    state: State
    disagreements: tuple[str, ...]


async def look(scene: Scene, lane: Lane) -> Look:
    """Read everything that a lane holds, words and vectors included."""
    entries = await entries_of(scene, lane)
    store, scope = scene.hf.store, Scope(SPACE, scene.bank.id, lane.key)
    state = State(
        tuple((entry.seq, entry.version, entry.content) for entry in entries),
        cast("int | None", await scene.hf.values.get(lane.key)),
        await store.head(scope),
    )
    rows = await store.eligible(scope, Window(limit=ALL))
    if len(rows) != len(entries):
        return Look(state, (f"{lane.key}: {len(rows)} rows for {len(entries)} entries",))
    return Look(
        state,
        (
            *await _words_that_differ(store, scope, lane, rows, entries),
            *await _vectors_that_differ(store, scope, lane, rows, entries),
        ),
    )


async def _words_that_differ(
    store: Store, scope: Scope, lane: Lane, rows: Sequence[int], entries: Sequence[Entry]
) -> list[str]:
    stats = await store.words(scope, TERMS)
    expected: dict[str, list[tuple[int, int]]] = {term: [] for term in TERMS}
    for row, entry in zip(rows, entries, strict=True):
        for term, frequency in index_terms(entry.content).items():
            if term in expected:
                expected[term].append((row, frequency))
    wrong = [
        term
        for term, postings in stats.postings.items()
        if list(zip(postings.rows, postings.frequencies, strict=True)) != expected[term]
    ]
    return [f"{lane.key}: the word index disagrees about {', '.join(wrong)}"] if wrong else []


async def _vectors_that_differ(
    store: Store, scope: Scope, lane: Lane, rows: Sequence[int], entries: Sequence[Entry]
) -> list[str]:
    if not entries:
        return []
    probe = quantised(PROBE)
    found = dict(await store.nearest(scope, probe, len(entries) + 1))
    expected = {
        row: similarity(probe, quantised(vector_of(entry.content)))
        for row, entry in zip(rows, entries, strict=True)
    }
    if found.keys() == expected.keys() and all(abs(found[row] - expected[row]) < 1e-6 for row in found):
        return []
    return [f"{lane.key}: the vectors are not those of the entries"]


def similarity(one: Quantised, other: Quantised) -> float:
    """The dot product of two stored vectors."""
    pairs = zip(memoryview(one.data).cast("b"), memoryview(other.data).cast("b"), strict=True)
    return one.scale * other.scale * sum(a * b for a, b in pairs)
