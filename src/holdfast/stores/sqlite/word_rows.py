"""The word index: new rows wait in a small table, and go into the full-text index in bunches.

The full-text index writes a segment a transaction and merges segments all the time; a bunch at once costs a fraction
of as many single rows, and a row in waiting is as findable as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.faults import Spoilt

_COUNT: Final = "select count(*) from fresh"
_WAIT: Final = "insert into fresh(row, terms) values(?,?)"
_WAITING: Final = "select row, terms from fresh order by row"
_CLEAR: Final = "delete from fresh"
_TAKE: Final = "delete from fresh where row=? returning row"
_PUT: Final = "insert into words(rowid, terms) values(?,?)"
_DROP: Final = "insert into words(words, rowid, terms) values('delete',?,?)"
_FOUND: Final = "select rowid from words where words match ? and rowid between ? and ?"
_FRESH: Final = "select row, terms from fresh where row between ? and ?"


def waiting(connection: Connection) -> int:
    """How many rows wait."""
    return cast("int", connection.execute(_COUNT).get)


def add_words(connection: Connection, rows: Sequence[tuple[int, str]], waits: int, bunch_size: int) -> int:
    """Index rows, which ascend; how many wait afterwards."""
    total = waits + len(rows)
    if total < bunch_size:
        connection.executemany(_WAIT, rows)
        return total
    bunch: list[tuple[int, str]] = list(rows)
    if waits:
        bunch += cast("list[tuple[int, str]]", connection.execute(_WAITING).fetchall())
        bunch.sort()
        connection.execute(_CLEAR)
    connection.executemany(_PUT, bunch)
    return 0


def drop_words(connection: Connection, row: int, terms: str) -> None:
    """Take a row out of the index; the terms are those it was added with."""
    if not connection.execute(_TAKE, (row,)).fetchall():
        connection.execute(_DROP, (row, terms))


def occurrences(
    connection: Connection, terms: Sequence[str], bounds: Sequence[tuple[int, int]]
) -> dict[str, dict[int, int]]:
    """For each term the rows of these ranges that hold it, with how often."""
    found: dict[str, dict[int, int]] = {term: {} for term in terms}
    asked = [term for term in terms if indexable(term)]
    for low, high in bounds:
        for term in asked:
            _count_indexed(connection, term, low, high, found[term])
        for row, text in connection.execute(_FRESH, (low, high)):
            if not isinstance(text, str):
                raise Spoilt("fresh", row)
            held = set(text.split(" "))
            for term in asked:
                if term in held:
                    found[term][cast("int", row)] = _frequency(term, held)
    return found


def _count_indexed(connection: Connection, term: str, low: int, high: int, counts: dict[int, int]) -> None:
    level = 1
    while True:
        rows = connection.execute(_FOUND, (level_query(term, level), low, high)).fetchall()
        if not rows:
            return
        for (row,) in rows:
            counts[cast("int", row)] = level
        level += 1


def _frequency(term: str, held: set[str]) -> int:
    level = 1
    while f"{term}~{level + 1}" in held:
        level += 1
    return level


def level_query(term: str, level: int) -> str:
    """The match that finds the rows where a term occurs at least so often."""
    return f'"{term}"' if level == 1 else f'"{term}~{level}"'


def indexable(term: str) -> bool:
    """Whether the index can hold the term: what the analyser never makes would be split or folded by a match."""
    return bool(term) and all(ord(c) > 127 or "0" <= c <= "9" or "a" <= c <= "z" for c in term)
