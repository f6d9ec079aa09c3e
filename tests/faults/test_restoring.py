"""A restore erases again what was erased since, and leaves the old file or the new one, whole."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

import holdfast
from holdfast.errors import HoldfastError
from holdfast.model.batch import Batch, Enqueue, Put, Remove
from holdfast.model.chore import ChoreDraft
from holdfast.model.document import DocumentRef
from holdfast.model.ids import IdMaker
from holdfast.model.scope import Place, Scope
from holdfast.providers.system import SystemClock, SystemRandom
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.db import open_connection
from holdfast.stores.sqlite.repair import repair_file
from holdfast.stores.sqlite.restoring import STAGES, Order, Restoring, Stage
from holdfast.stores.sqlite.tuning import Tuning
from holdfast.testing.clock import ManualClock
from holdfast.testing.selftest.disk import Disk, mounted
from tests.faults.killing import KillingVfs, Trigger

CANARIES = (
    b"said-canary", b"key-canary", b"bank-canary", b"value-canary", b"working-canary", b"chore-canary",
    b"title-canary", b"name-canary", b"trimmed-canary", b"renamed-canary", b"subject-canary",
)  # fmt: skip
make_id = IdMaker(SystemClock().now_us, SystemRandom())
FIXTURE = Path(__file__).parent / "fixtures" / "schema-1.db.gz"


def here(url: Path) -> holdfast.Opening:
    return holdfast.open(url, worker="manual")


async def write(hf: holdfast.LocalHoldfast, *operations: Put | Remove | Enqueue) -> None:
    await hf.store.commit(Batch("default", make_id(0), hf.clock.now_us(), operations))


WORKING = DocumentRef("notes", "key-canary", "working", "w")


async def fill(hf: holdfast.LocalHoldfast) -> None:
    """What stays, and what will be forgotten, of every kind."""
    for name in ("plain", "bank-canary"):
        bank = await hf.banks.create(name, kind="general")
        await bank.add("stays for good", key="bob")
        entry = await bank.add("said-canary one", key="key-canary", title="title-canary", name="name-canary")
        await bank.update(entry.id, content="said-canary two")
    await hf.values.set("kept", "stays for good")
    await hf.values.set("gone", "value-canary")
    for payload in ("chore-canary", "trimmed-canary"):
        draft = ChoreDraft(
            id=make_id(0), kind=payload[:1], place=Place("notes", "key-canary"), due_us=0, payload=payload
        )
        await write(hf, Enqueue(draft))
    await write(hf, Put(WORKING, make_id(0), "working-canary"))
    await (await hf.banks.create("renamed-canary", kind="general")).add("stays for good", key="bob")
    await (await hf.banks.get("plain")).add("said-canary three", key="bob", subject="subject-canary")


async def forget_all(hf: holdfast.LocalHoldfast) -> None:
    await write(hf, Remove(WORKING))  # without a trace: there is nothing of it to forget any more
    (chore,) = await hf.chores.list(kind="t")
    await hf.chores.drop(chore.id)
    await hf.store.trim_chores(hf.clock.now_us() + 1)  # so is this
    await hf.forget(key="key-canary")
    await hf.forget(subject="subject-canary")
    await (await hf.banks.get("renamed-canary")).configure(name="renamed")
    await hf.banks.delete("renamed")
    await hf.banks.delete("bank-canary")
    (document,) = [
        found
        for found in await hf.store.documents(Scope("default", "~values", "values"), "value")
        if found.ref.name == "gone"
    ]
    await hf.forget(ids=[document.id])


async def scene(folder: Path) -> tuple[Path, Path]:
    """A memory and a backup of before everything was forgotten."""
    file = folder / "memory.db"
    async with here(file) as hf:
        await fill(hf)
        backup = await hf.backups.make(folder / "before.db")
        await forget_all(hf)
        await (await hf.banks.get("plain")).add("after the backup", key="bob")
    return file, Path(backup.path)


def canaries_in(file: Path) -> list[bytes]:
    raw = file.read_bytes()
    return [canary for canary in CANARIES if canary in raw]


async def told(file: Path) -> list[str]:
    async with here(file) as hf:
        report = await hf.store.check()
        assert report.ok, report.findings
        assert await hf.store.unsettled() == {}
        return [entry.content for entry in await (await hf.banks.get("plain")).list(limit=100)]


def leftovers(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if ".restoring" in file.name)


async def test_what_was_forgotten_after_the_backup_is_not_in_the_restored_file(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    assert len(canaries_in(backup)) == len(CANARIES)
    assert canaries_in(file) == []
    done = await holdfast.restore(backup, file)
    assert (done.done, done.path, done.kept) == (True, str(file), f"{file}.before-restore")
    assert done.forgotten >= 5
    assert canaries_in(file) == []
    assert await told(file) == ["stays for good"]
    assert canaries_in(file) == []
    assert [item.name for item in tmp_path.iterdir() if canaries_in(item)] == ["before.db"]
    async with here(file) as hf:
        assert [bank.name for bank in await hf.banks.list()] == ["plain"]
        assert await hf.values.get("kept") == "stays for good"
        scope = Scope("default", "~receipts", "receipts")
        receipts = [document.value for document in await hf.store.documents(scope, "receipt")]
        assert {str(value["by"]) for value in receipts if isinstance(value, dict)} == {"restore"}
        named = (await hf.forget(key="bob")).backups
        assert set(named) == {str(backup), f"{file}.before-restore"}
    assert "after the backup" in await told(tmp_path / "memory.db.before-restore")


async def test_the_tombstones_of_newer_backups_count_when_the_file_is_lost(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    async with here(file) as hf:
        await hf.backups.make(tmp_path / "newer.db")
    file.unlink()
    done = await holdfast.restore(backup, file)
    assert done.sources == (str(tmp_path / "newer.db"),)
    assert done.kept is None
    assert canaries_in(file) == []
    assert await told(file) == ["stays for good"]


async def test_a_bystander_whose_name_is_no_text_is_passed_over(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    shutil.copy(file, tmp_path / "caf\udce9.db")
    done = await holdfast.restore(backup, file)
    assert (done.done, done.sources) == (True, (str(file),))


async def test_receipts_of_a_restored_file_name_newer_backups(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    async with here(file) as hf:
        newer = (await hf.backups.make(tmp_path / "newer.db")).path
    file.unlink()
    await holdfast.restore(backup, file)
    async with here(file) as hf:
        assert set((await hf.forget(key="bob")).backups) == {str(backup), newer}
        assert not any(one.scheduled for one in await hf.backups.list())


async def test_another_memory_says_nothing_about_what_was_erased(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    async with here(tmp_path / "other.db") as hf:
        await fill(hf)
        await forget_all(hf)
    file.unlink()
    done = await holdfast.restore(backup, file)
    assert (done.sources, done.forgotten) == ((), 0)
    assert len(canaries_in(file)) == len(CANARIES)
    with pytest.raises(HoldfastError) as caught:
        await holdfast.restore(backup, tmp_path / "other.db")
    assert caught.value.code == "other_memory"


async def test_what_was_added_after_a_forget_stays(tmp_path: Path) -> None:
    """A backup that knows of the forget was made after it: the same key may hold something new by then."""
    file, _ = await scene(tmp_path)
    async with here(file) as hf:
        await (await hf.banks.get("plain")).add("new under the old key", key="key-canary")
        newer = await hf.backups.make(tmp_path / "newer.db")
    assert (await holdfast.restore(newer.path, file)).forgotten == 0
    assert "new under the old key" in await told(file)


@pytest.mark.parametrize("damage", ["middle", "head", "cut"])
async def test_a_damaged_file_is_read_as_far_as_possible(tmp_path: Path, damage: str) -> None:
    file, backup = await scene(tmp_path)
    raw = bytearray(file.read_bytes())
    if damage == "middle":
        at = raw.rindex(b"after the backup") // 4096 * 4096
        raw[at : at + 4096] = os.urandom(4096)
    elif damage == "head":
        raw[:100] = os.urandom(100)
    else:
        del raw[len(raw) // 2 :]
    file.write_bytes(bytes(raw))
    done = await holdfast.restore(backup, file)
    assert (str(file) in done.damaged, str(file) in done.sources) == (damage != "middle", damage == "middle")
    assert (await told(file))[0] == "stays for good"
    assert canaries_in(file) == []
    assert (tmp_path / "memory.db.before-restore").stat().st_size >= len(raw)


def page_of(file: Path, table: str) -> int:
    connection = open_connection(str(file), readonly=True, vfs=None)
    try:
        found = connection.execute("select rootpage from sqlite_schema where name=?", (table,)).get
        assert isinstance(found, int)
        return found
    finally:
        connection.close()


@pytest.mark.parametrize("table", ["tombstones", "forgotten"])
async def test_a_file_whose_tombstones_are_hit_is_named_as_damaged(tmp_path: Path, table: str) -> None:
    file, backup = await scene(tmp_path)
    at, raw = (page_of(file, table) - 1) * 4096, bytearray(file.read_bytes())
    raw[at : at + 4096] = b"\xff" * 4096
    file.write_bytes(raw)
    done = await holdfast.restore(backup, file)
    assert (done.sources, done.damaged) == ((), (str(file),))
    assert done.forgotten >= 1
    assert b"said-canary" not in file.read_bytes()


async def test_a_newer_backup_that_is_damaged_is_read_from_its_pages(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    async with here(file) as hf:
        newer = Path((await hf.backups.make(tmp_path / "newer.db")).path)
    file.unlink()
    raw = bytearray(newer.read_bytes())
    raw[100:4096] = bytes(3996)
    newer.write_bytes(raw)
    done = await holdfast.restore(backup, file)
    assert (done.sources, done.damaged) == ((), (str(newer),))
    assert canaries_in(file) == []
    async with here(file) as hf:
        assert str(newer) in (await hf.forget(key="bob")).backups


@pytest.mark.parametrize("content", [b"hello world\n" * 1000, b""])
async def test_a_file_that_tells_nothing_is_replaced_only_on_demand(tmp_path: Path, content: bytes) -> None:
    file, backup = await scene(tmp_path)
    file.write_bytes(content)
    for dry_run in (True, False):
        with pytest.raises(holdfast.StoreDamaged) as caught:
            await holdfast.restore(backup, file, dry_run=dry_run)
        assert caught.value.code == "forgotten_unknown"
        assert "--anyway" in str(caught.value.hint)
    assert file.read_bytes() == content
    done = await holdfast.restore(backup, file, anyway=True)
    assert (done.sources, done.damaged, done.forgotten) == ((), (str(file),), 0)
    assert len(canaries_in(file)) == len(CANARIES)


async def test_a_damaged_file_of_another_memory_is_not_replaced(tmp_path: Path) -> None:
    _, backup = await scene(tmp_path)
    other = tmp_path / "other.db"
    async with here(other) as hf:
        await fill(hf)
        await forget_all(hf)
    other.write_bytes(bytes(100) + other.read_bytes()[100:])
    with pytest.raises(holdfast.Conflict) as caught:
        await holdfast.restore(backup, other)
    assert caught.value.code == "other_memory"


CUT_OFF = """
    import asyncio, os, sys, holdfast
    async def main():
        hf = await holdfast.open(sys.argv[1], worker="manual")
        bank = await hf.banks.create("plain", kind="general")
        await bank.add("secret", key="alice")
        await hf.backups.make(sys.argv[2])
        await hf.forget(key="alice")
        for number in range(20):
            await bank.add(f"only in the log {number}", key="bob")
        os._exit(0)
    asyncio.run(main())
