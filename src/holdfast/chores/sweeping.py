"""Sweeps: looking at the store now and then for what is due by its state.

A sweep of the background is a chore itself, in a space that no user has, and makes its next run due with its result. So
of all processes one looks, once in each interval, and restarts change nothing about that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.chores.kinds import Due, Watch
from holdfast.chores.pace import Means
from holdfast.chores.writing import commit
from holdfast.model.batch import Enqueue, Operation
from holdfast.model.chore import LIVE, ChoreDraft
from holdfast.model.ids import bucket_of
from holdfast.model.scope import Place, Scope

SPACE: Final = "~holdfast"
SWEEPS: Final = "~sweeps"


async def look(means: Means, watch: Watch) -> None:
    """Make due what a sweep finds."""
    for due in await watch.sweep():
        await make_due(means, due)


async def run_sweep(means: Means, watch: Watch) -> Sequence[Operation]:
    """A sweep as a chore."""
    await look(means, watch)
    return (Enqueue(_next(means, watch, watch.seconds)),)


async def begin(means: Means, watch: Watch) -> bool:
    """Make the first run of a sweep due, or the next one when its chore was lost; whether that was needed."""
    return await make_due(means, Due(SPACE, _next(means, watch, 0)))


async def make_due(means: Means, due: Due) -> bool:
    """Enqueue a chore unless it lives; whether it was enqueued.

    Asked first, so that nothing is written for what is on its way; of two that ask at once, the dedupe key lets one.
    """
    place = due.draft.place
    scope = Scope(due.space, place.bank, place.key)
    live = await means.store.chores(scope, states=tuple(LIVE), kinds=(due.draft.kind,))
    if any(chore.dedupe == due.draft.dedupe for chore in live):
        return False
    await commit(means, due.space, place, (Enqueue(due.draft),))
    return True


def _next(means: Means, watch: Watch, seconds: float) -> ChoreDraft:
    identifier = means.make_id(bucket_of(SPACE, SWEEPS, watch.kind))
    due_us = means.clock.now_us() + int(seconds * 1_000_000)
    place = Place(SWEEPS, watch.kind)
    return ChoreDraft(id=identifier, kind=watch.kind, place=place, due_us=due_us, dedupe=watch.kind)
