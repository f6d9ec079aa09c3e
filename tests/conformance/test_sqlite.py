"""The store in an SQLite file keeps the laws."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.ports.store import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock, StoreSuite


class TestSqliteStore(StoreSuite):
    @pytest.fixture
    async def store(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Store]:
        store = await SqliteStore.open(tmp_path / "memory.db", clock=clock)
        yield store
        await store.aclose()
