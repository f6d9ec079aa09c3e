"""Opening: places, options, the default, and what importing costs."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import holdfast
from holdfast.testing.clock import ManualClock
from tests.acceptance.refusal import refused


async def test_in_both_ways(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "a.db") as hf:
        await hf.values.set("k", 1)
    again = await holdfast.open(str(tmp_path / "a.db"))
    assert await again.values.get("k") == 1
    await again.aclose()
    await again.aclose()
    with refused("store_closed", holdfast.StoreClosed):
        await again.values.get("k")
    async with await holdfast.open("memory://?quiet=true") as hf:
        await hf.values.set("k", 2)


async def test_a_sqlite_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with holdfast.open(f"sqlite:///{tmp_path}/my file.db") as hf:
        await hf.values.set("k", 1)
    assert (tmp_path / "my file.db").exists()
    async with holdfast.open("sqlite:///near.db") as hf:
        await hf.values.set("k", 1)
    assert (tmp_path / "near.db").exists()


async def test_read_only(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    async with holdfast.open(file) as hf:
        bank = await hf.banks.create("notes", kind="general")
        await bank.add("tea", key="alice")
    async with holdfast.open(f"sqlite:///{file}?mode=ro") as hf:
        bank = await hf.banks.get("notes")
        assert len(await bank.search("tea")) == 1
        with refused("store_read_only", holdfast.StoreReadOnly):
            await bank.add("coffee", key="alice")


async def test_the_environment_names_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", str(tmp_path / "env.db"))
    async with holdfast.open() as hf:
        await hf.values.set("k", 1)
    assert (tmp_path / "env.db").exists()
    monkeypatch.delenv("HOLDFAST_URL")
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.INFO, "holdfast"):
        async with holdfast.open() as hf:
            await hf.values.set("k", 1)
    assert (tmp_path / ".holdfast" / "holdfast.db").exists()
    (record,) = caplog.records
    assert (record.levelname, str(tmp_path / ".holdfast" / "holdfast.db") in record.message) == ("INFO", True)


async def test_memory_warns_once_at_the_first_write(caplog: pytest.LogCaptureFixture) -> None:
    async with holdfast.open("memory://") as hf:
        await hf.values.get("k")
        assert not caplog.records
        await hf.values.set("k", 1)
        await hf.values.set("k", 2)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    async with holdfast.open("memory://?quiet=true") as hf:
        await hf.values.set("k", 1)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("code", "url"),
    [
        ("store_unsupported", "postgresql://localhost/x"),
        ("store_unsupported", "https://example.com"),
        ("url_invalid", "redis://localhost"),
        ("url_invalid", ":memory:"),
        ("url_invalid", ""),
        ("url_invalid", "sqlite://"),
        ("url_invalid", "sqlite:///"),
        ("url_invalid", "memory://?loud=true"),
        ("url_invalid", "sqlite:///a.db?mode=rx"),
    ],
)
async def test_places_that_cannot_be_opened(code: str, url: str) -> None:
    with refused(code):
        await holdfast.open(url)


@pytest.mark.parametrize(
    ("code", "embedder"), [("embedder_unavailable", "minilm"), ("embedder_invalid", "word2vec")]
)
async def test_embedders_that_are_not_there(code: str, embedder: str) -> None:
    with refused(code, holdfast.InvalidInput):
        await holdfast.open("memory://?quiet=true", embedder=embedder)


class Lengths:
    """An embedder that sees only how long a text is."""

    name = "lengths-1"
    dimensions = 2

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, float(len(text) > 10)] for text in texts]


async def test_an_embedder_of_ones_own() -> None:
    async with holdfast.open("memory://?quiet=true", embedder=Lengths()) as hf:
        bank = await hf.banks.create("notes", kind="general")
        await bank.add("short", key="k")
        await bank.add("rather a long text", key="k")
        hits = await bank.search("tiny", method="vector", min_score=0.9)
        assert [hit.entry.content for hit in hits] == ["short"]


async def test_the_default_space(clock: ManualClock) -> None:
    async with holdfast.open("memory://?quiet=true", space="acme", clock=clock) as hf:
        await hf.banks.create("notes")
        assert [info.name for info in await hf.space("acme").banks.list()] == ["notes"]
        assert hf.space().name == "acme"
        assert hf.clock is clock
        with refused("space_invalid", holdfast.InvalidInput):
            hf.space("")


async def test_use_makes_a_default_for_the_context() -> None:
    async with holdfast.open("memory://?quiet=true") as outer, holdfast.open("memory://?quiet=true") as inner:
        with holdfast.use(outer) as hf:
            assert hf is outer
            assert holdfast.default() is outer
            with holdfast.use(inner):
                assert holdfast.default() is inner

                async def seen() -> holdfast.Holdfast:
                    return holdfast.default()

                assert await asyncio.create_task(seen()) is inner
            assert holdfast.default() is outer


DEFAULT = """
import asyncio, threading, holdfast, os
hf = holdfast.default()
assert hf is holdfast.default() and not os.path.exists("late.db")
async def main():
    ensure = lambda: hf.banks.ensure("notes", kind="general")
    bank, same = await asyncio.gather(ensure(), ensure())
    assert bank.id == same.id
    await bank.add("tea", key="alice")
