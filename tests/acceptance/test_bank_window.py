"""The cacheable window that adding to a conversation bank returns."""

from __future__ import annotations

from itertools import pairwise

import holdfast
from holdfast import NewEntry
from tests.acceptance.refusal import refused


async def filled(bank: holdfast.Bank, turns: int, first: int = 1) -> list[holdfast.AddResult]:
    return [
        await bank.add(f"turn {number}", key="alice", speaker="user" if number % 2 else "assistant")
        for number in range(first, first + turns)
    ]


def numbers(result: holdfast.AddResult) -> list[int]:
    return [int(message.content.split()[1]) for message in result.messages]


async def test_the_window_moves_once_a_chunk(chat: holdfast.Bank) -> None:
    await chat.add_many(
        [NewEntry(f"turn {n}", key="alice", speaker="user" if n % 2 else "assistant") for n in range(1, 99)]
    )
    results = dict(enumerate(await filled(chat, 53, 99), 99))
    assert numbers(results[99]) == list(range(1, 100))
    assert numbers(results[100]) == list(range(1, 101))
    assert numbers(results[101]) == list(range(51, 102))
    assert numbers(results[150]) == list(range(51, 151))
    assert numbers(results[151]) == list(range(101, 152))


async def test_the_prefix_holds_still(space: holdfast.Space) -> None:
    bank = await space.banks.create("short", history_window=10, window_chunk=4)
    steps = 0
    results = await filled(bank, 60)
    for before, after in pairwise(results):
        assert len(after.messages) <= 10
        assert [message.content for message in after.messages[-1:]] == [after.content]
        if after.messages[: len(before.messages)] != before.messages:
            steps += 1
    assert steps == (60 - 10 + 3) // 4


async def test_roles_and_the_first_message(chat: holdfast.Bank) -> None:
    first = await chat.add("how can I help?", key="alice", speaker="assistant")
    assert [message.role for message in first.messages] == ["assistant"]
    second = await chat.add("with tea", key="alice", speaker="user")
    assert [message.role for message in second.messages] == ["assistant", "user"]
    third = await chat.add("gladly", key="alice", speaker="assistant")
    assert [(message.role, message.content) for message in third.messages] == [
        ("user", "with tea"),
        ("assistant", "gladly"),
    ]


async def test_what_was_deleted_is_not_shown(chat: holdfast.Bank) -> None:
    results = await filled(chat, 5)
    await chat.delete(results[2].id)
    await chat.update(results[4].id, content="turn 55")
    assert numbers((await filled(chat, 1, 6))[0]) == [1, 2, 4, 55, 6]


async def test_each_key_has_its_own_window(chat: holdfast.Bank) -> None:
    await filled(chat, 3)
    other = await chat.add("turn 1", key="bob", speaker="user")
    assert numbers(other) == [1]
    assert other.omitted == 0


async def test_load_gives_messages_in_order(chat: holdfast.Bank) -> None:
    await filled(chat, 6)
    newest = await chat.load(key="alice", limit=3)
    assert [entry.seq for entry in newest] == [6, 5, 4]
    assert [message.content for message in newest.messages()] == ["turn 4", "turn 5", "turn 6"]
    oldest = await chat.load(key="alice", limit=2, order="oldest_first")
    assert [message.role for message in oldest.messages()] == ["user", "assistant"]
    assert (await chat.load(key="nobody")).messages() == ()
    with refused("key_empty"):
        await chat.load(key="")
