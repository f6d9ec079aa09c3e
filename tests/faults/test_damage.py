"""A damaged file: what is read is right or refused, a check tells, and a repair keeps all that is whole."""

from __future__ import annotations

import asyncio
import gzip
import random
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import AlreadyExists, HoldfastError, StoreDamaged, StoreFailed, StoreUnsupported
from holdfast.model.batch import Forget
from holdfast.model.entry import Quantised
from holdfast.model.forget import Selector
from holdfast.model.scope import Scope
from holdfast.model.window import Window
from holdfast.ports.store import CheckReport
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.checking import check_file
from holdfast.stores.sqlite.db import open_connection
from holdfast.stores.sqlite.repair import read_salvage, repair_file
from holdfast.testing import ManualClock
from holdfast.testing.making import Maker, in_key, in_space, named
from holdfast.testing.selftest.damage import damage_test
from holdfast.testing.selftest.damage_scene import Seen, make_file, read_all

FIXTURES = Path(__file__).parent / "fixtures"
ENTRY = "update entries set content='forged' where row=(select min(row) from entries)"
Read = Callable[[SqliteStore, str], Awaitable[object]]


async def opened(path: Path, *, readonly: bool = False) -> SqliteStore:
    return await SqliteStore.open(path, clock=ManualClock(), readonly=readonly)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "memory.db"
    asyncio.run(make_file(path, random.Random(1)))
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "memory.db"
    copy.write_bytes(whole.read_bytes())
    return copy


def forge(path: Path, sql: str) -> None:
    connection = open_connection(str(path), readonly=False, vfs=None)
    connection.execute(sql)
    connection.close()


READS: dict[str, tuple[str, Read]] = {
    "entries": (ENTRY, lambda store, _: store.load(in_key(), Window())),
    "entries by id": (ENTRY, lambda store, name: store.find(in_space(), [name])),
    "past": ("update past set content='forged'", lambda store, name: store.versions(in_space(), name)),
    "documents": (
        "update documents set value='\"forged\"'",
        lambda store, _: store.document(in_key(), named("teaa")),
    ),
    "documents listed": (
        "update documents set value='\"forged\"'",
        lambda store, _: store.documents(in_key(), "block"),
    ),
    "document versions": (
        "update document_versions set value='\"forged\"'",
        lambda store, _: store.document(in_key(), named("teaa"), as_of_us=1 << 60),
    ),
    "journal": ("update journal set at=at+1", lambda store, _: store.changes(in_space())),
    "chores": ("update chores set payload='1'", lambda store, _: store.chores(in_space())),
    "banks": ("update banks set hash=null", lambda store, _: store.load(in_key(), Window())),
    "keys": ("update keys set base=base+1", lambda store, _: store.head(in_key())),
    "pages": ("update pages set terms=terms+1", lambda store, _: store.words(in_key(), ["teaa"])),
    "vectors": (
        "update vectors set data=zeroblob(length(data))",
        lambda store, _: store.nearest(in_key(), Quantised(bytes(32), 1.0), 3),
    ),
    "tail": (
        "update tail set vectors=zeroblob(length(vectors))",
        lambda store, _: store.nearest(in_key(), Quantised(bytes(32), 1.0), 3),
    ),
    "waiting words": ("update fresh set terms=x'00'", lambda store, _: store.words(in_key(), ["teaa"])),
}


@pytest.mark.parametrize("table", READS)
async def test_a_read_of_a_damaged_row_is_refused_with_the_next_command(path: Path, table: str) -> None:
    sql, read = READS[table]
    store = await opened(path, readonly=True)
    first = (await store.load(in_key(), Window(limit=1))).entries[0].id
    await store.aclose()
    forge(path, sql)
    store = await opened(path)
    with pytest.raises(StoreDamaged) as caught:
        await read(store, first)
    await store.aclose()
    assert str(path) in caught.value.message
    assert f"holdfast check {path}" in str(caught.value.hint)
    assert f"holdfast repair {path}" in str(caught.value.hint)
    assert not check_file(path).ok


WRITES: dict[str, tuple[str, Callable[[Maker, str], object]]] = {
    "revise": (ENTRY, lambda make, name: make.revise(name, "anew")),
    "page": ("update pages set terms=terms+1", lambda make, name: make.revise(name, "anew")),
    "vectors": ("update vectors set scales=zeroblob(8)", lambda make, name: make.revise(name, "anew")),
    "forget": (ENTRY, lambda _, name: Forget(Selector(ids=(name,)))),
    "put": ("update documents set value='1'", lambda make, _: make.put("teaa", "anew")),
    "journal": ("update journal set at=at+1", lambda make, _: make.put("other", "anew")),
}


