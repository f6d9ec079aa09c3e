"""Forgetting: what a selector names goes, with everything that was made from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from holdfast.model.batch import Forget
from holdfast.model.chore import FORGOTTEN_KEY, LIVE, ChoreState
from holdfast.model.document import Document, DocumentRef
from holdfast.model.entry import Entry, Reason
from holdfast.model.forget import OWN_STORE, Receipt, Selector
from holdfast.model.origin import Origin
from holdfast.model.scope import Place
from holdfast.model.values import JsonValue, load_json
from holdfast.rules.cascade import Derived, cascade, names_any, trimmed_sources
from holdfast.stores.memory.tables import ChoreRecord, DocumentVersions, EntryRecord, Versions
from holdfast.stores.memory.writing import Writer

NO_PAYLOAD = "null"
DerivedFrom: TypeAlias = Callable[[frozenset[str]], Iterable[Derived]]


def forget(writer: Writer, operation: Forget) -> Receipt:
    """Erase what a selector names, and leave a receipt."""
    selector = operation.selector
    entries = [
        versions for versions in writer.tables.entries.values() if versions[0].bare.space == writer.space
    ]
    documents = [
        versions
        for versions in writer.tables.all_documents(writer.space)
        if versions[0].bare.ref.kind != "receipt"
    ]
    seeds = {versions[0].bare.id for versions in entries if _selects_entry(selector, versions)}
    seeds |= {
        versions[0].bare.id
        for versions in documents
        if selector.reaches(versions[0].bare.ref.kind) and _selects_document(selector, versions)
    }
    found = cascade(seeds, _derivations(entries, documents))
    gone = frozenset(seeds | found.erased)
    lost_entries = {versions[0].bare.id: versions for versions in entries if versions[0].bare.id in gone}
    lost_documents = {versions[0].bare.id: versions for versions in documents if versions[0].bare.id in gone}
    freed = [versions[-1] for versions in entries if _hidden_by(versions[-1].bare, gone)]

    _erase(writer, lost_entries, lost_documents)
    for entry_id in found.trimmed:
        _trim(writer, entry_id, gone)
    for record in sorted(freed, key=lambda record: record.bare.id):
        writer.revive(writer.tables.entries[record.bare.id][-1], 0)
    counts = {
        "entries": len(lost_entries),
        "versions": sum(len(versions) for versions in lost_entries.values()),
        "documents": len(lost_documents),
        "chores": _clear_chores(writer, selector, gone),
    }
    return _file_receipt(writer, operation, counts)


def _selects_entry(selector: Selector, versions: Versions) -> bool:
    first = versions[0].bare
    if selector.ids and first.id not in selector.ids:
        return False
    if not _at(selector, first.bank, first.key):
        return False
    return any(_selects_version(selector, record.bare) for record in versions)


def _selects_version(selector: Selector, entry: Entry) -> bool:
    before_us = selector.created_before_us
    if before_us is not None and entry.created_us >= before_us:
        return False
    return _about(selector, entry.subject, entry.key, entry.origin)


def _selects_document(selector: Selector, versions: DocumentVersions) -> bool:
    first = versions[0].bare
    if selector.created_before_us is not None or (selector.ids and first.id not in selector.ids):
        return False
    if not _at(selector, first.ref.bank, first.ref.key):
        return False
    return any(
        _about(selector, record.bare.subject, record.bare.ref.key, record.bare.origin) for record in versions
    )


def _at(selector: Selector, bank: str, key: str) -> bool:
    return selector.bank in (None, bank) and selector.key in (None, key)


def _about(selector: Selector, subject: str | None, key: str, origin: Origin) -> bool:
    if selector.subject is not None and selector.subject != (key if subject is None else subject):
        return False
    return selector.origin is None or selector.origin.accepts(origin)


def _derivations(entries: Iterable[Versions], documents: Iterable[DocumentVersions]) -> DerivedFrom:
    """For the cascade: which records name any of a set of ids among the sources of any version."""
    by_source: defaultdict[str, list[Derived]] = defaultdict(list)
    for record in (*_derived_entries(entries), *_derived_documents(documents)):
        for source in record.sources:
            by_source[source].append(record)

    def derived_from(wave: frozenset[str]) -> Iterable[Derived]:
        return {record.id: record for source in wave for record in by_source.get(source, ())}.values()

    return derived_from


def _derived_entries(entries: Iterable[Versions]) -> Iterator[Derived]:
    for versions in entries:
        bares = [record.bare for record in versions]
        sources = frozenset(source for bare in bares for source in bare.origin.sources)
        if sources:
            merged = any(bare.origin.method == "merged" for bare in bares)
            yield Derived(
                id=bares[0].id,
                sources=sources,
                is_document=False,
                is_summary=any(bare.kind == "summary" for bare in bares),
                method="merged" if merged else bares[-1].origin.method,
            )


def _derived_documents(documents: Iterable[DocumentVersions]) -> Iterator[Derived]:
    for versions in documents:
        sources = frozenset(source for record in versions for source in record.bare.origin.sources)
        if sources:
            last = versions[-1].bare
            yield Derived(last.id, sources, is_document=True, is_summary=False, method=last.origin.method)


def _hidden_by(entry: Entry, gone: frozenset[str]) -> bool:
    retired = entry.retired
    return (
        entry.id not in gone
        and retired is not None
        and retired.reason is Reason.HIDDEN
        and retired.by in gone
    )


def _erase(
    writer: Writer, entries: Mapping[str, Versions], documents: Mapping[str, DocumentVersions]
) -> None:
    last = {record_id: versions[-1].bare.version for record_id, versions in entries.items()}
    last |= {record_id: versions[-1].bare.version for record_id, versions in documents.items()}
    for versions in entries.values():
        _erase_entry(writer, versions)
    for document in documents.values():
        writer.erase_document(document[0].bare.ref)
    for record_id in sorted(last):
        writer.undo.put(writer.tables.erased, record_id, writer.space)
        writer.step("forget", record_id, last[record_id], 0)


def _erase_entry(writer: Writer, versions: Versions) -> None:
    tables, undo = writer.tables, writer.undo
    entry = versions[-1].bare
    writer.lose_digest(versions[-1])
    for record in versions:
        undo.drop(tables.rows, record.row)
    undo.drop(tables.keys[entry.space, entry.bank][entry.key], entry.seq)
    undo.drop(tables.entries, entry.id)


def _trim(writer: Writer, entry_id: str, gone: frozenset[str]) -> None:
    """Take erased ids out of the sources of all versions of an entry."""
    trim = partial(_without_sources, gone=gone)
    writer.undo.put(writer.tables.entries, entry_id, tuple(map(trim, writer.tables.entries[entry_id])))


def _without_sources(record: EntryRecord, gone: frozenset[str]) -> EntryRecord:
    origin = record.bare.origin
    left = trimmed_sources(origin.sources, gone)
    return replace(record, bare=replace(record.bare, origin=replace(origin, sources=left)))


def _clear_chores(writer: Writer, selector: Selector, gone: frozenset[str]) -> int:
    """Remove the payloads of chores and cancel what is live; how many chores these were."""
    cleared = 0
    for record in list(writer.tables.chores.values()):
        chore = record.bare
        if chore.space != writer.space:
            continue
        at_place = (
            selector.whole
            and _at(selector, chore.place.bank, chore.place.key)
            and selector.subject in (None, chore.place.key)
        ) or chore.id in selector.ids
        if not at_place and not (gone and names_any(load_json(record.payload), gone)):
            continue
        over = writer.chore_in(ChoreState.CANCELLED if chore.state in LIVE else chore.state, chore)
        # First where it stood, so that its dedupe key is free again there; then without a name.
        writer.tables.keep_chore(writer.undo, ChoreRecord(over, NO_PAYLOAD))
        place = Place(chore.place.bank, FORGOTTEN_KEY) if at_place else chore.place
        bare = replace(over, place=place, dedupe=None, worker=None, last_error=None)
        writer.tables.keep_chore(writer.undo, ChoreRecord(bare, NO_PAYLOAD))
        writer.undo.put(writer.tables.erased, chore.id, writer.space)
        cleared += 1
    return cleared


def _file_receipt(writer: Writer, operation: Forget, counts: dict[str, int]) -> Receipt:
    change, digest = writer.batch.id, operation.selector.digest()
    ref = DocumentRef("~receipts", "receipts", "receipt", change)
    document = Document(
        id=change,
        space=writer.space,
        ref=ref,
        value=None,
        version=1,
        position=writer.next_position(ref),
        subject=None,
        origin=writer.batch.origin,
        recorded_us=writer.at_us,
        expires_us=None,
        change=change,
    )
    kept_counts: dict[str, JsonValue] = dict(counts)
    writer.file(
        document,
        {
            "selector": digest,
            "by": operation.by,
            "reason": operation.reason,
            "counts": kept_counts,
            "at_us": writer.at_us,
            "backups": [],
        },
    )
    return Receipt(
        id=change,
        space=writer.space,
        at_us=writer.at_us,
        by=operation.by,
        reason=operation.reason,
        selector=digest,
        counts=MappingProxyType(counts),
        stores=MappingProxyType({OWN_STORE: "done"}),
    )
