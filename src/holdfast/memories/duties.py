"""Who runs the chores of an open memory, and when."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from holdfast.errors import HoldfastError, InvalidInput
from holdfast.memories.core import Core
from holdfast.model.batch import Batch, Commit, Enqueue, Retry

if TYPE_CHECKING:  # loaded with the first chore: opening stays light
    from holdfast.chores.background import Background
    from holdfast.chores.worker import Worker

WorkerMode = Literal["background", "inline", "manual"]
MODES: Final = ("background", "inline", "manual")
FIRST_LOOK: Final = 0.05
"""Seconds after opening when the background worker begins: what the memory was opened for comes first."""
_MAKES_DUE: Final = frozenset((Enqueue, Retry))
_Committing: TypeAlias = Callable[[Batch], Awaitable[Commit]]


def checked_mode(mode: object) -> WorkerMode:
    """The mode itself."""
    if mode not in MODES:
        raise InvalidInput(f"unknown worker {mode!r}", code="worker_invalid", hint=" or ".join(MODES))
    return mode


class Duties:
    """The worker of one open memory, made when it is first needed, and what commits have to do with it."""

    __slots__ = ("_background", "_core", "_lock", "_worker")

    def __init__(self, core: Core, mode: WorkerMode = "manual") -> None:
        self._core = core
        self._lock = Lock()
        self._worker: Worker | None = None
        self._background: Background | None = None
        if mode != "manual":
            after = self._wake if mode == "background" else self._work_off
            core.commit = _followed(core.commit, after)

    @property
    def worker(self) -> Worker:
        """What runs the chores."""
        with self._lock:
            if self._worker is None:
                self._worker = self._made()
            return self._worker

    def begin(self) -> None:
        """Have the background worker begin soon on the running event loop."""
        # Deferred: `import holdfast` does without it.
        import asyncio

        asyncio.get_running_loop().call_later(FIRST_LOOK, self._watch().wake)

    async def aclose(self) -> None:
        """Stop the background worker: what runs is finished within a few seconds or handed back."""
        if self._background is not None:
            await self._background.aclose()

    async def _wake(self) -> None:
        self._watch().wake()

    async def _work_off(self) -> None:
        from holdfast.chores.failure import LOG, told

        try:
            await self.worker.work_off()
        except HoldfastError as error:  # the commit itself is done
            LOG.warning("chores that a commit made due are left for later: %s", told(error))

    def _watch(self) -> Background:
        from holdfast.chores.background import Background

        with self._lock:
            if self._background is None:
                self._background = Background(lambda: self.worker)
            return self._background

    def _made(self) -> Worker:
        from holdfast.chores.pace import Means
        from holdfast.chores.worker import Worker
        from holdfast.memories.kinds import known_kinds

        core, bits = self._core, self._core.random_bits
        means = Means(
            store=core.store,
            clock=core.clock,
            make_id=core.make_id,
            jitter=lambda: 0.5 + bits(16) / (1 << 17),
            kinds=known_kinds(core),
        )
        return Worker(means, f"{os.getpid()}-{bits(32):08x}")


def _followed(commit: _Committing, after: Callable[[], Awaitable[None]]) -> _Committing:
    """The same commit, with something to do after one that makes a chore due; others go through untouched."""

    async def followed(batch: Batch) -> Commit:
        done = await commit(batch)
        await after()
        return done

    def choose(batch: Batch) -> Awaitable[Commit]:
        makes_due = not _MAKES_DUE.isdisjoint(map(type, batch.operations))
        return followed(batch) if makes_due else commit(batch)

    return choose
