"""Guards: the eight bytes beside each row that tell whether it is still what was written, and comparing them on read.

A row is compared each time it is read. The rows of pages and vectors are large and are read by every search: a reader
compares each once for as long as its guard stays the same, and remembers no more than a table of guards.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from hashlib import blake2b
from marshal import dumps
from typing import Final, cast

from holdfast.model.chore import ChoreState
from holdfast.stores.sqlite.codec import row_hash
from holdfast.stores.sqlite.db import Column, Connection, Cursor, Record
from holdfast.stores.sqlite.faults import Spoilt

REMEMBERED: Final = 1 << 15
"""How many guards a reader remembers: 256 KiB, for four million entries in whole pages."""
_STATES: Final = frozenset(str(state) for state in ChoreState)
_FAR: Final = 1 << 62
_PAGE: Final = "select first, last, count, terms, rows, lengths, chunks, hash from pages where first=?"
_VECTORS: Final = "select first, data, scales, hash from vectors where first=?"
_TAIL: Final = "select row, length, vectors, scales, hash from tail where row=?"


def entry_hash(record: Record) -> bytes:
    """The guard of an entry's row: of everything but ``seen``."""
    return row_hash(*record[:16], record[17])


def past_hash(record: Record) -> bytes:
    """The guard of a row of the past: of everything but ``seen``."""
    return row_hash(*record[:16], *record[17:])


def plain_hash(record: Record) -> bytes:
    """The guard of a row of which every column counts."""
    return row_hash(*record)


def document_hash(*columns: Column) -> bytes:
    """The guard of a document's row: of everything but its position."""
    return row_hash(*columns)


def chore_hash(*columns: Column) -> bytes:
    """The guard of a chore: of ``id, space, bank, key, kind, dedupe, payload, max_attempts, created``."""
    return row_hash(*columns)


def chore_guarded(record: Record) -> Record:
    """What the guard of a chore covers, from ``columns.CHORE``: what never changes while it is done."""
    return *record[:7], record[9], record[15]


def possible_chore(record: Record) -> bool:
    """Whether what is not guarded of a chore, from ``columns.CHORE``, can be as it is."""
    state, attempts, _, due, token, until, worker, error = record[7:15]
    return (
        state in _STATES
        and isinstance(attempts, int)
        and isinstance(token, int)
        and isinstance(due, int)
        and 0 <= attempts <= token  # more than its most: a run that failed may be given one more
        and abs(due) < _FAR
        and (isinstance(until, int) if state == "leased" else until is None)
        and isinstance(worker, str | None)
        and isinstance(error, str | None)
    )


def whole_entry(record: Record) -> Record:
    """The columns of ``columns.ENTRY`` and the digest, without the guard that stands behind them."""
    # As row_hash does, without its detours: this runs for every entry that is read.
    if blake2b(dumps((*record[:16], record[17]), 2), digest_size=8).digest() != record[18]:
        raise Spoilt("entries", record[1])
    return record[:18]


def whole_past(record: Record) -> Record:
    """The columns of a version of the past, the guard being the 26th; what stands behind it stays."""
    if past_hash(record[:25]) != record[25]:
        raise Spoilt("past", record[1])
    return record[:25] + record[26:]


def whole_document(record: Record) -> Record:
    """The columns of ``columns.DOCUMENT``, without the guard that stands behind them."""
    if row_hash(*record[1:-1]) != record[-1]:
        raise Spoilt("documents", record[1])
    return record[:-1]


def whole_version(record: Record) -> Record:
    """The columns of an earlier version of a document, without the guard that stands behind them."""
    if row_hash(*record[:-1]) != record[-1]:
        raise Spoilt("document_versions", record[1])
    return record[:-1]


def whole_change(record: Record) -> Record:
    """The columns of a change, the cursor first, without the guard that stands behind them."""
    if row_hash(*record[1:-1]) != record[-1]:
        raise Spoilt("journal", record[1])
    return record[:-1]


def whole_chore(record: Record) -> Record:
    """The columns of ``columns.CHORE``, without the guard that stands behind them."""
    if row_hash(*chore_guarded(record)) != record[17]:
        raise Spoilt("chores", record[0])
    return record[:17]


def whole_row(table: str, record: Record) -> Record:
    """The columns of a row of which every one counts, without the guard that stands behind them."""
    if row_hash(*record[:-1]) != record[-1]:
        raise Spoilt(table, record[0])
    return record[:-1]


def whole_bank(number: Column, space: str, name: str, guard: Column) -> int:
    """The number of a bank."""
    if row_hash(number, space, name) != guard:
        raise Spoilt("banks", number)
    return cast("int", number)


def whole_key(bank: int, number: Column, key: Column, base: Column, guard: Column) -> None:
    """Compare a range of a key with its guard."""
    if row_hash(bank, number, key, base) != guard:
        raise Spoilt("keys", number)


class Verified:
    """Guards of large rows that one reader has compared: a table of fixed size, where a newer one takes the place."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: array[int] = array("Q", bytes(8 * REMEMBERED))

    def page(self, connection: Connection, first: Column, guard: Column) -> None:
        """Raise unless the page with this guard is what was written."""
        self._compare("pages", guard, lambda: connection.execute(_PAGE, (first,)), first)

    def vectors(self, connection: Connection, first: Column, guard: Column) -> None:
        """Raise unless the vectors with this guard are what was written."""
        self._compare("vectors", guard, lambda: connection.execute(_VECTORS, (first,)), first)

    def tail(self, connection: Connection, row: Column, guard: Column) -> None:
        """Raise unless the row of the tail with this guard is what was written."""
        self._compare("tail", guard, lambda: connection.execute(_TAIL, (row,)), row)

    def _compare(self, table: str, guard: Column, read: Callable[[], Cursor], name: Column) -> None:
        if not isinstance(guard, bytes) or len(guard) != 8:
            raise Spoilt(table, name)
        number = int.from_bytes(guard, "little")
        if self._guards[number % REMEMBERED] == number:
            return
        record = read().fetchone()
        if record is None:
            raise Spoilt(table, name)
        whole_row(table, record)
        self._guards[number % REMEMBERED] = number