"""


@pytest.mark.parametrize("discard", [False, True])
def test_the_log_of_a_damaged_file_is_kept_with_it(tmp_path: Path, discard: bool) -> None:
    file, backup = tmp_path / "memory.db", tmp_path / "before.db"
    subprocess.run([sys.executable, "-c", textwrap.dedent(CUT_OFF), file, backup], check=True)
    file.write_bytes(bytes(100) + file.read_bytes()[100:])
    log = (tmp_path / "memory.db-wal").read_bytes()
    assert log
    asyncio.run(holdfast.restore(backup, file, dry_run=True, anyway=True))
    assert (tmp_path / "memory.db-wal").read_bytes() == log
    done = asyncio.run(holdfast.restore(backup, file, discard=discard, anyway=True))
    assert asyncio.run(told(file)) == []
    if discard:
        assert list(tmp_path.glob("memory.db.before*")) == []
        return
    assert done.kept is not None
    assert done.damaged == (str(file),)
    assert Path(f"{done.kept}-wal").read_bytes() == log
    repaired = repair_file(Path(done.kept), tmp_path / "repaired.db")
    assert repaired.kept["entries"] == 20


async def test_what_stood_there_is_kept_under_a_free_name(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    names = [(await holdfast.restore(backup, file)).kept for _ in range(3)]
    assert names == [f"{file}.before-restore", f"{file}.before-restore-2", f"{file}.before-restore-3"]
    assert (await holdfast.restore(backup, file, discard=True)).kept is None
    assert len(list(tmp_path.glob("*.before-restore*"))) == 3


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    before = {item.name: item.read_bytes() for item in tmp_path.iterdir()}
    done = await holdfast.restore(backup, file, dry_run=True)
    assert (done.done, done.forgotten > 0) == (False, True)
    assert {item.name: item.read_bytes() for item in tmp_path.iterdir()} == before


async def with_a_schedule(folder: Path, clock: ManualClock) -> tuple[Path, list[str]]:
    """A memory whose schedule has made two backups."""
    file = folder / "memory.db"
    async with holdfast.open(file, worker="manual", clock=clock) as hf:
        await (await hf.banks.create("plain", kind="general")).add("stays for good", key="bob")
        await hf.backups.schedule(folder / "backups", every=timedelta(hours=1), keep=2)
        for _ in range(2):
            await hf.chores.drain()
            clock.advance(seconds=3600)
        made = [one.path for one in await hf.backups.list() if one.scheduled]
        await hf.backups.make(folder / "hand.db")
    assert len(made) == 2
    return file, made


async def test_a_copy_elsewhere_has_no_schedule(tmp_path: Path) -> None:
    clock = ManualClock()
    file, made = await with_a_schedule(tmp_path, clock)
    (tmp_path / "try").mkdir()
    for backup in (tmp_path / "hand.db", Path(made[0]), file):
        fork = tmp_path / "try" / f"of-{backup.name}"
        await holdfast.restore(backup, fork)
        async with holdfast.open(fork, worker="manual", clock=clock) as hf:
            assert await hf.backups.scheduled() is None
            assert not any(one.scheduled for one in await hf.backups.list())
            clock.advance(days=1)
            await hf.chores.drain()
            await hf.backups.schedule(tmp_path / "backups", every=timedelta(hours=1), keep=1)
            for _ in range(2):
                await hf.chores.drain()
                clock.advance(seconds=3600)
            assert (await hf.store.check()).ok
    assert all(Path(path).exists() for path in made)


async def test_a_copy_that_was_made_by_hand_removes_no_backup_of_the_other(tmp_path: Path) -> None:
    clock = ManualClock()
    file, made = await with_a_schedule(tmp_path, clock)
    shutil.copy(file, tmp_path / "copied.db")
    for name in ("copied.db", "hand.db"):
        async with holdfast.open(tmp_path / name, worker="manual", clock=clock) as hf:
            for _ in range(4):
                clock.advance(seconds=3600)
                await hf.chores.drain()
    assert all(Path(path).exists() for path in made)


async def test_a_restore_in_place_keeps_the_schedule(tmp_path: Path) -> None:
    clock = ManualClock()
    file, made = await with_a_schedule(tmp_path, clock)
    kept = (await holdfast.restore(tmp_path / "hand.db", file)).kept
    assert kept is not None
    for again in (kept, made[1]):
        await holdfast.restore(again, file)
        async with holdfast.open(file, worker="manual", clock=clock) as hf:
            assert await hf.backups.scheduled() is not None
            assert {one.path for one in await hf.backups.list() if one.scheduled} >= {made[0]}
    async with holdfast.open(file, worker="manual", clock=clock) as hf:
        for _ in range(3):
            clock.advance(seconds=3600)
            await hf.chores.drain()
        assert len([one for one in await hf.backups.list() if one.scheduled]) == 2
    assert not any(Path(path).exists() for path in made)


async def test_a_restore_and_a_dry_run_do_not_meet(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    real = Order(backup=backup, to=file, discard=True)
    inside: list[bool] = []

    def reached(stage: Stage) -> None:
        if stage in ("copied", "settled", "safe"):
            tried = Restoring(Order(backup=backup, to=file, dry_run=True), SystemClock(), SystemRandom())
            inside.append(not tried._work.path.exists())
            with suppress(holdfast.StoreBusy, holdfast.StoreFailed):
                tried.run()

    await asyncio.to_thread(Restoring(real, SystemClock(), SystemRandom(), reached=reached).run)
    assert inside == [True] * 3
    assert await told(file) == ["stays for good"]
    assert leftovers(tmp_path) == []


async def test_a_restore_beside_a_dry_run_leaves_its_copy_alone(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)

    def reached(stage: Stage) -> None:
        if stage == "settled":
            Restoring(Order(backup=backup, to=file), SystemClock(), SystemRandom()).run()

    order = Order(backup=backup, to=file, dry_run=True)
    tried = Restoring(order, SystemClock(), SystemRandom(), reached=reached)
    assert not (await asyncio.to_thread(tried.run)).done
    assert await told(file) == ["stays for good"]
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("change", ["emptied", "replaced", "other"])
async def test_a_copy_that_somebody_else_has_changed_is_not_put_in_place(tmp_path: Path, change: str) -> None:
    file, backup = await scene(tmp_path)
    before = await told(file)
    verify = Restoring._verify

    class Disturbed(Restoring):
        def _verify(self) -> None:
            if change == "emptied":
                self._part.write_bytes(b"")
            else:
                copy = self._part.with_name("copy")
                shutil.copy(self._part if change == "replaced" else backup, copy)
                copy.replace(self._part)
            verify(self)

    with pytest.raises(holdfast.StoreFailed):
        await asyncio.to_thread(Disturbed(Order(backup=backup, to=file), SystemClock(), SystemRandom()).run)
    assert await told(file) == before
    assert leftovers(tmp_path) == []


async def test_only_what_killed_restores_left_is_removed(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    own = [f"memory.db.restoring-0123456789ab{end}" for end in ("", "-wal", ".lock", "-live.lock")]
    others = ["memory.db.restoring", "memory.db.restoring-notes", "other.db.restoring-0123456789ab"]
    for name in (*own, *others):
        (tmp_path / name).write_bytes(b"x")
    assert not (await holdfast.restore(backup, file, dry_run=True)).done
    assert set(leftovers(tmp_path)) == {*own, *others}
    await holdfast.restore(backup, file)
    assert leftovers(tmp_path) == sorted(others)


@pytest.mark.parametrize(
    "name", ["n.db-wal", "n.db-shm", "n.db-journal", "n.db.lock", "n.db.restoring-0123456789ab"]
)
async def test_a_backup_under_a_name_that_the_memory_uses_is_refused(tmp_path: Path, name: str) -> None:
    _, backup = await scene(tmp_path)
    shutil.copy(backup, tmp_path / name)
    (tmp_path / "link").symlink_to(tmp_path / name)
    for given in (tmp_path / name, tmp_path / "link"):
        for dry_run in (True, False):
            with pytest.raises(holdfast.InvalidInput) as caught:
                await holdfast.restore(given, tmp_path / "n.db", dry_run=dry_run)
            assert caught.value.code == "restore_invalid"
    assert (tmp_path / name).read_bytes() == backup.read_bytes()


async def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    _, backup = await scene(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(holdfast.InvalidInput) as caught:
            await holdfast.restore(backup, tmp_path / name)
        assert caught.value.code == "restore_invalid"
        assert not (tmp_path / f"{name}.lock").exists()


async def test_a_link_goes_on_naming_the_file_that_is_restored(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(file)
    done = await holdfast.restore(backup, link)
    assert (done.path, done.kept) == (str(file), f"{file}.before-restore")
    assert link.is_symlink()
    assert await told(file) == ["stays for good"]


def test_a_file_that_another_process_has_open_is_not_replaced(tmp_path: Path) -> None:
    file, backup = asyncio.run(scene(tmp_path))
    program = """
        import sys, apsw
        connection = apsw.Connection(sys.argv[1])
        connection.execute("select count(*) from entries").fetchall()
        print("open", flush=True)
        sys.stdin.readline()
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(holdfast.StoreBusy):
            asyncio.run(holdfast.restore(backup, file))
        other.communicate(b"\n")
    assert leftovers(tmp_path) == []
    assert asyncio.run(holdfast.restore(backup, file)).done


