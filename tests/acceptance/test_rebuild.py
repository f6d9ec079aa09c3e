"""What is derived is made anew as background work."""

from __future__ import annotations

from pathlib import Path

import holdfast
from holdfast.stores.sqlite.db import open_connection


async def test_a_chore_makes_derived_data_anew(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with holdfast.open(path, worker="manual") as hf:
        bank = await hf.banks.create("notes", kind="general")
        await bank.add("Alice prefers tea", key="alice")
    broken = open_connection(str(path), readonly=False, vfs=None)
    broken.execute("delete from fresh")
    broken.close()
    async with holdfast.open(path, worker="manual") as hf:
        bank = await hf.banks.get("notes")
        assert len(await bank.search("tea", key="alice")) == 0
        await hf.chores.rebuild()
        await hf.chores.rebuild()  # one will do
        await hf.chores.drain()
        assert [hit.entry.content for hit in await bank.search("tea", key="alice")] == ["Alice prefers tea"]
        assert (await hf.store.check()).ok
