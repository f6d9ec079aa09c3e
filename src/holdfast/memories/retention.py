"""Retention: what has passed its time is erased, hour by hour, and leaves a receipt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from holdfast.chores.kinds import Due, Kinds
from holdfast.memories.banks import StoredBanks
from holdfast.memories.core import Core, Partition, partition
from holdfast.memories.receipts import UPKEEP, settle_later
from holdfast.model.batch import Forget, Operation
from holdfast.model.chore import OVER, Chore, ChoreDraft
from holdfast.model.forget import Selector
from holdfast.model.origin import Origin
from holdfast.model.scope import Scope
from holdfast.model.values import DAY_US
from holdfast.model.window import Window

RETENTION: Final = "retention"
"""The kind of the chore, and who forgets."""
SWEEP: Final = "retention-sweep"
HOUR: Final = 3600.0
TRASH_DAYS: Final = 30
"""How long a deleted entry can be restored."""
JOURNAL_DAYS: Final = 400
"""How long changes are kept."""
ENDED_DAYS: Final = 30
"""How long chores that are done or cancelled are kept."""
SLICE: Final = 500
"""How many records go in one batch: others write in between."""
MANY: Final = 10_000
_KEEPER: Final = Origin(author="holdfast", channel="operator", method="manual")


class Retention:
    """Erases what expired, what was deleted long ago, and entries past the retention of their bank."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def join(self, kinds: Kinds) -> None:
        """Be one of the kinds: looked for every hour, run for each space by itself."""
        kinds.add(RETENTION, self.run, seconds=HOUR)
        kinds.watch(SWEEP, self.due, seconds=HOUR)

    async def due(self) -> Sequence[Due]:
        """One chore for each space that holds something whose time has passed."""
        store, now_us = self._core.store, self._core.clock.now_us()
        overdue = await store.overdue(
            expired_before_us=now_us, deleted_before_us=now_us - TRASH_DAYS * DAY_US, limit=MANY
        )
        spaces = {found.space for found in overdue}
        for space in await store.spaces():
            if space not in spaces and await self._holds_old(space, now_us):
                spaces.add(space)
        return [Due(space, self._draft(_where(space), now_us)) for space in sorted(spaces)]

    async def run(self, chore: Chore) -> Sequence[Operation]:
        """Erase slice by slice. Each is written by itself: a second run goes on with what is left."""
        core, now_us = self._core, self._core.clock.now_us()
        async for selector in self._past(chore.space, now_us):
            forget = Forget(selector, by=RETENTION)
            await core.write(_where(chore.space), (forget, settle_later(core, chore.space)), origin=_KEEPER)
        await core.store.trim_journal(now_us - JOURNAL_DAYS * DAY_US)
        await core.store.trim_chores(now_us - ENDED_DAYS * DAY_US)
        return ()

    def _draft(self, where: Partition, now_us: int) -> ChoreDraft:
        identifier = self._core.make_id(where.bucket)
        return ChoreDraft(id=identifier, kind=RETENTION, place=where.place, due_us=now_us, dedupe=RETENTION)

    async def _past(self, space: str, now_us: int) -> AsyncIterator[Selector]:
        """What has passed its time, slice by slice; each must be gone before the next is asked for."""
        store, before = self._core.store, tuple[str, ...]()
        while True:
            overdue = await store.overdue(
                expired_before_us=now_us, deleted_before_us=now_us - TRASH_DAYS * DAY_US, limit=MANY
            )
            ids = next((found.ids for found in overdue if found.space == space), ())
            if not ids or ids == before:  # what no forget reaches is not asked for again and again
                break
            before = ids
            for start in range(0, len(ids), SLICE):
                yield Selector(ids=ids[start : start + SLICE])
        async for scope, kept_from_us in self._limited_banks(space, now_us):
            while ids := await self._older(scope, kept_from_us, SLICE):
                yield Selector(bank=scope.bank, ids=ids)

    async def _holds_old(self, space: str, now_us: int) -> bool:
        """Whether a space holds entries past their bank's retention, or changes or ended chores to be trimmed."""
        store = self._core.store
        changes = await store.changes(Scope(space), limit=1)
        if any(change.at_us < now_us - JOURNAL_DAYS * DAY_US for change in changes):
            return True
        ended = await store.chores(Scope(space), states=tuple(OVER), limit=1)
        if any(chore.created_us < now_us - ENDED_DAYS * DAY_US for chore in ended):
            return True
        async for scope, kept_from_us in self._limited_banks(space, now_us):
            if await self._older(scope, kept_from_us, 1):
                return True
        return False

    async def _limited_banks(self, space: str, now_us: int) -> AsyncIterator[tuple[Scope, int]]:
        """The banks with a retention, and from when on they keep entries."""
        async for info in StoredBanks(self._core, space).every():
            kept_from_us = info.kept_from_us(now_us)
            if kept_from_us is not None:
                yield Scope(space, info.id), kept_from_us

    async def _older(self, scope: Scope, kept_from_us: int, limit: int) -> tuple[str, ...]:
        """Entries that were said before a time, those behind summaries too."""
        window = Window(limit=limit, created_until_us=kept_from_us, hidden=True)
        return tuple(entry.id for entry in (await self._core.store.load(scope, window)).entries)


def _where(space: str) -> Partition:
    return partition(space, UPKEEP.bank, "~retention")