async def test_an_open_file_is_not_replaced(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    async with here(file) as hf:
        await hf.banks.list()
        with pytest.raises(holdfast.StoreBusy) as caught:
            await holdfast.restore(backup, file)
        assert "close it" in str(caught.value.hint)
        await (await hf.banks.get("plain")).add("life goes on", key="bob")
    assert "life goes on" in await told(file)
    assert leftovers(tmp_path) == []


async def test_whoever_opens_the_file_meanwhile_is_told(tmp_path: Path) -> None:
    """Held off while the restore works; and one who had the old file in hand when it was replaced begins anew."""
    file, backup = await scene(tmp_path)
    seen: dict[str, str] = {}
    waiting: list[threading.Thread] = []

    def attempt(stage: str, busy_ms: int) -> None:
        async def opened() -> None:
            await (await SqliteStore.open(file, clock=SystemClock(), tuning=Tuning(busy_ms=busy_ms))).aclose()

        try:
            asyncio.run(opened())
            seen[stage] = "opened"
        except holdfast.StoreBusy as error:
            seen[stage] = error.message

    def reached(stage: Stage) -> None:
        if stage == "copied":
            in_time = threading.Thread(target=attempt, args=(stage, 50))
            in_time.start()
            in_time.join()
        elif stage == "safe":
            waiting.append(threading.Thread(target=attempt, args=(stage, 10_000)))
            waiting[0].start()
            time.sleep(0.2)

    order = Order(backup=backup, to=file)
    await asyncio.to_thread(Restoring(order, SystemClock(), SystemRandom(), reached=reached).run)
    await asyncio.to_thread(waiting[0].join)
    assert seen == {
        "copied": f"{file} is locked by another program",
        "safe": f"{file} was replaced while it was opened",
    }
    assert await told(file) == ["stays for good"]
    assert "after the backup" in await told(tmp_path / "memory.db.before-restore")


def wrong_files(folder: Path, backup: Path) -> dict[str, tuple[Path, str]]:
    raw = backup.read_bytes()
    cut, foreign, newer, damaged, empty = (folder / f"{name}.x" for name in "abcde")
    cut.write_bytes(raw[: len(raw) - 4096])
    foreign.write_bytes(b"not a database" * 100)
    shutil.copy(backup, newer)
    connection = open_connection(str(newer), readonly=False, vfs=None)
    connection.execute("pragma user_version=99")
    connection.close()
    at = raw.rindex(b"stays for good")
    damaged.write_bytes(raw[:at] + b"STAYS" + raw[at + 5 :])
    empty.write_bytes(b"")
    return {
        "cut": (cut, "store_damaged"),
        "foreign": (foreign, "not_a_store"),
        "newer": (newer, "schema_newer"),
        "damaged": (damaged, "store_damaged"),
        "empty": (empty, "not_a_store"),
        "missing": (folder / "missing.db", "store_failed"),
        "itself": (folder / "memory.db", "restore_invalid"),
    }


@pytest.mark.parametrize("what", ["cut", "foreign", "newer", "damaged", "empty", "missing", "itself"])
async def test_what_is_no_whole_backup_is_refused(tmp_path: Path, what: str) -> None:
    file, backup = await scene(tmp_path)
    wrong, code = wrong_files(tmp_path, backup)[what]
    before = await told(file)
    with pytest.raises(HoldfastError) as caught:
        await holdfast.restore(wrong, file)
    assert caught.value.code == code
    assert caught.value.hint
    assert leftovers(tmp_path) == []
    assert await told(file) == before


async def test_a_backup_of_an_old_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    old, file = tmp_path / "old.db", tmp_path / "memory.db"
    old.write_bytes(gzip.decompress(FIXTURE.read_bytes()))
    assert (await holdfast.restore(old, file)).done
    assert sorted(item.name for item in tmp_path.iterdir()) == ["memory.db", "memory.db.lock", "old.db"]
    store = await SqliteStore.open(file, clock=SystemClock())
    assert (await store.check()).ok
    await store.aclose()


def restore_in_a_child(order: Order, *, at_stage: Stage | None = None, at_call: int = -1) -> int:
    """Restore in a child that is killed at a stage, or at a write; how many writes there were, or -1 if killed."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1  # an error must not lead the child back into the tests of its parent
        try:
            trigger = Trigger(at_call, armed=True)
            vfs = KillingVfs(trigger)

            def reached(stage: Stage) -> None:
                if stage == at_stage:
                    os.kill(os.getpid(), signal.SIGKILL)

            Restoring(order, SystemClock(), SystemRandom(), reached=reached).run()
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
    calls = os.read(receiver, 8)
    os.close(receiver)
    assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL
    return int.from_bytes(calls, "big") if calls else -1


def after_a_kill(file: Path, backup: Path) -> bool:
    """The old file or the new one is there, whole, and a second restore succeeds; whether it was the new one."""
    content = asyncio.run(told(file))
    assert content in (["stays for good"], ["stays for good", "after the backup"])
    assert canaries_in(file) == []
    asyncio.run(holdfast.restore(backup, file))
    assert asyncio.run(told(file)) == ["stays for good"]
    assert canaries_in(file) == []
    assert leftovers(file.parent) == []
    return len(content) == 1


@pytest.mark.parametrize("stage", STAGES)
def test_a_restore_that_is_killed_at_any_stage_leaves_a_whole_file(tmp_path: Path, stage: Stage) -> None:
    file, backup = asyncio.run(scene(tmp_path))
    assert restore_in_a_child(Order(backup=backup, to=file), at_stage=stage) == -1
    assert after_a_kill(file, backup) == (stage == "placed")


def test_a_restore_that_is_killed_at_any_write_leaves_a_whole_file(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    asyncio.run(scene(tmp_path / "base"))

    def copied(name: str) -> tuple[Path, Path]:
        shutil.copytree(tmp_path / "base", tmp_path / name)
        return tmp_path / name / "memory.db", tmp_path / name / "before.db"

    file, backup = copied("whole")
    calls = restore_in_a_child(Order(backup=backup, to=file), at_call=0)
    assert calls > 50
    for number in range(20):
        file, backup = copied(f"kill-{number}")
        assert restore_in_a_child(Order(backup=backup, to=file), at_call=1 + number * calls // 20) == -1
        assert not after_a_kill(file, backup)


class FullDisk(Disk):
    """A disk on which a restored file cannot grow."""

    def writing(self, file: str, offset: int, data: bytes) -> bytes:
        if ".restoring" in file:
            raise apsw.FullError("no space is left")
        return data


async def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file, backup = await scene(tmp_path)
    before = await told(file)
    with mounted(FullDisk()) as vfs:
        restoring = Restoring(Order(backup=backup, to=file), SystemClock(), SystemRandom(), vfs=vfs)
        with pytest.raises(HoldfastError) as caught:
            await asyncio.to_thread(restoring.run)
        assert caught.value.code == "disk_full"
    assert leftovers(tmp_path) == []
    assert await told(file) == before
