"""The disk fails in every way at every moment: typed errors, nothing lost, and the same handle goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import StoreFailed
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.selftest.disk import mounted
from holdfast.testing.selftest.faults import Point, Saboteur, chosen, faults_test
from tests.faults.conftest import MakeBatch, WallClock


def open_files(folder: Path) -> list[str]:
    """What this process holds open below a folder."""
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [link for link in links if link.startswith(str(folder))]


def test_each_failing_call_of_the_disk_is_a_typed_error_or_nothing(tmp_path: Path) -> None:
    outcome = faults_test(tmp_path, 100)
    assert outcome.findings == ()
    assert outcome.figures["typed_errors"] > 50
    assert outcome.figures["disk_full"] > 10
    assert outcome.figures["slowest_call_ms"] < 5_000


def test_failures_are_spread_evenly_or_all_taken() -> None:
    points = [Point("write", number, "error") for number in range(1, 101)]
    assert chosen(points, 0) == chosen(points, 100) == chosen(points, 500) == points
    assert [point.number for point in chosen(points, 4)] == [1, 26, 51, 76]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_every_failing_call_of_the_disk_is_a_typed_error_or_nothing(tmp_path: Path) -> None:
    assert faults_test(tmp_path, 0, seed=1).findings == ()


async def test_a_log_that_cannot_be_made_is_told(tmp_path: Path, make_batch: MakeBatch) -> None:
    """The database itself would go on without one, and tell so in an answer only."""
    disk = Saboteur(Point("sync", 1, "error"))
    with mounted(disk) as vfs:
        with pytest.raises(StoreFailed) as caught:
            await SqliteStore.open(tmp_path / "m.db", clock=WallClock(), vfs=vfs)
        assert disk.struck
        assert caught.value.hint
        assert open_files(tmp_path) == []
        store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock(), vfs=vfs)
        await store.commit(make_batch("after"))
        assert (tmp_path / "m.db-wal").exists()
        await store.aclose()


@pytest.mark.parametrize("fault", ["full", "short"])
async def test_a_full_disk_has_a_code_of_its_own(tmp_path: Path, make_batch: MakeBatch, fault: str) -> None:
    disk = Saboteur()
    with mounted(disk) as vfs:
        store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock(), vfs=vfs)
        await store.commit(make_batch("before"))
        disk.strike(Point("write", disk.calls["write"] + 2, "full" if fault == "full" else "short"))
        with pytest.raises(StoreFailed) as caught:
            await store.commit(make_batch("during"))
        assert caught.value.code == "disk_full"
        assert caught.value.hint
        await store.commit(make_batch("after"))
        assert (await store.check()).ok
        await store.aclose()
