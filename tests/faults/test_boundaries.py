"""What one batch, one process or one forget does stays inside its bounds."""

from __future__ import annotations

import asyncio
import random
import sys
import textwrap
from pathlib import Path
from typing import cast

import pytest

import holdfast
from holdfast.errors import (
    AlreadyExists,
    EmbedderMismatch,
    EntryNotFound,
    StoreBusy,
    StoreFailed,
    StoreUnsupported,
    VersionConflict,
)
from holdfast.model.batch import Append, Forget, Head, Retire
from holdfast.model.entry import Quantised, Reason
from holdfast.model.forget import Selector
from holdfast.model.origin import Origin
from holdfast.model.scope import Place, Scope
from holdfast.model.window import Window
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.codec import row_hash
from holdfast.stores.sqlite.db import open_connection
from holdfast.stores.sqlite.layout import Layout
from holdfast.testing import ManualClock
from holdfast.testing.making import Maker, in_key
from tests.faults.conftest import WallClock


@pytest.fixture
def make() -> Maker:
    return Maker(ManualClock())


async def opened(path: Path, **options: object) -> SqliteStore:
    return await SqliteStore.open(path, clock=ManualClock(), **options)  # type: ignore[arg-type] # options of open


async def test_numbers_of_a_batch_that_failed_belong_to_nobody(tmp_path: Path, make: Maker) -> None:
    store = await opened(tmp_path / "m.db")
    first = make.append("x", key="mallory", bank="evil")
    with pytest.raises(EntryNotFound):
        await store.commit(
            make.batch(
                first,
                Retire(first.draft.id, Reason.DELETED),
                Retire(make.id(), Reason.DELETED),
                space="globex",
            )
        )
    entry = make.append("a secret")
    await store.commit(make.batch(entry, space="acme"))
    with pytest.raises(EntryNotFound):
        await store.commit(make.batch(make.revise(entry.draft.id, "defaced"), space="globex"))
    foreign = await store.commit(make.batch(Forget(Selector(ids=(entry.draft.id,))), space="globex"))
    assert foreign.receipts[0].counts["entries"] == 0
    await store.commit(make.batch(make.revise(entry.draft.id, "changed by its owner"), space="acme"))
    own = await store.commit(make.batch(Forget(Selector(key="alice")), space="acme"))
    assert own.receipts[0].counts["entries"] == 1
    await store.aclose()


OTHER = """
    import asyncio, sys
    from holdfast.model.scope import Scope
    from holdfast.model.window import Window
    from holdfast.stores.sqlite import SqliteStore
    from holdfast.testing import ManualClock

    async def main():
        store = await SqliteStore.open(sys.argv[1], clock=ManualClock())
        page = await store.load(Scope("acme", "notes", "alice"), Window(limit=100))
        print(len(page.entries))
        await store.aclose()

    asyncio.run(main())
"""


async def test_looking_for_residue_keeps_the_locks_of_the_process(tmp_path: Path, make: Maker) -> None:
    path = tmp_path / "m.db"
    store = await opened(path)

    async def seen_by_another_process() -> str:
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", textwrap.dedent(OTHER), str(path), stdout=asyncio.subprocess.PIPE
        )
        answer, _ = await other.communicate()
        return answer.decode().strip()

    await store.commit(make.batch(make.append("one")))
    await store.residue([b"canary"])
    assert await seen_by_another_process() == "1"
    assert path.with_name("m.db-wal").exists()
    await store.commit(make.batch(make.append("two")))
    assert await seen_by_another_process() == "2"
    await store.aclose()
    again = await opened(path)
    assert len((await again.load(in_key(), Window())).entries) == 2
    await again.aclose()


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_of_many_entries_in_random_order_is_left(
    tmp_path: Path, make: Maker, seed: int
) -> None:
    chance = random.Random(seed)
    store = await opened(tmp_path / "m.db")
    keys = ["alice", "bob", "carol"]
    drafts = [
        make.append(
            f"secretcontent{chance.randbytes(5).hex()} " * chance.randrange(1, 40),
            key=chance.choice(keys),
            title=f"secrettitle{number}",
            metadata={"note": f"secretnote{number}"},
        )
        for number in range(600)
    ]
    chance.shuffle(drafts)
    for start in range(0, len(drafts), 40):
        await store.commit(make.batch(*drafts[start : start + 40]))
    for draft in chance.sample(drafts, 100):
        await store.commit(make.batch(make.revise(draft.draft.id, f"secretagain{chance.randbytes(5).hex()}")))
    for key in keys:
        receipt = (await store.commit(make.batch(Forget(Selector(subject=key))))).receipts[0]
        assert receipt.complete
    needles = [b"secretcontent", b"secrettitle", b"secretnote", b"secretagain", b"carol"]
    assert await store.residue(needles) == {}
    assert (await store.check()).ok
    await store.aclose()


