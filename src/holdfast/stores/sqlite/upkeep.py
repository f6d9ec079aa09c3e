"""Upkeep: comparing rows with their hashes, looking for residue in the raw files, and copying the file."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, cast

import apsw

from holdfast.errors import AlreadyExists, StoreFailed
from holdfast.ports.store import CheckReport, Finding
from holdfast.stores.sqlite import columns
from holdfast.stores.sqlite.codec import row_hash
from holdfast.stores.sqlite.db import Connection, Record, copy_file
from holdfast.stores.sqlite.files import put_away
from holdfast.stores.sqlite.guards import entry_hash, past_hash
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
    ("past", _PAST, past_hash),
    ("pages", _PAGES, _plain),
    ("vectors", _VECTORS, _plain),
    ("journal", _JOURNAL, _plain),
    ("documents", _DOCUMENTS, _plain),
    ("document_versions", _VERSIONS, _plain),
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


def backup(reading: Reading, target: Path) -> None:
    """Copy the file as it is now, while others write."""
    if target.exists():
        raise AlreadyExists(f"{target} exists already", hint="give a new path, or remove the old file first")
    if not target.parent.is_dir():
        raise StoreFailed(
            f"the folder of {target} does not exist", hint="make it first, or give another path"
        )
    try:
        copy_file(reading.connection, str(target))
    except apsw.Error as error:
        target.unlink(missing_ok=True)
        raise StoreFailed(
            f"{target} could not be written: {error}", hint="free space, or give another path"
        ) from error