asyncio.run(main())
async def again():
    assert len(await (await hf.banks.get("notes")).search("tea")) == 1
    await hf.aclose()
asyncio.run(again())
print(os.path.exists("late.db"))
"""


def run(source: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-B", "-c", source],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_default_of_the_process_is_opened_when_it_is_first_used(tmp_path: Path) -> None:
    assert run(DEFAULT, tmp_path, HOLDFAST_URL="late.db") == "True"


def test_a_default_that_cannot_be_opened_says_so_each_time(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file, not a folder")
    source = """
import asyncio, holdfast
hf = holdfast.default()
async def main():
    for _ in range(2):
        done = await asyncio.gather(*(hf.values.get("k") for _ in range(3)), return_exceptions=True)
        print(*(isinstance(one, holdfast.HoldfastError) for one in done))
asyncio.run(main())
"""
    assert run(source, tmp_path, HOLDFAST_URL="blocked/x.db").split() == ["True"] * 6


@pytest.mark.parametrize("url", ["memory://?quiet=true", "file.db"])
def test_a_memory_without_vectors_never_loads_numpy(tmp_path: Path, url: str) -> None:
    source = f"""
import sys, holdfast
async def main():
    async with holdfast.open({url!r}) as hf:
        bank = await hf.banks.create("notes", kind="general")
        await bank.add("tea", key="alice")
        await bank.search("tea")
import asyncio
asyncio.run(main())
print([name for name in ("numpy", "pydantic") if name in sys.modules])
"""
    assert run(source, tmp_path) == "[]"


async def test_the_example_of_the_front_page(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "memory.db") as hf:
        space = hf.space("acme")
        bank = await space.banks.create("support", kind="general")
        entry = await bank.add("Alice prefers tea", key="alice", metadata={"topic": "drink"})
        await bank.add_many([holdfast.NewEntry("Alice lives in Berlin", key="alice")])
        hits = await bank.search(
            "what does Alice drink?", key="alice", limit=5, filter={"topic": {"$eq": "drink"}}
        )
        assert hits[0].entry.content == "Alice prefers tea"
        assert hits[0].score > 0
        assert hits[0].why.matched == ("alice",)
        page = await bank.load(key="alice", order="newest_first", limit=50)
        assert [one.content for one in page] == ["Alice lives in Berlin", "Alice prefers tea"]
        await space.values.set("memory:lang", "en", ttl_ms=60_000)
        changed = await bank.update(entry.id, content="Alice prefers coffee")
        assert [change.steps[0].verb for change in await space.history(entry.id)] == ["append", "revise"]
        await space.undo(changed.change)
        receipt = await space.forget(subject="alice")
        assert receipt.counts["entries"] == 2


def test_the_story_is_told() -> None:
    root = Path(__file__).resolve().parents[2]
    told = run(Path(root, "examples", "story.py").read_text("utf-8"), root)
    assert "traces of her words in the raw files: 0" in told
    assert "Bob is still there: ['Bob never drinks tea']" in told
