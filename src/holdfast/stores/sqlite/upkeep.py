"""Upkeep: comparing rows with their hashes, looking for residue in the raw files, and copying the file."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from holdfast.errors import AlreadyExists
from holdfast.ports.store import CheckReport, Finding
from holdfast.stores.sqlite import document_rows, entry_rows
from holdfast.stores.sqlite.codec import row_hash
from holdfast.stores.sqlite.db import Connection, Record, copy_file
from holdfast.stores.sqlite.ledger import entry_hash
from holdfast.stores.sqlite.reading import Reading

_INTEGRITY: Final = "pragma quick_check(10)"
_ENTRIES: Final = "select " + entry_rows.COLUMNS + ", digest, hash from entries"
_PAST: Final = (
    "select "
    + entry_rows.COLUMNS
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
_VERSIONS: Final = "select " + document_rows.COLUMNS + ", ended, ended_change, hash from document_versions"
_ENTRY_ROWS: Final = "select row from entries"
_TAIL_ROWS: Final = "select row from tail"
_PAGE_ROWS: Final = "select rows from pages"
_HINT: Final = "restore the newest backup, or export what is whole"


def check(reading: Reading) -> CheckReport:
    """Compare every row with its hash, and the indexes with the entries."""
    examined: dict[str, int] = {}
    findings: list[Finding] = []
    fresh = reading.connect()  # one that has read the word index before may compare it with what it remembers
    findings += [
        Finding("file", cast("str", answer), _HINT)
        for (answer,) in fresh.execute(_INTEGRITY)
        if answer != "ok"
    ]
    fresh.close()
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
)


def _index_findings(connection: Connection) -> Iterator[Finding]:
    """Every entry has one slot, in the tail or in a page, and no slot is without its entry."""
    entries = {cast("int", row) for (row,) in connection.execute(_ENTRY_ROWS)}
    slots: list[int] = [cast("int", row) for (row,) in connection.execute(_TAIL_ROWS)]
    for (rows,) in connection.execute(_PAGE_ROWS):
        held = array("q")
        held.frombytes(cast("bytes", rows)[: len(cast("bytes", rows)) // 8 * 8])
        slots.extend(held)
    hint = "rebuild the indexes"
    if len(slots) != len(set(slots)):
        yield Finding("pages", "some entries have two slots", hint)
    if missing := len(entries.difference(slots)):
        yield Finding("pages", f"{missing} entries have no slot", hint)
    if stray := len(set(slots).difference(entries)):
        yield Finding("pages", f"{stray} slots have no entry", hint)


def residue(path: Path, needles: Sequence[bytes]) -> Mapping[str, int]:
    """Occurrences of byte strings in the database file and its log."""
    found: dict[str, int] = {}
    for suffix in ("", "-wal", "-shm"):
        file = path.with_name(path.name + suffix)
        with suppress(FileNotFoundError):
            count = _occurrences(file, needles)
            if count:
                found[file.name] = count
    return found


def _occurrences(file: Path, needles: Sequence[bytes]) -> int:
    """Counts in pieces that overlap by less than the needle, so that none is missed or counted twice."""
    total = 0
    for needle in needles:
        if not needle:
            continue
        rest = b""
        with file.open("rb") as stream:
            while piece := stream.read(1 << 22):
                window = rest + piece
                total += window.count(needle)
                keep = len(needle) - 1
                tail = window[-keep:] if keep else b""
                rest = tail
    return total


def backup(reading: Reading, target: Path) -> None:
    """Copy the file as it is now, while others write."""
    if target.exists():
        raise AlreadyExists(f"{target} exists already", hint="give a new path, or remove the old file first")
    copy_file(reading.connection, str(target))
