"""What was acknowledged is on the disk: syncs are watched, power cuts simulated, and I/O errors raised."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.errors import StoreFailed
from holdfast.model.scope import Scope
from holdfast.model.window import Window
from holdfast.stores.sqlite import SqliteStore
from tests.faults.conftest import BANK, SPACE, MakeBatch, WallClock
from tests.faults.watching import watched_disk

SCOPE = Scope(SPACE, BANK, "alice")


async def contents(store: SqliteStore) -> list[str]:
    page = await store.load(Scope(SPACE, BANK), Window(limit=10_000))
    return [entry.content for entry in page.entries]


async def test_each_lone_commit_is_one_sync_of_the_log(tmp_path: Path, make_batch: MakeBatch) -> None:
    disk, _vfs = watched_disk()
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock(), vfs=disk.name)
    await store.commit(make_batch("warm up"))
    before = disk.syncs("-wal")
    for number in range(20):
        await store.commit(make_batch(f"text {number}"))
    assert disk.syncs("-wal") - before == 20
    await store.aclose()


async def test_concurrent_commits_share_syncs(tmp_path: Path, make_batch: MakeBatch) -> None:
    disk, _vfs = watched_disk()
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock(), vfs=disk.name)
    await store.commit(make_batch("warm up"))
    before = disk.syncs("-wal")

    async def caller(number: int) -> None:
        for turn in range(10):
            await store.commit(make_batch(f"text {number} {turn}", key=f"k{number}"))

    await asyncio.gather(*(caller(number) for number in range(64)))
    assert 1 <= disk.syncs("-wal") - before <= 640 / 4
    await store.aclose()


async def test_no_acknowledgement_precedes_its_sync(tmp_path: Path, make_batch: MakeBatch) -> None:
    """At the moment of each acknowledgement, the power may go: what was synced by then holds the entry."""
    disk, _vfs = watched_disk()
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock(), vfs=disk.name)
    acknowledged: list[tuple[int, str]] = []

    async def caller(number: int) -> None:
        for turn in range(4):
            content = f"text {number} {turn}"
            await store.commit(make_batch(content, key=f"k{number}"))
            acknowledged.append((len(disk.log), content))

    await asyncio.gather(*(caller(number) for number in range(32)))
    await store.aclose()
    for index in range(0, len(acknowledged), 8):
        until = acknowledged[index][0]
        folder = tmp_path / f"cut-{index}"
        folder.mkdir()
        disk.after_power_cut(until, folder)
        left = await SqliteStore.open(folder / "m.db", clock=WallClock())
        promised = {content for at, content in acknowledged if at <= until}
        assert promised <= set(await contents(left))
        await left.aclose()


@pytest.mark.parametrize("fault", ["fail_syncs", "fail_writes"])
async def test_a_failed_write_is_reported_and_the_store_goes_on(
    tmp_path: Path, make_batch: MakeBatch, fault: str
) -> None:
    disk, _vfs = watched_disk()
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock(), vfs=disk.name)
    await store.commit(make_batch("before"))
    setattr(disk, fault, 1)
    with pytest.raises(StoreFailed) as caught:
        await store.commit(make_batch("during"))
    assert caught.value.hint is not None
    await store.commit(make_batch("after"))
    assert {"before", "after"} <= set(await contents(store))
    assert (await store.check()).ok
    await store.aclose()
    again = await SqliteStore.open(tmp_path / "m.db", clock=WallClock())
    assert {"before", "after"} <= set(await contents(again))
    await again.aclose()
