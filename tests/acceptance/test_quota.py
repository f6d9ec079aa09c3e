"""A space holds no more than its limit, whoever writes to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import holdfast
from holdfast.testing.clock import ManualClock


async def limited(hf: holdfast.LocalHoldfast, left: int) -> holdfast.Bank:
    """A bank in a space in which so many bytes may still come."""
    bank = await hf.banks.ensure("notes", kind="general", dedupe="off")
    await hf.limit((await hf.usage()).bytes + left)
    return bank


async def test_what_fits_is_written_and_what_does_not_is_refused(url: str, clock: ManualClock) -> None:
    async with holdfast.open(url, clock=clock, worker="manual") as hf:
        bank = await limited(hf, 10)
        await bank.add("12345", key="k")
        with pytest.raises(holdfast.QuotaExceeded) as caught:
            await bank.add("123456", key="k")
        assert caught.value.limit - caught.value.used == 5
        assert str(caught.value.used) in str(caught.value)
        assert "forget" in str(caught.value.hint)
        assert isinstance(caught.value, holdfast.CapacityExceeded)
        assert [entry.content for entry in await bank.list()] == ["12345"]
        assert (await hf.usage()).left == 5


async def test_a_refused_batch_can_be_repeated_when_there_is_room(url: str, clock: ManualClock) -> None:
    async with holdfast.open(url, clock=clock, worker="manual") as hf:
        bank = await limited(hf, 3)
        with pytest.raises(holdfast.QuotaExceeded):
            await bank.add("12345", key="k", idempotency_key="once")
        await limited(hf, 5)
        first = await bank.add("12345", key="k", idempotency_key="once")
        again = await bank.add("12345", key="k", idempotency_key="once")
        assert first.id == again.id
        assert (await hf.usage()).left == 0


async def test_an_undo_that_writes_nothing_works_in_a_full_space(url: str, clock: ManualClock) -> None:
    async with holdfast.open(url, clock=clock, worker="manual") as hf:
        bank = await limited(hf, 8)
        entry = await bank.add("12345", key="k")
        await bank.update(entry.id, content="123")
        (_, revised) = await hf.history(entry.id)
        with pytest.raises(holdfast.QuotaExceeded):
            await hf.undo(revised.id)
        other = await limited(hf, 3)
        added = await other.add("abc", key="k2")
        (change,) = await hf.history(added.id)
        await hf.undo(change.id)
        assert [found.content for found in await bank.list()] == ["123"]


async def test_spaces_do_not_share_their_limits(url: str, clock: ManualClock) -> None:
    async with holdfast.open(url, clock=clock, worker="manual") as hf:
        one, other = hf.space("one"), hf.space("other")
        await one.limit(5)
        await other.values.set("k", "much longer than that")
        with pytest.raises(holdfast.QuotaExceeded):
            await one.values.set("k", "much longer than that")
        assert (await one.usage(), (await other.usage()).limit) == (holdfast.Usage(0, 5), None)


@pytest.mark.parametrize("wrong", [-1, 1 << 63, "10 MB", 1.5])
async def test_a_limit_that_is_no_number_of_bytes_is_refused(url: str, wrong: object) -> None:
    async with holdfast.open(url, worker="manual") as hf:
        with pytest.raises(holdfast.InvalidInput) as caught:
            await hf.limit(wrong)  # type: ignore[arg-type] # wrong on purpose
        assert caught.value.code == "limit_invalid"


async def test_handles_of_one_file_keep_one_limit(tmp_path: Path) -> None:
    """What others write is counted, and a limit that others set holds at once, also for what is on its way together."""
    path = tmp_path / "m.db"
    async with holdfast.open(path, worker="manual") as one, holdfast.open(path, worker="manual") as two:
        await limited(one, 1_000)
        banks = [await hf.banks.get("notes") for hf in (one, two)]
        adding = (banks[n % 2].add(f"{n:010}", key=f"k{n % 5}") for n in range(150))
        results = await asyncio.gather(*adding, return_exceptions=True)
        refused = [result for result in results if isinstance(result, BaseException)]
        assert all(isinstance(result, holdfast.QuotaExceeded) for result in refused)
        assert len(refused) == 50
        assert (await one.usage()) == (await two.usage())
        assert (await one.usage()).left == 0
        await two.limit(None)
        await banks[0].add("more", key="k")
        held = (await one.usage()).bytes
        await two.limit(10**6)
        assert (await one.usage()).bytes == held, "what is counted along is what is there"
        assert (await one.store.check()).ok


async def test_a_limit_stays_with_the_file(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        await limited(hf, 3)
        usage = await hf.usage()
    async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
        assert await hf.usage() == usage
        with pytest.raises(holdfast.QuotaExceeded):
            await hf.values.set("k", "longer")
