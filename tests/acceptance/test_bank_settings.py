"""Banks: making, finding, changing, listing and erasing them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast.model.batch import Batch, Commit
from holdfast.testing.clock import ManualClock
from tests.acceptance.refusal import refused


async def test_defaults_per_kind(space: holdfast.Space) -> None:
    chat = (await space.banks.create("chat")).info
    notes = (await space.banks.create("notes", kind="general")).info
    assert (chat.kind, chat.retention_days, chat.dedupe) == ("conversation", 90, "off")
    assert (notes.kind, notes.retention_days, notes.dedupe) == ("general", None, "exact")
    for info in (chat, notes):
        assert (info.history_window, info.window_chunk, info.summary_role) == (100, 50, "user")
        assert (info.allow_cross_key_search, info.strip_quoted_reply_chains) == (True, False)
        assert (info.description, info.version) == (None, 1)
        assert info.created_at == info.updated_at


@pytest.mark.parametrize(
    ("code", "settings"),
    [
        ("description_invalid", {"description": "x" * 1001}),
        ("retention_days_invalid", {"retention_days": 36_501}),
        ("retention_days_invalid", {"retention_days": -1}),
        ("retention_days_invalid", {"retention_days": True}),
        ("retention_days_invalid", {"retention_days": False}),
        ("dedupe_invalid", {"dedupe": "fuzzy"}),
        ("history_window_invalid", {"history_window": 1}),
        ("history_window_invalid", {"history_window": 101}),
        ("window_chunk_invalid", {"window_chunk": 0}),
        ("window_chunk_invalid", {"window_chunk": 51}),
        ("window_chunk_invalid", {"history_window": 10, "window_chunk": 6}),
        ("summary_role_invalid", {"summary_role": "tool"}),
        ("allow_cross_key_search_invalid", {"allow_cross_key_search": "no"}),
        ("conversation_only_field", {"kind": "general", "strip_quoted_reply_chains": True}),
        ("max_age_days_removed", {"max_age_days": 5}),
        ("kind_invalid", {"kind": "episodic"}),
        ("unknown_field", {"colour": "red"}),
        ("unknown_field", {"mode": "balanced"}),
        ("unknown_field", {"max_turns": 60}),
    ],
)
async def test_each_setting_has_its_limit(space: holdfast.Space, code: str, settings: dict[str, Any]) -> None:
    with refused(code, holdfast.InvalidInput):
        await space.banks.create("bank", **settings)
    assert await space.banks.list() == []


@pytest.mark.parametrize("name", ["", "   ", "x" * 256, "~banks", "a\0b", "\ud800"])
async def test_names_that_are_no_names(space: holdfast.Space, name: str) -> None:
    with refused("bank_name_invalid", holdfast.InvalidInput):
        await space.banks.create(name)


async def test_a_hint_says_what_to_do_instead(space: holdfast.Space) -> None:
    with pytest.raises(holdfast.InvalidInput, match="retention_days"):
        await space.banks.create("bank", max_age_days=3)
    with pytest.raises(holdfast.InvalidInput, match="not compacted yet"):
        await space.banks.create("bank", max_turns=3)
    assert (await space.banks.create("bank", max_age_days=0)).name == "bank"


async def test_a_narrow_window_brings_its_chunk(space: holdfast.Space) -> None:
    info = (await space.banks.create("chat", history_window=10)).info
    assert (info.history_window, info.window_chunk) == (10, 5)


async def test_names_are_trimmed_and_unique_without_case(space: holdfast.Space) -> None:
    bank = await space.banks.create("  Straße ")
    assert bank.name == "Straße"
    for name in ("Straße", "STRASSE", " straße", "strasse"):
        with refused("already_exists", holdfast.AlreadyExists):
            await space.banks.create(name)
        assert (await space.banks.get(name)).id == bank.id
    assert (await space.banks.get(bank.id)).name == "Straße"


async def test_long_names_that_grow_when_folded(space: holdfast.Space) -> None:
    bank = await space.banks.create("ΐ" * 255)
    assert (await space.banks.get("ΐ" * 255)).id == bank.id


async def test_missing_banks(space: holdfast.Space) -> None:
    for call in (space.banks.get("nope"), space.banks.get("0" * 32), space.banks.delete("nope")):
        with refused("bank_not_found", holdfast.BankNotFound):
            await call


async def test_ensure_makes_once(space: holdfast.Space) -> None:
    handles = await asyncio.gather(*(space.banks.ensure("notes", kind="general") for _ in range(5)))
    assert len({bank.id for bank in handles}) == 1
    assert (await space.banks.ensure("NOTES")).info.kind == "general"
    with refused("unknown_field"):
        await space.banks.ensure("notes", colour="red")


async def test_list_is_oldest_first_and_narrowed(space: holdfast.Space) -> None:
    await space.banks.create("Beta", kind="general")
    await space.banks.create("alpha")
    await space.banks.create("beta 2")
    assert [info.name for info in await space.banks.list()] == ["Beta", "alpha", "beta 2"]
    assert [info.name for info in await space.banks.list(kind="conversation")] == ["alpha", "beta 2"]
    assert [info.name for info in await space.banks.list(prefix="beta")] == ["Beta", "beta 2"]
    assert [info.name for info in await space.banks.list(limit=1)] == ["Beta"]


async def test_configure_changes_what_is_named(space: holdfast.Space, clock: ManualClock) -> None:
    bank = await space.banks.create("chat", description="talk", retention_days=7)
    clock.advance(seconds=5)
    info = await bank.configure(description="more talk")
    assert (info.description, info.retention_days, info.version) == ("more talk", 7, 2)
    assert info.updated_at > info.created_at
    info = await bank.configure(description="", retention_days=0)
    assert (info.description, info.retention_days, info.version) == (None, None, 3)
    assert bank.info == info == (await space.banks.get("chat")).info


async def test_configure_refuses_what_never_changes(general: holdfast.Bank) -> None:
    for setting in ("kind", "type"):
        changed: dict[str, Any] = {setting: "conversation"}
        with refused("bank_type_fixed", holdfast.InvalidInput):
            await general.configure(**changed)
    with refused("conversation_only_field"):
        await general.configure(strip_quoted_reply_chains=True)
    with refused("unknown_field"):
        await general.configure(mode="balanced")
    with refused("update_empty"):
        await general.configure()
    with refused("version_conflict", holdfast.VersionConflict):
        await general.configure(expected_version=7, description="x")
    assert general.info.version == 1
    assert (await general.configure(expected_version=1, description="x")).version == 2


async def test_renaming_moves_the_name(space: holdfast.Space, general: holdfast.Bank) -> None:
    await space.banks.create("other")
    with refused("already_exists", holdfast.AlreadyExists):
        await general.configure(name="OTHER")
    assert (await general.configure(name="Notes")).name == "Notes"
    await general.configure(name="diary")
    assert (await space.banks.get("DIARY")).id == general.id
    with refused("bank_not_found"):
        await space.banks.get("notes")
    assert (await space.banks.create("notes")).id != general.id


async def test_changes_made_elsewhere_take_hold_within_a_second(
    space: holdfast.Space, general: holdfast.Bank, clock: ManualClock
) -> None:
    other = await space.banks.get("notes")
    await other.configure(dedupe="off")
    clock.advance(seconds=1)
    await general.add("tea", key="alice")
    assert not (await general.add("tea", key="alice")).duplicate


async def test_deleting_erases(space: holdfast.Space, hf: holdfast.LocalHoldfast, clock: ManualClock) -> None:
    bank = await space.banks.create("therapy of alice", kind="general", description="very private words")
    await bank.configure(description="even more private")
    await bank.add("a secret about tea", key="alice")
    receipt = await space.banks.delete("Therapy of Alice")
    assert receipt.counts["entries"] == 1
    assert receipt.complete
    assert await space.banks.list() == []
    clock.advance(seconds=1)
    for call in (bank.load(key="alice"), bank.search("tea"), bank.configure(name="x"), bank.wipe()):
        with refused("bank_not_found", holdfast.BankNotFound):
            await call
    found = await hf.store.residue(
        [b"secret about tea", b"therapy of", b"very private", b"even more private"]
    )
    assert sum(found.values()) == 0
    assert (await space.banks.create("therapy of alice")).id != bank.id


async def test_add_fails_when_the_bank_was_deleted_meanwhile(
    space: holdfast.Space, general: holdfast.Bank
) -> None:
    await space.banks.delete(general.id)
    for call in (general.add("tea", key="k"), general.add_many([holdfast.NewEntry("tea", key="k")])):
        with refused("bank_not_found", holdfast.BankNotFound):
            await call


async def test_wipe_keeps_the_bank(general: holdfast.Bank) -> None:
    await general.add("tea", key="alice")
    assert (await general.wipe()).counts["entries"] == 1
    assert (await general.load(key="alice")).entries == ()
    assert (await general.add("tea", key="alice")).seq == 2


async def test_a_deletion_that_was_cut_off_leaves_no_name_behind(
    url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the erasing of the bank and that of its settings."""
    async with holdfast.open(url, clock=clock, worker="manual") as hf:
        await hf.banks.create("secret name", description="secret story")
        core, batches = hf._core, list[Batch]()
        commit = core.commit

        async def once(batch: Batch) -> Commit:
            batches.append(batch)
            if len(batches) > 1:
                raise holdfast.StoreClosed("killed")
            return await commit(batch)

        with monkeypatch.context() as patch:
            patch.setattr(core, "commit", once)
            with pytest.raises(holdfast.StoreClosed):
                await hf.banks.delete("secret name")
        clock.advance(seconds=60)
        await hf.chores.drain()
        clock.advance(seconds=60)
        await hf.chores.drain()
        assert await hf.store.residue([b"secret name", b"secret story"]) == {}
        assert await hf.store.unsettled() == {}
        assert await hf.chores.pending() == []


async def test_a_deletion_leaves_no_chore_behind(hf: holdfast.LocalHoldfast) -> None:
    await hf.banks.create("notes")
    await hf.banks.delete("notes")
    assert [chore.kind for chore in await hf.chores.pending()] == ["settle"]
