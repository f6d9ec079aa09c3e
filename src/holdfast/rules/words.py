"""Words: the one analyser of indexes and queries."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Final

ANALYSER: Final = "words-1"
"""Changes whenever the same text may give other terms: a store rebuilds its word index when it does not match."""

TERM_CHARACTERS: Final = 64
MAX_FREQUENCY: Final = 64
"""A term counts at most this often in one entry: more tells no search anything, and bounds what an index must hold."""

STOP_WORDS: Final = frozenset(
    """
    a about am an and are as at be been but by can could d did do does for from had has have he her his how i if in into
    is it its ll m me my no not of on or our re s she so t that the their them then there these they this those to ve
    was we were what when where which who whom why will with would you your
    """.split()
)

_UNSPACED: Final = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_APOSTROPHE: Final = re.compile(r"(?<=\w)['\u2019\u02bc](?=\w)")
_RUN: Final = re.compile(r"[^\W_]+")
_ASCII_RUN: Final = re.compile(r"[a-z0-9]+")
_SCRIPT: Final = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_UNSPACED_START: Final = re.compile(f"[{_UNSPACED}]")


def tokens(text: str) -> list[str]:
    """The words of a text in order: case-folded runs of letters, digits and marks.

    Scripts written without spaces give overlapping pairs of characters; a single character gives itself.
    """
    if text.isascii():
        lowered = text.lower()
        return _ASCII_RUN.findall(_APOSTROPHE.sub("", lowered) if "'" in lowered else lowered)
    folded = _APOSTROPHE.sub(
        "", unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    )
    found: list[str] = []
    for run in _runs(folded):
        for piece in _SCRIPT.findall(run):
            if _UNSPACED_START.match(piece):
                found.extend(piece[i : i + 2] for i in range(len(piece) - 1)) if len(
                    piece
                ) > 1 else found.append(piece)
            else:
                found.append(piece)
    return found


def _runs(text: str) -> list[str]:
    r"""Runs of letters, digits and the marks that belong to them (``\w`` leaves combining marks out)."""
    runs: list[str] = []
    start = -1
    for index, character in enumerate(text):
        inside = character.isalnum() or unicodedata.category(character)[0] == "M"
        if inside and start < 0:
            start = index
        elif not inside and start >= 0:
            runs.append(text[start:index])
            start = -1
    if start >= 0:
        runs.append(text[start:])
    return runs


FORMS: Final = 65_536
_forms: Final[dict[str, str]] = {}
"""Forms of the words that were met, up to so many: a plain dict, since looking a word up touches little memory."""


def search_form(token: str) -> str:
    """The form under which a word is indexed and looked for: without Latin accents, with English endings cut."""
    form = _forms.get(token)
    if form is None:
        if len(_forms) >= FORMS:
            _forms.clear()
        form = _forms[token] = _search_form(token)
    return form


def _search_form(token: str) -> str:
    if not token.isascii():
        token = _without_accents(token)
    if len(token) >= 4 and token.isascii() and token.isalpha():
        token = _stem(token)
    return token[:TERM_CHARACTERS]


def _without_accents(token: str) -> str:
    decomposed = unicodedata.normalize("NFD", token)
    kept: list[str] = []
    latin = False
    for character in decomposed:
        if unicodedata.combining(character):
            if latin:
                continue
        else:
            latin = character < "\u0250"
        kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept))


def _stem(token: str) -> str:
    if token.endswith("ies") and token[-4] not in "ea":
        return token[:-3] + "y"
    if token.endswith("es") and token[-3] not in "aeo":
        return token[:-1]
    if token.endswith("s") and token[-2] not in "us":
        return token[:-1]
    return token


def index_terms(content: str, title: str | None = None, name: str | None = None) -> dict[str, int]:
    """Terms of an entry with their frequencies, from its content, title and speaker's name."""
    words = tokens(content)
    if title:
        words += tokens(title)
    if name:
        words += tokens(name)
    known = _forms.get
    terms = Counter([known(word) or search_form(word) for word in words])
    if len(words) > MAX_FREQUENCY:
        for term, count in terms.items():
            if count > MAX_FREQUENCY:
                terms[term] = MAX_FREQUENCY
    return terms


def query_terms(question: str) -> list[str]:
    """Terms to look for, in order, each once, without stop words; empty when nothing else is asked."""
    found: dict[str, None] = {}
    for token in tokens(question):
        if token not in STOP_WORDS:
            found[search_form(token)] = None
    return list(found)
