"""Files that cannot be opened, or not for writing, say why and what to do."""

from __future__ import annotations

import asyncio
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import HoldfastError, StoreDamaged, StoreReadOnly, StoreUnsupported
from holdfast.model.scope import Scope
from holdfast.model.window import Window
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.db import open_connection
from holdfast.stores.sqlite.files import file_system_of
from tests.faults.conftest import BANK, SPACE, MakeBatch, WallClock


async def refused(path: Path, code: str, *, readonly: bool = False) -> HoldfastError:
    with pytest.raises(HoldfastError) as caught:
        await SqliteStore.open(path, clock=WallClock(), readonly=readonly)
    assert caught.value.code == code
    assert caught.value.hint
    assert str(path) in caught.value.message
    return caught.value


async def test_a_text_file_is_not_a_store(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\n" * 500)
    await refused(path, "not_a_store")
    assert path.read_text() == "dear diary\n" * 500


async def test_another_database_is_not_a_store_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = open_connection(str(path), readonly=False, vfs=None)
    other.execute("create table t(x); insert into t values(1)")
    other.close()
    before = path.read_bytes()
    await refused(path, "not_a_store")
    assert path.read_bytes() == before


async def test_a_newer_file_asks_for_an_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    await (await SqliteStore.open(path, clock=WallClock())).aclose()
    newer = open_connection(str(path), readonly=False, vfs=None)
    newer.execute("pragma user_version=99")
    newer.close()
    await refused(path, "schema_newer")


async def test_a_missing_file_cannot_be_read_only(tmp_path: Path) -> None:
    await refused(tmp_path / "missing.db", "store_failed", readonly=True)
    assert not (tmp_path / "missing.db").exists()


def test_several_may_open_a_new_file_at_the_same_moment(tmp_path: Path) -> None:
    refusals: list[BaseException] = []

    def open_with_the_others(path: Path, together: threading.Barrier) -> None:
        async def open_once() -> None:
            await (await SqliteStore.open(path, clock=WallClock(), embedder="one/384")).aclose()

        together.wait()
        try:
            asyncio.run(open_once())
        except HoldfastError as error:
            refusals.append(error)

    for number in range(25):
        together = threading.Barrier(8)
        arguments = (tmp_path / f"m{number}.db", together)
        threads = [threading.Thread(target=open_with_the_others, args=arguments) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert refusals == []


async def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    await refused(tmp_path, "store_failed")


async def test_read_only_reads_and_refuses_writes(tmp_path: Path, make_batch: MakeBatch) -> None:
    path = tmp_path / "m.db"
    writer = await SqliteStore.open(path, clock=WallClock())
    await writer.commit(make_batch("tea"))
    reader = await SqliteStore.open(path, clock=WallClock(), readonly=True)
    page = await reader.load(Scope(SPACE, BANK, "alice"), Window())
    assert [entry.content for entry in page.entries] == ["tea"]
    with pytest.raises(StoreReadOnly):
        await reader.commit(make_batch("coffee"))
    await reader.aclose()
    await writer.aclose()


@pytest.mark.parametrize(
    ("mount", "kind", "expected"),
    [
        ("/data", "nfs4", "nfs4"),
        ("/data", "ext4", "ext4"),
        ("/data/shared", "cifs", "overlay"),
        ("/data\\040space", "nfs", "overlay"),
    ],
)
def test_the_file_system_is_that_of_the_longest_mount(
    tmp_path: Path, mount: str, kind: str, expected: str
) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"overlay / overlay rw 0 0\nserver:/x {mount} {kind} rw 0 0\nnonsense\n")
    assert file_system_of(Path("/data/memory.db"), table) == expected
    assert file_system_of(Path("/data/memory.db"), tmp_path / "missing") is None


async def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def network(_: Path) -> str:
        return "nfs4"

    monkeypatch.setattr("holdfast.stores.sqlite.files.file_system_of", network)
    error = await refused(tmp_path / "m.db", "network_file_system")
    assert isinstance(error, StoreUnsupported)
    assert list(tmp_path.iterdir()) == []


LEFT_BY_A_KILLED_PROCESS = """
    import asyncio, os, sys, holdfast
    async def main():
        hf = await holdfast.open(sys.argv[1], worker="manual")
        bank = await hf.banks.create("notes", kind="general")
        for number in range(5):
            await bank.add(f"tea {number}", key="alice")
        os.kill(os.getpid(), 9)
    asyncio.run(main())
"""


@pytest.fixture
async def left(tmp_path: Path) -> Path:
    path = tmp_path / "m.db"
    await (await SqliteStore.open(path, clock=WallClock())).aclose()
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(LEFT_BY_A_KILLED_PROCESS), str(path)
    )
    assert await child.wait() == -9
    return path


async def test_a_file_whose_log_was_removed_is_refused_until_it_is_put_back(left: Path) -> None:
    log = left.with_name("m.db-wal")
    aside = log.rename(left.with_name("aside"))
    for readonly in (False, True):
        error = await refused(left, "log_missing", readonly=readonly)
        assert isinstance(error, StoreDamaged)
    assert not log.exists()
    aside.rename(log)
    async with holdfast.open(left, worker="manual") as hf:
        assert len(await (await hf.banks.get("notes")).list()) == 5


async def test_without_its_log_and_the_index_of_it_a_file_is_what_it_was_before(left: Path) -> None:
    """What the message says of going on: nothing tells any more that there was a log."""
    for suffix in ("-wal", "-shm"):
        left.with_name(f"m.db{suffix}").unlink()
    async with holdfast.open(left, worker="manual") as hf:
        assert await hf.banks.list() == []


async def test_an_index_of_a_log_that_was_moved_into_the_file_is_no_hindrance(left: Path) -> None:
    async with holdfast.open(left, worker="manual") as hf:
        await hf.store.settle()
        index = left.with_name("m.db-shm").read_bytes()
    left.with_name("m.db-shm").write_bytes(index)
    async with holdfast.open(left, worker="manual") as hf:
        assert len(await (await hf.banks.get("notes")).list()) == 5
