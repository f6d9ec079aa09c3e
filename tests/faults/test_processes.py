"""Several processes on one file see each other's writes and count together."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from pathlib import Path

from holdfast.model.scope import Scope
from holdfast.model.window import Window
from holdfast.stores.sqlite import SqliteStore
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
