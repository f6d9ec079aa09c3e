"""Writers of several processes queue on one lock; a holder that dies or stands still stops nobody for long."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.errors import StoreBusy, StoreFailed
from holdfast.model.scope import Scope
from holdfast.model.window import Window
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.latches import RegionLatch
from holdfast.stores.sqlite.tuning import Tuning
from holdfast.stores.sqlite.write_lock import WriteLock
from tests.faults.conftest import BANK, SPACE, MakeBatch, WallClock

SOON = Tuning(busy_ms=200)

HOLDER = """
    import os, signal, sys, time
    from pathlib import Path
    from holdfast.stores.sqlite.write_lock import WriteLock

    with WriteLock(Path(sys.argv[1]), 1000).held():
        if sys.argv[2:] == ["fork"] and os.fork() == 0:
            print("child", os.getpid(), flush=True)
            time.sleep(60)
        else:
            print("held", os.getpid(), flush=True)
            time.sleep(60)
"""


@contextmanager
def holder(path: Path, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """A process that holds the write lock of a file."""
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(path), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


async def contents(store: SqliteStore) -> list[str]:
    page = await store.load(Scope(SPACE, BANK, "alice"), Window(limit=100))
    return [entry.content for entry in page.entries]


async def test_a_killed_holder_lets_the_others_go_on_at_once(tmp_path: Path, make_batch: MakeBatch) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=WallClock())
    await store.commit(make_batch("before"))
    with holder(path) as process:
        waiting = asyncio.create_task(store.commit(make_batch("after")))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        killed = time.perf_counter()
        process.kill()
        await waiting
        assert time.perf_counter() - killed < 0.5
    assert await contents(store) == ["before", "after"]
    await store.aclose()


async def test_a_stopped_holder_makes_writers_fail_in_time_and_go_on_later(
    tmp_path: Path, make_batch: MakeBatch
) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=WallClock(), tuning=SOON)
    await store.commit(make_batch("before"))
    with holder(path) as process:
        process.send_signal(signal.SIGSTOP)
        batches = [make_batch(f"refused {number}") for number in range(20)]
        began = time.perf_counter()
        results = await asyncio.gather(*(store.commit(each) for each in batches), return_exceptions=True)
        assert {type(result) for result in results} == {StoreBusy}
        assert 0.15 < time.perf_counter() - began < 2
        assert isinstance(results[0], StoreBusy)
        assert results[0].hint
        assert await contents(store) == ["before"]
        with pytest.raises(StoreBusy):
            await store.lease(worker="w", now_us=1, until_us=2)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
    await store.commit(make_batch("after"))
    await store.commit(make_batch("after that"))
    assert await contents(store) == ["before", "after", "after that"]
    with WriteLock(path, 100).held(), pytest.raises(StoreBusy):
        await store.commit(make_batch("refused again"))
    await store.aclose()


async def test_closing_behind_a_stopped_holder_takes_no_longer_than_waiting(
    tmp_path: Path, make_batch: MakeBatch
) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=WallClock(), tuning=SOON)
    with holder(path):
        tasks = [asyncio.create_task(store.commit(make_batch(f"text {n}"))) for n in range(2000)]
        await asyncio.sleep(0)
        began = time.perf_counter()
        await store.aclose()
        assert time.perf_counter() - began < 5
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} == {StoreBusy}


def test_a_process_forked_while_the_lock_is_held_does_not_hold_it(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with holder(path, "fork") as process:
        assert process.stdout is not None
        process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 1
        process.kill()
        process.wait()
        lock = WriteLock(path, 2000)
        try:
            with lock.held():
                os.kill(int(children[0]), 0)  # it is still there, and holds nothing
        finally:
            os.kill(int(children[0]), signal.SIGKILL)
            lock.close()


async def test_a_lock_file_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "m.db.lock").mkdir()
    with pytest.raises(StoreFailed) as caught:
        await SqliteStore.open(tmp_path / "m.db", clock=WallClock())
    assert "m.db.lock" in caught.value.message
    assert caught.value.hint


class Region:
    """The C library's lock on the first byte of a file, as Windows has it, for one other holder."""

    WAIT, TRY, UNLOCK = 1, 2, 0

    def __init__(self, *, busy: int) -> None:
        self.busy = busy
        self.calls: list[int] = []

    def locking(self, file: int, mode: int, count: int) -> None:
        assert (os.lseek(file, 0, os.SEEK_CUR), count) == (0, 1)
        self.calls.append(mode)
        if mode == self.UNLOCK or not self.busy:
            return
        self.busy -= 1
        if mode == self.TRY:
            raise PermissionError(13, "Permission denied")
        raise OSError(36, "Resource deadlock avoided")

    @property
    def latch(self) -> RegionLatch:
        return RegionLatch(self.locking, wait=self.WAIT, try_once=self.TRY, unlock=self.UNLOCK)


def test_the_lock_of_windows_waits_on_and_tries_once(tmp_path: Path) -> None:
    file = os.open(tmp_path / "m.db.lock", os.O_RDWR | os.O_CREAT)
    os.write(file, b"moved on")
    region = Region(busy=2)
    region.latch.take(file)
    assert region.calls == [Region.WAIT] * 3
    region = Region(busy=1)
    assert not region.latch.try_take(file)
    assert region.latch.try_take(file)
    os.lseek(file, 3, os.SEEK_SET)
    region.latch.give_back(file)
    assert region.calls == [Region.TRY, Region.TRY, Region.UNLOCK]
    os.close(file)
    with pytest.raises(OSError, match="Bad file"):
        region.latch.take(file)
