"""What every part of the suite stands on: a clock, a store and a bench to work at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Unpack

import pytest

from holdfast.errors import HoldfastError
from holdfast.model.batch import Commit, Forget, Operation, Placed
from holdfast.model.chore import Chore
from holdfast.model.document import Document, DocumentRef
from holdfast.model.entry import Entry, Quantised
from holdfast.model.forget import Receipt, Selector
from holdfast.model.journal import Step
from holdfast.model.scope import Scope
from holdfast.model.values import JsonValue
from holdfast.model.window import Window
from holdfast.ports.store import Store
from holdfast.testing.clock import ManualClock
from holdfast.testing.making import (
    BANK,
    KEY,
    OTHER_BANK,
    SPACE,
    BatchFields,
    DraftFields,
    Maker,
    PutFields,
    in_bank,
    in_key,
    in_space,
    named,
)

ALL: Final = Window(limit=10_000)
LEASE_US: Final = 60_000_000


@dataclass(frozen=True, slots=True)
class Picture:
    """All that the usual reads tell about one space: two equal pictures mean that nothing was written between."""

    parts: tuple[object, ...]


class Bench:
    """A store with a clock and a maker at hand, and short ways to write and to look."""

    __slots__ = ("clock", "make", "store")

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.make = Maker(clock)

    async def commit(
        self, *operations: Operation, space: str = SPACE, **fields: Unpack[BatchFields]
    ) -> Commit:
        """Commit operations as one batch."""
        return await self.store.commit(self.make.batch(*operations, space=space, **fields))

    async def refused(
        self,
        error: type[HoldfastError],
        *operations: Operation,
        space: str = SPACE,
        **fields: Unpack[BatchFields],
    ) -> None:
        """Commit operations, see exactly this error, and see that nothing at all was written."""
        before = await self.picture(space)
        with pytest.raises(error) as caught:
            await self.commit(*operations, space=space, **fields)
        assert caught.value.code == error.default_code
        assert await self.picture(space) == before

    async def add(
        self,
        content: str = "tea",
        *,
        key: str = KEY,
        bank: str = BANK,
        space: str = SPACE,
        digest: bytes | None = None,
        created_us: int | None = None,
        **fields: Unpack[DraftFields],
    ) -> str:
        """Append one entry in a batch of its own; its id."""
        operation = self.make.append(
            content, key=key, bank=bank, digest=digest, created_us=created_us, **fields
        )
        return (await self.commit(operation, space=space)).placed[0].id

    async def add_all(
        self, *contents: str, key: str = KEY, bank: str = BANK, space: str = SPACE
    ) -> list[str]:
        """Append entries in one batch; their ids."""
        operations = [self.make.append(content, key=key, bank=bank) for content in contents]
        return [placed.id for placed in (await self.commit(*operations, space=space)).placed]

    async def put(
        self,
        ref: DocumentRef | str,
        value: JsonValue = "on",
        *,
        space: str = SPACE,
        **fields: Unpack[PutFields],
    ) -> Placed:
        """Put one document in a batch of its own."""
        return (await self.commit(self.make.put(ref, value, **fields), space=space)).placed[0]

    async def forget(self, selector: Selector, *, space: str = SPACE, by: str | None = None) -> Receipt:
        """Forget in a batch of its own; the receipt."""
        return (await self.commit(Forget(selector, by=by), space=space)).receipts[0]

    async def enqueue(
        self,
        kind: str = "extract",
        *,
        key: str = KEY,
        bank: str = BANK,
        space: str = SPACE,
        due_us: int | None = None,
        dedupe: str | None = None,
        payload: JsonValue = None,
        max_attempts: int = 8,
    ) -> str:
        """Make one chore due in a batch of its own; its id."""
        operation = self.make.enqueue(
            kind, key=key, bank=bank, due_us=due_us, dedupe=dedupe, payload=payload, max_attempts=max_attempts
        )
        return (await self.commit(operation, space=space)).placed[0].id

    async def lease(
        self,
        worker: str = "w1",
        *,
        kinds: Sequence[str] | None = None,
        limit: int = 1,
        lease_us: int = LEASE_US,
    ) -> list[Chore]:
        """Lease due chores at the time of the clock."""
        now_us = self.clock.now_us()
        return await self.store.lease(
            worker=worker, now_us=now_us, until_us=now_us + lease_us, kinds=kinds, limit=limit
        )

    async def load(self, window: Window = ALL, scope: Scope | None = None) -> list[Entry]:
        """The entries of one page."""
        return list((await self.store.load(scope or in_key(), window)).entries)

    async def texts(self, window: Window = ALL, scope: Scope | None = None) -> list[str]:
        """The contents of one page."""
        return [entry.content for entry in await self.load(window, scope)]

    async def entry(self, entry_id: str, scope: Scope | None = None) -> Entry:
        """The one visible entry with this id."""
        (entry,) = await self.store.find(scope or in_space(), [entry_id])
        return entry

    async def versions(self, entry_id: str, space: str = SPACE) -> list[Entry]:
        """All kept versions of an entry."""
        return await self.store.versions(in_space(space), entry_id)

    async def document(
        self, ref: DocumentRef | str, *, space: str = SPACE, as_of_us: int | None = None
    ) -> Document | None:
        """A document by its name; a plain name means a block at the usual place."""
        target = named(ref) if isinstance(ref, str) else ref
        return await self.store.document(in_key(target.key, target.bank, space), target, as_of_us=as_of_us)

    async def names(
        self, kind: str = "block", *, prefix: str = "", after: int = 0, limit: int = 1000
    ) -> list[str]:
        """Names of the documents of a kind at the usual place, in their order."""
        found = await self.store.documents(in_key(), kind, prefix=prefix, after=after, limit=limit)
        return [document.ref.name for document in found]

    async def chore(self, chore_id: str, space: str = SPACE) -> Chore:
        """The one chore with this id."""
        (chore,) = [c for c in await self.store.chores(in_space(space), limit=10_000) if c.id == chore_id]
        return chore

    async def steps(self, change_id: str, space: str = SPACE) -> tuple[Step, ...]:
        """The steps of one change."""
        change = await self.store.change(in_space(space), change_id)
        assert change is not None
        return change.steps

    async def holding(
        self, term: str, scope: Scope | None = None, *, as_of_us: int | None = None
    ) -> list[str]:
        """Ids of the entries that hold a term, sorted."""
        where = scope or in_bank()
        stats = await self.store.words(where, [term], as_of_us=as_of_us)
        found = await self.store.fetch(where, list(stats.postings[term].rows))
        return sorted(entry.id for entry in found if entry is not None)

    async def near(
        self,
        vector: Quantised,
        scope: Scope | None = None,
        *,
        limit: int = 10_000,
        rows: Sequence[int] | None = None,
        as_of_us: int | None = None,
    ) -> list[tuple[str, float]]:
        """Ids of the nearest entries with their similarities, best first."""
        where = scope or in_bank()
        found = await self.store.nearest(where, vector, limit, rows=rows, as_of_us=as_of_us)
        entries = await self.store.fetch(where, [row for row, _ in found])
        return [
            (entry.id, score) for entry, (_, score) in zip(entries, found, strict=True) if entry is not None
        ]

    async def rows_of(self, window: Window = ALL, scope: Scope | None = None) -> dict[str, int]:
        """Row handles of the entries that a window admits, by entry id."""
        where = scope or in_bank()
        rows = await self.store.eligible(where, window)
        entries = await self.store.fetch(where, rows)
        return {entry.id: row for entry, row in zip(entries, rows, strict=True) if entry is not None}

    async def picture(self, space: str = SPACE) -> Picture:
        """What the reads of the usual banks, places and kinds tell about a space."""
        banks = [in_bank(bank, space) for bank in (BANK, OTHER_BANK)]
        everything = Window(limit=10_000, hidden=True)
        entries = [(await self.store.load(bank, everything)).entries for bank in banks]
        histories = [await self.versions(entry.id, space) for page in entries for entry in page]
        places = [bank.at(bank.bank or "", key.key) for bank in banks for key in await self.store.keys(bank)]
        heads = [(place, await self.store.head(place)) for place in [*places, in_key(space=space)]]
        kinds = ("block", "value", "working", "receipt")
        documents = [await self.store.documents(in_key(space=space), kind) for kind in kinds]
        changes = await self.store.changes(in_space(space), limit=10_000)
        chores = await self.store.chores(in_space(space), limit=10_000)
        terms = [await self.holding(term, bank) for bank in banks for term in ("tea", "coffee")]
        return Picture((entries, histories, heads, documents, changes, chores, terms))


class Ground:
    """The base of every part of the suite; a subclass of the whole gives the fixture ``store``."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        """A clock that stands still."""
        return ManualClock()

    @pytest.fixture
    def bench(self, store: Store, clock: ManualClock) -> Bench:
        """The store under test with a clock and a maker at hand."""
        return Bench(store, clock)
