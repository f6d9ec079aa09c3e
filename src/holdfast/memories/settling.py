"""Finishing forgets that could not be finished at once, as background work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.chores.kinds import Due, Kinds
from holdfast.chores.sweeping import SPACE
from holdfast.memories.core import Core
from holdfast.memories.receipts import SETTLE, settle_later
from holdfast.model.batch import Operation
from holdfast.model.chore import Chore

SWEEP: Final = "settle-sweep"
HOUR: Final = 3600.0
ROUNDS: Final = 3


class Settling:
    """Finishes forgets: with the chore that each brings along, and every hour whatever is left."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def join(self, kinds: Kinds) -> None:
        """Be one of the kinds."""
        kinds.add(SETTLE, self.run)
        kinds.watch(SWEEP, self.due, seconds=HOUR)

    async def run(self, _chore: Chore) -> Sequence[Operation]:
        """Bring the files to rest as long as a forget waits for it.

        One that comes while this runs makes no chore of its own: this one lives.
        """
        for _ in range(ROUNDS):
            if not await self._core.store.unsettled():
                break
            await self._core.store.settle()
        return ()

    async def due(self) -> Sequence[Due]:
        """A chore when a forget waits that none is under way for."""
        if not await self._core.store.unsettled():
            return ()
        return (Due(SPACE, settle_later(self._core, SPACE).draft),)
