from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import (
    AlreadyExists,
    Conflict,
    EmbedderMismatch,
    HistoryUnavailable,
    IdempotencyConflict,
    LeaseLost,
    StoreClosed,
    StoreForked,
    StoreUnsupported,
    VersionConflict,
)
from holdfast.model.batch import (
    Append,
    Batch,
    Commit,
    Drop,
    Enqueue,
    Finish,
    Forget,
    Head,
    Idempotency,
    Operation,
    Put,
    Remove,
    Requirement,
    Restore,
    Retire,
    Retry,
    Revise,
)
from holdfast.model.chore import ChoreDraft, ChoreState
from holdfast.model.document import DocumentRef
from holdfast.model.entry import Draft, Kind, Quantised, Reason
from holdfast.model.forget import Selector
from holdfast.model.origin import UNKNOWN, Origin
from holdfast.model.scope import Place, Scope
from holdfast.model.values import JsonValue
from holdfast.model.window import Order, Window
from holdfast.stores.memory import MemoryStore

START = 1_800_000_000_000_000
ALICE = Place("notes", "alice")
KEY = Scope("acme", "notes", "alice")
BANK = Scope("acme", "notes")


class StandingClock:
    def __init__(self) -> None:
        self.time_us = START

    def now_us(self) -> int:
        return self.time_us


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def store(clock: StandingClock) -> MemoryStore:
    return MemoryStore(clock)


def id_of(number: int) -> str:
    return f"{number:032x}"


