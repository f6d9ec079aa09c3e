"""The one ranking formula: how well an entry fits a question, from words and vectors, in [0, 1]."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.model.recall import Why

if TYPE_CHECKING:  # Protocols are needed by type checkers only
    from holdfast.ports.store import WordStats

K1: Final = 1.2
B: Final = 0.75
WORDS_WEIGHT: Final = 0.5
VECTOR_WEIGHT: Final = 0.5
SIMILARITY_FLOOR: Final = 0.2
"""Without a matching word, an entry needs this much similarity to be a hit at all (``min_score`` replaces the rule)."""
CANDIDATES: Final = 50
"""How many of the best by each feature are looked at, at least."""
COMMON_SHARE: Final = 0.5
LARGE: Final = 2_000
"""In a scope of at least so many entries, words that more than COMMON_SHARE of them hold are left out of a question."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate: its row, score, and the two parts of the score; None for a part that was not computed."""

    row: int
    score: float
    words: float | None
    vector: float | None


def telling_terms(stats: WordStats) -> list[str]:
    """The terms that are worth scoring; all of them, when every one is common."""
    if stats.entries < LARGE:
        return list(stats.postings)
    most = stats.entries * COMMON_SHARE
    telling = [term for term, postings in stats.postings.items() if len(postings.rows) <= most]
    return telling or list(stats.postings)


def word_scores(stats: WordStats, allowed: Collection[int] | None = None) -> dict[int, float]:
    """BM25 of each row that holds a term, as a share of the most that the question could reach."""
    mean = stats.terms / stats.entries if stats.entries else 0.0
    scores: dict[int, float] = {}
    most = 0.0
    for term in telling_terms(stats):
        postings = stats.postings[term]
        idf = _rarity(stats.entries, len(postings.rows))
        most += idf
        fixed, slope = K1 * (1 - B), K1 * B / (mean or 1.0)
        for row, frequency, length in zip(postings.rows, postings.frequencies, postings.lengths, strict=True):
            if allowed is None or row in allowed:
                share = idf * frequency / (frequency + fixed + slope * length)
                scores[row] = scores.get(row, 0.0) + share
    return {row: score / most for row, score in scores.items()} if most else scores


def best_rows(scores: Mapping[int, float], limit: int) -> list[int]:
    """The rows with the best scores, ties by row."""
    return sorted(scores, key=lambda row: (-scores[row], row))[:limit]


def fused(
    words: Mapping[int, float] | None, similarities: Mapping[int, float] | None, min_score: float | None
) -> list[Scored]:
    """Every candidate that is good enough, best first. None says that a feature was not asked for."""
    rows = (words or {}).keys() | (similarities or {}).keys()
    scored = [_scored(row, words, similarities) for row in rows]
    kept = [one for one in scored if _good_enough(one, min_score)]
    kept.sort(key=lambda one: (-one.score, one.row))
    return kept


def why(scored: Scored, stats: WordStats | None) -> Why:
    """The explanation of a score: shares that add up to it."""
    words_weight, vector_weight = _weights(scored.words, scored.vector)
    shares: dict[str, float] = {}
    if scored.words:
        shares["words"] = words_weight * scored.words
    if scored.vector:
        shares["vector"] = vector_weight * scored.vector
    if stats is None or not scored.words:
        return Why(shares)
    return Why(
        shares, tuple(term for term, found in stats.postings.items() if _holds(found.rows, scored.row))
    )


def _rarity(entries: int, holding: int) -> float:
    # Under `as_of` more rows may hold a term than there are entries now.
    return math.log(1 + max(0.0, entries - holding + 0.5) / (holding + 0.5))


def _scored(row: int, words: Mapping[int, float] | None, similarities: Mapping[int, float] | None) -> Scored:
    lexical = None if words is None else words.get(row, 0.0)
    vector = (
        None if similarities is None or row not in similarities else min(1.0, max(0.0, similarities[row]))
    )
    words_weight, vector_weight = _weights(lexical, vector)
    return Scored(row, words_weight * (lexical or 0.0) + vector_weight * (vector or 0.0), lexical, vector)


def _weights(words: float | None, vector: float | None) -> tuple[float, float]:
    """The weights of the parts that exist, adding up to 1."""
    if words is None or vector is None:
        return float(words is not None), float(vector is not None)
    total = WORDS_WEIGHT + VECTOR_WEIGHT
    return WORDS_WEIGHT / total, VECTOR_WEIGHT / total


def _good_enough(scored: Scored, min_score: float | None) -> bool:
    if scored.score <= 0.0:
        return False
    if min_score is not None:
        return scored.score >= min_score
    return bool(scored.words) or (scored.vector or 0.0) >= SIMILARITY_FLOOR


def _holds(rows: Sequence[int], row: int) -> bool:
    at = bisect_left(rows, row)
    return at < len(rows) and rows[at] == row
