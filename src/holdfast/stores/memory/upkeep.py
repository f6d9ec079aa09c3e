"""Checking the tables of the store in memory, and searching them for bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.model.chore import LIVE, OVER
from holdfast.model.entry import Reason
from holdfast.ports.store import CheckReport, Finding, Overdue, StoreStats
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


def spaces(tables: Tables) -> list[str]:
    """The spaces that hold anything."""
    found = {versions[0].bare.space for versions in tables.entries.values()}
    found.update(space for space, _ in tables.document_refs.values())
    found.update(record.bare.space for record in tables.chores.values())
    return sorted(found)


def overdue(tables: Tables, expired_before_us: int, deleted_before_us: int, limit: int) -> list[Overdue]:
    """Records whose time has passed, by space."""
    found: dict[str, list[str]] = {}
    for count, (space, record_id) in enumerate(_passed(tables, expired_before_us, deleted_before_us)):
        if count == limit:
            break
        found.setdefault(space, []).append(record_id)
    return [Overdue(space, tuple(ids)) for space, ids in sorted(found.items())]


def _passed(tables: Tables, expired_before_us: int, deleted_before_us: int) -> Iterator[tuple[str, str]]:
    for entry_id, versions in tables.entries.items():
        newest = versions[-1].bare
        retired = newest.retired
        if retired is None:
            if newest.expires_us is not None and newest.expires_us < expired_before_us:
                yield newest.space, entry_id
        elif retired.reason is Reason.DELETED and retired.at_us < deleted_before_us:
            yield newest.space, entry_id
    for document_id, (space, ref) in tables.document_refs.items():
        document = tables.document_versions(space, ref)[-1].bare
        expires_us = document.expires_us
        if document.ended_us is None and expires_us is not None and expires_us < expired_before_us:
            yield space, document_id


def trim_journal(tables: Tables, before_us: int) -> int:
    """Remove old changes; the newest of each space stays."""
    removed = 0
    for space, changes in tables.feeds.items():
        kept = [change for change in changes[:-1] if change.at_us >= before_us] + changes[-1:]
        for change in set(changes).difference(kept):
            del tables.changes[change.id]
        removed += len(changes) - len(kept)
        tables.feeds[space] = kept
    return removed


def trim_chores(tables: Tables, before_us: int) -> int:
    """Remove chores that came to a good end."""
    old = [
        chore_id
        for chore_id, record in tables.chores.items()
        if record.bare.state in OVER and record.bare.created_us < before_us
    ]
    for chore_id in old:
        del tables.chores[chore_id]
    return len(old)


def stats(tables: Tables) -> StoreStats:
    """The text that is held, counted as UTF-8, and the records."""
    texts = {
        "entries": sum(
            len(text.encode())
            for versions in tables.entries.values()
            for record in versions
            for text in (record.bare.content, record.metadata)
        ),
        "vectors": sum(
            len(vector.data)
            for versions in tables.entries.values()
            for record in versions
            for vector in record.vectors
        ),
        "documents": sum(
            len(record.value.encode())
            for names in tables.documents.values()
            for versions in names.values()
            for record in versions
        ),
    }
    counts = {
        "entries": sum(versions[-1].bare.retired is None for versions in tables.entries.values()),
        "versions": len(tables.rows),
        "documents": len(tables.document_refs),
        "chores": len(tables.chores),
        "changes": len(tables.changes),
        "tombstones": len(tables.erased),
    }
    return StoreStats(texts, counts)


def bytes_held(tables: Tables, space: str) -> int:
    """What a space holds, as ``Usage`` counts it."""
    entries = sum(
        _entry_size(record)
        for versions in tables.entries.values()
        if versions[0].bare.space == space
        for record in versions
    )
    documents = sum(
        len(record.value.encode())
        for versions in tables.all_documents(space)
        if versions[0].bare.ref.kind != "receipt"
        for record in versions
    )
    return entries + documents


def _entry_size(record: EntryRecord) -> int:
    texts = (record.bare.content, record.bare.title or "", record.metadata if record.metadata != "{}" else "")
    return sum(len(text.encode()) for text in texts) + sum(len(vector.data) for vector in record.vectors)


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
