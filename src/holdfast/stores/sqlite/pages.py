"""The tail and the pages: lengths and vectors of each key, row by row at first, then many entries a page."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from holdfast.stores.sqlite.codec import row_hash
from holdfast.stores.sqlite.db import Column, Connection, Record
from holdfast.stores.sqlite.faults import Spoilt
from holdfast.stores.sqlite.guards import Verified, whole_row

_TAIL: Final = "select row, length, vectors, scales, hash from tail where row between ? and ? order by row"
_TAIL_LENGTHS: Final = "select row, length, hash from tail where row between ? and ?"
_TAIL_CLEAR: Final = "delete from tail where row=?"
_TAIL_PUT: Final = "insert into tail values(?,?,?,?,?)"
_PAGE_PUT: Final = "insert into pages values(?,?,?,?,?,?,?,?)"
_VECTORS_PUT: Final = "insert into vectors values(?,?,?,?)"
_PAGES: Final = "select first, last, count, terms, rows, lengths, chunks, hash from pages where first between ? and ? order by first"
_PAGE_LENGTHS: Final = "select first, rows, lengths, hash from pages where first between ? and ?"
_CANDIDATES: Final = (
    "select first, last, count, terms, rows, lengths, chunks, hash from pages where first between ? and ? and last>=?"
    " order by first desc"
)
_FIRSTS: Final = "select first from pages where first between ? and ?"
_VECTORS: Final = "select first, data, scales, hash from vectors where first=?"
_PAGE_DROP: Final = "delete from pages where first=?"
_VECTORS_DROP: Final = "delete from vectors where first=?"
_TAIL_ONE: Final = "select row, length, vectors, scales, hash from tail where row=?"


@dataclass(frozen=True, slots=True)
class Slot:
    """What an entry has in the tail or in a page: its row, its length in terms, its vectors."""

    row: int
    length: int
    vectors: bytes | None
    scales: bytes | None


def tail_of(connection: Connection, low: int, high: int) -> list[Slot]:
    """The tail slots of a range of rows."""
    return [_slot(row) for row in connection.execute(_TAIL, (low, high))]


def _slot(record: Record) -> Slot:
    return Slot(*cast("tuple[int, int, bytes | None, bytes | None]", whole_row("tail", record)))


def write_tail(connection: Connection, slots: Iterable[Slot]) -> None:
    """Add slots to the tail."""
    connection.executemany(_TAIL_PUT, [tail_record(slot) for slot in slots])


def tail_record(slot: Slot) -> Record:
    """A slot as the tail holds it: with its guard."""
    columns = (slot.row, slot.length, slot.vectors, slot.scales)
    return *columns, row_hash(*columns)


def write_page(connection: Connection, slots: Sequence[Slot]) -> None:
    """Write a page of slots, which are in the order of their rows."""
    rows = array("q", [slot.row for slot in slots]).tobytes()
    lengths = array("I", [slot.length for slot in slots]).tobytes()
    chunks = array("H", [len(slot.scales or b"") // 8 for slot in slots]).tobytes()
    terms = sum(slot.length for slot in slots)
    first, last = slots[0].row, slots[-1].row
    guard = row_hash(first, last, len(slots), terms, rows, lengths, chunks)
    connection.execute(_PAGE_PUT, (first, last, len(slots), terms, rows, lengths, chunks, guard))
    data = b"".join([slot.vectors or b"" for slot in slots])
    if data:
        scales = b"".join([slot.scales or b"" for slot in slots])
        connection.execute(_VECTORS_PUT, (first, data, scales, row_hash(first, data, scales)))


def seal(connection: Connection, low: int, high: int, fresh: Sequence[Slot], page: int) -> int:
    """Add fresh slots to a range, filling as many whole pages as the tail and they give; the new size of the tail."""
    kept = tail_of(connection, low, high)
    slots = sorted([*kept, *fresh], key=lambda slot: slot.row)
    full = len(slots) // page * page
    if full:
        sealed = slots[:full]
        connection.executemany(_TAIL_CLEAR, [(slot.row,) for slot in kept if slot.row <= sealed[-1].row])
        for start in range(0, full, page):
            write_page(connection, sealed[start : start + page])
    rows = {slot.row for slot in kept}
    write_tail(connection, [slot for slot in slots[full:] if slot.row not in rows])
    return len(slots) - full


def take_slot(connection: Connection, row: int, low: int) -> Slot | None:
    """Remove the slot of a row from the tail or from its page, and return it."""
    found = connection.execute(_TAIL_ONE, (row,)).fetchone()
    if found is not None:
        connection.execute(_TAIL_CLEAR, (row,))
        return _slot(found)
    for first, slots in _pages_with(connection, row, low):
        connection.execute(_PAGE_DROP, (first,))
        connection.execute(_VECTORS_DROP, (first,))
        rest = [slot for slot in slots if slot.row != row]
        if rest:
            write_page(connection, rest)
        return next(slot for slot in slots if slot.row == row)
    return None


def _pages_with(connection: Connection, row: int, low: int) -> Iterator[tuple[int, list[Slot]]]:
    for record in connection.execute(_CANDIDATES, (low, row, row)).fetchall():
        if row in rows_of(whole_row("pages", record)[4]):
            yield cast("int", record[0]), slots_of(connection, record)
            return


def rows_of(column: Column) -> array[int]:
    """The rows that a page holds."""
    rows = array("q")
    rows.frombytes(cast("bytes", column))
    return rows


def lengths_in(column: Column) -> array[int]:
    """The lengths that a page holds."""
    lengths = array("I")
    lengths.frombytes(cast("bytes", column))
    return lengths


def slots_of(connection: Connection, page: Record) -> list[Slot]:
    """The slots of a page, whose record has its guard behind it; a vector that is not as it was written is refused."""
    whole = whole_row("pages", page)
    stored = connection.execute(_VECTORS, (whole[0],)).fetchone()
    if stored is None and any(cast("bytes", whole[6])):
        raise Spoilt("vectors", whole[0])
    return slots_in(whole, None if stored is None else whole_row("vectors", stored))


def slots_in(page: Record, vectors: Record | None) -> list[Slot]:
    """The slots of a page and its vectors, which are whole."""
    rows, sizes = rows_of(page[4]), lengths_in(page[5])
    counts = array("H")
    counts.frombytes(cast("bytes", page[6]))
    data, scales = (b"", b"") if vectors is None else cast("tuple[bytes, bytes]", vectors[1:3])
    total = len(scales) // 8
    size = len(data) // total if total else 0
    slots: list[Slot] = []
    at = 0
    for row, length, count in zip(rows, sizes, counts, strict=True):
        if count:
            slots.append(
                Slot(row, length, data[at * size : (at + count) * size], scales[at * 8 : (at + count) * 8])
            )
        else:
            slots.append(Slot(row, length, None, None))
        at += count
    return slots


def pages_of(connection: Connection, low: int, high: int) -> Iterator[list[Slot]]:
    """Pages of a range, then its tail, as slots; rows of one page ascend, pages may overlap."""
    for record in connection.execute(_PAGES, (low, high)).fetchall():
        yield slots_of(connection, record)
    yield tail_of(connection, low, high)


def reseal(connection: Connection, low: int, high: int, lengths: dict[int, int], page: int) -> None:
    """Write the slots of a range anew, with other lengths."""
    held = {slot.row: slot for slots in pages_of(connection, low, high) for slot in slots}
    slots = [
        replace(held.get(row, Slot(row, 0, None, None)), length=length)
        for row, length in sorted(lengths.items())
    ]
    for (first,) in connection.execute(_FIRSTS, (low, high)).fetchall():
        connection.execute(_PAGE_DROP, (first,))
        connection.execute(_VECTORS_DROP, (first,))
    connection.executemany(_TAIL_CLEAR, [(row,) for row in held])
    seal(connection, low, high, slots, page)


def lengths_of(connection: Connection, low: int, high: int, verified: Verified) -> dict[int, int]:
    """The length of every entry of a range, by row."""
    found: dict[int, int] = {}
    for first, rows, lengths, guard in connection.execute(_PAGE_LENGTHS, (low, high)).fetchall():
        verified.page(connection, first, guard)
        found.update(zip(rows_of(rows), lengths_in(lengths), strict=True))
    for row, length, guard in connection.execute(_TAIL_LENGTHS, (low, high)).fetchall():
        verified.tail(connection, row, guard)
        found[cast("int", row)] = cast("int", length)
    return found


def remove_slots(connection: Connection, low: int, high: int, rows: set[int]) -> None:
    """Remove the slots of many rows of a range, rewriting each page once."""
    connection.executemany(_TAIL_CLEAR, [(row,) for row in sorted(rows)])
    for record in connection.execute(_PAGES, (low, high)).fetchall():
        first = record[0]
        if rows.isdisjoint(rows_of(record[4])):
            continue
        slots = slots_of(connection, record)
        connection.execute(_PAGE_DROP, (first,))
        connection.execute(_VECTORS_DROP, (first,))
        rest = [slot for slot in slots if slot.row not in rows]
        if rest:
            write_page(connection, rest)
