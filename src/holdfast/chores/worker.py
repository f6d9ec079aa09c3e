"""The worker: takes what is due and runs it, when asked or for as long as a program lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final

from holdfast.chores.failure import LOG, told
from holdfast.chores.kinds import Kinds
from holdfast.chores.pace import Means
from holdfast.chores.running import INSIDE, stopped
from holdfast.chores.shift import InHand, Shift
from holdfast.chores.sweeping import begin, look
from holdfast.chores.writing import OVER
from holdfast.model.chore import Chore

LONGEST_PAUSE: Final = 30.0
"""Seconds between tries while the store keeps failing."""


class Worker:
    """Runs chores over a store. Usable from any task, thread and event loop; calls share the work without overlap."""

    def __init__(self, means: Means, name: str) -> None:
        self._means = means
        self._name = name
        self._numbers = count(1)
        self._in_hand = InHand()

    @property
    def kinds(self) -> Kinds:
        """What this worker can do."""
        return self._means.kinds

    def _shift(self, on_end: Callable[[], object] | None = None) -> Shift:
        # Leases are handed back by name, so each shift has its own.
        return Shift(self._means, f"{self._name}/{next(self._numbers)}", self._in_hand, on_end)

    # When asked

    async def run_once(self) -> Chore | None:
        """Run the oldest chore that is due; None when there is none. The chore is told as it was leased."""
        shift = self._shift()
        try:
            taken = await shift.take(1)
            await shift.settled()
        finally:
            await shift.end(0)
        return taken[0] if taken else None

    async def drain(self, timeout: float | None = None) -> int:
        """Look for what is due by the state of the store, then run until nothing is due; how many chores ran.

        It also waits for what this worker runs elsewhere. After ``timeout`` seconds, what still runs is handed back.
        Inside a chore it does nothing: a chore would wait for itself.
        """
        if INSIDE.get():
            return 0
        shift = self._shift()
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                await self.sweep()
                await self._work_off(shift)
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            await shift.end(0)
        return shift.ran

    async def work_off(self) -> None:
        """Run until nothing is due, without looking for more; nothing inside a chore, as in ``drain``."""
        if INSIDE.get():
            return
        shift = self._shift()
        try:
            await self._work_off(shift)
        finally:
            await shift.end(0)

    async def _work_off(self, shift: Shift) -> None:
        while True:
            seen = self._in_hand.ends
            await shift.take()
            # What was not taken waits for a place that is busy, or for a free hand: until something ends.
            if not await self._in_hand.next_end(seen):
                return

    async def sweep(self) -> None:
        """Make due what is due by the state of the store."""
        for watch in self.kinds.watches:
            await look(self._means, watch)

    # For as long as the program lives

    async def serve(self, wake: asyncio.Event) -> None:
        """Run what becomes due until cancelled; then finish or hand back what was leased.

        It sleeps until the next chore is due or ``wake`` is set, as commits of this process do. Other processes cannot
        wake it, so it looks for their work when it has slept for a second: one small read, no write.
        """
        shift = self._shift(on_end=wake.set)
        sweeper = asyncio.create_task(self._begin_sweeps(shift, wake))
        try:
            await self._serve(shift, wake)
        finally:
            await stopped(sweeper, self._means.pace.stop)
            await shift.end(self._means.pace.stop)

    async def _serve(self, shift: Shift, wake: asyncio.Event) -> None:
        faults = 0
        woken = True
        while True:
            wake.clear()
            try:
                pause = await self._turn(shift, woken=woken)
                faults = 0
            except OVER:
                return
            except Exception as error:  # noqa: BLE001 - the boundary of the worker: it never dies of a fault
                pause = min(LONGEST_PAUSE, 0.1 * 2**faults)
                faults = min(faults + 1, 10)
                LOG.warning(
                    "the worker could not take chores and tries again in %g s: %s", pause, told(error)
                )
                await asyncio.sleep(pause)
                wake.set()
            woken = await _woken(wake, pause)

    async def _turn(self, shift: Shift, *, woken: bool) -> float:
        """Take what is due; how many seconds to sleep unless woken."""
        if not woken:
            pause = await self._pause()
            if pause > 0:
                return pause
        await shift.take()
        # What is due and was not taken waits for its place, or is for others.
        return await self._pause() or self._means.pace.look

    async def _pause(self) -> float:
        """Seconds until something is due, but no longer than between two looks; 0 when something is due."""
        due_us = await self._means.store.next_due_us()
        look = self._means.pace.look
        if due_us is None:
            return look
        return min(look, max(0.0, (due_us - self._means.clock.now_us()) / 1_000_000))

    async def _begin_sweeps(self, shift: Shift, wake: asyncio.Event) -> None:
        """See that each sweep has its chore: not at once, since many programs open a memory only for a moment."""
        await asyncio.sleep(self._means.pace.first_sweep)
        shift.sweeps = True
        while True:
            try:
                for watch in self.kinds.watches:
                    if await begin(self._means, watch):
                        wake.set()
            except OVER:
                return
            except Exception as error:  # noqa: BLE001 - as in _serve
                LOG.warning("the sweeps could not begin: %s", told(error))
            await asyncio.sleep(self._means.pace.heal)


async def _woken(wake: asyncio.Event, seconds: float) -> bool:
    """Whether the event was set within some seconds."""
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        return False
    return True
