"""A disk that is really full: a small file system in memory, where the system lets one be mounted."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import HoldfastError
from holdfast.stores.sqlite import SqliteStore
from tests.faults.fixtures.make import StillClock

FIXTURE = Path(__file__).parent / "fixtures" / "schema-2.db.gz"
MEGABYTES = 3


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of three megabytes."""
    folder, mount = tmp_path / "disk", shutil.which("mount")
    folder.mkdir()
    command = [mount or "mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607 - as the path of this user has it


def fill(folder: Path) -> Path:
    """Take all space that is left."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return ballast


async def memory(path: Path) -> list[str]:
    async with holdfast.open(path, worker="manual") as hf:
        bank = await hf.banks.ensure("notes", kind="general")
        await bank.add_many([holdfast.NewEntry(f"{n} " + "x" * 900, "k") for n in range(500)])
        return await contents(hf)


async def contents(hf: holdfast.LocalHoldfast) -> list[str]:
    assert (await hf.store.check()).ok
    return [entry.content for entry in await (await hf.banks.get("notes")).list(limit=1_000)]


async def test_a_backup_and_a_compaction_do_no_harm(disk: Path) -> None:
    path = disk / "m.db"
    held = await memory(path)
    async with holdfast.open(path, worker="manual") as hf:
        await hf.usage()
        ballast = fill(disk)
        ballast.write_bytes(b"x" * (ballast.stat().st_size - 500_000))
        for call in (lambda: hf.backups.make(disk / "copy.db"), hf.store.compact):
            with pytest.raises(HoldfastError) as caught:
                await call()
            assert caught.value.code == "disk_full"
        assert list(disk.glob("copy.db*")) == []
        ballast.unlink()
        assert await contents(hf) == held
        await hf.store.compact()
        assert (await hf.backups.make(disk / "copy.db", verify=True)).bytes > 0


async def test_a_restore_does_no_harm(disk: Path, tmp_path: Path) -> None:
    path = disk / "m.db"
    held = await memory(path)
    async with holdfast.open(path, worker="manual") as hf:
        backup = await hf.backups.make(tmp_path / "copy.db")
        await hf.values.set("k", "later")
    ballast = fill(disk)
    with pytest.raises(HoldfastError) as caught:
        await holdfast.restore(backup.path, path)
    assert caught.value.code == "disk_full"
    assert list(disk.glob("*.restoring*")) == []
    ballast.unlink()
    async with holdfast.open(path, worker="manual") as hf:
        assert await contents(hf) == held
        assert await hf.values.get("k") == "later"


def test_a_migration_does_no_harm(disk: Path) -> None:
    path = disk / "m.db"
    path.write_bytes(gzip.decompress(FIXTURE.read_bytes()))
    before = path.read_bytes()
    ballast = fill(disk)
    with pytest.raises(HoldfastError) as caught:
        asyncio.run(SqliteStore.open(path, clock=StillClock()))
    assert caught.value.code == "disk_full"
    ballast.unlink()
    assert path.read_bytes() == before

    async def opened() -> None:
        store = await SqliteStore.open(path, clock=StillClock())
        assert (await store.check()).ok
        await store.aclose()

    asyncio.run(opened())
