"""The ranking formula, on statistics made by hand."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping

import pytest

from holdfast.ports.store import Postings, WordStats
from holdfast.rules.rank import LARGE, SIMILARITY_FLOOR, best_rows, fused, telling_terms, why, word_scores


def stats(entries: int, terms: int, **postings: Mapping[int, tuple[int, int]]) -> WordStats:
    """``tea={row: (frequency, length)}``."""
    return WordStats(
        entries,
        terms,
        {
            term: Postings(
                array("q", sorted(rows)),
                array("q", [rows[row][0] for row in sorted(rows)]),
                array("q", [rows[row][1] for row in sorted(rows)]),
            )
            for term, rows in postings.items()
        },
    )


def test_bm25_as_written_in_the_books() -> None:
    scores = word_scores(stats(3, 12, tea={1: (1, 4), 2: (3, 6)}, cup={2: (1, 6)}))

    def rarity(holding: int) -> float:
        return math.log(1 + (3 - holding + 0.5) / (holding + 0.5))

    def share(frequency: int, length: int) -> float:
        return frequency / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / 4))

    most = rarity(2) + rarity(1)
    assert scores[1] == pytest.approx(rarity(2) * share(1, 4) / most)
    assert scores[2] == pytest.approx((rarity(2) * share(3, 6) + rarity(1) * share(1, 6)) / most)


def test_scores_stay_between_nothing_and_one() -> None:
    scores = word_scores(stats(2, 2000, tea={1: (1000, 1000), 2: (1, 1000)}))
    assert 0 < scores[2] < scores[1] < 1


def test_a_word_that_nobody_said_lowers_the_score() -> None:
    with_it = word_scores(stats(3, 12, tea={1: (1, 4)}, zebra={}))
    without = word_scores(stats(3, 12, tea={1: (1, 4)}))
    assert with_it[1] < without[1]


def test_only_allowed_rows_score() -> None:
    found = stats(3, 12, tea={1: (1, 4), 2: (1, 4)})
    assert set(word_scores(found, frozenset((2,)))) == {2}
    assert word_scores(found, frozenset()) == {}


def test_nothing_to_score() -> None:
    assert word_scores(WordStats(0, 0, {})) == {}
    assert word_scores(stats(0, 0, tea={})) == {}


def test_more_rows_than_entries_as_under_as_of() -> None:
    scores = word_scores(stats(1, 4, tea={1: (1, 4), 2: (1, 4), 3: (1, 4)}))
    assert all(0 <= score < 1 for score in scores.values())


def test_common_words_are_left_out_of_large_scopes() -> None:
    common = dict.fromkeys(range(LARGE), (1, 2))
    large = stats(LARGE, 2 * LARGE, say=common, tea={1: (1, 2)})
    assert telling_terms(large) == ["tea"]
    assert telling_terms(stats(LARGE, 2 * LARGE, say=common)) == ["say"]
    assert telling_terms(stats(3, 6, say={1: (1, 2), 2: (1, 2)}, tea={1: (1, 2)})) == ["say", "tea"]


def test_best_rows() -> None:
    assert best_rows({3: 0.5, 1: 0.5, 2: 0.9, 4: 0.1}, 3) == [2, 1, 3]


def test_fusing_takes_the_parts_that_exist() -> None:
    words = {1: 0.8, 2: 0.4}
    similarities = {2: 0.6, 3: 0.5, 4: 0.1}
    found = fused(words, similarities, None)
    assert [one.row for one in found] == [1, 2, 3]
    assert [one.score for one in found] == pytest.approx([0.8, 0.5, 0.25])
    assert fused(words, None, None)[0].vector is None
    assert [one.row for one in fused(None, similarities, None)] == [2, 3]
    assert fused(None, None, None) == []


def test_the_floor_and_what_replaces_it() -> None:
    similarities = {1: SIMILARITY_FLOOR, 2: SIMILARITY_FLOOR - 0.01, 3: 0.0, 4: -0.5}
    assert [one.row for one in fused(None, similarities, None)] == [1]
    assert [one.row for one in fused(None, similarities, 0.0)] == [1, 2]
    assert fused({1: 0.3}, None, 0.31) == []


def test_similarities_over_one_are_rounding() -> None:
    assert fused(None, {1: 1.001}, None)[0].score == 1.0


def test_why_adds_up() -> None:
    found = stats(3, 12, tea={2: (1, 4)}, cup={1: (1, 4), 2: (1, 4)}, zebra={})
    words = word_scores(found)
    for scored in fused(words, {1: 0.5, 2: 0.7}, None):
        reasons = why(scored, found)
        assert sum(reasons.shares.values()) == pytest.approx(scored.score)
        assert set(reasons.matched) == ({"tea", "cup"} if scored.row == 2 else {"cup"})
    assert why(fused(None, {1: 0.5}, None)[0], None).matched == ()
    assert str(why(fused(None, {1: 0.5}, None)[0], None)) == "vector 0.50"
