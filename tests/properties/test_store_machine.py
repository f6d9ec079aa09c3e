"""Each engine does what the store in memory does, whatever the order of steps."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings

from holdfast.ports.store import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.layout import DEFAULT, Layout
from holdfast.testing import ManualClock, machine_for
from holdfast.testing.machine import MakeStore

SMALL: Final = Layout(bank_bits=10, key_bits=30, seq_bits=2, page=2, bunch=3)
"""Ranges, pages and bunches that are full after a few entries."""
SLOW: Final = (HealthCheck.too_slow, HealthCheck.data_too_large)
SOAK_RUNS: Final = int(os.environ.get("HOLDFAST_SOAK_RUNS", "5000"))


def sqlite(layout: Layout) -> MakeStore:
    """Stores on fresh files."""

    @asynccontextmanager
    async def opened(clock: ManualClock) -> AsyncGenerator[Store]:
        with TemporaryDirectory() as folder:
            store = await SqliteStore.open(Path(folder) / "memory.db", clock=clock, layout=layout)
            try:
                yield store
            finally:
                await store.aclose()

    return opened


def steps(runs: int, *, same_each_time: bool) -> settings:
    return settings(
        max_examples=runs,
        stateful_step_count=50,
        derandomize=same_each_time,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=SLOW,
        phases=tuple(phase for phase in Phase if phase is not Phase.explain),
    )


TestSqlite = pytest.mark.timeout(300)(machine_for(sqlite(DEFAULT)).TestCase)
TestSqlite.settings = steps(100, same_each_time=True)

TestSmallSqlite = pytest.mark.timeout(300)(machine_for(sqlite(SMALL)).TestCase)
TestSmallSqlite.settings = steps(60, same_each_time=True)

TestSqliteSoak = pytest.mark.soak(pytest.mark.timeout(6 * 3600)(machine_for(sqlite(DEFAULT)).TestCase))
TestSqliteSoak.settings = steps(SOAK_RUNS, same_each_time=False)

TestSmallSqliteSoak = pytest.mark.soak(pytest.mark.timeout(6 * 3600)(machine_for(sqlite(SMALL)).TestCase))
TestSmallSqliteSoak.settings = steps(SOAK_RUNS, same_each_time=False)
