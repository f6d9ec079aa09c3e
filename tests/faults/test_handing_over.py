"""Handing over: cancelled callers, full queues, forks, and the end of the process."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from holdfast.errors import StoreClosed, StoreForked
from holdfast.model.scope import Scope
from holdfast.model.window import Window
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.db import open_connection
from holdfast.stores.sqlite.ledger import Ledger
from holdfast.stores.sqlite.write_lock import WriteLock
from holdfast.stores.sqlite.writer import QUEUE
from tests.faults.conftest import BANK, SPACE, MakeBatch, WallClock


async def count(store: SqliteStore) -> int:
    return sum(info.entries for info in await store.keys(Scope(SPACE, BANK), limit=10_000))


class Held:
    """Holds the write lock of a file, as another process would."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT)

    def __enter__(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *exc: object) -> None:
        os.close(self._file)


async def test_a_cancelled_caller_only_stops_waiting(tmp_path: Path, make_batch: MakeBatch) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=WallClock())
    first = make_batch("kept", repeat="once")
    with Held(path):
        task = asyncio.create_task(store.commit(first))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    repeated = await store.commit(make_batch("kept", repeat="once"))
    assert repeated.duplicate
    assert repeated.change == first.id
    assert await count(store) == 1
    await store.aclose()


async def test_the_queue_is_bounded_and_everybody_is_served(tmp_path: Path, make_batch: MakeBatch) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=WallClock())
    total = QUEUE + 500
    with Held(path):
        tasks = [asyncio.create_task(store.commit(make_batch(f"text {n}"))) for n in range(total)]
        await asyncio.sleep(0.3)
        accepted = store.accepted
        assert 0 < accepted <= QUEUE
        assert not any(task.done() for task in tasks)
    commits = await asyncio.gather(*tasks)
    assert sorted(commit.placed[0].seq for commit in commits) == list(range(1, total + 1))
    await store.aclose()
    assert store.accepted == 0


async def test_one_waiting_for_room_can_be_cancelled(tmp_path: Path, make_batch: MakeBatch) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=WallClock())
    with Held(path):
        tasks = [asyncio.create_task(store.commit(make_batch(f"text {n}"))) for n in range(QUEUE + 20)]
        await asyncio.sleep(0.3)
        for task in tasks[-20:]:
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    done = [result for result in results if not isinstance(result, BaseException)]
    assert len(done) == QUEUE
    assert await count(store) == QUEUE
    await store.aclose()


async def test_closing_finishes_what_was_accepted(tmp_path: Path, make_batch: MakeBatch) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=WallClock())
    tasks = [asyncio.create_task(store.commit(make_batch(f"text {n}"))) for n in range(300)]
    await asyncio.sleep(0)
    await store.aclose()
    await store.aclose()
    await asyncio.gather(*tasks)
    with pytest.raises(StoreClosed):
        await store.commit(make_batch("too late"))
    again = await SqliteStore.open(path, clock=WallClock())
    assert await count(again) == 300
    await again.aclose()


async def test_one_store_serves_several_event_loops(tmp_path: Path, make_batch: MakeBatch) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock())
    failures: list[BaseException] = []

    async def work(number: int) -> None:
        for turn in range(25):
            commit = await store.commit(make_batch(f"text {number} {turn}"))
            (found,) = await store.find(Scope(SPACE, BANK), [commit.placed[0].id])
            assert found.content == f"text {number} {turn}"

    def run(number: int) -> None:
        try:
            asyncio.run(work(number))
        except BaseException as error:  # noqa: BLE001 - told to the test below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    await work(9)
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert failures == []
    page = await store.load(Scope(SPACE, BANK, "alice"), Window(limit=1000))
    assert [entry.seq for entry in page.entries] == list(range(1, 126))
    await store.aclose()


async def test_a_forked_child_is_refused_and_the_parent_goes_on(
    tmp_path: Path, make_batch: MakeBatch
) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock())
    await store.commit(make_batch("before"))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            store.commit(make_batch("in the child")).send(None)
        except StoreForked:
            status = 0
        finally:
            os._exit(status)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    await store.commit(make_batch("after"))
    assert await count(store) == 2
    await store.aclose()


EXIT = """
    import asyncio, secrets, sys, time
    from holdfast.model.batch import Append, Batch
    from holdfast.model.entry import Draft
    from holdfast.model.ids import IdMaker
    from holdfast.model.scope import Place
    from holdfast.stores.sqlite import SqliteStore

    class Clock:
        def now_us(self):
            return time.time_ns() // 1000

    make_id = IdMaker(Clock().now_us, secrets.randbits)

    def batch(number):
        draft = Draft(id=make_id(0), content=f"text {number}", created_us=1)
        return Batch("acme", make_id(0), 1, (Append(Place("notes", "alice"), draft),))

    async def main():
        store = await SqliteStore.open(sys.argv[1], clock=Clock())
        tasks = [asyncio.create_task(store.commit(batch(n))) for n in range(2000)]
        await asyncio.sleep(0)          # every one of them is handed over, and none is answered

    asyncio.run(main())
"""


