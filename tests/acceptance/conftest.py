"""A memory to try everything on: once in memory, once in a SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import holdfast
from holdfast.testing.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://?quiet=true" if request.param == "memory" else str(tmp_path / "memory.db")


@pytest.fixture
async def hf(url: str, clock: ManualClock) -> AsyncIterator[holdfast.LocalHoldfast]:
    async with holdfast.open(url, clock=clock) as opened:
        yield opened


@pytest.fixture
def space(hf: holdfast.LocalHoldfast) -> holdfast.Space:
    return hf.space("acme")


@pytest.fixture
async def general(space: holdfast.Space) -> holdfast.Bank:
    return await space.banks.create("notes", kind="general")


@pytest.fixture
async def chat(space: holdfast.Space) -> holdfast.Bank:
    return await space.banks.create("chat")
