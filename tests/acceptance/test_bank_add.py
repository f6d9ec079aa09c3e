"""Adding: what is kept, what is refused, what counts as said already."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import holdfast
from holdfast import NewEntry, Origin
from holdfast.model.values import moment
from holdfast.testing.clock import ManualClock
from tests.acceptance.refusal import refused


async def test_an_entry_comes_back_as_it_was_said(general: holdfast.Bank, clock: ManualClock) -> None:
    result = await general.add(
        "Alice prefers tea",
        key="alice",
        metadata={"topic": "drink", "tags": ["a", {"b": 1}], "name": "x", "thread": "y"},
        name="Alice",
        thread="t-1",
        title="drinks",
        subject="user-7",
        created_at=moment(clock.now_us()) - timedelta(days=1),
        expires_at=moment(clock.now_us()) + timedelta(days=1),
        origin=Origin(author="alice", channel="tool", run_id="r-1"),
    )
    assert (result.duplicate, result.warnings, result.messages) == (False, (), ())
    assert result.entry == await general.get(result.id)
    assert (result.content, result.key, result.seq, result.version, result.speaker) == (
        "Alice prefers tea", "alice", 1, 1, None,
    )  # fmt: skip
    assert (result.name, result.thread, result.title, result.subject) == ("Alice", "t-1", "drinks", "user-7")
    assert (result.origin.run_id, result.kind, result.seen) == ("r-1", "entry", 1)
    assert result.metadata == {"topic": "drink", "tags": ["a", {"b": 1}], "name": "x", "thread": "y"}
    assert result.expires_at is not None
    assert result.expires_at - result.created_at == timedelta(days=2)
    assert (await general.history(result.id))[0].change == result.change


async def test_a_returned_add_is_visible_at_once(general: holdfast.Bank) -> None:
    result = await general.add("Alice prefers tea", key="alice")
    assert [entry.id for entry in await general.load(key="alice")] == [result.id]
    assert [hit.entry.id for hit in await general.search("tea", key="alice")] == [result.id]


async def test_what_the_caller_does_later_to_the_metadata_is_not_seen(general: holdfast.Bank) -> None:
    metadata: dict[str, Any] = {"tags": ["a"]}
    result = await general.add("tea", key="alice", metadata=metadata)
    metadata["tags"].append("b")
    result.metadata["more"] = 1
    assert (await general.get(result.id)).metadata == {"tags": ["a"]}


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("content_empty", {"content": ""}),
        ("content_empty", {"content": " \n\t\u2003"}),
        ("content_invalid", {"content": b"tea"}),
        ("content_invalid", {"content": "a\0b"}),
        ("content_invalid", {"content": "a\ud800"}),
        ("content_too_large", {"content": "x" * (1024 * 1024 + 1)}),
        ("content_too_large", {"content": "é" * (512 * 1024 + 1)}),
        ("key_empty", {"key": ""}),
        ("key_invalid", {"key": " alice"}),
        ("key_invalid", {"key": "alice\n"}),
        ("key_invalid", {"key": "a\x07b"}),
        ("key_invalid", {"key": "x" * 513}),
        ("key_invalid", {"key": 7}),
        ("key_invalid", {"key": ["alice"]}),
        ("reserved_metadata_key", {"metadata": {"speaker": "user"}}),
        ("reserved_metadata_key", {"metadata": {"created_at": "now"}}),
        ("metadata_key_invalid", {"metadata": {"a.b": 1}}),
        ("metadata_key_invalid", {"metadata": {"$a": 1}}),
        ("metadata_key_invalid", {"metadata": {"x" * 129: 1}}),
        ("metadata_key_invalid", {"metadata": {7: 1}}),
        ("metadata_invalid", {"metadata": ["a"]}),
        ("metadata_too_large", {"metadata": {"a": "x" * 65_536}}),
        ("value_invalid", {"metadata": {"a": float("nan")}}),
        ("value_invalid", {"metadata": {"a": object()}}),
        ("value_too_deep", {"metadata": {"a": [[[[[[[[[1]]]]]]]]]}}),
        ("created_at_future", {"created_at": datetime(2100, 1, 1, tzinfo=UTC)}),
        ("time_invalid", {"created_at": datetime(2020, 1, 1)}),  # noqa: DTZ001 - a time without a zone
        ("time_invalid", {"created_at": "2020-01-01"}),
        ("time_invalid", {"expires_at": 5}),
        ("title_invalid", {"title": "x" * 1001}),
        ("idempotency_key_invalid", {"idempotency_key": ""}),
        ("idempotency_key_invalid", {"idempotency_key": "x" * 257}),
        ("vector_invalid", {"vector": []}),
        ("vector_invalid", {"vector": [float("inf")]}),
        ("vector_invalid", {"vector": ["a"]}),
    ],
)
async def test_each_refusal_has_a_code_and_writes_nothing(
    general: holdfast.Bank, code: str, changes: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"content": "tea", "key": "alice"} | changes
    with refused(code, holdfast.InvalidInput):
        await general.add(**given)
    assert (await general.list()).entries == ()


async def test_the_largest_content_and_the_longest_key(general: holdfast.Bank) -> None:
    result = await general.add("é" * (512 * 1024), key="k" * 512)
    assert len((await general.get(result.id)).content) == 512 * 1024
    assert (await general.add("x" * 1024 * 1024, key="Ключ 🔑")).key == "Ключ 🔑"


async def test_keys_are_exact(general: holdfast.Bank) -> None:
    for key in ("alice", "Alice", "alice2"):
        assert (await general.add("tea", key=key)).seq == 1
    assert [info.key for info in await general.keys()] == ["Alice", "alice", "alice2"]


async def test_a_little_ahead_of_the_clock_is_fine(general: holdfast.Bank, clock: ManualClock) -> None:
    limit = moment(clock.now_us()) + timedelta(minutes=5)
    assert (await general.add("tea", key="alice", created_at=limit)).created_at == limit
    with refused("created_at_future"):
        await general.add("coffee", key="alice", created_at=limit + timedelta(microseconds=1))


async def test_speakers_of_a_conversation(chat: holdfast.Bank) -> None:
    with refused("speaker_required", holdfast.InvalidInput):
        await chat.add("hello", key="alice")
    for speaker in ("User", "tool", "system", "robot", ""):
        with refused("speaker_invalid", holdfast.InvalidInput):
            await chat.add("hello", key="alice", speaker=speaker)
    assert (await chat.add("hello", key="alice", speaker="assistant")).speaker == "assistant"


async def test_a_general_bank_ignores_the_speaker(general: holdfast.Bank) -> None:
    result = await general.add("tea", key="alice", speaker="robot")
    assert (result.speaker, result.warnings) == (None, ("speaker_ignored",))
    (many,) = await general.add_many([NewEntry("coffee", key="alice", speaker="user")])
    assert (many.speaker, many.warnings) == (None, ("speaker_ignored",))


async def test_the_same_request_is_done_once(chat: holdfast.Bank) -> None:
    async def add(content: str = "hello", **more: Any) -> holdfast.AddResult:
        given: dict[str, Any] = {
            "key": "alice",
            "speaker": "user",
            "metadata": {"a": 1},
            "idempotency_key": "r:1",
        }
        return await chat.add(content, **(given | more))

    first = await add()
    again = await add()
    assert (again.id, again.duplicate, again.messages) == (first.id, True, first.messages)
    changes: list[dict[str, Any]] = [{"content": "bye"}, {"speaker": "assistant"}, {"metadata": {"a": 2}}]
    for change in changes:
        with refused("idempotency_conflict", holdfast.IdempotencyConflict):
            await add(**change)
    assert not (await add(key="bob")).duplicate
    assert not (await add(idempotency_key="r:2")).duplicate
    assert len(await chat.load(key="alice")) == 2


async def test_the_same_request_at_once(chat: holdfast.Bank) -> None:
    results = await asyncio.gather(
        *(chat.add("hello", key="alice", speaker="user", idempotency_key="once") for _ in range(20))
    )
    assert len({result.id for result in results}) == 1
    assert sum(not result.duplicate for result in results) == 1


async def test_a_repeated_request_after_its_entry_was_deleted(general: holdfast.Bank) -> None:
    first = await general.add("tea", key="alice", idempotency_key="once")
    await general.delete(first.id)
    again = await general.add("tea", key="alice", idempotency_key="once")
    assert (again.id, again.duplicate) == (first.id, True)
    assert (await general.load(key="alice")).entries == ()


async def test_a_repeated_request_after_its_entry_was_forgotten(
    space: holdfast.Space, general: holdfast.Bank
) -> None:
    first = await general.add("tea", key="alice", idempotency_key="once")
    await space.forget(ids=[first.id])
    again = await general.add("tea", key="alice", idempotency_key="once")
    assert (again.duplicate, again.content) == (True, "tea")


async def test_saying_the_same_again_keeps_one(general: holdfast.Bank) -> None:
    first = await general.add("Cafe\u0301 au lait", key="alice", metadata={"a": 1})
    again = await general.add("  Café \n au\tlait ", key="alice", metadata={"a": 2, "b": 3})
    assert (again.id, again.duplicate, again.seen) == (first.id, True, 2)
    assert (again.content, again.metadata) == ("Cafe\u0301 au lait", {"a": 1, "b": 3})
    assert not (await general.add("café au lait", key="alice")).duplicate
    assert not (await general.add("Café au lait", key="bob")).duplicate


async def test_what_is_not_visible_is_not_said_already(general: holdfast.Bank, clock: ManualClock) -> None:
    first = await general.add("tea", key="alice")
    await general.delete(first.id)
    second = await general.add("tea", key="alice", expires_at=moment(clock.now_us() + 1_000_000))
    assert not second.duplicate
    clock.advance(seconds=2)
    assert not (await general.add("tea", key="alice")).duplicate


async def test_dedupe_is_a_setting(space: holdfast.Space, chat: holdfast.Bank) -> None:
    log = await space.banks.create("log", kind="general", dedupe="off")
    for bank, speaker in ((log, None), (chat, "user")):
        results = [await bank.add("tea", key="alice", speaker=speaker) for _ in range(2)]
        assert [result.duplicate for result in results] == [False, False]


async def test_many_at_once_keep_their_order(general: holdfast.Bank) -> None:
    new = [NewEntry(f"fact {number}", key=f"k{number % 3}", metadata={"n": number}) for number in range(30)]
    results = await general.add_many(new)
    assert [result.content for result in results] == [one.content for one in new]
    assert [result.seq for result in results] == [number // 3 + 1 for number in range(30)]
    assert len({result.change for result in results}) == 1
    assert [result.entry for result in results] == [await general.get(result.id) for result in results]
    assert await general.add_many([]) == []


async def test_many_are_all_or_nothing(general: holdfast.Bank) -> None:
    with refused("content_empty"):
        await general.add_many([NewEntry("tea", key="alice"), NewEntry(" ", key="alice")])
    assert (await general.list()).entries == ()


async def test_many_with_equal_ones_among_them(general: holdfast.Bank) -> None:
    results = await general.add_many(
        [NewEntry("tea", key="a"), NewEntry(" tea", key="a"), NewEntry("tea", key="b")]
    )
    assert [result.duplicate for result in results] == [False, True, False]
    assert results[0].id == results[1].id


async def test_many_repeated(general: holdfast.Bank) -> None:
    new = [NewEntry("tea", key="alice"), NewEntry("coffee", key="bob")]
    first = await general.add_many(new, idempotency_key="import-1")
    again = await general.add_many(new, idempotency_key="import-1")
    assert [result.id for result in again] == [result.id for result in first]
    assert all(result.duplicate for result in again)
    with refused("idempotency_conflict", holdfast.IdempotencyConflict):
        await general.add_many(new[:1], idempotency_key="import-1")


async def test_many_with_origins_of_their_own(space: holdfast.Space, general: holdfast.Bank) -> None:
    source = await general.add("a long talk about tea", key="alice")
    derived = Origin(run_id="r-2", sources=(source.id,))
    results = await general.add_many(
        [NewEntry("likes tea", key="alice", origin=derived), NewEntry("likes milk", key="alice")],
        origin=Origin(run_id="r-1"),
    )
    assert [result.origin.run_id for result in results] == ["r-2", "r-1"]
    assert (await space.changes(origin=holdfast.OriginMatch(run_id="r-1")))[0].id == results[0].change


async def test_concurrent_adds_get_each_their_number(chat: holdfast.Bank) -> None:
    results = await asyncio.gather(*(chat.add(f"turn {n}", key="alice", speaker="user") for n in range(100)))
    assert sorted(result.seq for result in results) == list(range(1, 101))
    assert all(result.messages[-1].content == result.content for result in results)


def test_one_handle_in_several_event_loops(url: str) -> None:
    async def make() -> tuple[holdfast.LocalHoldfast, holdfast.Bank]:
        opened = await holdfast.open(url)
        return opened, await opened.banks.create("notes", kind="general")

    async def use(number: int) -> int:
        await bank.add(f"fact {number}", key="alice")
        return len(await bank.search("fact", key="alice"))

    hf, bank = asyncio.run(make())
    assert [asyncio.run(use(number)) for number in range(3)] == [1, 2, 3]

    async def threads() -> list[int]:
        return await asyncio.gather(*(asyncio.to_thread(asyncio.run, use(number)) for number in range(3, 9)))

    assert max(asyncio.run(threads())) == 9
    asyncio.run(hf.aclose())


QUOTE = " ".join(f"word{number}" for number in range(40))


async def test_quoted_chains_are_cut_and_kept_in_history(space: holdfast.Space) -> None:
    mail = await space.banks.create("mail", strip_quoted_reply_chains=True)
    first = await mail.add(QUOTE, key="t", speaker="user")
    quoted = "Yes, agreed.\n\n> " + QUOTE.replace("word20 ", "word20\n> ") + "\n\nBest, Bob"
    second = await mail.add(quoted, key="t", speaker="user")
    assert second.content == "Yes, agreed.\nBest, Bob"
    assert [message.content for message in second.messages] == [QUOTE, second.content]
    assert [entry.content for entry in await mail.history(second.id)] == [quoted, second.content]
    assert second.entry == await mail.get(second.id)
    assert (await mail.add(quoted, key="t", speaker="assistant")).content == quoted
    assert (await mail.add(quoted, key="other", speaker="user")).content == quoted
    assert (await mail.add(f"> {QUOTE}", key="t", speaker="user")).content == f"> {QUOTE}"
    assert (await mail.search("word7", key="t", limit=100))[0].entry.id == first.id


async def test_quoted_chains_inside_one_batch(space: holdfast.Space) -> None:
    mail = await space.banks.create("mail", strip_quoted_reply_chains=True, dedupe="exact")
    results = await mail.add_many(
        [NewEntry(QUOTE, key="t", speaker="user"), NewEntry(f"ok {QUOTE}", key="t", speaker="user")]
    )
    assert [result.content for result in results] == [QUOTE, "ok"]


async def test_chains_shorter_than_forty_words_stay(space: holdfast.Space) -> None:
    mail = await space.banks.create("mail", strip_quoted_reply_chains=True)
    short = " ".join(QUOTE.split()[:39])
    await mail.add(short, key="t", speaker="user")
    assert (await mail.add(f"ok {short}", key="t", speaker="user")).content == f"ok {short}"