async def test_the_name_of_a_forgotten_key_does_not_come_back(tmp_path: Path, make: Maker) -> None:
    store = await opened(tmp_path / "m.db")
    place = Place("notes", "a telling name")
    entry = make.append("one", key=place.key)
    await store.commit(make.batch(entry))
    await store.commit(make.batch(Forget(Selector(key=place.key))))
    assert await store.residue([b"telling"]) == {}
    with pytest.raises(VersionConflict):
        await store.commit(make.batch(make.append("two"), requires=(Head(place, 7),)))
    with pytest.raises(AlreadyExists):
        await store.commit(make.batch(Append(Place("notes", "telling as well"), entry.draft)))
    await store.settle()
    assert await store.residue([b"telling"]) == {}
    assert await store.head(in_key(place.key)) == 1
    await store.aclose()


async def test_a_batch_that_breaks_spoils_no_other(tmp_path: Path, make: Maker) -> None:
    store = await opened(tmp_path / "m.db")
    nonsense = Append(cast("Place", "not a place"), make.append("poison").draft)
    batches = [make.batch(make.append(f"text {number}")) for number in range(6)]
    batches.insert(3, make.batch(nonsense))
    results = await asyncio.gather(*(store.commit(batch) for batch in batches), return_exceptions=True)
    assert [type(result) for result in results if isinstance(result, BaseException)] == [StoreFailed]
    page = await store.load(in_key(), Window())
    assert [entry.seq for entry in page.entries] == [1, 2, 3, 4, 5, 6]
    await store.aclose()


async def test_an_id_in_use_spoils_no_other(tmp_path: Path, make: Maker) -> None:
    store = await opened(tmp_path / "m.db")
    taken = make.append("taken")
    batches = [make.batch(make.append(f"text {number}")) for number in range(6)]
    batches[2:2] = [make.batch(taken), make.batch(taken)]
    results = await asyncio.gather(*(store.commit(batch) for batch in batches), return_exceptions=True)
    assert [type(result) for result in results if isinstance(result, BaseException)] == [AlreadyExists]
    assert len((await store.load(in_key(), Window())).entries) == 7
    await store.aclose()


async def test_words_are_made_anew_when_the_analyser_has_changed(tmp_path: Path, make: Maker) -> None:
    path = tmp_path / "m.db"
    layout = Layout(page=4, bunch=3)
    store = await opened(path, layout=layout)
    ids: list[str] = []
    for number in range(30):
        append = make.append(f"tea number {number}", vectors=(Quantised(bytes([number, 1]), 1.0),))
        ids.append(append.draft.id)
        await store.commit(make.batch(append))
    await store.commit(make.batch(make.revise(ids[3], "coffee")))
    before = await store.words(in_key(), ["tea", "coffee", "number"])
    near = await store.nearest(in_key(), Quantised(b"\x07\x01", 1.0), 40)
    await store.aclose()
    old = open_connection(str(path), readonly=False, vfs=None)
    old.execute("update meta set value='words-0' where name='analyser'")
    old.execute("delete from fresh")
    old.create_scalar_function("guarded", row_hash)
    old.execute("update tail set length=999, hash=guarded(row, 999, vectors, scales)")
    old.close()
    again = await opened(path, layout=layout)
    assert await again.words(in_key(), ["tea", "coffee", "number"]) == before
    assert await again.nearest(in_key(), Quantised(b"\x07\x01", 1.0), 40) == near
    assert (await again.check()).ok
    await again.commit(make.batch(Forget(Selector(key="alice"))))
    assert (await again.words(in_key(), ["tea"])).entries == 0
    await again.aclose()


