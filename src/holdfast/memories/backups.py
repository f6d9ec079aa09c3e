"""Backups of a whole memory: made now, or by a schedule that is kept in the memory itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, cast

from holdfast.chores.kinds import Due, Kinds
from holdfast.errors import InvalidInput, StoreFailed
from holdfast.memories.core import Core, Partition, partition
from holdfast.model.backup import CHORE as BACKUP
from holdfast.model.backup import SCHEDULE as _REF
from holdfast.model.backup import SPACE, Backup, Schedule, checked_file
from holdfast.model.batch import Drop, Enqueue, Operation, Put, Remove
from holdfast.model.chore import LIVE, Chore, ChoreDraft
from holdfast.model.origin import Origin
from holdfast.model.scope import Scope
from holdfast.model.values import JsonObject

SWEEP: Final = "backup-sweep"
HOUR: Final = 3600.0
LONGEST: Final = 6 * HOUR
"""How many seconds one scheduled backup may take."""
ATTEMPTS: Final = 10_000
"""A schedule is never given up: a disk that is full or away comes back."""
_OPERATOR: Final = Origin(channel="operator", method="manual")
_SHORTEST: Final = timedelta(minutes=1)
_MOST: Final = 1_000_000
"""So many backups of a schedule stay at most."""
_LONGEST: Final = timedelta(days=3650)


class StoredBackups:
    """The backups of a store. All processes together make one in each interval: it is a chore."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    async def make(self, target: str | os.PathLike[str] | None = None, *, verify: bool = False) -> Backup:
        return await self._core.store.backup(None if target is None else os.fspath(target), verify=verify)

    async def scheduled(self) -> Schedule | None:
        document = await self._core.store.document(Scope(SPACE), _REF)
        if document is None:
            return None
        value = cast("dict[str, object]", document.value)
        every = timedelta(microseconds=cast("int", value["every_us"]))
        return Schedule(cast("str", value["folder"]), every, cast("int", value["keep"]))

    async def schedule(self, folder: str | os.PathLike[str], *, every: timedelta, keep: int = 7) -> Schedule:
        _check_schedule(every, keep)
        await self._core.store.backups()  # StoreUnsupported where there is nothing to copy
        path = await asyncio.to_thread(_made_folder, folder)
        value: JsonObject = {"folder": path, "every_us": _micros(every), "keep": keep}
        where = _where()
        put = Put(_REF, self._core.make_id(where.bucket), value)
        due = Enqueue(self._draft(self._core.clock.now_us()))
        await self._core.write(where, (put, *await self._drops(), due), origin=_OPERATOR)
        return Schedule(path, every, keep)

    async def unschedule(self) -> None:
        await self._core.write(_where(), (Remove(_REF), *await self._drops()), origin=_OPERATOR)

    def join(self, kinds: Kinds) -> None:
        """Be one of the kinds: each run makes the next one due; the sweep sees that none is lost."""
        kinds.add(BACKUP, self.run, seconds=LONGEST)
        kinds.watch(SWEEP, self.due, seconds=HOUR)

    async def due(self) -> Sequence[Due]:
        """The next backup, where there is a schedule."""
        if await self.scheduled() is None:
            return ()
        return (Due(SPACE, self._draft(self._core.clock.now_us())),)

    async def run(self, _chore: Chore) -> Sequence[Operation]:
        """Make the backup of this interval unless that was done, and let old ones go."""
        schedule = await self.scheduled()
        if schedule is None:
            return ()
        now_us, every_us = self._core.clock.now_us(), _micros(schedule.every)
        newest = next(iter(await self._made(schedule)), None)
        if newest is not None and 0 <= now_us - newest.at_us < every_us:
            return (Enqueue(self._draft(newest.at_us + every_us)),)
        await self._core.store.backup(schedule.folder, scheduled=True)
        for old in (await self._made(schedule))[schedule.keep :]:
            await self._core.store.drop_backup(old.path)
        return (Enqueue(self._draft(now_us + every_us)),)

    async def _made(self, schedule: Schedule) -> list[Backup]:
        """What the schedule has made, newest first."""
        found = await self._core.store.backups()
        return [one for one in found if one.scheduled and str(Path(one.path).parent) == schedule.folder]

    async def _drops(self) -> list[Drop]:
        where = _where()
        live = await self._core.store.chores(where.scope, states=tuple(LIVE), kinds=(BACKUP,))
        return [Drop(chore.id) for chore in live]

    def _draft(self, due_us: int) -> ChoreDraft:
        where = _where()
        return ChoreDraft(
            id=self._core.make_id(where.bucket),
            kind=BACKUP,
            place=where.place,
            due_us=due_us,
            dedupe=BACKUP,
            max_attempts=ATTEMPTS,
        )

    async def list(self) -> list[Backup]:
        return await self._core.store.backups()


def _check_schedule(every: object, keep: object) -> None:
    if not isinstance(every, timedelta) or not _SHORTEST <= every <= _LONGEST:
        raise InvalidInput(
            f"every is a timedelta of {_SHORTEST} to {_LONGEST}, not {every!r}",
            code="schedule_invalid",
            hint="every=timedelta(days=1)",
        )
    if not isinstance(keep, int) or isinstance(keep, bool) or not 1 <= keep <= _MOST:
        raise InvalidInput(
            f"keep must be a number from 1 to {_MOST:,}", code="schedule_invalid", hint="keep=7"
        )


def _where() -> Partition:
    return partition(SPACE, _REF.bank, _REF.key)


def _micros(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def _made_folder(folder: str | os.PathLike[str]) -> str:
    path = Path(checked_file(str(Path(folder).absolute())))
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFailed(
            f"the folder {path} cannot be made: {error}", hint="give a folder that may be written"
        ) from error
    return str(path.resolve())
