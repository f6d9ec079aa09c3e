"""A store that fails on order keeps the laws while it has none, and does as it was told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast.errors import StoreFailed
from holdfast.ports.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing import FaultyStore, Maker, ManualClock, StoreSuite
from holdfast.testing.making import in_key, repeatable


class TestFaultyStoreAtRest(StoreSuite):
    @pytest.fixture
    async def store(self, clock: ManualClock) -> AsyncIterator[Store]:
        store = FaultyStore(MemoryStore(clock))
        yield store
        await store.aclose()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make(clock: ManualClock) -> Maker:
    return Maker(clock)


@pytest.fixture
def store(clock: ManualClock) -> FaultyStore:
    return FaultyStore(MemoryStore(clock))


async def test_the_nth_call_fails_before_it_took_effect(store: FaultyStore, make: Maker) -> None:
    store.fail("commit", nth=2)
    await store.commit(make.batch(make.append()))
    with pytest.raises(StoreFailed):
        await store.commit(make.batch(make.append()))
    await store.commit(make.batch(make.append()))
    assert await store.head(in_key()) == 2


async def test_a_call_fails_after_it_took_effect(store: FaultyStore, make: Maker) -> None:
    store.fail("commit", after=True)
    with pytest.raises(StoreFailed):
        await store.commit(make.batch(make.append(), idempotency=repeatable("k")))
    again = await store.commit(make.batch(make.append(), idempotency=repeatable("k")))
    assert again.duplicate
    assert await store.head(in_key()) == 1


async def test_methods_are_counted_apart(store: FaultyStore, make: Maker) -> None:
    store.fail("head")
    await store.commit(make.batch(make.append()))
    with pytest.raises(StoreFailed):
        await store.head(in_key())
    assert (store.calls["commit"], store.calls["head"], store.calls["find"]) == (1, 1, 0)


async def test_orders_count_from_when_they_are_given(store: FaultyStore) -> None:
    await store.head(in_key())
    store.fail("head", nth=2)
    await store.head(in_key())
    with pytest.raises(StoreFailed):
        await store.head(in_key())


async def test_orders_can_be_taken_back(store: FaultyStore) -> None:
    store.fail("head")
    store.delay("head", 60)
    store.heal()
    assert await store.head(in_key()) == 0


async def test_late_calls_can_be_cancelled_before_they_take_effect(store: FaultyStore, make: Maker) -> None:
    store.delay("commit", 60)
    task = asyncio.ensure_future(store.commit(make.batch(make.append())))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    store.heal()
    assert await store.head(in_key()) == 0
