"""One chore, from its lease to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, TypeVar

from holdfast.chores.failure import LOG, told
from holdfast.chores.pace import Means
from holdfast.errors import (
    ChoreNotFound,
    HoldfastError,
    LeaseLost,
    StoreClosed,
    StoreForked,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.model.batch import Batch, Commit, Fail, Finish, Operation
from holdfast.model.chore import Chore
from holdfast.model.ids import bucket_of
from holdfast.model.origin import Origin
from holdfast.model.scope import Place
from holdfast.rules.backoff import retry_us

INSIDE: Final[ContextVar[bool]] = ContextVar("holdfast_inside_a_chore", default=False)
"""Whether this is the work of a chore: it must not wait for other chores."""
PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds between tries to write what is ready: a result may have cost a call of a model."""
OVER: Final = (StoreClosed, StoreForked, StoreReadOnly)
"""Errors of a store that will not serve again."""
T = TypeVar("T")
WORKER: Final = Origin(author="holdfast", channel="operator", method="manual")


async def run(means: Means, chore: Chore) -> None:
    """Run a leased chore and write its end: done with its result, due again later, or dead.

    What another worker has taken over, or a forget has erased, ends here without a trace.
    """
    INSIDE.set(True)
    try:
        await _end(means, chore, await _outcome(means, chore))
    except (LeaseLost, ChoreNotFound):
        LOG.debug("chore %s (%s) is not held any more: its result is dropped", chore.id, chore.kind)
    except StoreUnavailable as error:
        LOG.warning("chore %s (%s) is left until its lease ends: %s", chore.id, chore.kind, told(error))


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


async def _end(means: Means, chore: Chore, ending: Sequence[Operation]) -> None:
    try:
        await commit(means, chore.space, chore.place, ending)
    except (LeaseLost, ChoreNotFound, StoreUnavailable):
        raise
    except HoldfastError as refused:  # the result does not fit what is stored now: as if the run had failed
        await commit(means, chore.space, chore.place, (_failed(means, chore, refused),))


async def _outcome(means: Means, chore: Chore) -> tuple[Operation, ...]:
    """The end of the chore and its result. The end comes first: the result may make the next run due."""
    try:
        return Finish(chore.id, chore.token), *await _result(means, chore)
    except LeaseLost:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary of handlers: what goes wrong in one is its failed attempt
        return (_failed(means, chore, error),)


def _failed(means: Means, chore: Chore, error: BaseException) -> Fail:
    text = told(error)
    again_us = retry_us(means.clock.now_us(), chore.attempts, chore.max_attempts, means.jitter())
    end = "is dead" if again_us is None else "will be tried again"
    LOG.warning(
        "chore %s (%s), attempt %d, failed and %s: %s", chore.id, chore.kind, chore.attempts, end, text
    )
    LOG.debug("chore %s (%s) failed", chore.id, chore.kind, exc_info=error)
    return Fail(chore.id, chore.token, text, again_us)


async def _result(means: Means, chore: Chore) -> Sequence[Operation]:
    """What the handler returns, while the lease is renewed beside it."""
    work, pace = means.kinds.work(chore.kind), means.pace
    running = asyncio.ensure_future(work.handler(chore))
    left = work.seconds
    try:
        while left > 0:
            done, _ = await asyncio.wait((running,), timeout=min(pace.beat, left))
            if running.cancelled():
                raise HoldfastError("the handler cancelled itself", code="chore_cancelled_itself")
            if done:
                return running.result()
            left -= pace.beat
            await _renew(means, chore)
        raise HoldfastError(f"the run took over {work.seconds:g} seconds", code="chore_timeout")
    finally:
        await stopped(running, pace.stop)


async def _renew(means: Means, chore: Chore) -> None:
    until_us = means.clock.now_us() + means.pace.lease_us
    try:
        await means.store.renew(chore.id, chore.token, until_us)
    except StoreUnavailable as error:  # the next beat comes before the lease ends
        LOG.warning("the lease of chore %s could not be renewed: %s", chore.id, told(error))


async def stopped(task: asyncio.Future[T], seconds: float) -> None:
    """Cancel a task and wait for it, but not for long: it may not listen."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=seconds)
    if task.done() and not task.cancelled():
        task.exception()  # looked at, so that nobody warns that it was not
