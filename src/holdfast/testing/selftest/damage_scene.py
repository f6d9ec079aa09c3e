"""A small file with a bit of everything, and reading all of it through the store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from holdfast.memories.core import quantised
from holdfast.model.batch import Forget, Operation, Retire
from holdfast.model.entry import Reason
from holdfast.model.forget import Selector
from holdfast.model.origin import Origin
from holdfast.model.window import Window
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.clock import ManualClock
from holdfast.testing.making import Maker, in_bank, in_key, in_space, named

KEYS: Final = ("alice", "bob")
ENTRIES: Final = 560
WAITING: Final = 40
DIMENSIONS: Final = 32
WORDS: Final = tuple(f"{one}{other}" for one in ("tea", "run", "sea", "cat", "fog") for other in "abcdefghij")


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that was read, each record as a value."""

    records: frozenset[str]


async def make_file(path: Path, chance: Random) -> None:
    """Make the file: entries with metadata and vectors, past versions, documents, chores, and words in both forms."""
    clock = ManualClock()
    make = Maker(clock)
    store = await SqliteStore.open(path, clock=clock)

    def vector() -> list[float]:
        return [chance.uniform(-1, 1) for _ in range(DIMENSIONS)]

    ids: list[str] = []
    for start in range(0, ENTRIES + WAITING, 40):
        appends = [
            make.append(
                " ".join(chance.choices(WORDS, k=chance.randrange(4, 24))),
                key=KEYS[number % len(KEYS)],
                metadata={"number": number, "topic": "drink"},
                vectors=(quantised(vector()),),
                origin=Origin(channel="tool", method="stated", sources=(ids[0],))
                if number % 9 == 8 and ids
                else None,
            )
            for number in range(start, start + 40)
        ]
        await store.commit(make.batch(*appends))
        ids += [append.draft.id for append in appends]
    for number in range(0, 40, 2):
        await store.commit(make.batch(make.revise(ids[number], f"revised {chance.choice(WORDS)}")))
    await store.commit(make.batch(*(Retire(name, Reason.DELETED) for name in ids[41:61:2])))
    await store.commit(make.batch(Forget(Selector(ids=tuple(ids[101:104])))))
    for number in range(24):
        puts: list[Operation] = [make.put(name, {"text": f"{name} {number} " * 6}) for name in WORDS[:4]]
        await store.commit(make.batch(*puts))
    await store.commit(
        make.batch(
            *(make.enqueue(dedupe=f"work-{number}", payload={"number": number}) for number in range(20))
        )
    )
    await store.aclose()


async def read_all(path: Path) -> Seen:
    """Everything that is there, read as a user reads it: entries with their past, documents, changes, chores, words."""
    store = await SqliteStore.open(path, clock=ManualClock(), readonly=True)
    try:
        found = await _entries(store)
        found += [repr(one) for one in await store.documents(in_key(), "block")]
        for name in WORDS[:4]:
            one = await store.document(in_key(), named(name))
            found += [] if one is None else [repr(one)]
        for held in await store.documents(in_key(), "block"):
            found += [repr(version) for version in await store.document_versions(in_key(), held.id)]
        found += [repr(one) for one in await store.changes(in_space(), limit=1_000)]
        # How far a chore has come changes all the time and is not guarded; what it is about is.
        chores = await store.chores(in_space(), limit=1_000)
        found += [repr((one.id, one.place, one.kind, one.payload, one.dedupe)) for one in chores]
        # What a search counts may be short of something; what it returns are entries, which are read as above.
        await store.words(in_bank(), WORDS[:5])
        await store.nearest(in_key(), quantised([1.0] * DIMENSIONS), 5)
        return Seen(frozenset(found))
    finally:
        await store.aclose()


async def _entries(store: SqliteStore) -> list[str]:
    found: list[str] = []
    window = Window(limit=1_000)
    for key in KEYS:
        found += [repr(entry) for entry in (await store.load(in_key(key), window)).entries]
    for entry in (await store.load(in_key(), window)).entries[:40]:
        found += [repr(version) for version in await store.versions(in_key(), entry.id)]
    return found
