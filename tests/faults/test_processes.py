"""Several processes on one file see each other's writes and count together."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import textwrap
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import LeaseLost
from holdfast.model.batch import Batch, Enqueue, Fail, Finish
from holdfast.model.chore import ChoreDraft
from holdfast.model.ids import IdMaker
from holdfast.model.scope import Place, Scope
from holdfast.model.window import Window
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock
from tests.faults.conftest import BANK, SPACE, MakeBatch, WallClock

WRITER = """
    import asyncio, secrets, sys, time
    from holdfast.model.batch import Append, Batch, Forget
    from holdfast.model.entry import Draft, Quantised
    from holdfast.model.forget import Selector
    from holdfast.model.ids import IdMaker
    from holdfast.model.scope import Place
    from holdfast.stores.sqlite import SqliteStore

    class Clock:
        def now_us(self):
            return time.time_ns() // 1000

    make_id = IdMaker(Clock().now_us, secrets.randbits)

    def batch(*operations):
        return Batch("acme", make_id(0), Clock().now_us(), operations)

    async def main():
        store = await SqliteStore.open(sys.argv[1], clock=Clock())
        for n in range(int(sys.argv[3])):
            vectors = (Quantised(bytes([n % 100, 3]), 0.5),)
            draft = Draft(id=make_id(0), content=f"{sys.argv[2]} {n}", created_us=1, vectors=vectors)
            commit = await store.commit(batch(Append(Place("notes", "alice"), draft)))
            if n % 10 == 9:
                await store.commit(batch(Forget(Selector(ids=(commit.placed[0].id,)))))
        await store.aclose()

    asyncio.run(main())
"""


async def test_writers_of_several_processes_count_together(tmp_path: Path, make_batch: MakeBatch) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=WallClock())
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            textwrap.dedent(WRITER),
            str(path),
            name,
            "100",
            stderr=asyncio.subprocess.PIPE,
        )
        for name in ("one", "two", "three")
    ]
    for turn in range(100):
        await store.commit(make_batch(f"here {turn}"))
    for writer in writers:
        _, errors = await writer.communicate()
        assert (writer.returncode, errors) == (0, b"")
    page = await store.load(Scope(SPACE, BANK, "alice"), Window(limit=1000))
    seqs = [entry.seq for entry in page.entries]
    assert len(seqs) == 100 + 3 * 90
    assert seqs == sorted(set(seqs))
    assert await store.head(Scope(SPACE, BANK, "alice")) == 400
    for name in ("one", "two", "three"):
        texts = [entry.content for entry in page.entries if entry.content.startswith(f"{name} ")]
        assert texts == [f"{name} {n}" for n in range(100) if n % 10 != 9]
    changes = await store.changes(Scope(SPACE), limit=1000)
    times = [change.at_us for change in changes]
    assert len(times) == 400 + 30
    assert times == sorted(set(times))
    assert (await store.check()).findings == ()
    await store.aclose()


OTHER = """
    import asyncio, json, sys
    import holdfast

    async def main():
        async with holdfast.open(sys.argv[1]) as hf:
            bank = await hf.banks.ensure("notes", kind="general", dedupe="off")
            names = {"hf": hf, "bank": bank, "holdfast": holdfast}
            for line in sys.stdin:
                answer = eval(line, names)
                if asyncio.iscoroutine(answer):
                    answer = await answer
                print(json.dumps(str(answer)), flush=True)

    asyncio.run(main())
"""


class OtherProcess:
    """A process with the same file open that evaluates what it is asked."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, expression: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{expression}\n".encode())
        answer: str = json.loads(await self._process.stdout.readline())
        return answer

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def other_process(path: Path) -> AsyncGenerator[OtherProcess]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(OTHER),
        str(path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield OtherProcess(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_what_is_remembered_here_gives_way_to_what_another_process_wrote(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    clock = ManualClock(WallClock().now_us())
    async with holdfast.open(path, clock=clock) as hf, other_process(path) as other:
        bank = await hf.banks.ensure("notes", kind="general", dedupe="off")
        first = await bank.add("green tea", key="alice", vector=[1.0, 0.0])
        assert len(await bank.search("tea", key="alice")) == 1

        assert await other.ask('bank.add("black tea", key="alice", vector=[0.0, 1.0])')
        assert (await bank.add("no tea", key="alice", vector=[-1.0, 0.0])).seq == 3
        assert [hit.entry.content for hit in await bank.search("black", key="alice")] == ["black tea"]
        (nearest, *_) = await bank.search("?", key="alice", method="vector", vector=[0.1, 0.9])
        assert nearest.entry.content == "black tea"

        assert await other.ask('bank.configure(dedupe="exact")')
        clock.advance(seconds=1)
        white = [await bank.add("white tea", key="alice") for _ in range(2)]
        assert [one.duplicate for one in white] == [False, True]

        await hf.forget(bank="notes", ids=[first.id])
        assert await other.ask('bank.search("green", key="alice")') == str(
            await bank.search("green", key="alice")
        )
        assert "green" not in await other.ask('bank.load(key="alice")')
        assert (await hf.store.check()).ok


async def test_the_lease_of_a_killed_process_is_taken_over_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    now_us = WallClock().now_us()
    make_id = IdMaker(WallClock().now_us, secrets.randbits)
    store = await SqliteStore.open(path, clock=WallClock())

    def batch(*operations: Enqueue | Finish | Fail) -> Batch:
        return Batch(SPACE, make_id(0), now_us, operations)

    chore = ChoreDraft(id=make_id(0), kind="work", place=Place(BANK, "alice"), due_us=now_us)
    await store.commit(batch(Enqueue(chore)))
    until_us = now_us + 60_000_000
    async with other_process(path) as other:
        leased = await other.ask(f'hf.store.lease(worker="other", now_us={now_us}, until_us={until_us})')
        assert chore.id in leased
        await other.kill()
    again_us = until_us + 60_000_000
    assert await store.lease(worker="here", now_us=until_us, until_us=again_us) == []
    (taken,) = await store.lease(worker="here", now_us=until_us + 1, until_us=again_us)
    assert (taken.id, taken.token, taken.worker) == (chore.id, 2, "here")
    with pytest.raises(LeaseLost):
        await store.commit(batch(Finish(chore.id, 1)))
    await store.commit(batch(Finish(chore.id, taken.token)))
    await store.aclose()
