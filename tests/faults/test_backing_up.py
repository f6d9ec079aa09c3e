"""Backups: whole or not there, named in receipts, made by a schedule once in each interval."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import traceback
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

import holdfast
from holdfast.errors import HoldfastError
from holdfast.model.chore import ChoreState
from holdfast.stores.sqlite import SqliteStore, backing_up
from holdfast.stores.sqlite.db import open_connection
from holdfast.stores.sqlite.heads import head_of
from holdfast.testing.clock import ManualClock
from holdfast.testing.selftest.disk import Disk, mounted
from tests.faults.conftest import MakeBatch, WallClock
from tests.faults.killing import KillingVfs, Trigger


async def filled(hf: holdfast.LocalHoldfast, count: int = 50) -> holdfast.Bank:
    bank = await hf.banks.ensure("notes", kind="general")
    await bank.add_many([holdfast.NewEntry(f"note {n} " + "x" * 500, f"k{n % 7}") for n in range(count)])
    return bank


async def test_a_backup_is_a_memory_of_its_own(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        await filled(hf)
        made = await hf.backups.make(tmp_path / "copy.db", verify=True)
        assert (made.path, made.schema, made.scheduled) == (str(tmp_path / "copy.db"), 3, False)
        assert made.bytes == (tmp_path / "copy.db").stat().st_size
        assert await hf.backups.list() == [made]
    async with holdfast.open(made.path, worker="manual") as copy:
        assert len(await (await copy.banks.get("notes")).list(limit=100)) == 50
        assert await copy.backups.list() == []
        assert (await copy.forget(key="k1")).backups == ()


async def test_names_are_made_by_the_time(tmp_path: Path) -> None:
    clock = ManualClock()
    async with holdfast.open(tmp_path / "m.db", worker="manual", clock=clock) as hf:
        paths = [Path((await hf.backups.make(where)).path) for where in (None, tmp_path, None)]
        stamp = f"{(await hf.backups.list())[0].at:%Y%m%dT%H%M%SZ}"
    assert [path.name for path in paths] == [f"m-{stamp}.db", f"m-{stamp}-2.db", f"m-{stamp}-3.db"]


@pytest.mark.parametrize("what", ["file", "link", "no folder"])
async def test_a_target_that_cannot_be_is_refused(tmp_path: Path, what: str) -> None:
    target = tmp_path / "copy.db"
    if what == "file":
        target.write_bytes(b"precious")
    elif what == "link":
        target.symlink_to(tmp_path / "nowhere")
    else:
        target = tmp_path / "missing" / "copy.db"
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        with pytest.raises(HoldfastError) as caught:
            await hf.backups.make(target)
        assert caught.value.hint
        assert await hf.backups.list() == []
        assert (await hf.forget(key="k")).backups == ()
    assert list(tmp_path.glob("*.part*")) == []
    assert not (tmp_path / "nowhere").exists()


async def test_a_forget_while_the_copy_is_made_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy may hold what is forgotten from the moment on at which it is begun."""
    under_way, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    judge = backing_up._judge

    def waiting(source: backing_up.Source, part: Path, *, verify: bool) -> None:
        loop.call_soon_threadsafe(under_way.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)
        judge(source, part, verify=verify)

    monkeypatch.setattr(backing_up, "_judge", waiting)
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        await filled(hf)
        making = asyncio.create_task(hf.backups.make(tmp_path / "copy.db"))
        await under_way.wait()
        receipt = await hf.forget(key="k1")
        assert receipt.backups == (str(tmp_path / "copy.db"),)
        assert await hf.backups.list() == []
        go_on.set()
        await making
        assert (await hf.receipt(receipt.id)).backups == (str(tmp_path / "copy.db"),)
        (tmp_path / "copy.db").unlink()
        assert (await hf.receipt(receipt.id)).backups == ()


async def test_a_cancelled_backup_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.stores.sqlite.db.STEP_PAGES", 1)
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        await filled(hf, 2_000)
        making = asyncio.create_task(hf.backups.make(tmp_path / "copy.db"))
        while not (tmp_path / "copy.db.part").exists():  # noqa: ASYNC110 - it is a file that is waited for
            await asyncio.sleep(0)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        assert list(tmp_path.glob("copy.db*")) == []
        assert (await hf.forget(key="k1")).backups == ()


