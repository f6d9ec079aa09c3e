"""The same laws on a file whose ranges, pages and bunches are full after a few entries."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.layout import Layout
from holdfast.testing import ManualClock, StoreSuite

SMALL = Layout(bank_bits=10, key_bits=30, seq_bits=2, page=2, bunch=3)


class TestSmallSqliteStore(StoreSuite):
    """Second ranges, sealed pages and flushed bunches in every test."""

    @pytest.fixture
    async def store(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[SqliteStore]:
        """A store on a fresh file."""
        store = await SqliteStore.open(tmp_path / "memory.db", clock=clock, layout=SMALL)
        yield store
        await store.aclose()