async def test_leaving_the_interpreter_drains_the_queue(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    script = [sys.executable, "-c", textwrap.dedent(EXIT), str(path)]
    done = await asyncio.to_thread(
        subprocess.run, script, capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    store = await SqliteStore.open(path, clock=WallClock())
    assert await count(store) == 2000
    await store.aclose()


async def test_a_lone_caller_who_is_cancelled_at_once_only_stops_waiting(
    tmp_path: Path, make_batch: MakeBatch
) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock())
    await store.commit(make_batch("warm up"))
    task = asyncio.create_task(store.commit(make_batch("kept")))
    await asyncio.sleep(0)
    assert store.accepted == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.accepted == 0
    assert await count(store) == 2
    await store.aclose()


async def test_a_lone_caller_commits_on_his_own_thread_and_one_in_company_does_not(
    tmp_path: Path, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    commit = Ledger.commit

    def noted(ledger: Ledger) -> None:
        threads.append(threading.current_thread().name)
        commit(ledger)

    monkeypatch.setattr(Ledger, "commit", noted)
    monkeypatch.setattr("holdfast.stores.sqlite.handing_over.SWIFT_SECONDS", 60.0)
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock())
    for number in range(3):
        await store.commit(make_batch(f"text {number}"))
    assert threads == ["holdfast-writer", "MainThread", "MainThread"], "the first one loads the writing side"
    threads.clear()
    await asyncio.gather(*(store.commit(make_batch(f"in company {number}")) for number in range(20)))
    assert set(threads) == {"holdfast-writer"}
    await store.aclose()


async def test_a_slow_disk_never_holds_up_the_event_loop(
    tmp_path: Path, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[bool] = []
    commit = Ledger.commit

    def slow(ledger: Ledger) -> None:
        here.append(threading.current_thread() is threading.main_thread())
        time.sleep(0.02)
        commit(ledger)

    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock())
    await store.commit(make_batch("warm up"))
    monkeypatch.setattr(Ledger, "commit", slow)
    monkeypatch.setattr("holdfast.stores.sqlite.handing_over.SWIFT_SECONDS", 60.0)
    await store.commit(make_batch("however slow the disk of this test was before"))
    monkeypatch.setattr("holdfast.stores.sqlite.handing_over.SWIFT_SECONDS", 0.001)
    for number in range(5):
        await store.commit(make_batch(f"text {number}"))
    assert here == [True, False, False, False, False, False]
    await store.aclose()


async def test_a_lone_caller_does_not_wait_on_his_thread_for_another_process(
    tmp_path: Path, make_batch: MakeBatch
) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=WallClock())
    await store.commit(make_batch("warm up"))
    with Held(path):
        task = asyncio.create_task(store.commit(make_batch("later")))
        await asyncio.sleep(0.05)  # the loop turns although the lock is taken
        assert not task.done()
    await task
    foreign = open_connection(str(path), readonly=False, vfs=None)
    foreign.execute("begin immediate")
    task = asyncio.create_task(store.commit(make_batch("after the foreign program")))
    await asyncio.sleep(0.05)
    assert not task.done()
    foreign.execute("rollback")
    foreign.close()
    await task
    assert await count(store) == 3
    await store.aclose()


async def test_an_interrupt_in_the_middle_of_a_lone_commit_leaves_nothing_behind(
    tmp_path: Path, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock())
    await store.commit(make_batch("before"))
    flush = Ledger.flush

    def interrupted(ledger: Ledger) -> None:
        flush(ledger)
        raise Interrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "flush", interrupted)
        with pytest.raises(Interrupt):
            await store.commit(make_batch("interrupted"))
    assert store.accepted == 0
    assert (await store.commit(make_batch("after"))).placed[0].seq == 2
    assert await count(store) == 2
    assert (await store.check()).ok
    await store.aclose()


class Interrupt(BaseException):
    """Like KeyboardInterrupt, which a test runner takes for its own."""


async def test_who_is_written_is_told_although_those_behind_have_to_wait(
    tmp_path: Path, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=WallClock())
    await store.commit(make_batch("warm up"))
    foreign = open_connection(str(path), readonly=False, vfs=None)
    commit = Ledger.commit
    groups: list[int] = []

    def then_a_foreign_program_writes(ledger: Ledger) -> None:
        commit(ledger)
        if not groups:
            foreign.execute("begin immediate")
        groups.append(1)

    monkeypatch.setattr(Ledger, "commit", then_a_foreign_program_writes)
    tasks = [asyncio.create_task(store.commit(make_batch(f"text {n}"))) for n in range(40)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=5)
    assert len(groups) == 1
    assert any(task.done() for task in tasks)
    foreign.execute("rollback")
    foreign.close()
    await asyncio.gather(*tasks)
    await store.aclose()


async def test_a_write_that_was_accepted_is_done_although_the_store_closes_at_that_moment(
    tmp_path: Path, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=WallClock())
    await store.commit(make_batch("warm up"))
    closing: list[asyncio.Task[None]] = []
    take = WriteLock.take_at_once

    def while_it_closes(lock: WriteLock) -> bool:
        taken = take(lock)
        if not closing:
            assert not taken
            closing.append(asyncio.create_task(store.aclose()))
        return taken

    with Held(path):
        monkeypatch.setattr(WriteLock, "take_at_once", while_it_closes)
        task = asyncio.create_task(store.commit(make_batch("accepted")))
        await asyncio.sleep(0.05)
        assert closing
    await task
    await closing[0]
    again = await SqliteStore.open(path, clock=WallClock())
    assert await count(again) == 2
    await again.aclose()


async def test_what_waits_alone_while_its_process_forks_is_written_by_the_parent_only(
    tmp_path: Path, make_batch: MakeBatch
) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=WallClock())
    await store.commit(make_batch("warm up"))
    task = asyncio.create_task(store.commit(make_batch("once")))
    await asyncio.sleep(0)
    child = os.fork()
    if child == 0:
        try:
            await task
        except StoreForked:
            os._exit(0)
        finally:
            os._exit(1)
    assert (await asyncio.to_thread(os.waitpid, child, 0))[1] == 0
    assert (await task).placed[0].seq == 2
    assert await count(store) == 2
    await store.aclose()