@pytest.mark.parametrize("case", WRITES)
async def test_a_write_gives_no_fresh_guard_to_a_damaged_row(path: Path, case: str) -> None:
    sql, operation = WRITES[case]
    store = await opened(path)
    entries = (await store.load(in_key(), Window(limit=200))).entries
    name = entries[100 if "update entries" not in sql else 0].id
    await store.aclose()
    forge(path, sql)
    before = {finding.what for finding in check_file(path).findings}
    store = await opened(path)
    make = Maker(ManualClock(), seed=9)
    with pytest.raises(StoreDamaged):
        await store.commit(make.batch(operation(make, name)))  # type: ignore[arg-type] # an operation of any kind
    await store.aclose()
    assert before <= {finding.what for finding in check_file(path).findings}


@pytest.mark.parametrize(
    ("sql", "where"),
    [
        ("delete from fresh", "words"),
        ("insert into past_words(past_words) values('delete-all')", "past_words"),
        ("delete from derived", "derived"),
        ("update tail set row=row+100000 where row=(select max(row) from tail)", "tail"),
        ("update keys set high=-1", "keys"),
        ("update banks set next_key=0", "banks"),
        ("update entries set seen=7 where row=(select max(row) from entries)", "entries"),
        ("update chores set state='lost'", "chores"),
        ("update meta set value='1/2/3' where name='layout'", "meta"),
    ],
)
def test_a_check_compares_what_has_no_guard(path: Path, sql: str, where: str) -> None:
    assert check_file(path).ok
    forge(path, sql)
    found = check_file(path).findings
    assert where in {finding.where for finding in found}
    assert all(f"holdfast repair {path}" in finding.hint for finding in found)


async def test_rebuilding_makes_words_and_ways_anew(path: Path) -> None:
    before = await read_all(path)
    for sql in ("delete from fresh", "delete from derived", "update tail set length=5"):
        forge(path, sql if "tail" not in sql else "select 1")
    assert not check_file(path).ok
    store = await opened(path)
    await store.rebuild()
    assert (await store.check()).findings == ()
    await store.aclose()
    assert (await read_all(path)).records == before.records


def records(path: Path) -> set[tuple[str, object]]:
    """Every record but the slots, which are laid out anew."""
    return {
        (table, row)
        for table, rows in read_salvage(path).rows.items()
        for row in rows.values()
        if table not in ("tail", "pages", "vectors")
    }


