"""The writer: owns the write connection, and commits what waits in one transaction, on a thread of its own.

A caller who is alone commits on his own thread: waking another one and being woken by it costs half as much as the sync
that both wait for. As soon as there is company, or anything to wait for, the thread takes over.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar, cast

import apsw

from holdfast.errors import AlreadyExists, HoldfastError, StoreBusy, StoreClosed, StoreForked
from holdfast.model.batch import Batch, Commit
from holdfast.model.forget import Receipt
from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.faults import DAMAGE, UNREADABLE, IdTaken, damaged, failed, read_error
from holdfast.stores.sqlite.files import put_away
from holdfast.stores.sqlite.handing_over import Gate, Job, Request, Swiftness, brief, resolve
from holdfast.stores.sqlite.scrub import SAMPLES, UNSETTLED, finish, rewrite_pages
from holdfast.stores.sqlite.tuning import PROMISED, Tuning
from holdfast.stores.sqlite.write_lock import WriteLock

if TYPE_CHECKING:  # the writing side is loaded with the first write
    from holdfast.stores.sqlite.ledger import Ledger
    from holdfast.stores.sqlite.prepared import Bodies

SCRUB_BYTES: Final = 8 * 1024 * 1024
GROUP: Final = 512
GROUP_OPERATIONS: Final = 4_096
SMALL_GROUP: Final = 16
QUEUE: Final = 4_096
SETTLE_STEP_MS: Final = 100
SETTLE_SECONDS: Final = 5.0
T = TypeVar("T")


class _Occupied(StoreBusy):
    """A program that knows nothing of the lock file writes at the moment."""


class Writer:
    """Owns the write connection. What was handed over completes, whether or not its caller still waits."""

    def __init__(
        self,
        path: Path,
        connect: Callable[[], Connection],
        make_ledger: Callable[[Connection], Ledger],
        lock: WriteLock,
        tuning: Tuning = PROMISED,
    ) -> None:
        self._path = path
        self._process = os.getpid()
        self._connect = connect
        self._make_ledger = make_ledger
        self._lock = lock
        self._tuning = tuning
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._gate = Gate(QUEUE)
        self._guard = threading.Lock()
        self._closed = False
        self._stopped = False
        self._wal_pages = 0
        self._lone: Request | None = None  # waits for company, for one turn of its loop
        self._owed: list[Request] = []  # done, and their callers not told yet
        self._swiftness = Swiftness()
        self._mine = threading.Lock()  # held by whoever uses the ledger: the thread, or a lone caller
        self.turn = threading.Lock()
        self.checkpoint_due = threading.Event()
        self._ledger: Ledger | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-writer", daemon=True)
        self._thread.start()

    # The callers' side

    async def commit(self, batch: Batch, bodies: Bodies) -> Commit:
        """Hand a batch over and wait for its commit."""
        loop = asyncio.get_running_loop()
        request = Request(loop, loop.create_future(), batch, bodies)
        if self._swiftness.swift and brief(request) and self._accept_alone(request):
            return await self._commit_alone(request)
        return cast("Commit", await self._hand_over(request))

    async def _commit_alone(self, request: Request) -> Commit:
        """Commit an accepted request on this thread, if a turn of the loop later it is still the only one."""
        try:
            await asyncio.sleep(0)
        except BaseException:  # it was accepted: the caller only stops waiting
            request.future.cancel()
            self._finish_lone(request)
            raise
        if not self._finish_lone(request):
            return cast("Commit", await request.future)
        if request.error is not None:
            raise request.error
        return cast("Commit", request.result)

    def _finish_lone(self, request: Request) -> bool:
        """Commit a request that still waits alone on this thread, or queue it; whether it was committed."""
        if os.getpid() != self._process:  # a copy: the parent writes it
            raise StoreForked(
                f"{self._path} was opened before a fork", hint="open it again in the child process"
            )
        if self._lone is not request:  # the thread has it, and may be busy with it
            return False
        with self._mine:  # the thread does not end before this is done or queued
            done = self._take_lone(request)
            if done:
                done = self._commit_here(request)
                if not done:
                    self._gate.enter_anyway()
                    self._queue.put(request)
            return done

    def _take_lone(self, request: Request) -> bool:
        """Take a request back that waits alone; False when it was handed to the thread meanwhile."""
        with self._guard:
            if self._lone is not request:
                return False
            self._lone = None
            return True

    async def run(self, job: Callable[[Ledger], T]) -> T:
        """Run a job in a transaction of its own."""
        loop = asyncio.get_running_loop()
        return cast("T", await self._hand_over(Request(loop, loop.create_future(), job=job)))

    async def _hand_over(self, request: Request) -> object:
        if not self._gate.try_enter():
            await self._gate.enter()
        self._accept(request)
        return await request.future

    def _accept(self, request: Request) -> None:
        """Take a request that has a place: from now on it completes, whatever becomes of its caller."""
        with self._guard:
            if self._closed:
                self._gate.leave(1)
                raise StoreClosed(f"{self._path} was closed", hint="open it again")
            self._put_lone()
            self._queue.put(request)

    def _accept_alone(self, request: Request) -> bool:
        """Take a request if there is no other; whoever comes next hands both to the thread."""
        with self._guard:
            if self._closed or self._lone is not None or self._gate.inside:
                return False
            self._lone = request
            return True

    def _put_lone(self) -> None:
        """Hand the request that waits alone to the thread: it has company."""
        lone, self._lone = self._lone, None
        if lone is not None:
            self._gate.enter_anyway()
            self._queue.put(lone)

    @property
    def accepted(self) -> int:
        """How many requests were handed over and are not finished."""
        return self._gate.inside + (self._lone is not None)

    def close(self) -> None:
        """Refuse new work, finish what was accepted, and stop. May be called twice and at interpreter exit."""
        with self._guard:
            first, self._closed = not self._closed, True
            if first:
                self._put_lone()
                self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _commit_here(self, request: Request) -> bool:
        """Commit on this thread, unless something would have to be waited for; whether it was done."""
        if self._ledger is None or self.turn.locked():
            return False
        with self.turn:
            held = False
            try:
                held = self._lock.take_at_once()
                return held and self._guarded([request], self._transact_here)
            except _Occupied:
                return False
            except BaseException:  # the thread of a caller may be interrupted, with a transaction open
                held = True
                self._discard()
                raise
            finally:
                if held:
                    self._lock.give_back()

    def _transact_here(self, requests: list[Request]) -> None:
        if not self._begun_at_once(self._own_ledger()):
            raise _Occupied(f"a program that knows no lock file writes to {self._path}")
        self._fill(requests)

    def _begun_at_once(self, ledger: Ledger) -> bool:
        """Open a transaction unless a foreign program would have to be waited for; whether it is open."""
        ledger.connection.set_busy_timeout(0)
        try:
            ledger.begin()
        except apsw.BusyError:
            return False
        finally:
            ledger.connection.set_busy_timeout(self._tuning.busy_ms)
        return True

    # The thread's side

    def _run(self) -> None:
        while not self._stopped:
            self._serve(self._next_group())
        while left := self._left():
            self._serve(left)

    def _serve(self, requests: list[Request]) -> None:
        start = 0
        for index, request in enumerate(requests):
            if request.job is not None:
                self._commit_group(requests[start:index])
                self._run_job(request)
                start = index + 1
        self._commit_group(requests[start:])

    def _left(self) -> list[Request]:
        """What a lone caller could not write himself at the very end; when there is nothing, the connection goes."""
        self._tell_owed()
        with self._mine:
            left: list[Request] = []
            with suppress(queue.Empty):
                while True:
                    left += filter(None, (self._queue.get_nowait(),))
            ledger = self._ledger
            if not left and ledger is not None:
                self._ledger = None
                put_away(ledger.connection)
            return left

    def _next_group(self) -> list[Request]:
        request = self._queue.get()
        requests: list[Request] = []
        operations = 0
        # Half of those who wait: while one half is written, the other gets its next requests ready.
        most = min(GROUP, max(SMALL_GROUP, self._gate.inside // 2))
        while request is not None:
            requests.append(request)
            operations += 1 if request.batch is None else len(request.batch.operations)
            if len(requests) >= most or operations >= GROUP_OPERATIONS:
                return requests
            try:
                request = self._queue.get_nowait()
            except queue.Empty:
                return requests
        self._stopped = True
        return requests

    def _commit_group(self, requests: list[Request]) -> None:
        if not requests:
            return
        with self._mine:
            together = self._guarded(requests, self._transact)
        self._tell_owed()
        if together:
            self._owed = requests
            if self._queue.empty():
                self._tell_owed()
        else:
            for request in requests:
                self._commit_group([request])

    def _guarded(self, requests: list[Request], transact: Callable[[list[Request]], None]) -> bool:
        """Run a transaction and give each request its result or error; False when each has to be run alone."""
        started = perf_counter()
        try:
            transact(requests)
        except _Occupied:
            raise
        except IdTaken as error:
            if self._spoilt(requests):
                return False
            self._take_back()
            requests[0].error = AlreadyExists(error.message, hint=error.hint)
        except StoreBusy as error:
            for request in requests:
                request.error = error
        except apsw.ConstraintError as error:  # one of them, and no fault of the disk
            if self._spoilt(requests):
                return False
            self._give_up(requests, error)
        except apsw.Error as error:
            self._give_up(requests, error)
        except Exception as error:  # noqa: BLE001 - the boundary of this thread: a fault reaches its caller
            if self._spoilt(requests):
                return False
            self._give_up(requests, error)
        if len(requests) == 1:
            self._swiftness.note(perf_counter() - started)
        self._scrub_forgets(requests)
        if self._wal_pages >= self._tuning.checkpoint_pages:
            self.checkpoint_due.set()
        return True

    def _tell_owed(self) -> None:
        """Give places back and tell the callers, last of all: their loop then finds this thread at rest.

        When more requests wait, that is just before the next sync: the loop then gets the requests after those ready
        while this thread waits for the disk. Told sooner, it would only stand in the way of this one.
        """
        owed, self._owed = self._owed, []
        if owed:
            self._gate.leave(len(owed))
            resolve(owed)

    def _spoilt(self, requests: list[Request]) -> bool:
        """Take a transaction back that one of several requests has spoilt; False when there was only one."""
        if len(requests) == 1:
            return False
        self._take_back()
        for request in requests:
            request.error = request.result = None
        return True

    def _transact(self, requests: list[Request]) -> None:
        """A transaction under every lock. Who is owed an answer is told before anybody is waited for."""
        ledger = self._own_ledger()
        if self._owed and not all(map(brief, requests)):
            self._tell_owed()
        if not self.turn.acquire(blocking=False):
            self._tell_owed()
            self.turn.acquire()
        try:
            if not self._lock.take_at_once():
                self._tell_owed()
                self._lock.take()
            try:
                if not self._owed or not self._begun_at_once(ledger):
                    self._tell_owed()
                    ledger.begin()
                self._fill(requests)
            finally:
                self._lock.give_back()
        finally:
            self.turn.release()

    def _fill(self, requests: list[Request]) -> None:
        """Apply batches in the open transaction, and make it durable."""
        ledger = self._own_ledger()
        for request in requests:
            try:
                request.result = ledger.apply(cast("Batch", request.batch), request.bodies or {})
            except IdTaken:
                raise
            except HoldfastError as error:
                request.error = read_error(self._path, error)
        ledger.flush()
        self._tell_owed()
        ledger.commit()

    def _run_job(self, request: Request) -> None:
        self._tell_owed()
        with self._mine:
            self._guard_job(request)
        self._owed = [request]
        self._tell_owed()

    def _guard_job(self, request: Request) -> None:
        job = cast("Job", request.job)
        try:
            ledger = self._own_ledger()
            with self.turn, self._lock.held():
                if request.bare:
                    request.result = job(ledger)
                else:
                    ledger.begin()
                    request.result = job(ledger)
                    ledger.commit()
        except HoldfastError as error:
            self._take_back()
            request.error = read_error(self._path, error)
        except Exception as error:  # noqa: BLE001 - as in _guarded
            self._give_up([request], error)

    def _own_ledger(self) -> Ledger:
        if self._ledger is None:
            connection = self._connect()
            connection.set_wal_hook(self._note_wal)
            self._ledger = self._make_ledger(connection)
        return self._ledger

    def _note_wal(self, _connection: Connection, _database: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _take_back(self) -> None:
        if self._ledger is not None:
            self._ledger.rollback()

    def _give_up(self, requests: list[Request], error: Exception) -> None:
        """Report every request of a broken transaction as failed, and start again on a new connection.

        After a failed write or sync nobody can tell what reached the disk: it is never retried and called good.
        """
        self._discard()
        failure: HoldfastError
        if isinstance(error, (HoldfastError, *DAMAGE, *UNREADABLE)):
            failure = read_error(self._path, error) or damaged(self._path, error)
        elif isinstance(error, apsw.BusyError):
            failure = StoreBusy(
                f"{self._path} is locked by another program", hint="nothing was written; try again later"
            )
        else:
            failure = failed(
                f"{self._path} could not be written",
                error,
                hint="nothing of it was acknowledged; free space or check the disk",
            )
        if failure is not error:
            failure.__cause__ = error
        for request in requests:
            request.error = failure

    def _discard(self) -> None:
        """Let go of a connection that may be broken."""
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            with suppress(apsw.Error):
                ledger.rollback()
            put_away(ledger.connection)

    def _scrub_forgets(self, requests: list[Request]) -> None:
        """Before a forget is acknowledged, no byte of what it removed stays; in a large file that is left to settle."""
        forgets = [
            r for r in requests if r.error is None and isinstance(r.result, Commit) and r.result.receipts
        ]
        if not forgets:
            return
        try:
            if self._path.stat().st_size > SCRUB_BYTES:
                return
            with self.turn, self._lock.held():
                rewrite_pages(self._own_ledger().connection)
                settled = self._finish()
        except (apsw.Error, HoldfastError, OSError):
            # The forget itself is done; what remains of its bytes is left to settle.
            self._discard()
            return
        for request in forgets:
            commit = cast("Commit", request.result)
            request.result = replace(
                commit, receipts=tuple(_after(one, settled=settled) for one in commit.receipts)
            )

    def _finish(self) -> bool:
        """Empty the log and strike what was forgotten off the list; False when somebody still reads the old pages."""
        ledger = self._own_ledger()
        samples = list(chain.from_iterable(ledger.samples.values()))[:SAMPLES]
        if not finish(ledger.connection, self._path, samples, SETTLE_STEP_MS, self._tuning.busy_ms):
            return False
        waiting = {cast("bytes", name).hex() for (name,) in ledger.connection.execute(UNSETTLED)}
        ledger.samples = {name: kept for name, kept in ledger.samples.items() if name in waiting}
        self._wal_pages = 0
        return True

    async def settle(self, *, anyway: bool = False) -> None:
        """Write the file anew and empty its log; ``StoreBusy`` when somebody goes on reading the old pages.

        ``anyway`` writes it anew also when that was done since the last forget.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLE_SECONDS
        await self._bare(lambda ledger: rewrite_pages(ledger.connection, anyway=anyway))
        while not await self._bare(lambda _: self._finish()):
            if loop.time() > deadline:
                raise StoreBusy(
                    f"another program reads old pages of {self._path}",
                    hint="let it finish, then settle again",
                )
            await asyncio.sleep(SETTLE_STEP_MS / 1000)
            # Once more, if that looked for what was erased and found it; else this does nothing.
            await self._bare(lambda ledger: rewrite_pages(ledger.connection))

    async def _bare(self, job: Callable[[Ledger], T]) -> T:
        """Run a job under the lock, outside of a transaction."""
        loop = asyncio.get_running_loop()
        return cast("T", await self._hand_over(Request(loop, loop.create_future(), job=job, bare=True)))


def _after(receipt: Receipt, *, settled: bool) -> Receipt:
    """A receipt after its pages were rewritten: complete, or waiting for those who read the log."""
    if settled:
        return replace(
            receipt,
            complete=True,
            waiting_for=(),
            stores=MappingProxyType(dict.fromkeys(receipt.stores, "done")),
        )
    return replace(receipt, waiting_for=("wal",))
