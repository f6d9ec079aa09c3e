"""Row numbers: a key that is full goes on in a second range; running out is a typed error."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import CapacityExceeded
from holdfast.model.scope import Scope
from holdfast.model.window import Cursor, Window
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.layout import DEFAULT, Layout
from tests.faults.conftest import BANK, SPACE, MakeBatch, WallClock

TINY = Layout(bank_bits=3, key_bits=4, seq_bits=2, page=2, bunch=2)


def test_the_default_fills_63_bits() -> None:
    assert DEFAULT.bank_bits + DEFAULT.key_bits + DEFAULT.seq_bits == 63
    assert DEFAULT.bank_rows((1 << DEFAULT.bank_bits) - 1)[1] == (1 << 63) - 1


async def test_a_full_key_goes_on_in_a_second_range(tmp_path: Path, make_batch: MakeBatch) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock(), layout=TINY)
    for number in range(1, 21):
        commit = await store.commit(make_batch(f"text {number}"))
        assert commit.placed[0].seq == number
        if number == 10:
            await store.commit(make_batch("other", key="bob"))
    scope = Scope(SPACE, BANK, "alice")
    page = await store.load(scope, Window(order="newest_first", limit=15))
    assert [entry.seq for entry in page.entries] == list(range(20, 5, -1))
    assert page.next is not None
    rest = await store.load(scope, Window(order="newest_first", after=page.next))
    assert [entry.seq for entry in rest.entries] == [5, 4, 3, 2, 1]
    later = await store.load(scope, Window(after=Cursor("alice", 0, 9)))
    assert [entry.seq for entry in later.entries] == list(range(10, 21))
    stats = await store.words(scope, ["text", "17"])
    assert (stats.entries, len(stats.postings["text"].rows), len(stats.postings["17"].rows)) == (20, 20, 1)
    assert (await store.check()).ok
    await store.aclose()


async def test_running_out_of_keys_and_banks_is_told(tmp_path: Path, make_batch: MakeBatch) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock(), layout=TINY)
    for number in range(1 << TINY.key_bits):
        await store.commit(make_batch("text", key=f"k{number}"))
    with pytest.raises(CapacityExceeded) as caught:
        await store.commit(make_batch("text", key="one too many"))
    assert caught.value.hint
    commit = await store.commit(make_batch("still fits", key="k1"))
    assert commit.placed[0].seq == 2
    await store.aclose()
