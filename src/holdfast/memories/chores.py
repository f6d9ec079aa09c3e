"""The chores of a space: listed, run, taken up again, dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.errors import InvalidInput
from holdfast.memories.checking import check_limit, checked_items
from holdfast.memories.core import Core
from holdfast.memories.duties import Duties
from holdfast.model.batch import Batch, Drop, Retry
from holdfast.model.chore import LIVE, Chore, ChoreState
from holdfast.model.ids import bucket_of_id, checked_id
from holdfast.model.limits import PAGE_LIMIT
from holdfast.model.origin import Origin
from holdfast.model.scope import Scope, checked_name

_STATES: Final = tuple(str(state) for state in ChoreState)
OPERATOR: Final = Origin(channel="operator", method="manual")


class StoredChores:
    """The background work of one space of a store."""

    __slots__ = ("_core", "_duties", "_space")

    def __init__(self, core: Core, space: str, duties: Duties) -> None:
        self._core = core
        self._space = space
        self._duties = duties

    async def drain(self, timeout: float | None = None) -> int:
        return await self._duties.worker.drain(timeout)

    async def run_once(self) -> Chore | None:
        return await self._duties.worker.run_once()

    async def pending(self, *, limit: int = 100) -> list[Chore]:
        return await self.list(states=tuple(LIVE), limit=limit)

    async def dead(self, *, limit: int = 100) -> list[Chore]:
        return await self.list(states=(ChoreState.DEAD,), limit=limit)

    async def retry(self, chore_id: str) -> None:
        now_us = self._core.clock.now_us()
        await self._commit(Retry(checked_id(chore_id, what="the chore id"), now_us))

    async def drop(self, chore_id: str) -> None:
        await self._commit(Drop(checked_id(chore_id, what="the chore id")))

    async def cancel(self, chore_id: str) -> None:
        await self.drop(chore_id)

    async def rebuild(self) -> None:
        # Deferred, as the worker is: few programs ask for it.
        from holdfast.memories.rebuilding import rebuild_soon

        core = self._core
        due = rebuild_soon(core, self._space)
        change = core.make_id(bucket_of_id(due.draft.id))
        await core.commit(Batch(self._space, change, core.clock.now_us(), (due,), OPERATOR))

    async def list(
        self, *, states: Sequence[ChoreState | str] = (), kind: str | None = None, limit: int = 100
    ) -> list[Chore]:
        check_limit(limit, PAGE_LIMIT)
        chosen = [_checked_state(state) for state in checked_items(states, what="states", hint='["dead"]')]
        kinds = None if kind is None else (checked_name(kind, what="the chore kind", code="kind_invalid"),)
        return await self._core.store.chores(Scope(self._space), states=chosen, kinds=kinds, limit=limit)

    async def _commit(self, operation: Retry | Drop) -> None:
        core = self._core
        change = core.make_id(bucket_of_id(operation.chore))
        await core.commit(Batch(self._space, change, core.clock.now_us(), (operation,), OPERATOR))


def _checked_state(state: object) -> ChoreState:
    if not isinstance(state, str) or state not in _STATES:
        raise InvalidInput(f"unknown state {state!r}", code="state_invalid", hint=" or ".join(_STATES))
    return ChoreState(state)