class FullDisk(Disk):
    """A disk on which the copy cannot grow."""

    def writing(self, file: str, offset: int, data: bytes) -> bytes:
        if ".part" in file:
            raise apsw.FullError("no space is left")
        return data


async def test_a_full_disk_leaves_nothing_and_the_memory_goes_on(
    tmp_path: Path, make_batch: MakeBatch
) -> None:
    with mounted(FullDisk()) as vfs:
        store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock(), vfs=vfs)
        await store.commit(make_batch("first"))
        with pytest.raises(HoldfastError) as caught:
            await store.backup(str(tmp_path / "copy.db"))
        assert caught.value.code == "disk_full"
        assert list(tmp_path.glob("copy.db*")) == []
        await store.commit(make_batch("second"))
        assert (await store.check()).ok
        await store.aclose()


async def make_one(path: Path) -> None:
    async with holdfast.open(path, worker="manual") as hf:
        await hf.backups.make(path.with_name("copy.db"))


def test_a_backup_that_is_killed_is_not_there(tmp_path: Path) -> None:
    async def prepared() -> None:
        async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
            await filled(hf)

    asyncio.run(prepared())
    whole = 0
    for at in range(1, 200, 9):
        child = os.fork()
        if child == 0:
            status = 1  # an error must not lead the child back into the tests of its parent
            try:
                vfs = KillingVfs(Trigger(at, armed=True))
                asyncio.run(make_one(tmp_path / "m.db"))
                assert vfs is not None
                status = 0
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL
        copy = head_of(tmp_path / "copy.db")
        assert (copy is None) or copy.whole
        whole += copy is not None
        (tmp_path / "copy.db").unlink(missing_ok=True)
    assert 0 < whole < 22


async def test_writers_go_on_while_a_backup_is_made(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        bank = await filled(hf, 4_000)
        going, longest, written = True, 0.0, 0

        async def write() -> None:
            nonlocal longest, written
            while going:
                began = time.perf_counter()
                await bank.add("meanwhile", key="k")
                longest = max(longest, time.perf_counter() - began)
                written += 1

        writing = asyncio.create_task(write())
        for _ in range(5):
            await hf.backups.make()
        going = False
        await writing
        assert written > 5
        assert longest < 8  # seconds: the disk is shared with other tests


# The schedule


async def states(hf: holdfast.LocalHoldfast) -> list[ChoreState]:
    return [chore.state for chore in await hf.space("~holdfast").chores.list(kind="backup")]


async def test_a_schedule_makes_one_in_each_interval_and_keeps_the_newest(tmp_path: Path) -> None:
    clock, folder = ManualClock(), tmp_path / "backups"
    async with (
        holdfast.open(tmp_path / "m.db", clock=clock, worker="manual") as hf,
        holdfast.open(tmp_path / "m.db", clock=clock, worker="manual") as other,
    ):
        by_hand = await hf.backups.make(tmp_path / "by-hand.db")
        schedule = await hf.backups.schedule(folder, every=timedelta(hours=1), keep=2)
        assert await other.backups.scheduled() == schedule
        (folder / "m-20260101T000000Z.db").write_bytes(b"not made by the schedule")
        made: list[holdfast.Backup] = []
        for hour in range(4):
            await asyncio.gather(hf.chores.drain(), other.chores.drain())
            await hf.chores.drain()
            made = [one for one in await hf.backups.list() if one.scheduled]
            assert len(made) == min(hour + 1, 2)
            clock.advance(seconds=3599)
            assert await hf.chores.drain() == 0
            clock.advance(seconds=1)
        assert sorted(Path(one.path) for one in made) == sorted(folder.glob("m-*T*Z.db"))[-2:]
        assert len(list(folder.iterdir())) == 3
        assert by_hand in await hf.backups.list()
        await other.backups.unschedule()
        assert await hf.backups.scheduled() is None
        clock.advance(days=2)
        await hf.chores.drain()
        assert len(list(folder.iterdir())) == 3
        assert ChoreState.QUEUED not in await states(hf)


async def test_a_lost_chore_of_a_schedule_is_made_again(tmp_path: Path) -> None:
    clock = ManualClock()
    async with holdfast.open(tmp_path / "m.db", clock=clock, worker="manual") as hf:
        await hf.backups.schedule(tmp_path / "a", every=timedelta(hours=1))
        chores = hf.space("~holdfast").chores
        for chore in await chores.pending():
            await chores.drop(chore.id)
        await hf.chores.drain()
        assert len(await hf.backups.list()) == 1


async def test_a_schedule_waits_for_a_folder_that_is_away(tmp_path: Path) -> None:
    clock, folder = ManualClock(), tmp_path / "disk"
    async with holdfast.open(tmp_path / "m.db", clock=clock, worker="manual") as hf:
        await hf.backups.schedule(folder, every=timedelta(hours=1))
        folder.rename(tmp_path / "away")
        await hf.chores.drain()
        assert await hf.backups.list() == []
        (tmp_path / "away").rename(folder)
        clock.advance(seconds=7_200)
        await hf.chores.drain()
        assert len(await hf.backups.list()) == 1


async def test_a_new_schedule_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    clock = ManualClock()
    async with holdfast.open(tmp_path / "m.db", clock=clock, worker="manual") as hf:
        await hf.backups.schedule(tmp_path / "a", every=timedelta(hours=1))
        await hf.backups.schedule(tmp_path / "b", every=timedelta(days=1), keep=1)
        await hf.chores.drain()
        clock.advance(seconds=18_000)
        await hf.chores.drain()
    assert list((tmp_path / "a").iterdir()) == []
    assert len(list((tmp_path / "b").iterdir())) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"every": timedelta(seconds=59)},
        {"every": 3600},
        {"every": timedelta.max},
        {"every": timedelta(hours=1), "keep": 0},
        {"every": timedelta(hours=1), "keep": True},
        {"every": timedelta(hours=1), "keep": 2**70},
    ],
)
async def test_a_schedule_that_makes_no_sense_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        with pytest.raises(holdfast.InvalidInput) as caught:
            await hf.backups.schedule(tmp_path / "a", **wrong)  # type: ignore[arg-type] # wrong on purpose
        assert caught.value.code == "schedule_invalid"
        assert not (tmp_path / "a").exists()


