"""Entries: revise, retire, restore and merge, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from holdfast.errors import Conflict, EntryNotFound, VersionConflict
from holdfast.model.batch import Append, Placed, Restore, Retire, Revise
from holdfast.model.entry import Reason
from holdfast.model.journal import Step
from holdfast.model.scope import Place
from holdfast.model.values import dump_json, load_json
from holdfast.rules.words import index_terms
from holdfast.stores.sqlite import columns
from holdfast.stores.sqlite.codec import words_text
from holdfast.stores.sqlite.db import Column, Record
from holdfast.stores.sqlite.guards import entry_hash, past_hash, whole_entry, whole_past
from holdfast.stores.sqlite.ledger import Ledger, Work
from holdfast.stores.sqlite.pages import Slot, take_slot, write_tail
from holdfast.stores.sqlite.prepared import Body
from holdfast.stores.sqlite.quotas import size_of

_CURRENT: Final = "select " + columns.ENTRY + ", digest, hash from entries where id=?"
_PUT_ENTRY: Final = "insert into entries values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_DROP_ENTRY: Final = "delete from entries where row=?"
_PUT_PAST_WORDS: Final = "insert into past_words(rowid, terms) values(?,?)"
_PUT_PAST: Final = (
    "insert into past(row, id, version, kind, content, title, speaker, name, thread, subject, metadata, origin,"
    " created, recorded, expires, change, seen, digest, retired, reason, by_entry, by_change, length, vectors, scales,"
    " hash) values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) returning number"
)
_PAST: Final = "select " + columns.PAST + ", hash from past where id=? order by version"
_LAST_VERSION: Final = "select max(version) from past where id=?"
_SEEN: Final = "update entries set seen=seen+1 where row=?"
_PUT_DERIVED: Final = "insert or ignore into derived values(?,?,0)"


@dataclass(frozen=True, slots=True)
class Stored:
    """The current version of an entry: where it is, and its columns with the digest behind them."""

    place: Place
    seq: int
    columns: Record

    @property
    def row(self) -> int:
        """Its row."""
        return cast("int", self.columns[0])

    @property
    def id(self) -> bytes:
        """Its id."""
        return cast("bytes", self.columns[1])

    @property
    def version(self) -> int:
        """Its version."""
        return cast("int", self.columns[2])

    @property
    def words(self) -> str:
        """Its terms as the word index holds them."""
        return entry_words(self.columns)

    def visible(self, now: int) -> bool:
        """Whether it has not expired."""
        expires = cast("int | None", self.columns[14])
        return expires is None or now <= expires


def entry_words(columns: Record) -> str:
    """The terms of an entry's columns, as the word index holds them."""
    content, title, name = cast("tuple[str, str | None, str | None]", (columns[4], columns[5], columns[7]))
    return words_text(index_terms(content, title, name))


def current(ledger: Ledger, space: str, identifier: bytes) -> Stored | None:
    """The current version of an entry of this space."""
    found = ledger.connection.execute(_CURRENT, (identifier,)).fetchone()
    if found is None:
        return None
    owner, place, seq = ledger.names.of_row(ledger.connection, cast("int", found[0]))
    return Stored(place, seq, whole_entry(found)) if owner == space else None


def demanded(ledger: Ledger, work: Work, identifier: str, expected: int | None, *, visible: bool) -> Stored:
    """The current version of an entry, or the typed error that says what is wrong."""
    found = current(ledger, work.batch.space, bytes.fromhex(identifier))
    if found is None or (visible and not found.visible(work.now)):
        raise EntryNotFound(
            f"there is no current entry {identifier} here", hint="restore it, or look at its history"
        )
    if expected is not None and found.version != expected:
        raise VersionConflict(
            f"entry {identifier} has version {found.version}, not {expected}",
            hint="read it again and repeat the change",
        )
    return found


def visible_version(ledger: Ledger, space: str, identifier: str) -> int:
    """The version of a visible entry; 0 when there is none."""
    found = current(ledger, space, bytes.fromhex(identifier))
    return found.version if found is not None and found.visible(ledger.now_us()) else 0


def retire_row(ledger: Ledger, work: Work, stored: Stored, reason: Reason, by: str | None) -> Slot:
    """Move the current version to the past, with its words and vectors; its slot is returned."""
    connection = ledger.connection
    row = stored.row
    slot = take_slot(connection, row, ledger.layout.key_rows(*ledger.layout.range_of(row))[0]) or Slot(
        row, 0, None, None
    )
    ledger.drop_words(row, stored.words)
    connection.execute(_DROP_ENTRY, (row,))
    columns = (
        *stored.columns, work.at, reason.value, None if by is None else bytes.fromhex(by), work.change, slot.length,
        slot.vectors, slot.scales,
    )  # fmt: skip
    number = cast("int", connection.execute(_PUT_PAST, (*columns, past_hash(columns))).get)
    connection.execute(_PUT_PAST_WORDS, (number, stored.words))
    ledger.forget_known_ids()
    ledger.forget_place(work.batch.space, stored.place)
    return slot


