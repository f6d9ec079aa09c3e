"""Reindexing: when the analyser has changed, the words of a file are made anew from its entries."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final, cast

from holdfast.rules.words import ANALYSER, index_terms
from holdfast.stores.sqlite import columns
from holdfast.stores.sqlite.codec import origin_of, words_text
from holdfast.stores.sqlite.db import Connection, Record
from holdfast.stores.sqlite.guards import whole_entry, whole_past
from holdfast.stores.sqlite.layout import Layout
from holdfast.stores.sqlite.pages import reseal

if TYPE_CHECKING:  # the writing side is loaded with the first write
    from holdfast.stores.sqlite.ledger import Ledger

_KNOWN: Final = "select value from meta where name='analyser'"
_REMEMBER: Final = "insert or replace into meta values('analyser', ?)"
_CLEAR: Final = (
    "delete from fresh",
    "insert into words(words) values('delete-all')",
    "insert into past_words(past_words) values('delete-all')",
)
_KEYS: Final = "select bank, number from keys order by bank, number"
_ENTRIES: Final = (
    "select " + columns.ENTRY + ", digest, hash from entries where row between ? and ? order by row"
)
_PAST: Final = "select " + columns.PAST + ", hash, number from past order by number"
_DERIVED: Final = "select source, record from derived where is_document=0"
_DROP_DERIVED: Final = "delete from derived where source=? and record=?"
_PUT_DERIVED: Final = "insert or replace into derived values(?,?,?)"
_ORIGINS: Final = (
    "select 0, id, origin from entries where origin is not null union all"
    " select 0, id, origin from past where origin is not null union all"
    " select 1, id, origin from documents where origin is not null union all"
    " select 1, id, origin from document_versions where origin is not null"
)
_PUT: Final = "insert into words(rowid, terms) values(?,?)"
_PUT_PAST: Final = "insert into past_words(rowid, terms) values(?,?)"


def analyser() -> str:
    """What terms depend on: the rules of the analyser, and the tables of characters that they use."""
    return f"{ANALYSER}/{unicodedata.unidata_version}"


def up_to_date(connection: Connection) -> bool:
    """Whether the words of the file were made by this analyser."""
    return connection.execute(_KNOWN).get == analyser()


def make_words_anew(connection: Connection, layout: Layout) -> None:
    """Index every entry again, inside the open transaction."""
    for statement in _CLEAR:
        connection.execute(statement)
    for bank, number in connection.execute(_KEYS).fetchall():
        low, high = layout.key_rows(cast("int", bank), cast("int", number))
        lengths: dict[int, int] = {}
        for record in connection.execute(_ENTRIES, (low, high)).fetchall():
            terms = _terms(whole_entry(record))
            lengths[cast("int", record[0])] = sum(terms.values())
            connection.execute(_PUT, (record[0], words_text(terms)))
        reseal(connection, low, high, lengths, layout.page)
    for record in connection.execute(_PAST).fetchall():
        connection.execute(_PUT_PAST, (record[26], words_text(_terms(whole_past(record)))))
    connection.execute(_REMEMBER, (analyser(),))


def _terms(entry: Record) -> dict[str, int]:
    return index_terms(*cast("tuple[str, str | None, str | None]", (entry[4], entry[5], entry[7])))


def rebuild(ledger: Ledger) -> None:
    """Make words, lengths and ways from sources to records anew, inside the open transaction."""
    connection = ledger.connection
    make_words_anew(connection, ledger.layout)
    wanted = {
        (bytes.fromhex(source), cast("bytes", name), cast("int", is_document))
        for is_document, name, origin in connection.execute(_ORIGINS)
        for source in origin_of(origin).sources
    }
    for source, record in connection.execute(_DERIVED).fetchall():
        if (source, record, 0) not in wanted:
            connection.execute(_DROP_DERIVED, (source, record))
    connection.executemany(_PUT_DERIVED, sorted(wanted))
    ledger.drop_memory()