async def test_a_memory_that_keeps_nothing_has_no_backups(tmp_path: Path) -> None:
    async with holdfast.open("memory://?quiet=true", worker="manual") as hf:
        for call in (
            hf.backups.make(tmp_path / "x"),
            hf.backups.list(),
            hf.backups.schedule(tmp_path / "a", every=timedelta(hours=1)),
        ):
            with pytest.raises(holdfast.StoreUnsupported):
                await call
        assert await hf.backups.scheduled() is None
        await hf.chores.drain()
    with pytest.raises(holdfast.StoreUnsupported):
        await holdfast.restore(tmp_path / "x", "memory://")


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
async def test_a_target_beside_the_rest_of_an_earlier_file_is_refused(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"copy.db{suffix}").write_bytes(b"x")
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        with pytest.raises(holdfast.AlreadyExists) as caught:
            await hf.backups.make(tmp_path / "copy.db")
        assert f"copy.db{suffix}" in caught.value.message
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("name", ["x\0y.db", "caf\udce9.db"])
async def test_a_name_that_is_no_text_is_refused(tmp_path: Path, name: str) -> None:
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        made = await hf.backups.make(tmp_path / "copy.db")
        with pytest.raises(holdfast.InvalidInput) as caught:
            await hf.backups.make(str(tmp_path / name))
        assert caught.value.code == "url_invalid"
        with pytest.raises(holdfast.InvalidInput):
            await hf.backups.schedule(str(tmp_path / name), every=timedelta(hours=1))
        assert await hf.backups.list() == [made]
    for backup, to in ((made.path, str(tmp_path / name)), (str(tmp_path / name), str(tmp_path / "m.db"))):
        with pytest.raises(holdfast.InvalidInput):
            await holdfast.restore(backup, to)
    for url in (str(tmp_path / name), f"sqlite:///{tmp_path / name}"):
        with pytest.raises(holdfast.InvalidInput) as caught:
            await holdfast.open(url, worker="manual")
        assert caught.value.code == "url_invalid"


async def test_another_memory_under_a_remembered_name_is_no_backup(tmp_path: Path) -> None:
    clock = ManualClock()
    async with holdfast.open(tmp_path / "other.db", worker="manual") as other:
        await filled(other)
    async with holdfast.open(tmp_path / "m.db", worker="manual", clock=clock) as hf:
        await hf.backups.schedule(tmp_path / "a", every=timedelta(hours=1), keep=1)
        await hf.chores.drain()
        (made,) = await hf.backups.list()
        (tmp_path / "other.db").replace(made.path)
        assert await hf.backups.list() == []
        with pytest.raises(holdfast.NotFound):
            await hf.store.drop_backup(made.path)
        for _ in range(2):
            clock.advance(seconds=3600)
            await hf.chores.drain()
        assert Path(made.path).exists()
        assert len(await hf.backups.list()) == 1
        await filled(hf)
        assert made.path not in (await hf.forget(key="k1")).backups


