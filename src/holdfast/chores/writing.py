"""What a worker writes: one batch at a time, with patience."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from holdfast.chores.failure import LOG, told
from holdfast.chores.pace import Means
from holdfast.errors import StoreClosed, StoreForked, StoreReadOnly, StoreUnavailable
from holdfast.model.batch import Batch, Commit, Operation
from holdfast.model.ids import bucket_of
from holdfast.model.origin import Origin
from holdfast.model.scope import Place

PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds between tries to write what is ready: a result may have cost a call of a model."""
OVER: Final = (StoreClosed, StoreForked, StoreReadOnly)
"""Errors of a store that will not serve again."""
WORKER: Final = Origin(author="holdfast", channel="operator", method="manual")


async def commit(means: Means, space: str, place: Place, operations: Sequence[Operation]) -> Commit:
    """Commit one batch, again while the store is busy or failing.

    Trying again is safe for what ends or begins a chore: once written, the lease is over or the dedupe key taken.
    """
    change = means.make_id(bucket_of(space, place.bank, place.key))
    batch = Batch(space, change, means.clock.now_us(), tuple(operations), WORKER)
    for pause in PAUSES:
        try:
            return await means.store.commit(batch)
        except OVER:
            raise
        except StoreUnavailable as error:
            LOG.warning("a chore's batch is tried again: %s", told(error))
            await asyncio.sleep(pause)
    return await means.store.commit(batch)
