"""Quoted reply chains: text that a mail repeats from earlier turns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

RUN: Final = 40
"""A run of at least this many words that an earlier turn has too, in the same order, is a quotation."""
LOOK_BACK: Final = 20
"""How many turns back a quotation is looked for."""

_PIECE: Final = re.compile(r"\S+")
_EDGES: Final = re.compile(r"^\W+|\W+$")


def may_quote(content: str) -> bool:
    """Whether the content is long enough to hold a quotation at all."""
    return len(content) >= 2 * RUN - 1 and len(content.split(maxsplit=RUN)) >= RUN


def without_quotes(content: str, earlier: Iterable[str]) -> str:
    """The content without runs of words that stand in an earlier turn; unchanged when no other words would remain."""
    words, spans = _words(content)
    starts: dict[int, list[int]] = {}
    for at, run in enumerate(_runs(words)):
        starts.setdefault(hash(run), []).append(at)
    quoted = [False] * len(words)
    for turn in earlier:
        for run in _runs(_words(turn)[0]):
            for at in starts.get(hash(run), ()):
                quoted[at : at + RUN] = [True] * RUN
    if not any(quoted) or all(quoted):
        return content
    return _cut(content, spans, quoted)


def _words(text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The words of a text without quotation marks and edge punctuation, and where each stands."""
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    for piece in _PIECE.finditer(text):
        if word := _EDGES.sub("", piece.group()):
            words.append(word)
            spans.append(piece.span())
    return words, spans


def _runs(words: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return (tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1))


def _cut(content: str, spans: Sequence[tuple[int, int]], quoted: Sequence[bool]) -> str:
    """The content without the quoted words, their quotation marks and the space that they leave."""
    kept: list[str] = []
    at, index = 0, 0
    while index < len(spans):
        if not quoted[index]:
            index += 1
            continue
        last = index
        while last + 1 < len(spans) and quoted[last + 1]:
            last += 1
        kept.append(_without_marks(content[at : spans[index][0]]))
        at, index = spans[last][1], last + 1
    kept.append(content[at:])
    return "\n".join(part for piece in kept if (part := piece.strip()))


def _without_marks(text: str) -> str:
    """Without a quotation mark that would be left standing before the gap."""
    return text.rstrip().rstrip(">").rstrip() if text.rstrip().endswith(">") else text
