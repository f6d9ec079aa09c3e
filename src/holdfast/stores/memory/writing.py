"""The operations of a batch, one method each, over the tables of the store in memory."""

from __future__ import annotations

from dataclasses import replace

from holdfast.errors import (
    AlreadyExists,
    ChoreNotFound,
    Conflict,
    EmbedderMismatch,
    EntryNotFound,
    LeaseLost,
    VersionConflict,
)
from holdfast.model.batch import (
    Append,
    Batch,
    Drop,
    Enqueue,
    Fail,
    Finish,
    Placed,
    Put,
    Remove,
    Restore,
    Retire,
    Retry,
    Revise,
)
from holdfast.model.chore import LIVE, Chore, ChoreState
from holdfast.model.document import KEEP_ALL, Document, DocumentRef, kept_versions
from holdfast.model.entry import Draft, Entry, Quantised, Reason, Retirement
from holdfast.model.journal import Step, Verb
from holdfast.model.values import JsonValue, dump_json
from holdfast.rules.words import index_terms
from holdfast.stores.memory.tables import (
    ChoreRecord,
    DocumentRecord,
    DocumentVersions,
    EntryRecord,
    Spot,
    Tables,
    Undo,
)


class Writer:
    """Writes one batch and collects the steps of its change.

    ``at_us`` is recorded as its time; what has expired is decided by ``now_us``, as it is for readers.
    """

    __slots__ = ("at_us", "batch", "now_us", "space", "steps", "tables", "undo")

    def __init__(self, tables: Tables, undo: Undo, batch: Batch, *, at_us: int, now_us: int) -> None:
        self.tables = tables
        self.undo = undo
        self.batch = batch
        self.space = batch.space
        self.at_us = at_us
        self.now_us = now_us
        self.steps: list[Step] = []

    def step(self, verb: Verb, ref: str, before: int, after: int) -> None:
        """Note a step of the change."""
        self.steps.append(Step(verb, ref, before, after))

    # Entries

    def append(self, operation: Append) -> Placed:
        """Write a new entry, or merge it into an equal one."""
        draft, place = operation.draft, operation.place
        self._fix_dimensions(draft.vectors)
        if draft.id in self.tables.entries or draft.id in self.tables.erased:
            raise AlreadyExists(f"the entry {draft.id} exists already")
        spot = (self.space, place.bank, place.key)
        twin = None if operation.digest is None else self._twin(spot, operation.digest)
        if twin is not None:
            return self._merge(twin, draft)
        seq = self.tables.heads.get(spot, 0) + 1
        self.undo.put(self.tables.heads, spot, seq)
        seqs = self.tables.keys.setdefault(spot[:2], {}).setdefault(place.key, {})
        self.undo.put(seqs, seq, draft.id)
        entry = self._drafted(draft, spot, seq)
        self._write(entry, dump_json(dict(draft.metadata)), operation.digest, draft.vectors)
        self.step("append", draft.id, 0, 1)
        return Placed(draft.id, seq, 1)

    def revise(self, operation: Revise) -> Placed:
        """Write a new version of a visible entry."""
        draft = operation.draft
        self._fix_dimensions(draft.vectors)
        old = self.tables.visible_entry(self.space, draft.id, self.now_us)
        if old is None:
            raise EntryNotFound(f"no entry {draft.id}")
        before = old.bare
        _expect(operation.expected, before.version, f"the entry {draft.id}")
        self._retire(old, Reason.REVISED)
        spot = (self.space, before.bank, before.key)
        entry = replace(self._drafted(draft, spot, before.seq), version=before.version + 1, seen=before.seen)
        self._write(entry, dump_json(dict(draft.metadata)), None, draft.vectors)
        self.step("revise", draft.id, before.version, entry.version)
        return Placed(draft.id, entry.seq, entry.version)

    def retire(self, operation: Retire) -> Placed:
        """Take a current entry out of sight."""
        versions = self.tables.versions(self.space, operation.id)
        if not versions or versions[-1].bare.retired is not None:
            raise EntryNotFound(f"no entry {operation.id}")
        entry = versions[-1].bare
        _expect(operation.expected, entry.version, f"the entry {operation.id}")
        self._retire(versions[-1], operation.reason, operation.by)
        self.step("retire", entry.id, entry.version, 0)
        return Placed(entry.id, entry.seq, entry.version)

    def restore(self, operation: Restore) -> Placed:
        """Make a kept version current again, as a new one."""
        versions = self.tables.versions(self.space, operation.id)
        wanted = len(versions) if operation.version is None else operation.version
        if not versions or not 1 <= wanted <= len(versions):
            raise EntryNotFound(f"no entry {operation.id} with such a version")
        last = versions[-1]
        before = 0
        if last.bare.retired is None:
            if operation.version is None:
                raise Conflict(f"the entry {operation.id} is current already")
            before = last.bare.version
            self._retire(last, Reason.REVISED)
        return self.revive(versions[wanted - 1], before)

    def revive(self, record: EntryRecord, before: int) -> Placed:
        """Write a copy of a version as the newest one; none of the entry may be current."""
        last = self.tables.entries[record.bare.id][-1].bare
        entry = replace(
            record.bare,
            version=last.version + 1,
            recorded_us=self.at_us,
            change=self.batch.id,
            seen=last.seen,
            retired=None,
        )
        self._write(entry, record.metadata, record.digest, record.vectors)
        self.step("restore", entry.id, before, entry.version)
        return Placed(entry.id, entry.seq, entry.version)

    def _merge(self, twin: EntryRecord, draft: Draft) -> Placed:
        entry = twin.bare
        own = twin.read().metadata
        lacking = {name: value for name, value in draft.metadata.items() if name not in own}
        if lacking:
            self._retire(twin, Reason.REVISED)
            merged = replace(
                entry,
                version=entry.version + 1,
                recorded_us=self.at_us,
                change=self.batch.id,
                seen=entry.seen + 1,
            )
            self._write(merged, dump_json({**own, **lacking}), twin.digest, twin.vectors)
        else:
            merged = replace(entry, seen=entry.seen + 1)
            self.replace_newest(replace(twin, bare=merged))
        self.step("merge", entry.id, entry.version, merged.version)
        return Placed(entry.id, entry.seq, merged.version, duplicate=True)

    def _twin(self, spot: Spot, digest: bytes) -> EntryRecord | None:
        """The first visible entry of a place with a digest."""
        held = (
            self.tables.visible_entry(self.space, entry_id, self.now_us)
            for entry_id in self.tables.digests.get((spot, digest), ())
        )
        return min(
            (found for found in held if found is not None), key=lambda found: found.bare.seq, default=None
        )

    def _drafted(self, draft: Draft, spot: Spot, seq: int) -> Entry:
        return Entry(
            id=draft.id,
            space=spot[0],
            bank=spot[1],
            key=spot[2],
            seq=seq,
            version=1,
            kind=draft.kind,
            content=draft.content,
            title=draft.title,
            speaker=draft.speaker,
            name=draft.name,
            thread=draft.thread,
            subject=draft.subject,
            metadata={},
            origin=self.batch.origin if draft.origin is None else draft.origin,
            created_us=draft.created_us,
            recorded_us=self.at_us,
            expires_us=draft.expires_us,
            change=self.batch.id,
        )

    def _write(
        self, entry: Entry, metadata: str, digest: bytes | None, vectors: tuple[Quantised, ...]
    ) -> None:
        tables = self.tables
        row = tables.counters["row"] + 1
        self.undo.put(tables.counters, "row", row)
        terms = index_terms(entry.content, entry.title, entry.name)
        record = EntryRecord(row, entry, metadata, digest, vectors, terms)
        self.undo.put(tables.entries, entry.id, (*tables.entries.get(entry.id, ()), record))
        self.undo.put(tables.rows, row, (entry.id, entry.version))
        if digest is not None:
            name = ((entry.space, entry.bank, entry.key), digest)
            self.undo.put(tables.digests, name, (*tables.digests.get(name, ()), entry.id))

    def _retire(self, record: EntryRecord, reason: Reason, by: str | None = None) -> None:
        self.lose_digest(record)
        self.replace_newest(
            replace(record, bare=record.bare.end(Retirement(self.at_us, reason, self.batch.id, by)))
        )

    def replace_newest(self, record: EntryRecord) -> None:
        """Write the newest version of an entry in place of what stood there."""
        entry_id = record.bare.id
        self.undo.put(self.tables.entries, entry_id, (*self.tables.entries[entry_id][:-1], record))

    def lose_digest(self, record: EntryRecord) -> None:
        """Take a version that is current no more out of the table of digests."""
        entry = record.bare
        if record.digest is None or entry.retired is not None:
            return
        name = ((entry.space, entry.bank, entry.key), record.digest)
        left = tuple(other for other in self.tables.digests[name] if other != entry.id)
        if left:
            self.undo.put(self.tables.digests, name, left)
        else:
            self.undo.drop(self.tables.digests, name)

    def _fix_dimensions(self, vectors: tuple[Quantised, ...]) -> None:
        """The first vector of the store decides how long all of them are."""
        for vector in vectors:
            check_dimensions(self.tables, vector)
            self.undo.put(self.tables.counters, "dimensions", len(vector.data))

    # Documents

    def put(self, operation: Put) -> Placed:
        """Write a document."""
        ref = operation.ref
        shown = self.tables.visible_document(self.space, ref, self.now_us)
        before = 0 if shown is None else shown.bare.version
        _expect(operation.expected, before, f"the document {ref.name!r}")
        if shown is None and kept_versions(ref.kind) == 0:
            self._keep_document(ref, ())
        past = self._end_document(ref)
        last = past[-1].bare if past else None
        if last is None:
            self._claim_document(operation.id, ref)
        document = Document(
            id=operation.id if last is None else last.id,
            space=self.space,
            ref=ref,
            value=None,
            version=1 if last is None else last.version + 1,
            position=self.next_position(ref) if shown is None else shown.bare.position,
            subject=operation.subject,
            origin=self.batch.origin,
            recorded_us=self.at_us,
            expires_us=operation.expires_us,
            change=self.batch.id,
        )
        kept = _newest_ended(past, ref.kind)
        self._keep_document(ref, (*kept, DocumentRecord(document, dump_json(operation.value))))
        self.step("put", document.id, before, document.version)
        return Placed(document.id, 0, document.version)

    def remove(self, operation: Remove) -> Placed:
        """Remove a document, if there is one."""
        ref = operation.ref
        shown = self.tables.visible_document(self.space, ref, self.now_us)
        before = 0 if shown is None else shown.bare.version
        _expect(operation.expected, before, f"the document {ref.name!r}")
        if shown is None:
            return Placed("", 0, 0)
        self._keep_document(ref, _newest_ended(self._end_document(ref), ref.kind))
        self.step("remove", shown.bare.id, before, 0)
        return Placed(shown.bare.id, 0, before)

    def file(self, document: Document, value: JsonValue) -> None:
        """Write the first version of a document without a step: the store's own record."""
        self._claim_document(document.id, document.ref)
        self._keep_document(document.ref, (DocumentRecord(document, dump_json(value)),))

    def next_position(self, ref: DocumentRef) -> int:
        """The position of the next document of a place."""
        spot = (self.space, ref.bank, ref.key)
        position = self.tables.positions.get(spot, 0) + 1
        self.undo.put(self.tables.positions, spot, position)
        return position

    def _claim_document(self, document_id: str, ref: DocumentRef) -> None:
        if document_id in self.tables.document_refs or document_id in self.tables.erased:
            raise AlreadyExists(f"the document {document_id} exists already")
        self.undo.put(self.tables.document_refs, document_id, (self.space, ref))

    def _end_document(self, ref: DocumentRef) -> DocumentVersions:
        """The versions of a document, none of them current any more."""
        versions = self.tables.document_versions(self.space, ref)
        if not versions or versions[-1].bare.ended_us is not None:
            return versions
        ended = replace(versions[-1].bare, ended_us=self.at_us, ended_change=self.batch.id)
        return (*versions[:-1], replace(versions[-1], bare=ended))

    def _keep_document(self, ref: DocumentRef, versions: DocumentVersions) -> None:
        """Write the versions of a document; without any it is gone, and so is its id."""
        names = self.tables.documents.setdefault((self.space, ref.bank, ref.key, ref.kind), {})
        if versions:
            self.undo.put(names, ref.name, versions)
        elif ref.name in names:
            self.undo.drop(self.tables.document_refs, names[ref.name][0].bare.id)
            self.undo.drop(names, ref.name)

    def erase_document(self, ref: DocumentRef) -> None:
        """Remove a document with all its versions."""
        self._keep_document(ref, ())

    # Chores

    def enqueue(self, operation: Enqueue) -> Placed:
        """Make a chore due, unless an equal one is live."""
        draft = operation.draft
        twin = (
            None if draft.dedupe is None else self.tables.dedupes.get((self.space, draft.place, draft.dedupe))
        )
        if twin is not None:
            self.step("enqueue", twin, 1, 1)
            return Placed(twin, 0, 1, duplicate=True)
        if draft.id in self.tables.chores:
            raise AlreadyExists(f"the chore {draft.id} exists already")
        chore = Chore(
            id=draft.id,
            space=self.space,
            place=draft.place,
            kind=draft.kind,
            dedupe=draft.dedupe,
            payload=None,
            state=ChoreState.QUEUED,
            attempts=0,
            max_attempts=draft.max_attempts,
            due_us=draft.due_us,
            token=0,
            lease_until_us=None,
            worker=None,
            last_error=None,
            created_us=self.at_us,
            change=self.batch.id,
        )
        self.tables.keep_chore(self.undo, ChoreRecord(chore, dump_json(draft.payload)))
        self.step("enqueue", chore.id, 0, 1)
        return Placed(chore.id, 0, 1)

    def finish(self, operation: Finish) -> Placed:
        """Complete a leased chore."""
        record = self._leased(operation.chore, operation.token)
        return self._turn("finish", ChoreState.DONE, record)

    def fail(self, operation: Fail) -> Placed:
        """Give a leased chore back."""
        record = self._leased(operation.chore, operation.token)
        failed = replace(record, bare=replace(record.bare, last_error=operation.error))
        if operation.retry_us is None:
            return self._turn("fail", ChoreState.DEAD, failed)
        return self._turn("fail", ChoreState.QUEUED, _due(failed, operation.retry_us))

    def drop(self, operation: Drop) -> Placed:
        """Cancel a chore."""
        record = self._chore(operation.chore)
        if record.bare.state not in LIVE and record.bare.state is not ChoreState.DEAD:
            raise Conflict(f"the chore {operation.chore} is {record.bare.state}")
        return self._turn("drop", ChoreState.CANCELLED, record)

    def retry(self, operation: Retry) -> Placed:
        """Queue a chore again."""
        record = self._chore(operation.chore)
        chore = record.bare
        if chore.state not in (ChoreState.DEAD, ChoreState.CANCELLED):
            raise Conflict(f"the chore {chore.id} is {chore.state}")
        if chore.dedupe is not None and (self.space, chore.place, chore.dedupe) in self.tables.dedupes:
            raise Conflict(f"another chore does the work of {chore.id} already")
        fresh = replace(record, bare=replace(chore, attempts=0))
        return self._turn("retry", ChoreState.QUEUED, _due(fresh, operation.due_us))

    def chore_in(self, state: ChoreState, chore: Chore) -> Chore:
        """A chore as this batch leaves it: in a state without a lease."""
        return replace(in_state(state, chore), change=self.batch.id)

    def _turn(self, verb: Verb, state: ChoreState, record: ChoreRecord) -> Placed:
        chore = self.chore_in(state, record.bare)
        self.tables.keep_chore(self.undo, replace(record, bare=chore))
        self.step(verb, chore.id, chore.token, chore.token)
        return Placed(chore.id, 0, chore.token)

    def _chore(self, chore_id: str) -> ChoreRecord:
        found = self.tables.chores.get(chore_id)
        if found is None or found.bare.space != self.space:
            raise ChoreNotFound(f"no chore {chore_id}")
        return found

    def _leased(self, chore_id: str, token: int) -> ChoreRecord:
        found = self._chore(chore_id)
        if found.bare.state is not ChoreState.LEASED or found.bare.token != token:
            raise LeaseLost(f"the lease {token} of the chore {chore_id} was lost")
        return found


def in_state(state: ChoreState, chore: Chore) -> Chore:
    """A chore in a state without a lease."""
    return replace(chore, state=state, lease_until_us=None)


def _due(record: ChoreRecord, due_us: int) -> ChoreRecord:
    return replace(record, bare=replace(record.bare, due_us=due_us))


def check_dimensions(tables: Tables, vector: Quantised) -> None:
    """Refuse a vector of another size than those stored."""
    fixed = tables.counters["dimensions"]
    if fixed not in (0, len(vector.data)):
        raise EmbedderMismatch(f"a vector has {len(vector.data)} dimensions, those of the store have {fixed}")


def _expect(expected: int | None, found: int, what: str) -> None:
    if expected is not None and expected != found:
        raise VersionConflict(f"{what} has version {found}, not {expected}", hint="read it again")


def _newest_ended(versions: DocumentVersions, kind: str) -> DocumentVersions:
    """What a kind keeps of ended versions."""
    keep = kept_versions(kind)
    return versions if keep == KEEP_ALL else versions[max(0, len(versions) - keep) :]