async def test_a_file_keeps_its_layout_and_its_embedder(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    await (await opened(path, embedder="one/384")).aclose()
    await (await opened(path)).aclose()
    with pytest.raises(EmbedderMismatch) as caught:
        await opened(path, embedder="two/384")
    assert "one/384" in caught.value.message
    with pytest.raises(StoreUnsupported) as other:
        await opened(path, layout=Layout(seq_bits=20))
    assert other.value.code == "layout_differs"


async def test_forgetting_what_much_was_made_from_takes_linear_time(tmp_path: Path, make: Maker) -> None:
    """2,000 sources with a record made from each go in one forget; with a scan for each it would take minutes."""
    store = await opened(tmp_path / "m.db")
    sources = [make.append(f"source {number}") for number in range(2000)]
    await store.commit(make.batch(*sources))
    origin = [Origin(method="extracted", sources=(source.draft.id,)) for source in sources]
    await store.commit(
        make.batch(*(make.append(f"made {n}", key="bob", origin=one) for n, one in enumerate(origin)))
    )
    receipt = (await store.commit(make.batch(Forget(Selector(key="alice"))))).receipts[0]
    assert receipt.counts["entries"] == 4000
    assert (await store.load(Scope("acme", "notes"), Window())).entries == ()
    await store.aclose()


async def test_the_writer_goes_on_after_a_backup_that_failed(tmp_path: Path, make: Maker) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock())
    with pytest.raises(StoreFailed) as caught:
        await store.backup(str(tmp_path / "missing" / "copy.db"))
    assert "missing" in caught.value.message
    await store.commit(make.batch(make.append("one")))
    await store.backup(str(tmp_path / "copy.db"))
    with pytest.raises(AlreadyExists):
        await store.backup(str(tmp_path / "copy.db"))
    copy = await opened(tmp_path / "copy.db")
    assert len((await copy.load(in_key(), Window())).entries) == 1
    await copy.aclose()
    await store.aclose()


async def test_the_receipt_of_a_large_file_is_complete_when_it_is_handed_over(
    tmp_path: Path, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.stores.sqlite.writer.SCRUB_BYTES", 0)
    store = await opened(tmp_path / "m.db")
    await store.commit(make.batch(make.append("secretcontent")))
    receipt = (await store.commit(make.batch(Forget(Selector(key="alice"))))).receipts[0]
    assert (receipt.complete, receipt.waiting_for) == (False, ("pages", "wal"))
    await store.settle()
    assert await store.residue([b"secretcontent"]) == {}
    await store.aclose()
    async with holdfast.open(tmp_path / "n.db") as hf:
        bank = await hf.banks.create("notes", kind="general")
        await bank.add("secretcontent", key="alice")
        whole = await hf.space("default").forget(subject="alice")
        assert (whole.complete, whole.waiting_for, dict(whole.stores)) == (True, (), {"store": "done"})
        assert await hf.store.residue([b"secretcontent"]) == {}


async def test_a_reader_that_stays_makes_settling_wait_and_nobody_else(
    tmp_path: Path, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.stores.sqlite.writer.SETTLE_SECONDS", 0.3)
    path = tmp_path / "m.db"
    store = await opened(path)
    await store.commit(make.batch(make.append("secretcontent")))
    reader = open_connection(str(path), readonly=False, vfs=None)
    reader.execute("begin")
    reader.execute("select count(*) from entries").fetchall()
    receipt = (await store.commit(make.batch(Forget(Selector(key="alice"))))).receipts[0]
    assert (receipt.complete, receipt.waiting_for) == (False, ("wal",))
    await store.commit(make.batch(make.append("others go on")))
    with pytest.raises(StoreBusy) as caught:
        await store.settle()
    assert caught.value.hint
    reader.execute("commit")
    await store.settle()
    assert await store.residue([b"secretcontent"]) == {}
    reader.close()
    await store.aclose()
