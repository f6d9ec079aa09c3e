"""A key is found by its name, however many keys its bank has."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.stores.sqlite import SqliteStore, entry_reads, ledger, places
from holdfast.stores.sqlite.db import open_connection
from holdfast.testing import ManualClock

BY_NAME = (
    entry_reads._KEY, entry_reads._KEYS_UP, entry_reads._KEYS_DOWN, entry_reads._HIGH, ledger._KEY, places._KEY_RANGES,
)  # fmt: skip


@pytest.mark.parametrize("sql", BY_NAME)
async def test_a_key_is_found_by_its_name(tmp_path: Path, sql: str) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=ManualClock())
    await store.aclose()
    connection = open_connection(str(tmp_path / "m.db"), readonly=True, vfs=None)
    plan = [str(row[3]) for row in connection.execute("explain query plan " + sql, (1, "alice"))]
    connection.close()
    assert plan[0].startswith(
        ("SEARCH keys USING INDEX keys_key", "SEARCH keys USING COVERING INDEX keys_key")
    )
    # Ranges of one key may be sorted, never the keys of a bank.
    assert not any(step.startswith("USE TEMP B-TREE FOR ORDER BY") for step in plan)
