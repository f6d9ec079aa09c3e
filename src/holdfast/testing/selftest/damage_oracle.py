"""What a file holds, read with a bare connection: the judge of the damage test, which knows nothing of guards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.stores.sqlite.db import Connection, open_connection
from holdfast.stores.sqlite.files import put_away
from holdfast.stores.sqlite.raw_records import RawFile, page_records
from holdfast.stores.sqlite.salvage import Salvage

KINDS: Final = ("entries", "documents", "journal", "vectors", "words", "rest")
_TABLES: Final[Mapping[str, str]] = {
    "entries": "entries", "past": "entries", "documents": "documents", "document_versions": "documents",
    "journal": "journal", "tail": "vectors", "pages": "vectors", "vectors": "vectors", "fresh": "words",
    "banks": "rest", "keys": "rest", "chores": "rest", "derived": "rest", "tombstones": "rest", "meta": "rest",
    "idempotency": "rest", "spent": "rest",
}  # fmt: skip
_ROWS: Final = {
    "entries": "select * from entries", "past": "select * from past", "documents": "select * from documents",
    "document_versions": "select * from document_versions", "journal": "select * from journal",
    "tail": "select * from tail", "pages": "select * from pages", "vectors": "select * from vectors",
    "fresh": "select * from fresh", "banks": "select * from banks", "keys": "select * from keys",
    "chores": "select * from chores", "derived": "select * from derived", "tombstones": "select * from tombstones",
    "meta": "select * from meta", "idempotency": "select * from idempotency", "spent": "select * from spent",
    "words": "select term, doc from temp.seen_words", "past_words": "select term, doc from temp.seen_past",
}  # fmt: skip
_LOOK: Final = (
    "create virtual table temp.seen_words using fts5vocab(main, words, instance)",
    "create virtual table temp.seen_past using fts5vocab(main, past_words, instance)",
)
_PAGES: Final = "select name, pageno from dbstat"
_OWNERS: Final = "select name, tbl_name from sqlite_schema"


@dataclass(frozen=True, slots=True)
class State:
    """The rows of each table; None for one that cannot be read."""

    rows: Mapping[str, frozenset[object] | None]
    page_size: int = 4096

    def differing(self, other: State) -> set[str]:
        """The kinds of which this holds something else than the other."""
        return {
            _TABLES.get(table, "words")
            for table in _ROWS
            if self.rows.get(table) is None or self.rows.get(table) != other.rows.get(table)
        }


def state_of(path: Path) -> State:
    """What a bare connection reads in a file."""
    connection: Connection | None = None
    rows: dict[str, frozenset[object] | None] = {}
    try:
        connection = open_connection(str(path), readonly=True, vfs=None)
        for statement in _LOOK:
            connection.execute(statement)
        for table, sql in _ROWS.items():
            rows[table] = _rows(connection, sql)
    except Exception:  # noqa: BLE001 - whatever a damaged file comes to: it cannot be read
        return State(rows)
    finally:
        put_away(connection)
    return State(rows)


def _rows(connection: Connection, sql: str) -> frozenset[object] | None:
    try:
        return frozenset(connection.execute(sql))
    except Exception:  # noqa: BLE001 - as above
        return None


def pages_by_kind(path: Path) -> dict[str, list[int]]:
    """The pages that hold records and indexes of each kind."""
    connection = open_connection(str(path), readonly=True, vfs=None)
    owners = {str(name): str(table) for name, table in connection.execute(_OWNERS)}
    found: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for name, page in connection.execute(_PAGES):
        table = owners.get(str(name), str(name))
        kind = "words" if "words" in table else _TABLES.get(table, "rest")
        found[kind].append(int(str(page)))
    put_away(connection)
    return found


def records_by_page(path: Path) -> dict[int, set[tuple[str, object]]]:
    """Which guarded records have a byte on each page, those of their chains among them."""
    data = path.read_bytes()
    size = int.from_bytes(data[16:18], "big")
    touched: set[int] = set()

    def read(offset: int, count: int) -> bytes:
        touched.add(offset // size + 1)
        return data[offset : offset + count]

    file = RawFile(read, len(data), size)
    found: dict[int, set[tuple[str, object]]] = {}
    for number in range(1, file.pages + 1):
        for raw in page_records(file, number):
            salvage = Salvage()
            salvage.take(raw)
            names = {(table, name) for table, rows in salvage.rows.items() for name in rows}
            for page in (number, *touched):
                found.setdefault(page, set()).update(names)
            touched.clear()
    return found
