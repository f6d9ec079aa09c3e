"""Forgetting: find what a selector names and what was made from it, and leave no copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

from holdfast.model.batch import Forget, Placed
from holdfast.model.chore import FORGOTTEN_KEY
from holdfast.model.document import DocumentRef
from holdfast.model.forget import OWN_STORE, Receipt, Selector
from holdfast.model.journal import Step
from holdfast.model.scope import Place
from holdfast.model.values import JsonValue, dump_json, load_json
from holdfast.rules.cascade import Cascade, Derived, cascade, names_any, trimmed_sources
from holdfast.stores.sqlite import columns, document_rows, entry_rows
from holdfast.stores.sqlite.codec import KINDS, origin_column, origin_of, row_hash
from holdfast.stores.sqlite.db import Column, Record
from holdfast.stores.sqlite.guards import (
    chore_hash,
    entry_hash,
    past_hash,
    whole_chore,
    whole_document,
    whole_entry,
    whole_past,
    whole_version,
)
from holdfast.stores.sqlite.heads import marks_in, marks_of
from holdfast.stores.sqlite.ledger import Ledger, Work
from holdfast.stores.sqlite.pages import remove_slots
from holdfast.stores.sqlite.places import hidden_name, selector_name
from holdfast.stores.sqlite.scrub import sampled

_ENTRY: Final = "select " + columns.ENTRY + ", digest, hash from entries"
_PAST: Final = "select " + columns.PAST + ", hash, number from past"
_ENTRY_BY_ID: Final = _ENTRY + " where id=?"
_PAST_BY_ID: Final = _PAST + " where id=?"
_ENTRY_BY_ROWS: Final = _ENTRY + " where row between ? and ?"
_PAST_BY_ROWS: Final = _PAST + " where row between ? and ?"
_ENTRY_BY_SUBJECT: Final = _ENTRY + " where subject=?"
_PAST_BY_SUBJECT: Final = _PAST + " where subject=?"
_BANKS: Final = "select bank from banks where space=?1 and (?2 is null or name=?2)"
_KEY_NUMBERS: Final = "select number from keys where bank=? and key=?"
_DOCUMENTS: Final = (
    "select " + columns.DOCUMENT + ", hash from documents where space=?1 and (?2 is null or bank=?2)"
)
_VERSIONS: Final = (
    "select "
    + columns.DOCUMENT
    + ", ended, ended_change, hash from document_versions where space=?1 and (?2 is null or bank=?2)"
)
_DOCUMENT_BY_ID: Final = "select " + columns.DOCUMENT + ", hash from documents where id=?1"
_VERSION_BY_ID: Final = (
    "select " + columns.DOCUMENT + ", ended, ended_change, hash from document_versions where id=?1"
)
_DERIVED: Final = "select record, is_document from derived where source=?"
_DROP_ENTRY: Final = "delete from entries where row=?"
_DROP_PAST: Final = "delete from past where number=?"
_DROP_PAST_WORDS: Final = "insert into past_words(past_words, rowid, terms) values('delete',?,?)"
_DROP_DERIVED: Final = "delete from derived where source=?"
_DROP_DERIVATIONS: Final = "delete from derived where record=?"
_DROP_DOCUMENT: Final = "delete from documents where id=?"
_DROP_VERSIONS: Final = "delete from document_versions where id=?"
_TOMBSTONE: Final = "insert or ignore into tombstones values(?,?,?,?)"
_FORGOTTEN: Final = "insert or replace into forgotten values(?,?,?)"
_SET_ORIGIN: Final = "update entries set origin=?, hash=? where row=?"
_SET_PAST_ORIGIN: Final = "update past set origin=?, hash=? where number=?"
_HIDDEN_BY: Final = "select distinct id, row from past where by_entry=? and reason='hidden'"
_NEWEST: Final = "select by_entry, reason from past where id=? order by version desc limit 1"
_CHORES: Final = "select " + columns.CHORE + ", hash from chores where space=?"
_CLEAR_CHORE: Final = (
    "update chores set key=?, payload=null, last_error=null, dedupe=null, worker=null, change=?, hash=?, lease_until=case when state in ('queued','leased') then null else"
    " lease_until end, state=case when state in ('queued','leased') then 'cancelled' else state end where id=?"
)
_UNSETTLED: Final = "insert into unsettled values(?,?,0)"
_BACKUPS: Final = "select path from backups where scheduled<2 order by at, path"
_IN_ROWS: Final = (
    "select exists(select 1 from entries where row between ?1 and ?2) or"
    " exists(select 1 from past where row between ?1 and ?2)"
)
_DROP_KEYS: Final = "delete from keys where bank=? and key=?"
_RAISE_KEYS: Final = "update keys set high=max(high, ?) where bank=? and key=?"
_SPEND: Final = "insert or replace into spent values(?,?,?,?)"


@dataclass(slots=True)
class Doomed:
    """An entry with all its versions."""

    id: bytes
    place: Place
    seq: int
    last: int = 0
    current: Record | None = None
    past: list[Record] = field(default_factory=list[Record])

    @property
    def versions(self) -> int:
        """How many rows it has."""
        return len(self.past) + (self.current is not None)

    @property
    def records(self) -> list[Record]:
        """All its rows."""
        return self.past if self.current is None else [*self.past, self.current]


def forget(ledger: Ledger, work: Work, operation: Forget) -> None:
    """Erase what a selector names."""
    space, selector = work.batch.space, operation.selector
    entries = _selected_entries(ledger, space, selector)
    documents = _selected_documents(ledger, space, selector)
    seeds = {name.hex() for name in entries} | {name.hex() for name in documents}
    taken = cascade(seeds, lambda wave: _derived_from(ledger, space, wave))
    _take_along(ledger, taken, entries, documents)
    gone = frozenset(name.hex() for name in (*entries, *documents))
    heads = {doomed.place: ledger.place(space, doomed.place, number=False).seq for doomed in entries.values()}
    returning = _returning(ledger, space, entries)
    steps = [(name.hex(), doomed.last) for name, doomed in entries.items()]
    steps += [(name.hex(), version) for name, version in documents.items()]
    work.steps += [Step("forget", reference, version, 0) for reference, version in sorted(steps)]
    ledger.samples[work.batch.id] = sampled(_texts_of(ledger, entries.values(), documents))
    _trim(ledger, space, taken.trimmed, gone)
    _erase_entries(ledger, work, entries.values())
    _erase_documents(ledger, work, documents)
    for identifier in returning:
        before, _, version = entry_rows.bring_back(ledger, work, identifier, None)
        work.steps.append(Step("restore", identifier, before, version))
    for place, seq in heads.items():
        _release_key(ledger, space, place, seq)
    chores = _clear_chores(ledger, work, selector, gone)
    _bury_selector(ledger, work, selector)
    counts = {
        "entries": len(entries), "versions": sum(doomed.versions for doomed in entries.values()),
        "documents": len(documents), "chores": chores,
    }  # fmt: skip
    _leave_receipt(ledger, work, operation, counts)


def _texts_of(ledger: Ledger, entries: Iterable[Doomed], documents: Iterable[bytes]) -> Iterator[str]:
    """What is erased, as far as it is text."""
    for doomed in entries:
        for record in doomed.records:
            yield from (cast("str", record[at]) for at in (4, 5, 10) if record[at])
    for name in documents:
        rows = _documents(ledger, _DOCUMENT_BY_ID, _VERSION_BY_ID, (name,))
        yield from (cast("str", row[8]) for row in rows)


def _current(ledger: Ledger, sql: str, asked: tuple[Column, ...]) -> list[Record]:
    return [whole_entry(record) for record in ledger.connection.execute(sql, asked)]


def _past(ledger: Ledger, sql: str, asked: tuple[Column, ...]) -> list[Record]:
    return [whole_past(record) for record in ledger.connection.execute(sql, asked)]


def _documents(ledger: Ledger, now: str, then: str, asked: tuple[Column, ...]) -> list[Record]:
    """Documents, then their earlier versions. What is damaged is not erased by halves: a repair comes first."""
    return [
        *(whole_document(record) for record in ledger.connection.execute(now, asked)),
        *(whole_version(record) for record in ledger.connection.execute(then, asked)),
    ]


def _selected_entries(ledger: Ledger, space: str, selector: Selector) -> dict[bytes, Doomed]:
    chosen: set[bytes] = set()
    for record in _candidates(ledger, space, selector):
        name = cast("bytes", record[1])
        if name in chosen:
            continue
        owner, place, _ = ledger.names.of_row(ledger.connection, cast("int", record[0]))
        if owner == space and _entry_selected(selector, place, record):
            chosen.add(name)
    return {name: _doomed(ledger, name) for name in sorted(chosen)}


def _entry_selected(selector: Selector, place: Place, record: Record) -> bool:
    subject = place.key if record[9] is None else record[9]
    return (
        (selector.bank is None or place.bank == selector.bank)
        and (selector.key is None or place.key == selector.key)
        and (selector.subject is None or subject == selector.subject)
        and (not selector.ids or cast("bytes", record[1]).hex() in selector.ids)
        and (selector.created_before_us is None or cast("int", record[12]) < selector.created_before_us)
        and (selector.origin is None or selector.origin.accepts(origin_of(record[11])))
    )


def _candidates(ledger: Ledger, space: str, selector: Selector) -> Iterator[Record]:
    """Rows that may be selected, by the narrowest way in."""
    connection = ledger.connection
    if selector.ids:
        for identifier in selector.ids:
            name = (bytes.fromhex(identifier),)
            yield from _current(ledger, _ENTRY_BY_ID, name)
            yield from _past(ledger, _PAST_BY_ID, name)
        return
    if selector.subject is not None:
        yield from _current(ledger, _ENTRY_BY_SUBJECT, (selector.subject,))
        yield from _past(ledger, _PAST_BY_SUBJECT, (selector.subject,))
    key = selector.subject if selector.key is None else selector.key
    for (bank,) in connection.execute(_BANKS, (space, selector.bank)).fetchall():
        for bounds in _bounds(ledger, cast("int", bank), key):
            yield from _current(ledger, _ENTRY_BY_ROWS, bounds)
            yield from _past(ledger, _PAST_BY_ROWS, bounds)


def _bounds(ledger: Ledger, bank: int, key: str | None) -> list[tuple[int, int]]:
    if key is None:
        return [ledger.layout.bank_rows(bank)]
    numbers = ledger.connection.execute(_KEY_NUMBERS, (bank, key)).fetchall()
    return [ledger.layout.key_rows(bank, cast("int", number)) for (number,) in numbers]


def _doomed(ledger: Ledger, name: bytes) -> Doomed:
    current = _current(ledger, _ENTRY_BY_ID, (name,))
    past = _past(ledger, _PAST_BY_ID, (name,))
    records = [*past, *current]
    _, place, seq = ledger.names.of_row(ledger.connection, cast("int", records[0][0]))
    last = max(cast("int", record[2]) for record in records)
    return Doomed(name, place, seq, last, current[0] if current else None, past)


def _selected_documents(ledger: Ledger, space: str, selector: Selector) -> dict[bytes, int]:
    if selector.created_before_us is not None:
        return {}
    rows: list[Record] = []
    if selector.ids:
        for identifier in selector.ids:
            name = (bytes.fromhex(identifier),)
            rows += _documents(ledger, _DOCUMENT_BY_ID, _VERSION_BY_ID, name)
    else:
        rows += _documents(ledger, _DOCUMENTS, _VERSIONS, (space, selector.bank))
    chosen = {cast("bytes", row[1]) for row in rows if row[2] == space and _document_selected(selector, row)}
    return {name: _last_version(ledger, name) for name in sorted(chosen)}


def _document_selected(selector: Selector, row: Record) -> bool:
    subject = row[4] if row[9] is None else row[9]
    return (
        selector.reaches(cast("str", row[5]))
        and (selector.bank is None or row[3] == selector.bank)
        and (selector.key is None or row[4] == selector.key)
        and (selector.subject is None or subject == selector.subject)
        and (selector.origin is None or selector.origin.accepts(origin_of(row[10])))
    )


def _last_version(ledger: Ledger, name: bytes) -> int:
    rows = _documents(ledger, _DOCUMENT_BY_ID, _VERSION_BY_ID, (name,))
    return max(cast("int", row[7]) for row in rows)


def _derived_from(ledger: Ledger, space: str, wave: frozenset[str]) -> Iterable[Derived]:
    seen: set[bytes] = set()
    wanted = wave.intersection
    for source in sorted(wave):
        for name, is_document in ledger.connection.execute(_DERIVED, (bytes.fromhex(source),)).fetchall():
            if name in seen:
                continue
            seen.add(cast("bytes", name))
            found = _derived(ledger, space, cast("bytes", name), is_document=bool(is_document))
            # Versions that named a source may be kept no longer.
            if found is not None and wanted(found.sources):
                yield found


def _derived(ledger: Ledger, space: str, name: bytes, *, is_document: bool) -> Derived | None:
    if is_document:
        rows = _documents(ledger, _DOCUMENT_BY_ID, _VERSION_BY_ID, (name,))
        kept = [row for row in rows if row[2] == space and row[5] != "receipt"]
        named = frozenset(source for row in kept for source in origin_of(row[10]).sources)
        return (
            Derived(name.hex(), named, is_document=True, is_summary=False, method="stated") if kept else None
        )
    rows = [*_current(ledger, _ENTRY_BY_ID, (name,)), *_past(ledger, _PAST_BY_ID, (name,))]
    if not rows or ledger.names.of_row(ledger.connection, cast("int", rows[0][0]))[0] != space:
        return None
    origins = [origin_of(row[11]) for row in rows]
    return Derived(
        name.hex(),
        frozenset(source for origin in origins for source in origin.sources),
        is_document=False,
        is_summary=any(KINDS[cast("int", row[3])] == "summary" for row in rows),
        method="merged" if any(origin.method == "merged" for origin in origins) else origins[0].method,
    )


def _take_along(
    ledger: Ledger, taken: Cascade, entries: dict[bytes, Doomed], documents: dict[bytes, int]
) -> None:
    for reference in sorted(taken.erased):
        name = bytes.fromhex(reference)
        if ledger.connection.execute(_ENTRY_BY_ID, (name,)).fetchone() is not None or (
            ledger.connection.execute(_PAST_BY_ID, (name,)).fetchone() is not None
        ):
            entries[name] = _doomed(ledger, name)
        else:
            documents[name] = _last_version(ledger, name)


def _returning(ledger: Ledger, space: str, entries: dict[bytes, Doomed]) -> list[str]:
    """Entries of the space hidden by an erased summary, and by nothing since."""
    found: set[str] = set()
    for name in entries:
        for hidden, row in ledger.connection.execute(_HIDDEN_BY, (name,)).fetchall():
            if ledger.names.of_row(ledger.connection, cast("int", row))[0] != space:
                continue
            if hidden in entries or ledger.connection.execute(_ENTRY_BY_ID, (hidden,)).fetchone() is not None:
                continue
            newest = ledger.connection.execute(_NEWEST, (hidden,)).fetchone()
            if newest == (name, "hidden"):
                found.add(cast("bytes", hidden).hex())
    return sorted(found)


def _trim(ledger: Ledger, space: str, trimmed: frozenset[str], gone: frozenset[str]) -> None:
    connection = ledger.connection
    for reference in sorted(trimmed):
        doomed = _doomed(ledger, bytes.fromhex(reference))
        ledger.forget_place(space, doomed.place)
        if doomed.current is not None:
            record = _without(doomed.current, gone)
            connection.execute(_SET_ORIGIN, (record[11], entry_hash(record), record[0]))
        for past in doomed.past:
            record = _without(past, gone)
            connection.execute(_SET_PAST_ORIGIN, (record[11], past_hash(record[:-1]), record[-1]))


def _without(record: Record, gone: frozenset[str]) -> Record:
    origin = origin_of(record[11])
    columns: list[Column] = list(record)
    columns[11] = origin_column(replace(origin, sources=trimmed_sources(origin.sources, gone)))
    return tuple(columns)


def _erase_entries(ledger: Ledger, work: Work, entries: Iterable[Doomed]) -> None:
    connection = ledger.connection
    rows: dict[tuple[int, int], set[int]] = {}
    for doomed in entries:
        if doomed.current is not None:
            row = cast("int", doomed.current[0])
            ledger.drop_words(row, entry_rows.entry_words(doomed.current))
            connection.execute(_DROP_ENTRY, (row,))
            rows.setdefault(ledger.layout.key_rows(*ledger.layout.range_of(row)), set()).add(row)
        for past in doomed.past:
            connection.execute(_DROP_PAST_WORDS, (past[-1], entry_rows.entry_words(past)))
            connection.execute(_DROP_PAST, (past[-1],))
        connection.execute(_DROP_DERIVED, (doomed.id,))
        connection.execute(_DROP_DERIVATIONS, (doomed.id,))
        _bury(ledger, work, doomed.id)
        ledger.forget_place(work.batch.space, doomed.place)
    ledger.forget_known_ids()
    for (low, high), members in rows.items():
        remove_slots(connection, low, high, members)


def _erase_documents(ledger: Ledger, work: Work, documents: Iterable[bytes]) -> None:
    ledger.documents.clear()
    for name in documents:
        ledger.connection.execute(_DROP_DOCUMENT, (name,))
        ledger.connection.execute(_DROP_VERSIONS, (name,))
        ledger.connection.execute(_DROP_DERIVED, (name,))
        ledger.connection.execute(_DROP_DERIVATIONS, (name,))
        _bury(ledger, work, name)


def _bury(ledger: Ledger, work: Work, name: bytes) -> None:
    """Leave a tombstone: an id and when it went, no content."""
    tombstone = (name, work.batch.space, work.at)
    ledger.connection.execute(_TOMBSTONE, (*tombstone, row_hash(*tombstone)))


def _bury_selector(ledger: Ledger, work: Work, selector: Selector) -> None:
    """Remember that a whole place or subject was forgotten: a backup may hold more of it than there is now."""
    if not selector.whole:
        return
    name = selector_name(ledger.salt(), work.batch.space, selector.bank, selector.key, selector.subject)
    ledger.connection.execute(_FORGOTTEN, (name, work.at, row_hash(name, work.at)))


def _release_key(ledger: Ledger, space: str, place: Place, seq: int) -> None:
    """Remember how far a key has counted; when it is empty, forget its name."""
    connection = ledger.connection
    for (number,) in connection.execute(_BANKS, (space, place.bank)).fetchall():
        bank = cast("int", number)
        bounds = _bounds(ledger, bank, place.key)
        if any(connection.execute(_IN_ROWS, rows).get for rows in bounds):
            connection.execute(_RAISE_KEYS, (seq, bank, place.key))
        else:
            connection.execute(_DROP_KEYS, (bank, place.key))
            spent = (bank, hidden_name(ledger.salt(), bank, place.key), seq)
            connection.execute(_SPEND, (*spent, row_hash(*spent)))
    ledger.forget_place(space, place)


def _clear_chores(ledger: Ledger, work: Work, selector: Selector, gone: frozenset[str]) -> int:
    by_place = selector.whole
    cleared = 0
    for found in ledger.connection.execute(_CHORES, (work.batch.space,)).fetchall():
        (name, _, bank, key, kind, _, payload, _, _, attempts, _, _, _, _, _, created, _) = whole_chore(found)
        at_place = (
            by_place
            and (selector.bank is None or bank == selector.bank)
            and (selector.key is None or key == selector.key)
            and (selector.subject is None or key == selector.subject)
        )
        at_place = at_place or cast("bytes", name).hex() in selector.ids
        if at_place or (payload is not None and names_any(load_json(cast("str", payload)), gone)):
            left = FORGOTTEN_KEY if at_place else key
            guard = chore_hash(name, work.batch.space, bank, left, kind, None, None, attempts, created)
            ledger.connection.execute(_CLEAR_CHORE, (left, work.change, guard, name))
            _bury(ledger, work, cast("bytes", name))
            cleared += 1
    return cleared


def _held(ledger: Ledger) -> list[str]:
    """The copies that may hold what is forgotten: not what is the file of another memory by now."""
    paths = [cast("str", path) for (path,) in ledger.connection.execute(_BACKUPS)]
    if not paths:
        return paths
    own = marks_in(ledger.connection).salt
    return [path for path in paths if marks_of(Path(path)).salt in (None, own)]


def _leave_receipt(ledger: Ledger, work: Work, operation: Forget, counts: dict[str, int]) -> None:
    digest = operation.selector.digest()
    held = _held(ledger)
    value: dict[str, JsonValue] = {
        "selector": digest, "by": operation.by, "reason": operation.reason, "counts": dict(counts), "at_us": work.at,
        "backups": list[JsonValue](held),
    }  # fmt: skip
    ref = DocumentRef("~receipts", "receipts", "receipt", work.batch.id)
    document_rows.write_new(ledger, work, ref, work.change, dump_json(value))
    ledger.connection.execute(_UNSETTLED, (work.change, work.at))
    work.receipts.append(
        Receipt(
            id=work.batch.id, space=work.batch.space, at_us=work.at, by=operation.by, reason=operation.reason,
            selector=digest, counts=MappingProxyType(counts), stores=MappingProxyType({OWN_STORE: "pending"}), complete=False,
            waiting_for=("pages", "wal"), backups=tuple(held),
        )
    )  # fmt: skip
    work.placed.append(Placed(work.batch.id, 0, 0))
