"""What whoever runs the file asks of it, over all spaces: what is there, what is overdue, how large it is."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from holdfast.ports.store import Overdue, StoreStats
from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.reading import Reading

_SPACES: Final = (
    "select distinct b.space from banks b where exists(select 1 from keys k where k.bank=b.bank)"
    " union select space from documents union select space from document_versions"
    " union select space from chores order by 1"
)
_EXPIRED: Final = "select row, id from entries where expires<? order by expires limit ?"
_DELETED: Final = (
    "select p.row, p.id from past p where p.reason='deleted' and p.retired<?1"
    " and not exists(select 1 from past l where l.id=p.id and l.version>p.version)"
    " and not exists(select 1 from entries e where e.id=p.id) limit ?2"
)
_DOCUMENTS: Final = "select space, id from documents where expires<? limit ?"
_TRIM: Final = (
    "delete from journal where at<?1 and cursor<(select max(l.cursor) from journal l where l.space=journal.space)"
    " returning cursor"
)
_TRIM_REPEATS: Final = "delete from idempotency where at<?"
_TRIM_CHORES: Final = "delete from chores where state in ('done', 'cancelled') and created<? returning 1"
_SIZES: Final = (
    "select coalesce(s.tbl_name, d.name), sum(d.pgsize), sum(d.unused) from dbstat d"
    " left join sqlite_schema s on s.name=d.name where d.aggregate=true group by 1"
)
_FREE: Final = "select (select * from pragma_freelist_count) * (select * from pragma_page_size)"
_KINDS: Final = {
    "entries": "entries", "past": "past", "past_words": "past", "words": "words", "fresh": "words",
    "tail": "vectors", "pages": "vectors", "vectors": "vectors", "documents": "documents",
    "document_versions": "documents", "journal": "journal", "idempotency": "journal", "chores": "chores",
}  # fmt: skip
_COUNTS: Final = {
    "entries": "select count(*) from entries",
    "versions": "select (select count(*) from entries) + (select count(*) from past)",
    "documents": "select count(*) from documents",
    "chores": "select count(*) from chores",
    "changes": "select count(*) from journal",
    "tombstones": "select count(*) from tombstones",
}


def spaces(reading: Reading) -> list[str]:
    """The spaces that hold anything, by code points."""
    return sorted(cast("str", space) for (space,) in reading.connection.execute(_SPACES))


def overdue(reading: Reading, expired_before_us: int, deleted_before_us: int, limit: int) -> list[Overdue]:
    """Records whose time has passed, by space."""
    found: dict[str, list[str]] = {}
    with reading.snapshot() as connection:
        rows = connection.execute(_EXPIRED, (expired_before_us, limit)).fetchall()
        rows += connection.execute(_DELETED, (deleted_before_us, limit)).fetchall()
        for row, identifier in rows[:limit]:
            space, _, _ = reading.names.of_row(connection, cast("int", row))
            found.setdefault(space, []).append(cast("bytes", identifier).hex())
        left = max(0, limit - len(rows))
        for name, identifier in connection.execute(_DOCUMENTS, (expired_before_us, left)):
            found.setdefault(cast("str", name), []).append(cast("bytes", identifier).hex())
    return [Overdue(space, tuple(ids)) for space, ids in sorted(found.items())]


def trim_journal(connection: Connection, before_us: int) -> int:
    """Remove old changes, and the idempotency keys of that time; inside the open transaction."""
    connection.execute(_TRIM_REPEATS, (before_us,))
    return len(connection.execute(_TRIM, (before_us,)).fetchall())


def trim_chores(connection: Connection, before_us: int) -> int:
    """Remove chores that came to a good end; inside the open transaction."""
    return len(connection.execute(_TRIM_CHORES, (before_us,)).fetchall())


def stats(reading: Reading) -> StoreStats:
    """Bytes by what they hold, the log among them, and counts of records."""
    sizes: dict[str, int] = dict.fromkeys(_KINDS.values(), 0)
    with reading.snapshot() as connection:
        for table, size, unused in connection.execute(_SIZES):
            kind = _kind(cast("str", table))
            sizes[kind] = sizes.get(kind, 0) + cast("int", size) - cast("int", unused)
            sizes["unused"] = sizes.get("unused", 0) + cast("int", unused)
        sizes["unused"] = sizes.get("unused", 0) + cast("int", connection.execute(_FREE).get)
        counts = {name: cast("int", connection.execute(sql).get) for name, sql in _COUNTS.items()}
    log = reading.path.with_name(reading.path.name + "-wal")
    sizes["log"] = _size(log)
    return StoreStats(sizes, counts)


def _kind(table: str) -> str:
    for word in ("past_words", "words"):
        if table.startswith(word):
            return _KINDS[word]
    return _KINDS.get(table, "other")


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