class Writing:
    """Commits operations to a store, each batch with an id of its own."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.changes = 1_000_000

    async def __call__(
        self,
        *operations: Operation,
        at_us: int = START,
        origin: Origin = UNKNOWN,
        requires: tuple[Requirement, ...] = (),
        idempotency: Idempotency | None = None,
    ) -> Commit:
        self.changes += 1
        batch = Batch("acme", id_of(self.changes), at_us, operations, origin, requires, idempotency)
        return await self.store.commit(batch)


@pytest.fixture
def write(store: MemoryStore) -> Writing:
    return Writing(store)


def entry(
    number: int,
    content: str = "tea",
    *,
    place: Place = ALICE,
    digest: bytes | None = None,
    metadata: dict[str, JsonValue] | None = None,
    expires_us: int | None = None,
    vectors: tuple[Quantised, ...] = (),
    origin: Origin | None = None,
    kind: Kind = "entry",
    created_us: int = START,
) -> Append:
    draft = Draft(
        id=id_of(number),
        content=content,
        kind=kind,
        metadata=metadata or {},
        created_us=created_us,
        expires_us=expires_us,
        vectors=vectors,
        origin=origin,
    )
    return Append(place, draft, digest)


def value(
    number: int,
    name: str,
    content: JsonValue,
    kind: str = "value",
    *,
    expires_us: int | None = None,
    expected: int | None = None,
) -> Put:
    ref = DocumentRef("~values", "values", kind, name)
    return Put(ref, id_of(number), content, expires_us=expires_us, expected=expected)


def chore(
    number: int,
    *,
    place: Place = ALICE,
    dedupe: str | None = None,
    payload: JsonValue = None,
    max_attempts: int = 8,
    due_us: int = START,
) -> Enqueue:
    draft = ChoreDraft(
        id=id_of(number),
        kind="digest",
        place=place,
        due_us=due_us,
        dedupe=dedupe,
        payload=payload,
        max_attempts=max_attempts,
    )
    return Enqueue(draft)


async def contents(store: MemoryStore, scope: Scope = KEY, window: Window | None = None) -> list[str]:
    page = await store.load(scope, window or Window())
    return [found.content for found in page.entries]


async def snapshot(store: MemoryStore) -> str:
    """Everything that can be read, as one text."""
    rows = await store.eligible(BANK, Window(hidden=True))
    found = [
        await store.fetch(BANK, rows),
        await store.head(KEY),
        await store.documents(Scope("acme", "~values", "values"), "value"),
        await store.chores(Scope("acme")),
        await store.changes(Scope("acme")),
        await store.words(BANK, ["tea", "coffee"]),
        await store.erased(Scope("acme"), [id_of(n) for n in range(100)]),
    ]
    return repr(found)


async def test_a_failed_batch_leaves_everything_as_it_was(store: MemoryStore, write: Writing) -> None:
    await write(
        entry(1, digest=b"d", metadata={"a": 1}),
        entry(2, "coffee"),
        value(3, "x", 1),
        chore(4, payload=[id_of(1)]),
    )
    await write(Retire(id_of(2), Reason.HIDDEN, by=id_of(1)))
    before = await snapshot(store)
    operations: tuple[Operation, ...] = (
        entry(5),
        entry(6, digest=b"d", metadata={"b": 2}),
        Revise(Draft(id=id_of(1), content="milk", created_us=START)),
        value(7, "x", 2),
        value(8, "y", 2, kind="cache"),
        Remove(DocumentRef("~values", "values", "value", "x")),
        chore(9, dedupe="d"),
        Forget(Selector(bank="notes")),
        entry(10),
        Retire(id_of(99), Reason.DELETED),
    )
    for end in range(1, len(operations)):
        with pytest.raises(LookupError):
            await write(*operations[:end], operations[-1])
        assert await snapshot(store) == before
        assert (await store.check()).ok


async def test_what_was_read_and_what_was_handed_in_cannot_change_what_is_stored(
    store: MemoryStore, write: Writing
) -> None:
    metadata: dict[str, JsonValue] = {"z": [1], "a": 2}
    await write(entry(1, metadata=metadata))
    metadata["z"] = "changed"
    (first,) = await store.find(KEY, [id_of(1)])
    assert list(first.metadata.items()) == [("z", [1]), ("a", 2)]
    first.metadata["z"] = "changed"
    (again,) = await store.find(KEY, [id_of(1)])
    assert again.metadata == {"z": [1], "a": 2}


async def test_recorded_times_and_seqs_grow(store: MemoryStore, write: Writing) -> None:
    first = await write(entry(1))
    second = await write(entry(2), entry(3, place=Place("notes", "bob")), at_us=START - 5)
    assert (first.at_us, second.at_us) == (START, START + 1)
    assert [placed.seq for placed in second.placed] == [2, 1]
    await write(Forget(Selector(ids=(id_of(2),))))
    third = await write(entry(4), requires=(Head(ALICE, 2),))
    assert third.placed[0].seq == 3


async def test_writers_and_readers_agree_on_what_has_expired(store: MemoryStore, write: Writing) -> None:
    await write(entry(1, expires_us=START + 1), value(2, "x", 1, expires_us=START + 1))
    for _ in range(5):
        await write(entry(10 + store._tables.last_cursor))
    assert store._tables.last_us > START + 1
    assert len(await store.find(KEY, [id_of(1)])) == 1
    await write(Revise(Draft(id=id_of(1), content="two", created_us=START)), value(3, "x", 2, expected=1))


async def test_an_equal_append_is_merged(store: MemoryStore, write: Writing) -> None:
    await write(entry(1, digest=b"d", metadata={"a": 1}))
    same = await write(entry(2, digest=b"d", metadata={"a": 5}))
    more = await write(entry(3, digest=b"d", metadata={"a": 5, "b": 2}))
    assert same.placed[0].duplicate
    assert (same.placed[0].id, same.placed[0].version) == (id_of(1), 1)
    assert more.placed[0].version == 2
    (found,) = await store.find(KEY, [id_of(1), id_of(2), id_of(1)])
    assert (found.metadata, found.seen, found.version) == ({"a": 1, "b": 2}, 3, 2)
    with pytest.raises(AlreadyExists):
        await write(entry(1))


async def test_a_repeated_key_gives_the_first_commit(store: MemoryStore, write: Writing) -> None:
    first = await write(entry(1), requires=(Head(ALICE, 0),), idempotency=Idempotency(ALICE, "k", b"same"))
    again = await write(entry(1), requires=(Head(ALICE, 0),), idempotency=Idempotency(ALICE, "k", b"same"))
    assert again.duplicate
    assert (again.change, again.placed, again.at_us) == (first.change, first.placed, first.at_us)
    assert len(await store.changes(BANK)) == 1
    with pytest.raises(IdempotencyConflict):
        await write(entry(2), idempotency=Idempotency(ALICE, "k", b"other"))


async def test_a_restored_version_is_a_new_one(store: MemoryStore, write: Writing) -> None:
    await write(entry(1, "one"))
    await write(Revise(Draft(id=id_of(1), content="two", created_us=START)), at_us=START + 10)
    with pytest.raises(Conflict):
        await write(Restore(id_of(1)))
    await write(Restore(id_of(1), 1), at_us=START + 20)
    await write(Retire(id_of(1), Reason.DELETED), at_us=START + 30)
    assert await contents(store) == []
    done = await write(Restore(id_of(1)), at_us=START + 40)
    assert done.placed[0].version == 4
    assert [version.content for version in await store.versions(KEY, id_of(1))] == [
        "one",
        "two",
        "one",
        "one",
    ]
    assert [
        [found.content for found in await store.find(KEY, [id_of(1)], as_of_us=START + passed)]
        for passed in (-1, 0, 10, 20, 29, 30, 40)
    ] == [[], ["one"], ["two"], ["one"], ["one"], [], ["one"]]


@pytest.mark.parametrize("order", ["oldest_first", "newest_first"])
@pytest.mark.parametrize("by", ["seq", "created"])
async def test_pages_join_to_the_whole(store: MemoryStore, write: Writing, order: Order, by: str) -> None:
    places = [Place("notes", key) for key in ("b", "a", "ä", "B")]
    for number in range(40):
        said_us = START + number * 7 % 5
        await write(entry(number, str(number), place=places[number % 4], created_us=said_us))
    window = Window(order=order, by="created" if by == "created" else "seq", limit=1000)
    whole = (await store.load(BANK, window)).entries
    assert list(dict.fromkeys(found.key for found in whole)) == sorted(
        "baäB", reverse=order == "newest_first"
    )
    joined: list[str] = []
    page = await store.load(BANK, Window(order=order, by=window.by, limit=7))
    while page.next is not None:
        joined += [found.id for found in page.entries]
        page = await store.load(BANK, Window(order=order, by=window.by, limit=7, after=page.next))
    joined += [found.id for found in page.entries]
    assert joined == [found.id for found in whole]


async def test_a_handle_of_a_past_read_goes_on_to_name_its_version(
    store: MemoryStore, write: Writing
) -> None:
    await write(entry(1, "one"))
    now = await store.eligible(KEY, Window())
    past = await store.eligible(KEY, Window(as_of_us=START))
    await write(Revise(Draft(id=id_of(1), content="two", created_us=START)))
    assert await store.fetch(KEY, now) == [None]
    (found,) = await store.fetch(KEY, past)
    assert found is not None
    assert found.content == "one"
    assert await store.fetch(Scope("acme", "notes", "bob"), past) == [None]
    assert await store.fetch(Scope("other"), past) == [None]


async def test_an_expired_document_is_missing_and_comes_back_at_the_end(
    store: MemoryStore, write: Writing, clock: StandingClock
) -> None:
    values = Scope("acme", "~values", "values")
    await write(value(1, "x", 1, expires_us=START + 5), value(2, "y", 2))
    clock.time_us = START + 6
    assert [document.ref.name for document in await store.documents(values, "value")] == ["y"]
    done = await write(value(3, "x", 3, expected=0), at_us=START + 6)
    assert (done.placed[0].id, done.placed[0].version) == (id_of(1), 2)
    found = await store.documents(values, "value")
    assert [(document.ref.name, document.value) for document in found] == [("y", 2), ("x", 3)]
    with pytest.raises(VersionConflict):
        await write(value(4, "x", 4, expected=1))


async def test_a_kind_keeps_so_many_versions_and_says_when_the_past_is_gone(
    store: MemoryStore, write: Writing
) -> None:
    ref = DocumentRef("~values", "values", "value", "x")
    for number in range(25):
        await write(value(number, "x", number), at_us=START + 10 * number)
    kept = await store.document_versions(Scope("acme"), id_of(0))
    assert [document.version for document in kept] == list(range(5, 26))
    past = await store.document(Scope("acme"), ref, as_of_us=START + 45)
    assert past is not None
    assert past.value == 4
    with pytest.raises(HistoryUnavailable):
        await store.document(Scope("acme"), ref, as_of_us=START + 35)
    with pytest.raises(HistoryUnavailable):
        await store.document(Scope("acme"), DocumentRef("b", "k", "cache", "x"), as_of_us=START)


async def test_of_each_place_one_chore_runs_and_a_lost_lease_cannot_finish(
    store: MemoryStore, write: Writing
) -> None:
    await write(chore(1, max_attempts=1), chore(2), chore(3, place=Place("notes", "bob"), dedupe="d"))
    repeated = await write(chore(4, place=Place("notes", "bob"), dedupe="d"))
    assert (repeated.placed[0].id, repeated.placed[0].duplicate) == (id_of(3), True)
    leased = await store.lease(worker="w", now_us=START, until_us=START + 10, limit=5)
    assert [(found.id, found.token, found.attempts) for found in leased] == [
        (id_of(1), 1, 1),
        (id_of(3), 1, 1),
    ]
    assert await store.next_due_us() == START
    after = await store.lease(worker="v", now_us=START + 11, until_us=START + 20, limit=5)
    assert [(found.id, found.token) for found in after] == [(id_of(2), 1), (id_of(3), 2)]
    with pytest.raises(LeaseLost):
        await write(entry(9), Finish(id_of(3), 1))
    assert await contents(store) == []
    await store.renew(id_of(3), 2, START + 50)
    await write(entry(9), Finish(id_of(3), 2), Drop(id_of(1)), Retry(id_of(1), START))
    states = {found.id: found.state for found in await store.chores(Scope("acme"))}
    assert states == {
        id_of(1): ChoreState.QUEUED,
        id_of(2): ChoreState.LEASED,
        id_of(3): ChoreState.DONE,
    }


async def test_a_forget_takes_what_was_made_from_it_and_leaves_a_proof(
    store: MemoryStore, write: Writing
) -> None:
    told = "the wire code is 7319"
    await write(entry(1, told, digest=b"d"), entry(2), entry(3, place=Place("notes", "bob")))
    await write(
        entry(
            4, f"so {told}", kind="summary", place=Place("notes", "bob"), origin=Origin(sources=(id_of(1),))
        ),
        Retire(id_of(3), Reason.HIDDEN, by=id_of(4)),
        entry(5, "both", place=Place("notes", "bob"), origin=Origin(sources=(id_of(1), id_of(3)))),
        chore(6, payload={"entries": [id_of(1)]}, place=Place("notes", "bob")),
    )
    await write(value(7, "made", told), origin=Origin(sources=(id_of(4),)))
    assert sum((await store.residue([b"7319"])).values()) > 0
    done = await write(Forget(Selector(ids=(id_of(1),)), by="me"))
    (receipt,) = done.receipts
    assert dict(receipt.counts) == {"entries": 2, "versions": 2, "documents": 1, "chores": 1}
    change = await store.change(BANK, done.change)
    assert change is not None
    assert [(step.verb, step.ref, step.before, step.after) for step in change.steps] == [
        ("forget", id_of(1), 1, 0),
        ("forget", id_of(4), 1, 0),
        ("forget", id_of(7), 1, 0),
        ("restore", id_of(3), 0, 2),
    ]
    assert await contents(store, BANK) == ["tea", "tea", "both"]
    (both,) = await store.find(BANK, [id_of(5)])
    assert both.origin.sources == (id_of(3),)
    assert await store.residue([b"7319"]) == {}
    gone = await store.erased(BANK, [id_of(number) for number in range(9)])
    assert gone == {id_of(1), id_of(4), id_of(6), id_of(7)}
    assert [found.state for found in await store.chores(BANK)] == [ChoreState.CANCELLED]
    (proof,) = await store.documents(Scope("acme", "~receipts", "receipts"), "receipt")
    assert isinstance(proof.value, dict)
    assert (proof.id, proof.value["counts"]) == (done.change, dict(receipt.counts))
    assert (await store.check()).ok


async def test_similarity_is_the_product_of_the_stored_forms(store: MemoryStore, write: Writing) -> None:
    def vector(*components: int, scale: float = 0.5) -> Quantised:
        return Quantised(bytes(component % 256 for component in components), scale)

    await write(
        entry(1, vectors=(vector(1, -2), vector(3, 4))),
        entry(2, vectors=(vector(-5, 127),)),
        entry(3),
        entry(4, vectors=(vector(0, 100, scale=0.1), vector(-3, 4))),
    )
    rows = await store.eligible(KEY, Window())
    assert await store.nearest(KEY, vector(2, 1, scale=0.25), 10) == [
        (rows[1], 0.125 * 117),
        (rows[3], 0.025 * 100),
        (rows[0], 0.125 * 10),
    ]
    assert await store.nearest(KEY, vector(2, 1, scale=0.25), 1, rows=rows[:1]) == [(rows[0], 1.25)]
    with pytest.raises(EmbedderMismatch):
        await store.nearest(KEY, vector(1), 1)
    with pytest.raises(EmbedderMismatch):
        await write(entry(5, vectors=(vector(1, 2, 3),)))


async def test_words_count_only_what_is_visible(store: MemoryStore, write: Writing) -> None:
    await write(entry(1, "tea, tea and coffee"), entry(2, "tea"), entry(3, "milk"))
    await write(Retire(id_of(2), Reason.DELETED), at_us=START + 5)
    now = await store.words(KEY, ["tea", "none", "tea"])
    assert (now.entries, now.terms, list(now.postings)) == (2, 5, ["tea", "none"])
    tea = now.postings["tea"]
    assert (list(tea.frequencies), list(tea.lengths)) == ([2], [4])
    assert list(tea.rows) == list(await store.eligible(KEY, Window()))[:1]
    assert not now.postings["none"].rows
    past = await store.words(KEY, ["tea"], as_of_us=START)
    assert (past.entries, list(past.postings["tea"].frequencies)) == (2, [2, 1])


def test_threads_with_loops_of_their_own_share_a_store(store: MemoryStore) -> None:
    def work(worker: int) -> None:
        async def append() -> None:
            for number in range(50):
                own = worker * 1000 + number
                await store.commit(Batch("acme", id_of(10**6 + own), START, (entry(own),)))

        asyncio.run(append())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    page = asyncio.run(store.load(KEY, Window(limit=1000)))
    assert [found.seq for found in page.entries] == list(range(1, 401))
    times = [change.at_us for change in asyncio.run(store.changes(BANK, limit=1000))]
    assert times == list(range(START, START + 400))


async def test_a_closed_store_refuses(store: MemoryStore, write: Writing) -> None:
    with pytest.raises(StoreUnsupported):
        await store.backup("copy.db")
    await store.settle()
    await store.aclose()
    await store.aclose()
    with pytest.raises(StoreClosed):
        await write(entry(1))
    with pytest.raises(StoreClosed):
        await store.next_due_us()


async def test_a_forked_child_is_refused(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(StoreForked):
            await store.head(KEY)
    assert await store.head(KEY) == 0


def test_the_store_does_not_load_numpy() -> None:
    program = "import json, sys, holdfast.stores.memory; print(json.dumps('numpy' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) is False


async def test_a_check_finds_what_does_not_fit_together(store: MemoryStore, write: Writing) -> None:
    await write(entry(1, digest=b"d"), entry(2), value(3, "x", 1), chore(4, dedupe="d"))
    await write(Retire(id_of(2), Reason.DELETED))
    report = await store.check()
    assert report.ok
    assert report.examined == {"entries": 2, "versions": 2, "documents": 1, "chores": 1, "changes": 2}
    tables = store._tables
    tables.digests.clear()
    tables.live.clear()
    tables.dedupes["acme", ALICE, "other"] = id_of(9)
    tables.document_refs[id_of(9)] = ("acme", DocumentRef("~values", "values", "value", "y"))
    tables.heads["acme", "notes", "alice"] = 1
    tables.keys["acme", "notes"]["alice"][3] = id_of(9)
    tables.rows[1], tables.rows[9] = tables.rows[2], tables.rows[2]
    assert {(finding.where, finding.what) for finding in (await store.check()).findings} == {
        (f"entry {id_of(1)}", "the handle of version 1 leads elsewhere"),
        (f"entry {id_of(1)}", "its digest does not lead to it"),
        ("rows", "there are handles without a version"),
        ("key 'alice' of bank 'notes' in space 'acme'", "a seq is beyond its head"),
        ("key 'alice' of bank 'notes' in space 'acme'", "seq 3 leads nowhere"),
        ("documents", "there are ids without a document"),
        ("chores", "the live ones are not those that are queued or leased"),
        (f"chore {id_of(9)}", "it is over but holds the dedupe key 'other' of notes in space 'acme'"),
    }
