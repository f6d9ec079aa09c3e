"""Reading the word and vector indexes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, cast

from holdfast.errors import EmbedderMismatch, ScopeError
from holdfast.model.entry import Quantised
from holdfast.model.scope import Scope
from holdfast.model.window import Window
from holdfast.ports.store import Postings, WordStats
from holdfast.stores.sqlite import columns
from holdfast.stores.sqlite.codec import vectors_of
from holdfast.stores.sqlite.entry_reads import admitted, inside
from holdfast.stores.sqlite.faults import Spoilt
from holdfast.stores.sqlite.guards import whole_past
from holdfast.stores.sqlite.pages import lengths_in, lengths_of, rows_of
from holdfast.stores.sqlite.places import bank_number, key_ranges
from holdfast.stores.sqlite.reading import Reading
from holdfast.stores.sqlite.word_rows import indexable, level_query, occurrences

_PAST_TERM: Final = "select rowid from past_words where past_words match ?"
_PAST_ROW: Final = "select " + columns.PAST + ", hash from past where number=?"
_EXPIRED: Final = "select row from entries where expires<? and row between ? and ?"
_PAGE_SUMS: Final = "select first, count, terms, hash from pages where first between ? and ?"
_TAIL_SUMS: Final = "select count(*), coalesce(sum(length), 0) from tail where row between ? and ?"
_TAIL_LENGTH: Final = "select length, hash from tail where row=?"
_LENGTHS: Final = (
    "select first, rows, lengths, hash from pages where first between ? and ? and last>=? order by first desc"
)
_DIMENSIONS: Final = "select value from meta where name='dimensions'"
_PAST_VECTORS: Final = (
    "select " + columns.PAST + ", hash, number from past where recorded<=?1 and retired>?1"
    " and (expires is null or expires>=?1) and vectors is not null"
)
_EXPIRED_THEN: Final = "select row from entries where row between ?1 and ?2 and (recorded>?3 or expires<?3)"
_FEW: Final = 8

Bounds = list[tuple[int, int]]


def bounds_of(reading: Reading, scope: Scope) -> Bounds:
    """The row ranges of a bank or a key."""
    if scope.bank is None:
        raise ScopeError("searching needs a bank", code="bank_required")
    bank = bank_number(reading.connection, scope.space, scope.bank)
    if bank is None:
        return []
    if scope.key is None:
        return [reading.layout.bank_rows(bank)]
    return [(kept.low, kept.high) for kept in key_ranges(reading.connection, reading.layout, bank, scope.key)]


def words(reading: Reading, scope: Scope, terms: Sequence[str], as_of_us: int | None) -> WordStats:
    """Statistics of terms in a scope."""
    with reading.snapshot():
        bounds = bounds_of(reading, scope)
        expired = _rows(reading, _EXPIRED, bounds, (reading.now_us(),))
        entries, total = _sums(reading, bounds)
        lengths = _Lengths(reading, bounds, entries)
        entries -= len(expired)
        total -= sum(lengths.of(row) for row in expired)
        found: dict[str, Postings] = {}
        for term, counts in occurrences(reading.connection, list(dict.fromkeys(terms)), bounds).items():
            if as_of_us is None:
                for row in expired:
                    counts.pop(row, None)
                sized = [(row, count, lengths.of(row)) for row, count in sorted(counts.items())]
            else:
                sized = _known_then(reading, scope, term, counts, lengths, as_of_us)
            found[term] = Postings(
                array("q", [item[0] for item in sized]),
                array("I", [item[1] for item in sized]),
                array("I", [item[2] for item in sized]),
            )
    return WordStats(entries, total, found)


def _rows(reading: Reading, sql: str, bounds: Bounds, before: tuple[int, ...]) -> set[int]:
    return {
        cast("int", row)
        for low, high in bounds
        for (row,) in reading.connection.execute(sql, (*before, low, high))
    }


def _sums(reading: Reading, bounds: Bounds) -> tuple[int, int]:
    """How many entries there are, and how many terms; those of the tail are compared when they are read one by one."""
    connection = reading.connection
    entries = total = 0
    for low, high in bounds:
        for first, held, terms, guard in connection.execute(_PAGE_SUMS, (low, high)):
            reading.verified.page(connection, first, guard)
            entries += cast("int", held)
            total += cast("int", terms)
        count, length = cast("tuple[int, int]", connection.execute(_TAIL_SUMS, (low, high)).fetchone())
        entries += count
        total += length
    return entries, total


def _known_then(
    reading: Reading, scope: Scope, term: str, counts: dict[int, int], lengths: _Lengths, as_of_us: int
) -> list[tuple[int, int, int]]:
    found = [
        (-row, count, lengths.of(row))
        for row, count in counts.items()
        if _recorded_by(reading, row, as_of_us)
    ]
    past: dict[int, int] = {}
    level = 1
    while indexable(term):
        rows = reading.connection.execute(_PAST_TERM, (level_query(term, level),)).fetchall()
        if not rows:
            break
        past.update((cast("int", number), level) for (number,) in rows)
        level += 1
    for number, count in past.items():
        record = reading.connection.execute(_PAST_ROW, (number,)).fetchone()
        if record is None:
            raise Spoilt("past_words", number)
        whole = whole_past(record)
        row, recorded, retired, length = cast(
            "tuple[int, int, int, int]", (whole[0], whole[13], whole[18], whole[22])
        )
        expires = cast("int | None", whole[14])
        space, place, _ = reading.names.of_row(reading.connection, row)
        then = recorded <= as_of_us < retired and (expires is None or as_of_us <= expires)
        if then and inside(scope, space, place):
            found.append((-number, count, length))
    return sorted(found)


def _recorded_by(reading: Reading, row: int, as_of_us: int) -> bool:
    return not reading.connection.execute(_EXPIRED_THEN, (row, row, as_of_us)).fetchall()


class _Lengths:
    """Lengths of entries by row: one by one while few are asked for, else of the whole scope at once."""

    def __init__(self, reading: Reading, bounds: Bounds, entries: int) -> None:
        self._reading = reading
        self._bounds = bounds
        self._allowed = entries // _FEW
        self._known: dict[int, int] = {}
        self._whole = False

    def of(self, row: int) -> int:
        """The length of an entry in terms."""
        length = self._known.get(row)
        if length is not None:
            return length
        if not self._whole:
            if self._allowed <= 0:
                for low, high in self._bounds:
                    self._known.update(
                        lengths_of(self._reading.connection, low, high, self._reading.verified)
                    )
                self._whole = True
                return self._known.get(row, 0)
            self._allowed -= 1
        length = self._one(row)
        self._known[row] = length
        return length

    def _one(self, row: int) -> int:
        connection = self._reading.connection
        tail = connection.execute(_TAIL_LENGTH, (row,)).fetchone()
        verified = self._reading.verified
        if tail is not None:
            verified.tail(connection, row, tail[1])
            return cast("int", tail[0])
        layout = self._reading.layout
        low = layout.key_rows(*layout.range_of(row))[0]
        for first, rows, lengths, guard in connection.execute(_LENGTHS, (low, row, row)):
            verified.page(connection, first, guard)
            held = rows_of(rows)
            if row in held:
                return lengths_in(lengths)[held.index(row)]
        return 0


def eligible(reading: Reading, scope: Scope, window: Window) -> list[int]:
    """Handles of all entries that a window admits."""
    whole = replace(window, after=None, by="seq", order="oldest_first")
    with reading.snapshot():
        return sorted(handle for handle, _ in admitted(reading, scope, whole, unlimited=True))


def nearest(
    reading: Reading,
    scope: Scope,
    vector: Quantised,
    limit: int,
    rows: Sequence[int] | None,
    as_of_us: int | None,
) -> list[tuple[int, float]]:
    """Handles and similarities, best first."""
    from holdfast.stores.sqlite import scan  # numpy comes in with the first vector search, not with the store

    with reading.snapshot() as connection:
        size = cast("int | None", connection.execute(_DIMENSIONS).get)
        if size is None:
            return []
        if size != len(vector.data):
            raise EmbedderMismatch(
                f"a query of {len(vector.data)} dimensions does not fit the {size} of this store",
                hint="use the embedder that the store was made with",
            )
        bounds = bounds_of(reading, scope)
        best = scan.best_by_row(connection, bounds, vector, reading.verified)
        if as_of_us is None:
            for expired in _rows(reading, _EXPIRED, bounds, (reading.now_us(),)):
                best.pop(expired, None)
        else:
            for low, high in bounds:
                for (row,) in connection.execute(_EXPIRED_THEN, (low, high, as_of_us)):
                    best.pop(cast("int", row), None)
            best = {-row: value for row, value in best.items()}
            best.update(_past_similarities(reading, scope, vector, as_of_us))
    return ranked(best.items(), limit, rows)


def _past_similarities(reading: Reading, scope: Scope, vector: Quantised, as_of_us: int) -> dict[int, float]:
    from holdfast.stores.sqlite import scan  # as above

    found: dict[int, float] = {}
    for record in reading.connection.execute(_PAST_VECTORS, (as_of_us,)).fetchall():
        space, place, _ = reading.names.of_row(reading.connection, cast("int", record[0]))
        if inside(scope, space, place):
            data, scales, number = whole_past(record)[23:]
            held = vectors_of(cast("bytes", data), cast("bytes", scales))
            found[-cast("int", number)] = max(scan.similarity(vector, one) for one in held)
    return found


def ranked(
    found: Iterable[tuple[int, float]], limit: int, rows: Sequence[int] | None
) -> list[tuple[int, float]]:
    """Best first, ties by handle."""
    if rows is not None:
        allowed = set(rows)
        found = [item for item in found if item[0] in allowed]
    return sorted(found, key=lambda item: (-item[1], item[0]))[:limit]
