"""The analyser, with the vectors of the specification."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.words import TERM_CHARACTERS, index_terms, query_terms, search_form, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don\u2019t use e-mail", "dont use e mail"),
        ("Likes 我", "likes 我"),
        ("我喜欢茶", "我喜 喜欢 欢茶"),
        ("Живёт в Берлине", "живёт в берлине"),
        ("\uff26\uff2f\uff2f bar", "foo bar"),
        ("fly.io us-east", "fly io us east"),
        ("東京タワー2024", "東京 京タ タワ ワー 2024"),
        ("naïve Straße", "naïve strasse"),
        ("snake_case", "snake case"),
        ("", ""),
        ("'tis rock'n'roll'", "tis rocknroll"),
    ],
)
def test_tokens(text: str, expected: str) -> None:
    assert tokens(text) == [unicodedata.normalize("NFKC", word) for word in expected.split()]


@pytest.mark.parametrize(
    ("token", "form"),
    [
        ("skies", "sky"), ("movies", "movy"), ("eies", "eie"), ("boxes", "boxe"), ("shoes", "shoe"),
        ("cats", "cat"), ("glass", "glass"), ("bus", "bus"), ("virus", "virus"), ("as", "as"), ("cafés", "cafe"),
        ("naïve", "naive"), ("живёт", "живёт"), ("2024s", "2024s"),
    ],
)  # fmt: skip
def test_search_form(token: str, form: str) -> None:
    assert search_form(token) == form


def test_long_words_are_cut() -> None:
    assert len(search_form("x" * 500)) == TERM_CHARACTERS


def test_questions_lose_their_stop_words() -> None:
    assert query_terms("Where do I deploy Foo?") == ["deploy", "foo"]
    assert query_terms("tea Tea teas") == ["tea"]
    assert query_terms("what is the") == []


def test_an_entry_is_found_by_title_and_name() -> None:
    assert index_terms("tea and tea", "drinks", "Ann") == {"tea": 2, "and": 1, "drink": 1, "ann": 1}


@given(st.text())
def test_every_question_finds_its_own_text(text: str) -> None:
    assert set(query_terms(text)) <= set(index_terms(text))


@given(st.text())
def test_case_and_form_do_not_count(text: str) -> None:
    assert tokens(unicodedata.normalize("NFD", text)) == tokens(unicodedata.normalize("NFC", text))


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_the_short_way_for_ascii_gives_the_same(text: str) -> None:
    assert tokens(text) == [word for word in tokens(text + " é") if word != "é"]
