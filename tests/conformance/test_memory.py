"""The store in memory keeps the laws."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast.ports.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock, StoreSuite


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    async def store(self, clock: ManualClock) -> AsyncIterator[Store]:
        store = MemoryStore(clock)
        yield store
        await store.aclose()