def write_current(ledger: Ledger, work: Work, place: Place, record: Record, slot: Slot) -> None:
    """Write a current version with its words and slot. ``record`` ends with the digest."""
    connection = ledger.connection
    if work.metered:
        work.grown += size_of(record[4], record[5], record[10], slot.vectors)
    connection.execute(_PUT_ENTRY, (*record, entry_hash(record)))
    ledger.add_words([(cast("int", record[0]), entry_words(record))])
    write_tail(connection, (slot,))
    ledger.note_order(cast("int", record[0]), cast("int", record[12]))
    ledger.forget_place(work.batch.space, place)


def revise(ledger: Ledger, work: Work, operation: Revise, body: Body) -> None:
    """Replace the content of an entry by a new version."""
    stored = demanded(ledger, work, operation.draft.id, operation.expected, visible=True)
    if body.dimensions:
        ledger.check_dimensions(body.dimensions)
    retire_row(ledger, work, stored, Reason.REVISED, None)
    record: Record = (
        stored.row, stored.id, stored.version + 1, *body.columns, work.at, body.expires, work.change,
        stored.columns[16], None,
    )  # fmt: skip
    write_current(
        ledger, work, stored.place, record, Slot(stored.row, body.length, body.vectors, body.scales)
    )
    ledger.connection.executemany(
        _PUT_DERIVED, [(bytes.fromhex(source), stored.id) for source in body.origin.sources]
    )
    work.placed.append(Placed(operation.draft.id, stored.seq, stored.version + 1))
    work.steps.append(Step("revise", operation.draft.id, stored.version, stored.version + 1))


def retire(ledger: Ledger, work: Work, operation: Retire) -> None:
    """Take the current version of an entry out of sight."""
    stored = demanded(ledger, work, operation.id, operation.expected, visible=False)
    retire_row(ledger, work, stored, operation.reason, operation.by)
    work.placed.append(Placed(operation.id, stored.seq, stored.version))
    work.steps.append(Step("retire", operation.id, stored.version, 0))


def merge(ledger: Ledger, work: Work, operation: Append, identifier: bytes) -> None:
    """Fold an append into an equal entry: seen once more, and metadata keys that it lacks."""
    stored = current(ledger, work.batch.space, identifier)
    if stored is None:
        raise EntryNotFound("the equal entry is gone")
    known = (
        {}
        if stored.columns[10] is None
        else cast("dict[str, object]", load_json(cast("str", stored.columns[10])))
    )
    added = {key: value for key, value in operation.draft.metadata.items() if key not in known}
    version = stored.version
    if added:
        slot = retire_row(ledger, work, stored, Reason.REVISED, None)
        version += 1
        columns = list(stored.columns)
        columns[2], columns[10], columns[13], columns[15] = (
            version,
            dump_json({**known, **added}),
            work.at,
            work.change,
        )
        write_current(ledger, work, stored.place, tuple(columns), slot)
    ledger.connection.execute(_SEEN, (stored.row,))
    reference = identifier.hex()
    work.placed.append(Placed(reference, stored.seq, version, duplicate=True))
    work.steps.append(Step("merge", reference, stored.version, version))


def restore(ledger: Ledger, work: Work, operation: Restore) -> None:
    """Make a kept version current again, as a new version."""
    restored = bring_back(ledger, work, operation.id, operation.version)
    before, seq, version = restored
    work.placed.append(Placed(operation.id, seq, version))
    work.steps.append(Step("restore", operation.id, before, version))


def bring_back(ledger: Ledger, work: Work, identifier: str, version: int | None) -> tuple[int, int, int]:
    """Write a kept version as a new current one; the version before, the seq, and the new version."""
    space, name = work.batch.space, bytes.fromhex(identifier)
    stored = current(ledger, space, name)
    kept = [whole_past(record) for record in ledger.connection.execute(_PAST, (name,))]
    if stored is None and not kept:
        raise EntryNotFound(f"there is no entry {identifier} here")
    row = stored.row if stored is not None else cast("int", kept[-1][0])
    owner, place, seq = ledger.names.of_row(ledger.connection, row)
    if owner != space:
        raise EntryNotFound(f"there is no entry {identifier} here")
    if stored is not None and version is None:
        raise Conflict(f"entry {identifier} is current already", hint="name the version to go back to")
    if stored is not None:
        slot = retire_row(ledger, work, stored, Reason.REVISED, None)
        kept.append((*stored.columns, None, None, None, None, slot.length, slot.vectors, slot.scales))
    chosen = kept[-1] if version is None else next((past for past in kept if past[2] == version), None)
    if chosen is None:
        raise EntryNotFound(f"entry {identifier} has no version {version}", hint="look at its history")
    last = cast("int", kept[-1][2])
    columns: list[Column] = [*chosen[:18]]
    columns[2], columns[13], columns[15], columns[16] = last + 1, work.at, work.change, kept[-1][16]
    slot = Slot(row, *cast("tuple[int, bytes | None, bytes | None]", chosen[22:25]))
    write_current(ledger, work, place, tuple(columns), slot)
    return (stored.version if stored is not None else 0), seq, last + 1