async def test_only_remembered_backups_are_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"x")
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        made = await hf.backups.make()
        for path in (str(precious), str(tmp_path / "m.db")):
            with pytest.raises(holdfast.NotFound):
                await hf.store.drop_backup(path)
        await hf.store.drop_backup(made.path)
        assert await hf.backups.list() == []
    assert precious.exists()


# Space


async def test_compacting_gives_space_back(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with holdfast.open(path, worker="manual") as hf:
        bank = await filled(hf, 4_000)
        await hf.store.compact()
        before = path.stat().st_size
        for key in ("k1", "k2", "k3", "k4", "k5", "k6"):
            await hf.forget(key=key)
        assert len(await bank.list(limit=1_000)) == 572
        await hf.store.compact()
        assert path.stat().st_size < before / 3
        assert (tmp_path / "m.db-wal").stat().st_size == 0
        assert (await hf.store.check()).ok


async def test_a_large_file_is_not_written_anew_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def trace(connection: apsw.Connection) -> None:
        def note(_cursor: apsw.Cursor, statement: str, _bindings: object) -> bool:
            sent.append(statement)
            return True

        connection.exec_trace = note

    monkeypatch.setattr(apsw, "connection_hooks", [trace])
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        await filled(hf)
        await hf.store.compact()
        assert "pragma temp_store=file" not in sent
        monkeypatch.setattr("holdfast.stores.sqlite.scrub.IN_MEMORY_BYTES", 0)
        await hf.store.compact()
        at = sent.index("pragma temp_store=file")
        assert sent[at + 1 : at + 3] == ["vacuum", "pragma temp_store=memory"]
        assert (await hf.store.check()).ok


async def test_compacting_does_so_also_when_all_is_settled(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with holdfast.open(path, worker="manual") as hf:
        for number in range(200):
            await hf.values.set(f"v{number}", "x" * 10_000)
        await hf.store.settle()
        before = path.stat().st_size
        connection = open_connection(str(path), readonly=False, vfs=None)
        connection.execute("delete from documents")
        connection.close()
        await hf.store.compact()
        assert path.stat().st_size < before / 2


class NoTruncation(Disk):
    """A disk that is full when a file is written anew."""

    def __init__(self) -> None:
        self.full = False

    def writing(self, file: str, offset: int, data: bytes) -> bytes:
        if self.full and file.endswith("-wal"):
            raise apsw.FullError("no space is left")
        return data


async def test_compacting_on_a_full_disk_loses_nothing(tmp_path: Path, make_batch: MakeBatch) -> None:
    disk = NoTruncation()
    with mounted(disk) as vfs:
        store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock(), vfs=vfs)
        for number in range(50):
            await store.commit(make_batch(f"text {number}"))
        disk.full = True
        with pytest.raises(HoldfastError) as caught:
            await store.compact()
        assert caught.value.code == "disk_full"
        disk.full = False
        assert (await store.check()).ok
        assert (await store.stats()).counts["entries"] == 50
        await store.compact()
        await store.aclose()


# Files that this holdfast, or this embedder, cannot use


async def test_a_wrong_embedder_and_a_newer_file_are_refused_by_the_face(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with holdfast.open(path, embedder="hashing", worker="manual") as hf:
        await filled(hf)

    class Other:
        name = "other"
        dimensions = 3
        window = 100

        async def embed(self, texts: list[str]) -> list[list[float]]:
            return [[1.0, 0.0, 0.0] for _ in texts]

    with pytest.raises(holdfast.EmbedderMismatch):
        await holdfast.open(path, embedder=Other())  # type: ignore[arg-type] # near enough to be opened with
    async with holdfast.open(path, worker="manual") as hf:
        assert (await hf.banks.list())[0].name == "notes"
    connection = open_connection(str(path), readonly=False, vfs=None)
    connection.execute("pragma user_version=4")
    connection.close()
    with pytest.raises(holdfast.StoreUnsupported) as caught:
        await holdfast.open(path)
    assert (caught.value.code, caught.value.hint) == ("schema_newer", "upgrade holdfast")
