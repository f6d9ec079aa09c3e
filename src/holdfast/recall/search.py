"""Search: candidates from words and vectors, one formula, explained hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.model.entry import Entry, Quantised
from holdfast.model.recall import Hit, Hits
from holdfast.model.scope import Scope
from holdfast.model.window import Window
from holdfast.ports.store import WordStats
from holdfast.rules.rank import CANDIDATES, Scored, best_rows, fused, why, word_scores

if TYPE_CHECKING:  # Protocols are needed by type checkers only
    from holdfast.model.filter import Filter
    from holdfast.ports.store import Store

TIES = 256
"""How many equal scores at the end of the list are ordered exactly; beyond it, by row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is looked for: terms, a vector or both, and which entries may answer.

    ``terms`` or ``vector`` None leaves that feature out. Entries said before ``kept_from_us`` have expired.
    """

    terms: Sequence[str] | None
    vector: Quantised | None
    limit: int
    filter: Filter | None = None
    from_us: int | None = None
    until_us: int | None = None
    as_of_us: int | None = None
    kept_from_us: int | None = None
    min_score: float | None = None

    @property
    def restricted(self) -> bool:
        """Whether not every visible entry may answer."""
        return self.filter is not None or self.from_us is not None or self.until_us is not None


async def search(store: Store, scope: Scope, question: Question) -> Hits:
    """The entries that answer best, ties newer first, then by id."""
    hits, expired = await _search(store, scope, question)
    if not expired:
        return hits
    # Expired entries are rarely still there: they are shut out only once they show up among the best.
    oldest = max(question.kept_from_us or 0, question.from_us or 0)
    hits, _ = await _search(store, scope, replace(question, from_us=oldest))
    return hits


async def _search(store: Store, scope: Scope, question: Question) -> tuple[Hits, bool]:
    allowed = await _allowed(store, scope, question)
    if allowed is not None and not allowed:
        return Hits(), False
    stats = await _stats(store, scope, question)
    words = None if stats is None else word_scores(stats, None if allowed is None else frozenset(allowed))
    similarities = await _similarities(store, scope, question, words, allowed)
    candidates = fused(words, similarities, question.min_score)
    best, expired = await _fetched(store, scope, candidates, question)
    hits = tuple(Hit(entry, scored.score, why(scored, stats)) for scored, entry in best)
    return Hits(hits, max(0, len(candidates) - len(hits))), expired


async def _allowed(store: Store, scope: Scope, question: Question) -> Sequence[int] | None:
    if not question.restricted:
        return None
    window = Window(
        filter=question.filter,
        created_from_us=question.from_us,
        created_until_us=question.until_us,
        as_of_us=question.as_of_us,
    )
    return await store.eligible(scope, window)


async def _stats(store: Store, scope: Scope, question: Question) -> WordStats | None:
    if question.terms is None:
        return None
    if not question.terms:
        return WordStats(0, 0, {})
    return await store.words(scope, question.terms, as_of_us=question.as_of_us)


async def _similarities(
    store: Store,
    scope: Scope,
    question: Question,
    words: dict[int, float] | None,
    allowed: Sequence[int] | None,
) -> dict[int, float] | None:
    """Similarities of the nearest entries, and of the best by words, so that both parts are known of each."""
    if question.vector is None:
        return None
    wanted = max(CANDIDATES, question.limit)
    nearest = await store.nearest(scope, question.vector, wanted, rows=allowed, as_of_us=question.as_of_us)
    found = dict(nearest)
    rest = sorted(row for row in best_rows(words or {}, wanted) if row not in found)
    if rest:
        found |= await store.nearest(scope, question.vector, len(rest), rows=rest, as_of_us=question.as_of_us)
    return found


async def _fetched(
    store: Store, scope: Scope, candidates: Sequence[Scored], question: Question
) -> tuple[list[tuple[Scored, Entry]], bool]:
    """The best candidates with their entries, in final order, and whether an expired one was among them."""
    top = list(candidates[: question.limit])
    if top:
        last = top[-1].score
        top += [one for one in candidates[question.limit : question.limit + TIES] if one.score == last]
    entries = await store.fetch(scope, [one.row for one in top])
    pairs = [
        (one, entry)
        for one, entry in zip(top, entries, strict=True)
        if entry is not None and (question.as_of_us is None or entry.known(question.as_of_us))
    ]
    oldest = question.kept_from_us
    kept = pairs if oldest is None else [pair for pair in pairs if pair[1].created_us >= oldest]
    kept.sort(key=lambda pair: (-pair[0].score, -pair[1].created_us, pair[1].id))
    return kept[: question.limit], len(kept) < len(pairs)
