"""Checking what is derived: words, slots and derivations are made anew from the records and compared.

A large file does not fit into memory, so the comparison goes by sums of hashes, which no order changes: one of what
should be there and one of what is, for each bunch of rows. Only bunches that differ are looked at row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, TypeAlias, cast

from holdfast.rules.words import index_terms
from holdfast.stores.sqlite.codec import origin_of, words_text
from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.faults import named
from holdfast.stores.sqlite.pages import lengths_in, rows_of

Find: TypeAlias = Callable[[str, str], None]
Occurrence: TypeAlias = tuple[int, str | int]
"""A row and a term that it holds, or its length."""
Source: TypeAlias = Callable[[], Iterator[Occurrence]]

BUNCH_BITS: Final = 9
TOLD: Final = 10
_ENTRIES: Final = "select row, content, title, name from entries"
_PAST: Final = "select number, content, title, name from past"
_FRESH: Final = "select row, terms from fresh"
_PAGE_SLOTS: Final = "select rows, lengths from pages"
_TAIL_SLOTS: Final = "select row, length from tail"
_LOOK_INTO_WORDS: Final = (
    "create virtual table if not exists temp.word_rows using fts5vocab(main, words, instance)"
)
_LOOK_INTO_PAST: Final = (
    "create virtual table if not exists temp.past_rows using fts5vocab(main, past_words, instance)"
)
_WORDS: Final = "select doc, term from temp.word_rows"
_PAST_WORDS: Final = "select doc, term from temp.past_rows"
_SOURCES: Final = (
    "select 0, id, origin from entries where origin is not null union all"
    " select 0, id, origin from past where origin is not null union all"
    " select 1, id, origin from documents where origin is not null union all"
    " select 1, id, origin from document_versions where origin is not null"
)
_DERIVATION: Final = "select is_document from derived where source=? and record=?"
_ERASED: Final = "select 1 from tombstones where id=?"
_DERIVED: Final = "select source, record, is_document from derived"
_RECORD: Final = "select origin from entries where id=?1 union all select origin from past where id=?1"


def check_slots_and_words(connection: Connection, find: Find) -> None:
    """Compare the words and lengths of current entries with what the indexes hold."""
    connection.execute(_LOOK_INTO_WORDS)

    def indexed() -> Iterator[Occurrence]:
        yield from cast("Iterable[Occurrence]", connection.execute(_WORDS))
        for row, terms in connection.execute(_FRESH):
            for term in cast("str", terms).split():
                yield cast("int", row), term

    def slots() -> Iterator[Occurrence]:
        for rows, lengths in connection.execute(_PAGE_SLOTS):
            yield from zip(rows_of(rows), lengths_in(lengths), strict=True)
        yield from cast("Iterable[Occurrence]", connection.execute(_TAIL_SLOTS))

    _compare(
        lambda: _expected(connection, _ENTRIES), indexed, slots, lambda row: find(*_told("words", row)), find
    )


def check_past_words(connection: Connection, find: Find) -> None:
    """Compare the words of earlier versions with what their index holds."""
    connection.execute(_LOOK_INTO_PAST)

    def indexed() -> Iterator[Occurrence]:
        yield from cast("Iterable[Occurrence]", connection.execute(_PAST_WORDS))

    def terms() -> Iterator[Occurrence]:
        return (held for held in _expected(connection, _PAST) if isinstance(held[1], str))

    for row in _differing(terms, indexed):
        find("past_words", f"the words of version {row} are not those of its text")


def _told(where: str, row: int) -> tuple[str, str]:
    return where, f"the words of entry {row} are not those of its text"


def _compare(
    entries: Source, indexed: Source, slots: Source, tell: Callable[[int], None], find: Find
) -> None:
    for row in _differing(lambda: (held for held in entries() if isinstance(held[1], str)), indexed):
        tell(row)
    for row in _differing(lambda: (held for held in entries() if isinstance(held[1], int)), slots):
        find("pages", f"the slot of entry {row} is not its own: missing, double, stray or of another length")


def _expected(connection: Connection, sql: str) -> Iterator[Occurrence]:
    """The terms of each row as the index should hold them, and its length."""
    for number, content, title, name in connection.execute(sql):
        row = cast("int", number)
        terms = index_terms(cast("str", content), cast("str | None", title), cast("str | None", name))
        yield row, sum(terms.values())
        for term in words_text(terms).split():
            yield row, term


def _differing(expected: Source, found: Source) -> list[int]:
    """The first rows of which the two do not say the same."""
    wrong = _unequal(_sums(expected()), _sums(found()))
    if not wrong:
        return []
    rows = _unequal(_sums_of_rows(expected(), wrong), _sums_of_rows(found(), wrong))
    return sorted(rows)[:TOLD]


def _unequal(one: dict[int, int], other: dict[int, int]) -> set[int]:
    return {at for at in one.keys() | other.keys() if one.get(at, 0) != other.get(at, 0)}


def _sums(held: Iterable[Occurrence]) -> dict[int, int]:
    """For each bunch of rows the sum of the hashes of what it holds. Sums grow beyond 64 bits: nothing cancels out."""
    sums: dict[int, int] = {}
    for one in held:
        bunch = one[0] >> BUNCH_BITS
        sums[bunch] = sums.get(bunch, 0) + (hash(one) & _POSITIVE)
    return sums


def _sums_of_rows(held: Iterable[Occurrence], bunches: Collection[int]) -> dict[int, int]:
    sums: dict[int, int] = {}
    for one in held:
        if one[0] >> BUNCH_BITS in bunches:
            sums[one[0]] = sums.get(one[0], 0) + (hash(one) & _POSITIVE)
    return sums


_POSITIVE: Final = (1 << 64) - 1


def check_derived(connection: Connection, find: Find) -> None:
    """Every source that an origin names leads to its record, and every lead of an entry has an origin behind it.

    Leads to documents may be older than the versions that are kept.
    """
    for is_document, name, origin in connection.execute(_SOURCES):
        for source in origin_of(origin).sources:
            held = connection.execute(_DERIVATION, (bytes.fromhex(source), name)).fetchone()
            if held is None and connection.execute(_ERASED, (bytes.fromhex(source),)).fetchone():
                continue  # the source was erased in another space, and its ways with it
            if held is None or held[0] != is_document:
                find("derived", f"the way from {source} to {named(name)} is missing")
    for lead, record, is_document in connection.execute(_DERIVED):
        if is_document not in (0, 1) or len(cast("bytes", lead)) != 16 or len(cast("bytes", record)) != 16:
            find("derived", f"the way to {named(record)} is not what was written")
        elif is_document == 0:
            origins = [origin_of(origin) for (origin,) in connection.execute(_RECORD, (record,))]
            if not any(cast("bytes", lead).hex() in origin.sources for origin in origins):
                find("derived", f"the way from {named(lead)} to {named(record)} leads nowhere")
