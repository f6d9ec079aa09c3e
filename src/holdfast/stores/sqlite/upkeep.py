"""Upkeep: comparing rows with their hashes, and the indexes with the rows."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from holdfast.ports.store import CheckReport, Finding
from holdfast.stores.sqlite import columns, entry_rows
from holdfast.stores.sqlite.codec import row_hash
from holdfast.stores.sqlite.db import Connection, Record
from holdfast.stores.sqlite.files import put_away
from holdfast.stores.sqlite.ledger import entry_hash
from holdfast.stores.sqlite.reading import Reading

_INTEGRITY: Final = "pragma quick_check(10)"
_ENTRIES: Final = "select " + columns.ENTRY + ", digest, hash from entries"
_PAST: Final = (
    "select "
    + columns.ENTRY
    + ", digest, retired, reason, by_entry, by_change, length, vectors, scales, hash"
    " from past"
)
_PAGES: Final = "select first, last, count, terms, rows, lengths, chunks, hash from pages"
_VECTORS: Final = "select first, data, scales, hash from vectors"
_JOURNAL: Final = "select id, space, at, origin, steps, undoes, hash from journal"
_DOCUMENTS: Final = (
    "select id, space, bank, key, kind, name, version, value, subject, origin, recorded, expires, change, hash"
    " from documents"
)
_VERSIONS: Final = "select " + columns.DOCUMENT + ", ended, ended_change, hash from document_versions"
_IDEMPOTENCY: Final = "select name, digest, change, at, placed, hash from idempotency"
_TOMBSTONES: Final = "select id, space, at, hash from tombstones"
_SPENT: Final = "select bank, name, high, hash from spent"
_FORGOTTEN: Final = "select name, at, hash from forgotten"
_QUOTAS: Final = "select space, bytes, used, hash from quotas"
_ENTRY_ROWS: Final = "select row from entries"
_TAIL_ROWS: Final = "select row from tail"
_PAGE_ROWS: Final = "select rows from pages"
_HINT: Final = "open the newest backup instead"


def check(reading: Reading) -> CheckReport:
    """Compare rows with their hashes, and the slots of lengths and vectors with the entries."""
    examined: dict[str, int] = {}
    findings: list[Finding] = []
    fresh = reading.connect()  # one that has read the word index before may compare it with what it remembers
    try:
        findings += [
            Finding("file", cast("str", answer), _HINT)
            for (answer,) in fresh.execute(_INTEGRITY)
            if answer != "ok"
        ]
    finally:
        put_away(fresh)
    with reading.snapshot() as connection:
        for where, sql, guard in _GUARDED:
            examined[where] = 0
            for row in connection.execute(sql):
                examined[where] += 1
                if guard(row[:-1]) != row[-1]:
                    findings.append(Finding(where, f"row {_name(row)} is not what was written", _HINT))
        findings += _index_findings(connection)
    return CheckReport(examined, tuple(findings))


def _name(row: Record) -> str:
    first = next((column for column in row if isinstance(column, bytes)), next(iter(row)))
    return first.hex() if isinstance(first, bytes) else str(first)


def _plain(row: Record) -> bytes:
    return row_hash(*row)


_GUARDED: Final[Sequence[tuple[str, str, Callable[[Record], bytes]]]] = (
    ("entries", _ENTRIES, entry_hash),
    ("past", _PAST, entry_rows.past_hash),
    ("pages", _PAGES, _plain),
    ("vectors", _VECTORS, _plain),
    ("journal", _JOURNAL, _plain),
    ("documents", _DOCUMENTS, _plain),
    ("document_versions", _VERSIONS, _plain),
    ("idempotency", _IDEMPOTENCY, _plain),
    ("tombstones", _TOMBSTONES, _plain),
    ("spent", _SPENT, _plain),
    ("forgotten", _FORGOTTEN, _plain),
    ("quotas", _QUOTAS, _plain),
)


def _index_findings(connection: Connection) -> Iterator[Finding]:
    """Every entry has one slot, in the tail or in a page, and no slot is without its entry."""
    entries = {cast("int", row) for (row,) in connection.execute(_ENTRY_ROWS)}
    slots: list[int] = [cast("int", row) for (row,) in connection.execute(_TAIL_ROWS)]
    for (rows,) in connection.execute(_PAGE_ROWS):
        held = array("q")
        held.frombytes(cast("bytes", rows)[: len(cast("bytes", rows)) // 8 * 8])
        slots.extend(held)
    hint = _HINT
    if len(slots) != len(set(slots)):
        yield Finding("pages", "some entries have two slots", hint)
    if missing := len(entries.difference(slots)):
        yield Finding("pages", f"{missing} entries have no slot", hint)
    if stray := len(set(slots).difference(entries)):
        yield Finding("pages", f"{stray} slots have no entry", hint)
