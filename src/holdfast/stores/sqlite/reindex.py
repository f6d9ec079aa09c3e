"""Reindexing: when the analyser has changed, the words of a file are made anew from its entries."""

from __future__ import annotations

import unicodedata
from typing import Final, cast

from holdfast.rules.words import ANALYSER, index_terms
from holdfast.stores.sqlite.codec import words_text
from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.layout import Layout
from holdfast.stores.sqlite.pages import reseal

_KNOWN: Final = "select value from meta where name='analyser'"
_REMEMBER: Final = "insert or replace into meta values('analyser', ?)"
_CLEAR: Final = (
    "delete from fresh",
    "insert into words(words) values('delete-all')",
    "insert into past_words(past_words) values('delete-all')",
)
_KEYS: Final = "select bank, number from keys order by bank, number"
_ENTRIES: Final = "select row, content, title, name from entries where row between ? and ? order by row"
_PAST: Final = "select number, content, title, name from past order by number"
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
        for row, content, title, name in connection.execute(_ENTRIES, (low, high)).fetchall():
            terms = index_terms(cast("str", content), cast("str | None", title), cast("str | None", name))
            lengths[cast("int", row)] = sum(terms.values())
            connection.execute(_PUT, (row, words_text(terms)))
        reseal(connection, low, high, lengths, layout.page)
    for number, content, title, name in connection.execute(_PAST).fetchall():
        terms = index_terms(cast("str", content), cast("str | None", title), cast("str | None", name))
        connection.execute(_PUT_PAST, (number, words_text(terms)))
    connection.execute(_REMEMBER, (analyser(),))
