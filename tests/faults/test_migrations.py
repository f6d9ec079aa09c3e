"""Files of every earlier schema are brought up to date: whole, once, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import cast

import apsw
import pytest

import holdfast
from holdfast.errors import HoldfastError
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.db import open_connection
from holdfast.stores.sqlite.heads import head_of
from holdfast.stores.sqlite.migrations import SCHEMA, copy_of
from holdfast.testing.selftest.disk import Disk, mounted
from tests.faults.fixtures.make import StillClock, content_of
from tests.faults.killing import KillingVfs, Trigger

FIXTURES = Path(__file__).parent / "fixtures"
OLD = [1, 2]
KILLS = 50


def unpacked(schema: int, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "memory.db"
    path.write_bytes(gzip.decompress((FIXTURES / f"schema-{schema}.db.gz").read_bytes()))
    return path


def expected(schema: int) -> dict[str, object]:
    return cast("dict[str, object]", json.loads((FIXTURES / f"schema-{schema}.json").read_text("utf-8")))


async def content(path: Path) -> dict[str, object]:
    """What a file holds, after it was checked."""
    store = await SqliteStore.open(path, clock=StillClock())
    report = await store.check()
    assert report.ok, report.findings
    found = await content_of(store)
    await store.aclose()
    return cast("dict[str, object]", json.loads(json.dumps(found)))


def test_there_is_a_fixture_of_every_schema_before_this_one() -> None:
    assert list(range(1, SCHEMA)) == OLD
    for schema in OLD:
        packed = FIXTURES / f"schema-{schema}.db.gz"
        assert packed.stat().st_size < 200_000


@pytest.mark.parametrize("schema", OLD)
async def test_every_schema_is_brought_up_to_date(tmp_path: Path, schema: int) -> None:
    path = unpacked(schema, tmp_path)
    before = path.read_bytes()
    assert await content(path) == expected(schema)
    head = head_of(path)
    assert head is not None
    assert head.schema == SCHEMA
    copy = head_of(copy_of(path, schema))
    assert copy is not None
    assert (copy.schema, copy.whole, copy.bytes) == (schema, True, len(before))
    assert await content(path) == expected(schema)


@pytest.mark.parametrize("schema", OLD)
async def test_later_receipts_name_the_copy_that_was_made_first(tmp_path: Path, schema: int) -> None:
    path = unpacked(schema, tmp_path)
    shutil.copy(path, copy_of(path, 1))  # of a step that an earlier holdfast took
    async with holdfast.open(path, worker="manual") as hf:
        receipt = await hf.space("acme").forget(key="alice")
        copies = {str(copy_of(path, number)) for number in (1, schema)}
        assert set(receipt.backups) == copies
        assert {made.path for made in await hf.backups.list()} == copies


@pytest.mark.parametrize("schema", OLD)
async def test_guards_of_every_table_are_made(tmp_path: Path, schema: int) -> None:
    path = unpacked(schema, tmp_path)
    await content(path)
    connection = open_connection(str(path), readonly=False, vfs=None)
    for table in ("idempotency", "tombstones"):
        assert connection.execute(f"select count(*) from {table} where hash is null").get == 0  # noqa: S608
        assert cast("int", connection.execute(f"select count(*) from {table}").get) > 0  # noqa: S608
    connection.execute("update tombstones set at=at+1 where id=(select min(id) from tombstones)")
    connection.close()
    store = await SqliteStore.open(path, clock=StillClock())
    assert [finding.where for finding in (await store.check()).findings] == ["tombstones"]
    await store.aclose()


async def open_and_close(path: Path) -> None:
    await (await SqliteStore.open(path, clock=StillClock())).aclose()


def killed_in_a_child(path: Path, at: int) -> int | None:
    """Open a file in a child that is killed at that write or sync; how many there were, when it lived."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1  # an error must not lead the child back into the tests of its parent
        try:
            trigger = Trigger(at, armed=True)
            vfs = KillingVfs(trigger)
            asyncio.run(open_and_close(path))
            os.write(sender, trigger.calls.to_bytes(8, "big"))
            assert vfs is not None
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    os.close(sender)
    _, status = os.waitpid(child, 0)
    told = os.read(receiver, 8)
    os.close(receiver)
    assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL
    return int.from_bytes(told, "big") if told else None


@pytest.mark.parametrize("schema", OLD)
def test_a_migration_that_is_killed_loses_nothing(tmp_path: Path, schema: int) -> None:
    """Fifty times, at writes and syncs all over it; the next open takes it up again."""
    calls = killed_in_a_child(unpacked(schema, tmp_path / "whole"), 0)
    assert calls is not None
    assert calls > KILLS
    for number in range(KILLS):
        path = unpacked(schema, tmp_path / f"kill-{number}")
        assert killed_in_a_child(path, 1 + number * calls // KILLS) is None
        copy = head_of(copy_of(path, schema))
        assert copy is None or (copy.whole and copy.schema == schema)
        assert asyncio.run(content(path)) == expected(schema)
        assert list(path.parent.glob("*.part")) == []


def test_processes_that_open_an_old_file_at_once_bring_it_up_to_date_once(tmp_path: Path) -> None:
    path = unpacked(1, tmp_path)
    program = (
        "import asyncio, sys, time; from holdfast.stores.sqlite import SqliteStore\n"
        "class C:\n    def now_us(self): return time.time_ns() // 1000\n"
        "async def main():\n    s = await SqliteStore.open(sys.argv[1], clock=C()); await s.spaces()\n"
        "    await s.aclose()\n"
        "asyncio.run(main())\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(path)], stderr=subprocess.PIPE) for _ in range(3)
    ]
    told = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], told
    assert asyncio.run(content(path)) == expected(1)


class FullDisk(Disk):
    """A disk on which a file cannot grow."""

    def __init__(self, name: str) -> None:
        self._name = name

    def writing(self, file: str, offset: int, data: bytes) -> bytes:
        if self._name in file:
            raise apsw.FullError("no space is left")
        return data


@pytest.mark.parametrize("where", [".part", "-wal"])
async def test_a_full_disk_leaves_the_old_file_as_it_was(tmp_path: Path, where: str) -> None:
    path = unpacked(2, tmp_path)
    before = path.read_bytes()
    with mounted(FullDisk(where)) as vfs:
        with pytest.raises(HoldfastError) as caught:
            await SqliteStore.open(path, clock=StillClock(), vfs=vfs)
        assert caught.value.code == "disk_full"
    assert path.read_bytes() == before
    assert list(tmp_path.glob("*.part*")) == []
    assert await content(path) == expected(2)


async def test_an_old_file_that_is_only_read_says_what_to_do(tmp_path: Path) -> None:
    path = unpacked(2, tmp_path)
    with pytest.raises(HoldfastError) as caught:
        await SqliteStore.open(path, clock=StillClock(), readonly=True)
    assert caught.value.code == "schema_older"
    assert "mode=ro" in str(caught.value.hint)
