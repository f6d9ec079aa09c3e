"""A writing process whose store acknowledges too early: the crash test has to notice."""

from __future__ import annotations

import asyncio

from holdfast.model.batch import Batch, Commit
from holdfast.ports.store import Store
from holdfast.providers.system import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.testing import FaultyStore
from holdfast.testing.selftest.forking import serve


class EarlyStore(FaultyStore):
    """Acknowledges from memory, and writes to the file a little later."""

    def __init__(self, inner: Store) -> None:
        super().__init__(MemoryStore(SystemClock()))
        self._file = inner
        self._writing: set[asyncio.Task[Commit]] = set()

    async def commit(self, batch: Batch) -> Commit:
        commit = await super().commit(batch)
        self._writing.add(asyncio.create_task(self._write_late(batch)))
        return commit

    async def _write_late(self, batch: Batch) -> Commit:
        await asyncio.sleep(0.005)
        return await self._file.commit(batch)


if __name__ == "__main__":
    serve(EarlyStore)
