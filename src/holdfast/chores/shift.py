"""Chores that run side by side on one event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

from holdfast.chores.failure import LOG, told
from holdfast.chores.pace import Means
from holdfast.chores.running import run
from holdfast.chores.writing import OVER
from holdfast.errors import HoldfastError
from holdfast.model.chore import Chore


class InHand:
    """How much the shifts of one worker have in hand, over all threads and event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._ends = 0
        self._waiting: list[Future[None]] = []

    @property
    def ends(self) -> int:
        """How many chores have ended so far."""
        return self._ends

    def begin(self, count: int = 1) -> None:
        """Something is taken in hand."""
        with self._lock:
            self._count += count

    def end(self, *, chore: bool) -> None:
        """Something is not in hand any more: a chore, or a lease that gave none."""
        with self._lock:
            self._count -= 1
            self._ends += chore
            if not chore and self._count:
                return
            waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.set_result(None)

    async def next_end(self, seen: int) -> bool:
        """Wait for a chore to end, unless more have ended than were seen; False when nothing is in hand."""
        while True:
            with self._lock:
                if self._ends != seen:
                    return True
                if not self._count:
                    return False
                ended: Future[None] = Future()
                ended.set_running_or_notify_cancel()  # so that nobody who stops waiting can cancel it
                self._waiting.append(ended)
            await asyncio.wrap_future(ended)


class Shift:
    """Takes due chores and runs each in a task of its own; of each place one at a time, as leases are given.

    ``ran`` counts those that came to an end; with ``sweeps`` it runs the chores of sweeps as well.
    """

    def __init__(
        self, means: Means, name: str, in_hand: InHand, on_end: Callable[[], object] | None = None
    ) -> None:
        self.ran = 0
        self.sweeps = False
        self._means = means
        self._name = name
        self._in_hand = in_hand
        self._on_end = on_end
        self._tasks: set[asyncio.Task[None]] = set()
        self._owing = False

    @property
    def free(self) -> int:
        """How many more chores may run beside those that do."""
        return self._means.pace.parallel - len(self._tasks)

    async def take(self, limit: int | None = None) -> list[Chore]:
        """Lease due chores, as many as may run, and start them."""
        means = self._means
        wanted = self.free if limit is None else min(limit, self.free)
        kinds = means.kinds.names(sweeps=self.sweeps)
        if wanted <= 0 or not kinds:
            return []
        now_us = means.clock.now_us()
        self._owing = True
        self._in_hand.begin()
        try:
            taken = await means.store.lease(
                worker=self._name,
                now_us=now_us,
                until_us=now_us + means.pace.lease_us,
                kinds=kinds,
                limit=wanted,
            )
            self._in_hand.begin(len(taken))
            for chore in taken:
                self._start(chore)
        finally:
            self._in_hand.end(chore=False)
        self._owing = bool(self._tasks)
        return taken

    async def settled(self) -> None:
        """Wait for everything that was started."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, chore: Chore) -> None:
        task = asyncio.create_task(run(self._means, chore), name=f"holdfast-chore-{chore.kind}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._owing = True
        else:
            self.ran += 1
            error = task.exception()
            if error is not None:
                LOG.error("a chore is left until its lease ends: %s", told(error), exc_info=error)
        self._in_hand.end(chore=True)
        if self._on_end is not None:
            self._on_end()

    async def end(self, seconds: float) -> None:
        """Wait a while for what runs, then cancel it and hand back every lease that is still held."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        while self._tasks:
            self._owing = True
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=self._means.pace.stop)
        if self._owing:
            await self._hand_back()

    async def _hand_back(self) -> None:
        try:
            await self._means.store.release(self._name)
        except OVER:
            return
        except HoldfastError as error:
            LOG.warning("leases could not be handed back, and end by themselves: %s", told(error))
