"""Undo over a store: gather what happened since, let the rules decide, write one batch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from holdfast.errors import AlreadyExists, ChangeNotFound, Conflict, HistoryUnavailable, UndoConflict
from holdfast.memories.core import Core
from holdfast.memories.settings import BANK, bank_name, id_behind, new_name
from holdfast.model.batch import Batch, Drop, Operation, Put, Requirement
from holdfast.model.chore import LIVE
from holdfast.model.document import Document
from holdfast.model.entry import Entry
from holdfast.model.forget import OriginMatch
from holdfast.model.ids import bucket_of_id, is_id
from holdfast.model.journal import Change
from holdfast.model.limits import JOURNAL_DAYS
from holdfast.model.scope import Scope
from holdfast.model.values import DAY_US
from holdfast.model.window import Window
from holdfast.rules.undo import (
    Inverse,
    Touch,
    first_touches,
    inverse_of_document,
    inverse_of_entry,
    is_final,
    later_changes,
    standing,
    taken_back,
)

PAGE: Final = 1000
SHOWN: Final = 20
"""How many entries of a bank are named when its making cannot be undone."""


@dataclass(slots=True)
class Records:
    """What the changes to be undone touched, as it is kept now."""

    touches: dict[str, Touch]
    entries: dict[str, list[Entry]] = field(default_factory=dict[str, list[Entry]])
    documents: dict[str, list[Document]] = field(default_factory=dict[str, list[Document]])

    def vanishing(self) -> dict[str, Touch]:
        """Entries that are here now and were not before."""
        return {
            ref: self.touches[ref]
            for ref, versions in self.entries.items()
            if self.touches[ref].before == 0 and versions and versions[-1].retired is None
        }


class Undoer:
    """Takes changes of one space back."""

    __slots__ = ("_core", "_scope")

    def __init__(self, core: Core, space: str) -> None:
        self._core = core
        self._scope = Scope(space)

    async def undo(self, change_ids: Sequence[str], origin: OriginMatch | None, *, cascade: bool) -> Change:
        """Write the inverse of the changes as one new change."""
        now_us = self._core.clock.now_us()
        targets = {change.id: change for change in await self._targets(change_ids, origin)}
        _check_age(targets.values(), now_us)
        records = await self._records(targets.values())
        if origin is not None:
            for gone in taken_back(await self._later(records)):
                targets.pop(gone, None)
            records = await self._records(targets.values())
        while dependents := await self._dependents(records, frozenset(targets)):
            if not cascade:
                raise UndoConflict(
                    f"{len(dependents)} later changes build on this",
                    dependents=tuple(change.id for change in dependents),
                    hint="undo them first, or use cascade=True",
                )
            targets |= {change.id: change for change in dependents}
            _check_age(dependents, now_us)
            records = await self._records(targets.values())
        return await self._write(tuple(targets.values()), records, now_us)

    async def _targets(self, change_ids: Sequence[str], origin: OriginMatch | None) -> list[Change]:
        found: list[Change] = []
        for change_id in dict.fromkeys(change_ids):
            change = await self._core.store.change(self._scope, change_id) if is_id(change_id) else None
            if change is None:
                raise ChangeNotFound(f"no change {change_id!r} in this space")
            if is_final(change):
                raise HistoryUnavailable(
                    f"the change {change_id} erased something, and erasure is final", code="erasure_final"
                )
            found.append(change)
        if origin is not None:
            # What was erased stays erased; everything else of the origin is taken back.
            found += [change async for change in self._feed(0, origin) if not is_final(change)]
        return found

    async def _feed(self, after: int, origin: OriginMatch | None = None) -> AsyncIterator[Change]:
        while True:
            page = await self._core.store.changes(self._scope, after=after, limit=PAGE, origin=origin)
            for change in page:
                yield change
            if len(page) < PAGE:
                return
            after = page[-1].cursor

    async def _records(self, changes: Iterable[Change]) -> Records:
        store = self._core.store
        records = Records(first_touches(changes))
        for ref, touch in records.touches.items():
            if touch.kind == "entry":
                records.entries[ref] = await store.versions(self._scope, ref)
            elif touch.kind == "document":
                records.documents[ref] = await store.document_versions(self._scope, ref)
        return records

    async def _later(self, records: Records) -> dict[str, Change]:
        """Changes of the touched records after they were touched."""
        ids: set[str] = set()
        for ref, entries in records.entries.items():
            ids |= later_changes(records.touches[ref], entries)
        for ref, documents in records.documents.items():
            ids |= later_changes(records.touches[ref], documents)
        found = [await self._core.store.change(self._scope, one) for one in ids]
        return {change.id: change for change in found if change is not None}

    async def _dependents(self, records: Records, targets: frozenset[str]) -> list[Change]:
        later = {ref: change for ref, change in (await self._later(records)).items() if ref not in targets}
        found = standing(later, targets)
        await self._refuse_banks_in_use(records)
        vanishing = records.vanishing()
        if not vanishing:
            return found
        known = targets.union(later)
        start = min(touch.cursor for touch in vanishing.values())
        async for change in self._feed(start):
            if change.id not in known and await self._builds_on(change, vanishing.keys()):
                found.append(change)
        return found

    async def _builds_on(self, change: Change, vanishing: Iterable[str]) -> bool:
        """Whether a change said the same as a vanishing entry, or made from one what still stands."""
        gone = set(vanishing)
        if any(step.verb == "merge" and step.ref in gone for step in change.steps):
            return True
        if gone.isdisjoint(change.origin.sources):
            return False
        made = [step.ref for step in change.steps if step.verb in ("append", "revise")]
        written = any(step.verb == "put" for step in change.steps)
        return written or bool(await self._core.store.find(self._scope, made))

    async def _refuse_banks_in_use(self, records: Records) -> None:
        for ref, versions in records.documents.items():
            if records.touches[ref].before or not versions or versions[-1].ref.kind != BANK:
                continue
            bank = Scope(self._scope.space, versions[-1].ref.name)
            page = await self._core.store.load(bank, Window(limit=SHOWN))
            if page.entries:
                raise UndoConflict(
                    "the bank has entries",
                    dependents=tuple(entry.change for entry in page.entries),
                    hint="banks.delete() erases it with them",
                )

    async def _write(self, targets: tuple[Change, ...], records: Records, now_us: int) -> Change:
        operations: list[Operation] = []
        requires: list[Requirement] = []
        for inverse in await self._inverses(records, now_us):
            operations.append(inverse.operation)
            if inverse.requires is not None:
                requires.append(inverse.requires)
        if not operations:
            raise Conflict("there is nothing left to undo", code="nothing_to_undo")
        core, space = self._core, self._scope.space
        change_id = core.make_id(bucket_of_id(targets[0].id))
        ids = tuple(change.id for change in targets)
        batch = Batch(space, change_id, now_us, tuple(operations), requires=tuple(requires), undoes=ids)
        commit = await core.commit(batch)
        written = await core.store.change(self._scope, commit.change)
        if written is None:
            raise ChangeNotFound(f"the undo {commit.change} is not in the journal")
        return written

    async def _inverses(self, records: Records, now_us: int) -> list[Inverse]:
        found = [
            inverse_of_entry(records.touches[ref], versions, now_us)
            for ref, versions in records.entries.items()
        ]
        gone = await self._gone(records)
        found += [
            inverse_of_document(records.touches[ref], versions, now_us)
            for ref, versions in records.documents.items()
            if ref not in gone
        ]
        found += [Inverse(Drop(ref)) for ref in await self._live_chores(records)]
        inverses = [inverse for inverse in found if inverse is not None]
        return inverses + await self._names(inverses)

    async def _gone(self, records: Records) -> set[str]:
        """Documents without versions that need none: they were erased, or are the names of banks touched here."""
        missing = [ref for ref, versions in records.documents.items() if not versions]
        if not missing:
            return set()
        if any(versions and versions[-1].ref.kind == BANK for versions in records.documents.values()):
            return set(missing)
        return await self._core.store.erased(self._scope, missing)

    async def _names(self, inverses: Iterable[Inverse]) -> list[Inverse]:
        """Names are kept without versions: a bank that gets settings back takes the name in them."""
        core, space = self._core, self._scope.space
        found: list[Inverse] = []
        for inverse in inverses:
            put = inverse.operation
            if isinstance(put, Put) and put.ref.kind == BANK:
                name = bank_name(put.value)
                holder = await id_behind(core, space, name)
                if holder is None:
                    found.append(Inverse(new_name(core, name, put.ref.name, space)))
                elif holder != put.ref.name:
                    raise AlreadyExists(f"another bank is called {name!r} now", hint="rename that one first")
        return found

    async def _live_chores(self, records: Records) -> list[str]:
        made = {ref for ref, touch in records.touches.items() if touch.kind == "chore"}
        if not made:
            return []
        limit = PAGE
        while True:
            live = await self._core.store.chores(self._scope, states=tuple(sorted(LIVE)), limit=limit)
            if len(live) < limit:
                break
            limit *= 4
        return [chore.id for chore in live if chore.id in made]


def _check_age(changes: Iterable[Change], now_us: int) -> None:
    oldest = now_us - JOURNAL_DAYS * DAY_US
    if any(change.at_us < oldest for change in changes):
        raise HistoryUnavailable(f"changes can be undone for {JOURNAL_DAYS} days")
