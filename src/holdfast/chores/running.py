"""One chore, from its lease to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, TypeVar

from holdfast.chores.failure import LOG, told
from holdfast.chores.kinds import Watch, Work
from holdfast.chores.pace import Means
from holdfast.chores.sweeping import run_sweep
from holdfast.chores.writing import commit
from holdfast.errors import ChoreNotFound, HoldfastError, LeaseLost, StoreUnavailable
from holdfast.model.batch import Fail, Finish, Operation
from holdfast.model.chore import Chore
from holdfast.rules.backoff import retry_us

INSIDE: Final[ContextVar[bool]] = ContextVar("holdfast_inside_a_chore", default=False)
"""Whether this is the work of a chore: it must not wait for other chores."""
T = TypeVar("T")


async def run(means: Means, chore: Chore) -> None:
    """Run a leased chore and write its end: done with its result, due again later, or dead.

    What another worker has taken over, or a forget has erased, ends here without a trace.
    """
    try:
        await _end(means, chore, await _outcome(means, chore))
    except (LeaseLost, ChoreNotFound):
        LOG.debug("chore %s (%s) is not held any more: its result is dropped", chore.id, chore.kind)
    except StoreUnavailable as error:
        LOG.warning("chore %s (%s) is left until its lease ends: %s", chore.id, chore.kind, told(error))


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
    running = asyncio.ensure_future(_called(means, work, chore))
    left = work.limit
    try:
        while left > 0:
            done, _ = await asyncio.wait((running,), timeout=min(pace.beat, left))
            if running.cancelled():
                raise HoldfastError("the handler cancelled itself", code="chore_cancelled_itself")
            if done:
                return running.result()
            left -= pace.beat
            await _renew(means, chore)
        raise HoldfastError(f"the run took over {work.limit:g} seconds", code="chore_timeout")
    finally:
        await stopped(running, pace.stop)


async def _called(means: Means, work: Work, chore: Chore) -> Sequence[Operation]:
    """Runs in a task of its own, where it knows that it is the work of a chore."""
    INSIDE.set(True)
    if isinstance(work, Watch):
        return await run_sweep(means, work)
    return await work.handler(chore)


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
