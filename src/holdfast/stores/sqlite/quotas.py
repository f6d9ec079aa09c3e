"""Quotas: what a space may hold, and what it holds, counted along with each batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from holdfast.errors import quota_exceeded
from holdfast.model.batch import Batch, Forget
from holdfast.model.usage import Usage
from holdfast.stores.sqlite.codec import row_hash
from holdfast.stores.sqlite.db import Column, Connection
from holdfast.stores.sqlite.layout import Layout

_ALL: Final = "select space, bytes, used from quotas"
_ONE: Final = "select bytes, used from quotas where space=?"
_PUT: Final = "insert or replace into quotas values(?,?,?,?)"
_DROP: Final = "delete from quotas where space=?"
_BANKS: Final = "select bank from banks where space=?"
_IN_ROWS: Final = (
    "select coalesce((select sum(octet_length(content) + coalesce(octet_length(title), 0)"
    " + coalesce(octet_length(metadata), 0)) from entries where row between ?1 and ?2), 0)"
    " + coalesce((select sum(octet_length(content) + coalesce(octet_length(title), 0)"
    " + coalesce(octet_length(metadata), 0) + coalesce(length(vectors), 0)) from past where row between ?1 and ?2), 0)"
    " + coalesce((select sum(length(vectors)) from tail where row between ?1 and ?2), 0)"
    " + coalesce((select sum(length(data)) from vectors where first between ?1 and ?2), 0)"
)
_IN_DOCUMENTS: Final = (
    "select coalesce((select sum(octet_length(value)) from documents where space=?1 and kind<>'receipt'), 0)"
    " + coalesce((select sum(octet_length(value)) from document_versions where space=?1 and kind<>'receipt'), 0)"
)


@dataclass(slots=True)
class Meter:
    """The limit of a space, and what it holds."""

    limit: int
    used: int


def meters(connection: Connection) -> dict[str, Meter]:
    """The spaces that have a limit."""
    return {
        cast("str", space): Meter(cast("int", limit), cast("int", used))
        for space, limit, used in connection.execute(_ALL)
    }


def size_of(*columns: Column) -> int:
    """The bytes of columns as they are stored; nothing for what is missing."""
    return sum(
        len(column.encode()) if isinstance(column, str) else len(column)
        for column in columns
        if isinstance(column, str | bytes)
    )


def check(batch: Batch, grown: int, meter: Meter) -> None:
    """Refuse a batch that makes its space larger than it may be; one that forgets is never refused."""
    after = meter.used + grown
    if grown > 0 and after > meter.limit and not forgets(batch):
        raise quota_exceeded(batch.space, meter.used, after, meter.limit)


def note(connection: Connection, layout: Layout, batch: Batch, grown: int, meter: Meter) -> None:
    """Write what the space holds after a batch. What a forget took along is not known, so it is counted anew."""
    if forgets(batch):
        meter.used = measured(connection, layout, batch.space)
    elif grown:
        meter.used += grown
    else:
        return
    _write(connection, batch.space, meter.limit, meter.used)


def forgets(batch: Batch) -> bool:
    """Whether a batch erases something."""
    return any(isinstance(operation, Forget) for operation in batch.operations)


def measured(connection: Connection, layout: Layout, space: str) -> int:
    """What a space holds, counted from its records; takes time in proportion to them."""
    total = cast("int", connection.execute(_IN_DOCUMENTS, (space,)).get)
    for (bank,) in connection.execute(_BANKS, (space,)).fetchall():
        total += cast("int", connection.execute(_IN_ROWS, layout.bank_rows(cast("int", bank))).get)
    return total


def limit(connection: Connection, layout: Layout, space: str, size: int | None) -> None:
    """Give a space a limit, or take it away; inside the open transaction."""
    if size is None:
        connection.execute(_DROP, (space,))
    else:
        _write(connection, space, size, measured(connection, layout, space))


def usage(connection: Connection, layout: Layout, space: str) -> Usage:
    """What a space holds and may hold."""
    found = connection.execute(_ONE, (space,)).fetchone()
    if found is None:
        return Usage(measured(connection, layout, space), None)
    return Usage(cast("int", found[1]), cast("int", found[0]))


def _write(connection: Connection, space: str, size: int, used: int) -> None:
    connection.execute(_PUT, (space, size, used, row_hash(space, size, used)))