@pytest.mark.parametrize("noise", [False, True])
def test_a_repair_after_the_loss_of_any_page_is_whole(path: Path, tmp_path: Path, noise: bool) -> None:
    data, chance = path.read_bytes(), random.Random(3)
    pages = range(1, len(data) // 4096 + 1)
    for page in pages if noise else list(pages)[::2]:
        hit = bytearray(data)
        hit[(page - 1) * 4096 : page * 4096] = chance.randbytes(4096) if noise else bytes(4096)
        path.write_bytes(hit)
        target = tmp_path / f"repaired-{page}.db"
        repair_file(path, target)
        assert path.read_bytes() == bytes(hit)
        assert check_file(target).findings == (), page
        target.unlink()


def test_a_repair_of_a_whole_file_keeps_everything(path: Path, tmp_path: Path) -> None:
    report = repair_file(path, tmp_path / "repaired.db")
    assert report.complete, report
    assert records(path) == records(tmp_path / "repaired.db")


SMALL = (
    "select * from tombstones",
    "select * from spent",
    "select * from forgotten",
    "select * from quotas",
    "select * from idempotency",
)


async def test_a_repair_keeps_what_a_memory_knows_beside_its_records(tmp_path: Path) -> None:
    path, target = tmp_path / "memory.db", tmp_path / "repaired.db"
    async with holdfast.open(path, worker="manual") as hf:
        bank = await hf.banks.create("notes", kind="general")
        await bank.add("Alice prefers tea", key="alice", idempotency_key="once")
        await bank.add("Bob prefers milk", key="bob")
        await hf.space().limit(100_000)
        await hf.forget(subject="alice")
        used = await hf.space().usage()
    report = repair_file(path, target)
    assert report.complete, report
    assert check_file(target).findings == ()
    before, after = (open_connection(str(file), readonly=True, vfs=None) for file in (path, target))
    for rows in SMALL:
        held = before.execute(rows).fetchall()
        assert held
        assert after.execute(rows).fetchall() == held
    before.close()
    after.close()
    async with holdfast.open(target, worker="manual") as hf:
        assert await hf.space().usage() == used


async def test_a_file_without_its_header_is_repaired(path: Path, tmp_path: Path) -> None:
    entries = len(read_salvage(path).rows["entries"])
    path.write_bytes(bytes(100) + path.read_bytes()[100:])
    with pytest.raises(StoreUnsupported, match="not a holdfast file"):
        await read_all(path)
    assert not check_file(path).ok
    report = repair_file(path, tmp_path / "repaired.db")
    assert report.kept["entries"] == entries
    assert check_file(tmp_path / "repaired.db").ok


async def test_what_was_erased_does_not_come_back(path: Path, tmp_path: Path) -> None:
    store = await opened(path)
    name = (await store.load(in_key(), Window(limit=1))).entries[0].id
    await store.aclose()
    old = path.read_bytes()
    store = await opened(path)
    await store.commit(Maker(ManualClock(), seed=9).batch(Forget(Selector(ids=(name,)))))
    await store.aclose()
    path.write_bytes(path.read_bytes() + old)  # pages of before, which nothing points to
    repair_file(path, tmp_path / "repaired.db")
    assert bytes.fromhex(name) not in {
        row[1] for row in read_salvage(tmp_path / "repaired.db").rows["entries"].values()
    }
    assert check_file(tmp_path / "repaired.db").ok


async def test_a_repair_takes_the_log_along(tmp_path: Path) -> None:
    path, make = tmp_path / "m.db", Maker(ManualClock())
    store = await opened(path)
    await store.commit(make.batch(make.append("in the log")))
    for suffix in ("", "-wal"):
        (tmp_path / f"copy.db{suffix}").write_bytes((tmp_path / f"m.db{suffix}").read_bytes())
    await store.aclose()
    assert repair_file(tmp_path / "copy.db", tmp_path / "repaired.db").kept["entries"] == 1


def test_a_repair_overwrites_nothing_and_needs_a_memory(path: Path, tmp_path: Path) -> None:
    (tmp_path / "there.db").write_text("x")
    with pytest.raises(AlreadyExists):
        repair_file(path, tmp_path / "there.db")
    with pytest.raises(StoreFailed, match="no such file"):
        repair_file(tmp_path / "missing.db", tmp_path / "new.db")
    (tmp_path / "diary.txt").write_text("dear diary\n" * 5000)
    with pytest.raises(StoreFailed, match="nothing in"):
        repair_file(tmp_path / "diary.txt", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(
    "share", [0, 1, 50, 99, 100, 512, 4095, 4096, 4097, 20_000, 100_001, -1, -4096, -5000]
)
async def test_a_truncated_file_gives_right_data_or_a_typed_error(
    path: Path, whole: Path, share: int
) -> None:
    full = await read_all(whole)
    path.write_bytes(path.read_bytes()[:share])
    try:
        seen = await read_all(path)
    except HoldfastError as error:
        seen, hint = Seen(frozenset()), error.hint
    else:
        hint = "none is needed"
    assert hint
    assert seen.records <= full.records
    assert not check_file(path).ok


async def test_an_empty_file_is_a_new_memory_and_cannot_be_read_only(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    path.touch()
    with pytest.raises(StoreUnsupported):
        await opened(path, readonly=True)
    store = await opened(path)
    assert (await store.check()).ok
    await store.aclose()


async def test_a_log_that_somebody_removed_leaves_what_was_moved_before(path: Path) -> None:
    store = await opened(path)
    make = Maker(ManualClock(), seed=9)
    await store.commit(make.batch(make.append("lost with the log", key="carol")))
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())
    await store.aclose()
    left = await opened(copy)
    assert (await left.load(Scope("acme", "notes", "carol"), Window())).entries == ()
    assert (await left.check()).ok
    await left.aclose()


@pytest.fixture
def sealed(path: Path, tmp_path: Path) -> Iterator[Path]:
    """The memory in a folder that cannot be written, not even by root."""
    folder = tmp_path / "sealed"
    folder.mkdir()
    (folder / "memory.db").write_bytes(path.read_bytes())
    bound = ["mount", "--bind", str(folder), str(folder)]
    if subprocess.run(bound, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount: permissions do not bind root")
    sealing, opening = ["mount", "-o", "remount,ro,bind", str(folder)], ["umount", str(folder)]
    subprocess.run(sealing, check=True)
    yield folder / "memory.db"
    subprocess.run(opening, check=True)


async def test_a_folder_that_cannot_be_written_is_checked_read_and_repaired_elsewhere(
    sealed: Path, tmp_path: Path
) -> None:
    assert check_file(sealed).ok
    for readonly in (False, True):
        with pytest.raises(HoldfastError) as caught:
            await opened(sealed, readonly=readonly)
        assert caught.value.hint
    with pytest.raises(StoreFailed, match="could not be written"):
        repair_file(sealed, sealed.with_name("repaired.db"))
    assert repair_file(sealed, tmp_path / "repaired.db").complete


async def test_a_newer_file_says_so(path: Path) -> None:
    forge(path, "pragma user_version=99")
    assert [finding.hint for finding in check_file(path).findings] == ["upgrade holdfast"]
    with pytest.raises(StoreUnsupported, match="newer"):
        await opened(path)


def test_damaged_files_are_found_read_right_and_repaired(tmp_path: Path) -> None:
    outcome = damage_test(tmp_path, 100)
    assert outcome.findings == ()
    assert outcome.figures["missed"] == 0
    assert outcome.figures["on_read"] > 10
    assert list(tmp_path.iterdir()) == []


def test_the_damage_test_notices_a_check_that_sees_nothing(tmp_path: Path) -> None:
    def blind(_: Path) -> CheckReport:
        return CheckReport({}, ())

    outcome = damage_test(tmp_path, 14, check=blind)
    assert not outcome.ok
    assert outcome.figures["missed"] > 0
    assert any("no check found it" in finding for finding in outcome.findings)


@pytest.mark.parametrize("embedder", ["none", "hashing"])
async def test_a_memory_whose_entries_are_all_of_the_past_is_repaired(tmp_path: Path, embedder: str) -> None:
    path, target = tmp_path / "memory.db", tmp_path / "repaired.db"
    async with holdfast.open(path, worker="manual", embedder=embedder) as hf:
        bank = await hf.banks.create("notes", kind="general")
        entry = await bank.add("Alice prefers tea", key="alice")
        await bank.update(entry.id, content="Alice prefers coffee")
        await bank.delete(entry.id)
    report = repair_file(path, target)
    assert report.complete, report
    assert check_file(target).findings == ()
    async with holdfast.open(target, worker="manual", embedder=embedder) as hf:
        bank = await hf.banks.get("notes")
        assert (await bank.add("Bob prefers milk", key="alice")).seq == 2
        await bank.restore(entry.id)
        assert (await bank.get(entry.id)).content == "Alice prefers coffee"


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_repair_takes_no_name_that_a_log_waits_for(path: Path, tmp_path: Path, suffix: str) -> None:
    stale = tmp_path / f"repaired.db{suffix}"
    stale.write_bytes(b"of the file that was called so before")
    with pytest.raises(AlreadyExists, match=f"repaired.db{suffix}"):
        repair_file(path, tmp_path / "repaired.db")
    assert stale.exists()


def test_a_repair_removes_nothing_beside_its_target(path: Path, tmp_path: Path) -> None:
    source = path.rename(tmp_path / "repaired.db.part")
    assert repair_file(source, tmp_path / "repaired.db").complete
    assert source.exists()


@pytest.mark.parametrize("schema", [1, 2])
def test_a_file_of_an_earlier_schema_is_not_damaged_and_loses_nothing_by_a_repair(
    tmp_path: Path, schema: int
) -> None:
    path, target = tmp_path / "memory.db", tmp_path / "repaired.db"
    path.write_bytes(gzip.decompress((FIXTURES / f"schema-{schema}.db.gz").read_bytes()))
    before = path.read_bytes()
    (finding,) = check_file(path).findings
    assert finding.what.startswith(f"was written by schema {schema}")
    assert "open it once" in finding.hint
    report = repair_file(path, target)
    assert report.complete, report
    assert path.read_bytes() == before
    assert check_file(target).findings == ()


async def test_a_bank_that_is_missing_under_its_keys_is_found(path: Path) -> None:
    forge(path, "delete from banks where bank=(select min(bank) from keys)")
    assert any(finding.where == "banks" for finding in check_file(path).findings)
