"""Forgetting: each selector, the receipt, and that nothing is left."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Origin, OriginMatch
from tests.acceptance.refusal import refused


@pytest.fixture
async def told(space: holdfast.Space, general: holdfast.Bank) -> dict[str, holdfast.AddResult]:
    other = await space.banks.create("other", kind="general")
    return {
        "alice": await general.add("amber tea", key="alice"),
        "bob": await general.add("cobalt coffee", key="bob", origin=Origin(run_id="r-1", author="agent")),
        "about": await general.add("crimson juice", key="team", subject="alice"),
        "other": await other.add("violet water", key="alice", origin=Origin(run_id="r-2", author="agent")),
    }


async def left(space: holdfast.Space) -> set[str]:
    found: set[str] = set()
    for info in await space.banks.list():
        bank = await space.banks.get(info.id)
        found |= {entry.content.split()[0] for entry in await bank.list()}
    return found


async def test_by_subject(space: holdfast.Space, told: dict[str, holdfast.AddResult]) -> None:
    assert (await space.forget(subject="alice")).counts["entries"] == 3
    assert await left(space) == {"cobalt"}


async def test_by_key(space: holdfast.Space, told: dict[str, holdfast.AddResult]) -> None:
    assert (await space.forget(key="alice")).counts["entries"] == 2
    assert await left(space) == {"cobalt", "crimson"}


@pytest.mark.parametrize("by_id", [False, True])
async def test_by_bank(
    space: holdfast.Space, general: holdfast.Bank, told: dict[str, holdfast.AddResult], by_id: bool
) -> None:
    assert (await space.forget(bank=general.id if by_id else "NOTES")).counts["entries"] == 3
    assert await left(space) == {"violet"}
    assert (await general.add("amber tea", key="alice")).seq == 2


async def test_selectors_narrow_each_other(
    space: holdfast.Space, told: dict[str, holdfast.AddResult]
) -> None:
    assert (await space.forget(bank="notes", key="alice")).counts["entries"] == 1
    assert (await space.forget(origin=OriginMatch(author="agent"), bank="other")).counts["entries"] == 1
    assert await left(space) == {"cobalt", "crimson"}


async def test_by_ids(space: holdfast.Space, told: dict[str, holdfast.AddResult]) -> None:
    assert (await space.forget(ids=[told["bob"].id, told["other"].id])).counts["entries"] == 2
    assert await left(space) == {"amber", "crimson"}


async def test_by_origin(space: holdfast.Space, told: dict[str, holdfast.AddResult]) -> None:
    assert (await space.forget(origin=OriginMatch(author="agent", run_id="r-1"))).counts["entries"] == 1
    assert await left(space) == {"amber", "crimson", "violet"}


async def test_what_was_made_from_it_goes_too(space: holdfast.Space, general: holdfast.Bank) -> None:
    source = await general.add("a long talk", key="alice")
    other = await general.add("another talk", key="bob")
    both = Origin(method="extracted", sources=(source.id, other.id))
    await general.add("derived from one", key="team", origin=Origin(method="extracted", sources=(source.id,)))
    kept = await general.add("derived from both", key="team", origin=both)
    assert (await space.forget(subject="alice")).counts["entries"] == 2
    assert (await general.get(kept.id)).origin.sources == (other.id,)


async def test_refusals(space: holdfast.Space, told: dict[str, holdfast.AddResult]) -> None:
    with refused("selector_empty", holdfast.InvalidInput):
        await space.forget()
    with refused("bank_not_found", holdfast.BankNotFound):
        await space.forget(bank="nope")
    with refused("id_invalid", holdfast.InvalidInput):
        await space.forget(ids=["alice"])
    assert len(await left(space)) == 4


async def test_keys_named_like_our_own(space: holdfast.Space, general: holdfast.Bank) -> None:
    await space.values.set("language", "en")
    for name in ("banks", "values"):
        await general.add("tea", key=name)
        with refused("bank_required", holdfast.ScopeError):
            await space.forget(key=name)
        with refused("bank_required", holdfast.ScopeError):
            await space.forget(subject=name)
        assert (await space.forget(key=name, bank="notes")).counts["entries"] == 1
    assert await space.values.get("language") == "en"
    assert len(await space.banks.list()) == 1


async def test_the_receipt_holds_no_content(
    space: holdfast.Space, told: dict[str, holdfast.AddResult], hf: holdfast.LocalHoldfast
) -> None:
    receipt = await space.forget(subject="alice", by="operator-1", reason="asked to")
    assert (receipt.space, receipt.by, receipt.reason, receipt.complete) == (
        "acme",
        "operator-1",
        "asked to",
        True,
    )
    assert receipt.total >= 3
    assert "alice" not in repr(receipt)
    found = await hf.store.residue([b"amber tea", b"crimson juice", b"violet water"])
    assert sum(found.values()) == 0
    again = await space.forget(subject="alice")
    assert again.counts["entries"] == 0


async def test_forgetting_is_final(space: holdfast.Space, told: dict[str, holdfast.AddResult]) -> None:
    receipt = await space.forget(ids=[told["alice"].id])
    with refused("erasure_final", holdfast.HistoryUnavailable):
        await space.undo(receipt.id)
    with refused("nothing_to_undo", holdfast.Conflict):
        await space.undo(told["alice"].change)
