"""Checking the tables of the store in memory, and searching them for bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.model.chore import LIVE
from holdfast.ports.store import CheckReport, Finding
from holdfast.rules.words import index_terms
from holdfast.stores.memory.tables import EntryRecord, Tables, Versions

HINT = "report this: the tables of a store in memory can only be wrong through a mistake in holdfast"


def check(tables: Tables) -> CheckReport:
    """Compare what finds the records with the records."""
    found = (*_check_entries(tables), *_check_keys(tables), *_check_documents(tables), *_check_chores(tables))
    examined = {
        "entries": len(tables.entries),
        "versions": len(tables.rows),
        "documents": len(tables.document_refs),
        "chores": len(tables.chores),
        "changes": len(tables.changes),
    }
    return CheckReport(examined, tuple(Finding(where, what, HINT) for where, what in found))


def residue(tables: Tables, needles: Sequence[bytes]) -> int:
    """Occurrences of the needles in all text that is held."""
    return sum(text.encode().count(needle) for text in _texts(tables) for needle in needles if needle)


def _check_entries(tables: Tables) -> Iterator[tuple[str, str]]:
    for entry_id, versions in tables.entries.items():
        where = f"entry {entry_id}"
        if [record.bare.version for record in versions] != list(range(1, len(versions) + 1)):
            yield where, "its versions are not 1, 2, 3 …"
        if any(record.bare.retired is None for record in versions[:-1]):
            yield where, "an old version is not retired"
        for record in versions:
            if tables.rows.get(record.row) != (entry_id, record.bare.version):
                yield where, f"the handle of version {record.bare.version} leads elsewhere"
            if record.terms != index_terms(record.bare.content, record.bare.title, record.bare.name):
                yield where, f"the terms of version {record.bare.version} are not those of its content"
        if not _digest_is_listed(tables, versions):
            yield where, "its digest does not lead to it"
    if len(tables.rows) != sum(map(len, tables.entries.values())):
        yield "rows", "there are handles without a version"


def _digest_is_listed(tables: Tables, versions: Versions) -> bool:
    newest = versions[-1]
    if newest.digest is None or newest.bare.retired is not None:
        return True
    spot = (newest.bare.space, newest.bare.bank, newest.bare.key)
    return newest.bare.id in tables.digests.get((spot, newest.digest), ())


def _check_keys(tables: Tables) -> Iterator[tuple[str, str]]:
    for (space, bank), keys in tables.keys.items():
        for key, seqs in keys.items():
            where = f"key {key!r} of bank {bank!r} in space {space!r}"
            if max(seqs, default=0) > tables.heads.get((space, bank, key), 0):
                yield where, "a seq is beyond its head"
            for seq, entry_id in seqs.items():
                if not all(
                    _stands_at(record, (space, bank, key, seq)) for record in tables.entries.get(entry_id, ())
                ):
                    yield where, f"seq {seq} leads to an entry of another place"
                if entry_id not in tables.entries:
                    yield where, f"seq {seq} leads nowhere"


def _stands_at(record: EntryRecord, where: tuple[str, str, str, int]) -> bool:
    entry = record.bare
    return (entry.space, entry.bank, entry.key, entry.seq) == where


def _check_documents(tables: Tables) -> Iterator[tuple[str, str]]:
    named = 0
    for names in tables.documents.values():
        for versions in names.values():
            named += 1
            document = versions[-1].bare
            where = f"document {document.id}"
            if tables.document_refs.get(document.id) != (document.space, document.ref):
                yield where, "its id leads elsewhere"
            numbers = [record.bare.version for record in versions]
            if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
                yield where, "a version between kept ones is missing"
            if any(record.bare.ended_us is None for record in versions[:-1]):
                yield where, "an old version has not ended"
    if named != len(tables.document_refs):
        yield "documents", "there are ids without a document"


def _check_chores(tables: Tables) -> Iterator[tuple[str, str]]:
    live = {chore_id for chore_id, record in tables.chores.items() if record.bare.state in LIVE}
    if live != set(tables.live):
        yield "chores", "the live ones are not those that are queued or leased"
    for (space, place, dedupe), chore_id in tables.dedupes.items():
        if chore_id not in live:
            yield (
                f"chore {chore_id}",
                f"it is over but holds the dedupe key {dedupe!r} of {place.bank} in space {space!r}",
            )


def _texts(tables: Tables) -> Iterator[str]:
    for versions in tables.entries.values():
        for record in versions:
            yield from _entry_texts(record)
    for names in tables.documents.values():
        for name, documents in names.items():
            yield name
            for document in documents:
                yield document.value
                yield document.bare.subject or ""
    for chore in tables.chores.values():
        yield chore.payload
        yield chore.bare.last_error or ""


def _entry_texts(record: EntryRecord) -> Iterator[str]:
    entry = record.bare
    yield from (entry.content, record.metadata, *record.terms)
    yield from (text for text in (entry.title, entry.name, entry.thread, entry.subject) if text is not None)
