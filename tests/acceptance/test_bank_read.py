"""Reading a bank: loading, listing, searching, retention, and the boundary of a space."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast import NewEntry
from holdfast.model.values import DAY_US, moment
from holdfast.testing.clock import ManualClock
from tests.acceptance.refusal import refused


def contents(found: holdfast.Hits | holdfast.Page) -> list[str]:
    if isinstance(found, holdfast.Page):
        return [entry.content for entry in found]
    return [hit.entry.content for hit in found]


@pytest.fixture
async def drinks(general: holdfast.Bank, clock: ManualClock) -> holdfast.Bank:
    """Four entries, said a minute apart."""
    told = (
        ("Alice prefers green tea", "alice", "drink"),
        ("Alice deploys on Fridays", "alice", "work"),
        ("Bob prefers black coffee", "bob", "drink"),
        ("Alice owns a teapot for tea", "alice", "thing"),
    )
    for number, (content, key, topic) in enumerate(told, 1):
        await general.add(content, key=key, metadata={"topic": topic, "n": number})
        clock.advance(seconds=60)
    return general


async def test_load_in_both_orders_with_a_limit(drinks: holdfast.Bank) -> None:
    assert contents(await drinks.load(key="alice")) == [
        "Alice owns a teapot for tea",
        "Alice deploys on Fridays",
        "Alice prefers green tea",
    ]
    assert contents(await drinks.load(key="alice", order="oldest_first", limit=1)) == [
        "Alice prefers green tea"
    ]
    assert contents(await drinks.load(key="alice", limit=1)) == ["Alice owns a teapot for tea"]
    assert contents(await drinks.load(key="carol")) == []


async def test_load_page_by_page(drinks: holdfast.Bank) -> None:
    first = await drinks.load(key="alice", limit=2)
    assert first.next is not None
    second = await drinks.load(key="alice", limit=2, after=first.next)
    assert (len(second), second.next) == (1, None)
    assert len({entry.id for page in (first, second) for entry in page}) == 3


async def test_general_banks_go_by_the_time_of_saying(general: holdfast.Bank, clock: ManualClock) -> None:
    now = moment(clock.now_us())
    await general.add("second", key="k", created_at=now)
    await general.add("first", key="k", created_at=now - timedelta(days=3))
    page = await general.load(key="k", order="oldest_first")
    assert contents(page) == ["first", "second"]
    assert [message.content for message in page.messages()] == ["first", "second"]


async def test_load_with_bounds_and_filter(drinks: holdfast.Bank) -> None:
    third = (await drinks.load(key="bob")).entries[0].created_at
    alice = (await drinks.load(key="alice", order="oldest_first")).entries
    assert contents(await drinks.load(key="alice", added_after=alice[1].created_at)) == [
        "Alice owns a teapot for tea",
        "Alice deploys on Fridays",
    ]
    assert contents(await drinks.load(key="alice", added_before=alice[1].created_at)) == [
        "Alice prefers green tea"
    ]
    assert contents(await drinks.load(key="alice", filter={"topic": "work"})) == ["Alice deploys on Fridays"]
    assert contents(await drinks.load(key="alice", added_after=third, filter={"n": {"$lt": 3}})) == []


async def test_list_goes_by_key_and_time(drinks: holdfast.Bank) -> None:
    found: list[str] = []
    page = await drinks.list(limit=3)
    found += contents(page)
    while page.next is not None:
        page = await drinks.list(limit=3, after=page.next)
        found += contents(page)
    assert found == [
        "Alice prefers green tea",
        "Alice deploys on Fridays",
        "Alice owns a teapot for tea",
        "Bob prefers black coffee",
    ]
    assert contents(await drinks.list(key="bob")) == ["Bob prefers black coffee"]
    assert contents(await drinks.list(filter={"topic": "drink"})) == [
        "Alice prefers green tea",
        "Bob prefers black coffee",
    ]


async def test_keys(drinks: holdfast.Bank) -> None:
    assert [(info.key, info.entries) for info in await drinks.keys()] == [("alice", 3), ("bob", 1)]
    assert [info.key for info in await drinks.keys(prefix="b")] == ["bob"]
    assert [info.key for info in await drinks.keys(after="alice")] == ["bob"]
    assert [info.key for info in await drinks.keys(limit=1)] == ["alice"]


async def test_search_finds_the_best_first_and_says_why(drinks: holdfast.Bank) -> None:
    hits = await drinks.search("which tea does Alice like?", key="alice")
    assert [hit.entry.metadata["n"] for hit in hits][:2] in ([1, 4], [4, 1])
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 < hit.score <= 1 for hit in hits)
    for hit in hits:
        assert sum(hit.why.shares.values()) == pytest.approx(hit.score)
        assert "alice" in hit.why.matched
    assert hits[0].why.matched == ("tea", "alice")
    assert "words" in str(hits[0].why)


async def test_nothing_relevant_gives_no_hits(drinks: holdfast.Bank) -> None:
    for query in ("moon landing", "what is the", "мир", "?!"):
        assert not await drinks.search(query)
    assert not await drinks.search("tea", key="carol")
    assert not await drinks.search("tea", min_score=0.99)
    assert len(await drinks.search("tea", min_score=0)) == 2


async def test_search_of_one_key_or_all(drinks: holdfast.Bank) -> None:
    assert {hit.entry.key for hit in await drinks.search("prefers")} == {"alice", "bob"}
    assert {hit.entry.key for hit in await drinks.search("prefers", key="bob")} == {"bob"}
    for key in ("", " bob"):
        with refused("key_empty" if not key else "key_invalid"):
            await drinks.search("prefers", key=key)


async def test_the_switch_for_search_over_all_keys(space: holdfast.Space) -> None:
    bank = await space.banks.create("strict", allow_cross_key_search=False)
    await bank.add("tea", key="alice", speaker="user")
    with refused("key_required", holdfast.ScopeError):
        await bank.search("tea")
    assert len(await bank.search("tea", key="alice")) == 1


async def test_search_with_filter_and_time(drinks: holdfast.Bank) -> None:
    entries = (await drinks.load(key="alice", order="oldest_first")).entries
    assert contents(await drinks.search("tea", filter={"topic": {"$eq": "drink"}})) == [
        "Alice prefers green tea"
    ]
    assert contents(await drinks.search("Alice", added_after=entries[2].created_at)) == [
        "Alice owns a teapot for tea"
    ]
    assert contents(await drinks.search("Alice", added_before=entries[1].created_at)) == [
        "Alice prefers green tea"
    ]
    assert not await drinks.search("tea", filter={"topic": "nothing"})
    with refused("filter_operator", holdfast.FilterError):
        await drinks.search("tea", filter={"n": {"$regex": "a"}})


async def test_a_filter_cannot_leave_the_key(drinks: holdfast.Bank) -> None:
    wide = {"$or": [{"topic": "drink"}, {"topic": {"$exists": False}}]}
    assert {hit.entry.key for hit in await drinks.search("prefers", key="alice", filter=wide)} == {"alice"}


async def test_limit_and_omitted(general: holdfast.Bank) -> None:
    await general.add_many([NewEntry(f"tea number {number}", key="k") for number in range(30)])
    hits = await general.search("tea", limit=5)
    assert (len(hits), hits.omitted) == (5, 25)
    assert hits[1:3] == tuple(hits)[1:3]


async def test_ties_newer_first_then_by_id(general: holdfast.Bank, clock: ManualClock) -> None:
    same = moment(clock.now_us())
    for key in ("b", "a", "c"):
        await general.add("tea", key=key, created_at=same)
    newer = await general.add("tea", key="0", created_at=same + timedelta(seconds=1))
    hits = await general.search("tea")
    assert hits[0].entry.id == newer.id
    assert [hit.entry.id for hit in hits[1:]] == sorted(hit.entry.id for hit in hits[1:])


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("query_empty", {"query": ""}),
        ("query_empty", {"query": "  \n"}),
        ("query_invalid", {"query": None}),
        ("limit_invalid", {"limit": 0}),
        ("limit_invalid", {"limit": 101}),
        ("limit_invalid", {"limit": True}),
        ("min_score_invalid", {"min_score": 1.5}),
        ("min_score_invalid", {"min_score": True}),
        ("method_invalid", {"method": "psychic"}),
        ("embedder_missing", {"method": "vector"}),
        ("time_invalid", {"added_after": "yesterday"}),
    ],
)
async def test_searches_that_cannot_be_done(
    general: holdfast.Bank, code: str, changes: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"query": "tea"} | changes
    with refused(code, holdfast.InvalidInput):
        await general.search(given.pop("query"), **given)


async def test_a_very_long_query_is_cut(general: holdfast.Bank) -> None:
    await general.add("tea", key="alice")
    hits = await general.search("tea " * 4000)
    assert (len(hits), hits.warnings) == (1, ("query_cut",))


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("limit_invalid", {"limit": 0}),
        ("limit_invalid", {"limit": 1001}),
        ("order_invalid", {"order": "sideways"}),
    ],
)
async def test_loads_that_cannot_be_done(general: holdfast.Bank, code: str, changes: dict[str, Any]) -> None:
    with refused(code, holdfast.InvalidInput):
        await general.load(key="alice", **changes)


async def test_as_of(general: holdfast.Bank, clock: ManualClock) -> None:
    first = await general.add("Alice prefers tea", key="alice")
    then = moment(clock.advance(seconds=10))
    clock.advance(seconds=10)
    await general.update(first.id, content="Alice prefers coffee")
    await general.add("Alice lives in Berlin", key="alice")
    assert contents(await general.load(key="alice", as_of=then)) == ["Alice prefers tea"]
    assert (await general.get(first.id, as_of=then)).content == "Alice prefers tea"
    assert contents(await general.search("tea", as_of=then)) == ["Alice prefers tea"]
    assert contents(await general.search("coffee", as_of=then)) == []
    assert contents(await general.search("tea")) == []
    with refused("entry_not_found"):
        await general.get(first.id, as_of=then - timedelta(days=1))


async def test_retention_hides_on_the_microsecond(space: holdfast.Space, clock: ManualClock) -> None:
    bank = await space.banks.create("short", retention_days=7, kind="general")
    entry = await bank.add("Alice prefers tea", key="alice")
    clock.advance(days=7)
    await bank.add("Bob prefers tea", key="bob")
    assert (await bank.get(entry.id)).content == "Alice prefers tea"
    assert len(await bank.search("tea")) == 2
    clock.advance(microseconds=1)
    with refused("entry_not_found", holdfast.EntryNotFound):
        await bank.get(entry.id)
    with refused("entry_not_found"):
        await bank.history(entry.id)
    with refused("entry_not_found"):
        await bank.update(entry.id, content="x")
    assert contents(await bank.load(key="alice")) == []
    assert contents(await bank.list()) == ["Bob prefers tea"]
    assert contents(await bank.search("tea")) == ["Bob prefers tea"]
    assert contents(await bank.search("tea", limit=1)) == ["Bob prefers tea"]
    assert [info.key for info in await bank.keys()] == ["bob"]
    await bank.configure(retention_days=0)
    assert len(await bank.load(key="alice")) == 1


async def test_retention_goes_by_the_time_of_saying(space: holdfast.Space, clock: ManualClock) -> None:
    bank = await space.banks.create("short", retention_days=7)
    said = moment(clock.now_us() - 8 * DAY_US)
    result = await bank.add("long ago", key="alice", speaker="user", created_at=said)
    assert [message.content for message in result.messages] == ["long ago"]
    assert contents(await bank.load(key="alice")) == []
    later = await bank.add("today", key="alice", speaker="user")
    assert [message.content for message in later.messages] == ["today"]


async def test_vectors_that_are_handed_in(general: holdfast.Bank) -> None:
    await general.add("one", key="k", vector=[1.0, 0.0, 0.0])
    await general.add("two", key="k", vector=[0.8, 0.6, 0.0])
    await general.add("three", key="k", vector=[0.0, 0.0, 1.0])
    await general.add("four", key="k")
    hits = await general.search("nothing in common", vector=[1.0, 0.1, 0.0], method="vector")
    assert contents(hits) == ["one", "two"]
    assert hits[0].score == pytest.approx(1 / 1.01**0.5, abs=0.01)
    assert set(hits[0].why.shares) == {"vector"}
    assert contents(await general.search("", vector=[0.0, 0.0, 1.0])) == ["three"]
    both = await general.search("four", vector=[1.0, 0.0, 0.0])
    assert set(contents(both)) == {"one", "two", "four"}
    assert contents(await general.search("four", vector=[1.0, 0.0, 0.0], method="lexical")) == ["four"]
    with refused("embedder_mismatch", holdfast.EmbedderMismatch):
        await general.search("one", vector=[1.0, 0.0])
    with refused("embedder_mismatch", holdfast.EmbedderMismatch):
        await general.add("five", key="k", vector=[1.0, 0.0])


async def test_the_hashing_embedder(url: str) -> None:
    async with holdfast.open(url, embedder="hashing") as hf:
        bank = await hf.banks.create("notes", kind="general")
        await bank.add_many([NewEntry("deployment pipelines", key="k"), NewEntry("a cup of tea", key="k")])
        entry = await bank.add("we deploy on Fridays", key="k")
        hits = await bank.search("deployments of pipeline", method="vector")
        assert contents(hits)[0] == "deployment pipelines"
        assert set((await bank.search("deploy", limit=1))[0].why.shares) == {"words", "vector"}
        await bank.update(entry.id, content="we sail on Fridays")
        assert contents(await bank.search("when do they sail", method="vector"))[0] == "we sail on Fridays"


async def test_spaces_do_not_see_each_other(hf: holdfast.LocalHoldfast) -> None:
    acme, globex = hf.space("acme"), hf.space("globex")
    here = await acme.banks.create("notes", kind="general")
    there = await globex.banks.create("notes", kind="general")
    mine = await here.add("tea in acme", key="alice")
    await there.add("tea in globex", key="alice")
    assert contents(await here.search("tea", key="alice")) == ["tea in acme"]
    assert contents(await there.load(key="alice")) == ["tea in globex"]
    with refused("entry_not_found"):
        await there.get(mine.id)
    with refused("bank_not_found"):
        await globex.banks.get(here.id)
    with refused("change_not_found"):
        await globex.undo(mine.change)
    assert await globex.history(mine.id) == []
    assert not [change for change in await globex.changes() if change.id == mine.change]
    assert (await globex.forget(subject="alice", bank="notes")).counts["entries"] == 1
    assert (await globex.forget(ids=[mine.id])).counts["entries"] == 0
    assert contents(await here.search("tea")) == ["tea in acme"]


async def test_banks_do_not_see_each_other(space: holdfast.Space, general: holdfast.Bank) -> None:
    other = await space.banks.create("other", kind="general")
    entry = await general.add("tea", key="alice")
    for call in (
        other.get(entry.id),
        other.update(entry.id, content="x"),
        other.delete(entry.id),
        other.delete(entry.id, hard=True),
        other.restore(entry.id),
        other.history(entry.id),
    ):
        with refused("entry_not_found", holdfast.EntryNotFound):
            await call
    assert not await other.search("tea")
