"""The writer: one thread that owns the write connection, and commits what waits in one transaction."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

import apsw

from holdfast.errors import AlreadyExists, HoldfastError, StoreBusy, StoreClosed
from holdfast.model.batch import Batch, Commit
from holdfast.model.forget import Receipt
from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.faults import DAMAGE, UNREADABLE, IdTaken, damaged, failed, read_error
from holdfast.stores.sqlite.files import put_away
from holdfast.stores.sqlite.scrub import SAMPLES, finish, rewrite_pages
from holdfast.stores.sqlite.tuning import PROMISED, Tuning
from holdfast.stores.sqlite.write_lock import WriteLock

if TYPE_CHECKING:  # the writing side is loaded with the first write
    from holdfast.stores.sqlite.ledger import Ledger
    from holdfast.stores.sqlite.prepared import Bodies

SCRUB_BYTES: Final = 8 * 1024 * 1024
GROUP: Final = 512
GROUP_OPERATIONS: Final = 4_096
QUEUE: Final = 4_096
SETTLE_STEP_MS: Final = 100
SETTLE_SECONDS: Final = 5.0
T = TypeVar("T")
Job: TypeAlias = "Callable[[Ledger], object]"


@dataclass(slots=True)
class Request:
    """What waits for the writer: a batch with its bodies, or a job; and whom to tell."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[object]
    batch: Batch | None = None
    bodies: Bodies | None = None
    job: Job | None = None
    bare: bool = False
    result: object = None
    error: Exception | None = None


class Gate:
    """Bounds what waits before the writer; callers of any event loop wait their turn."""

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def try_enter(self) -> bool:
        """Take a place in the queue if one is free."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return True
            return False

    async def enter(self) -> None:
        """Take a place in the queue, waiting while it is full."""
        while True:
            with self._lock:
                if self._free > 0:
                    self._free -= 1
                    return
                loop = asyncio.get_running_loop()
                turn = loop.create_future()
                self._waiting.append((loop, turn))
            await turn

    @property
    def inside(self) -> int:
        """How many places are taken."""
        return self._size - self._free

    def leave(self, count: int) -> None:
        """Give places back; called by the writer."""
        with self._lock:
            self._free += count
            waiting, self._waiting = self._waiting, []
        for loop, turn in waiting:
            with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(_tell, turn)


def _tell(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


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
        return cast("Commit", await self._hand_over(request))

    async def run(self, job: Callable[[Ledger], T]) -> T:
        """Run a job in a transaction of its own."""
        loop = asyncio.get_running_loop()
        return cast("T", await self._hand_over(Request(loop, loop.create_future(), job=job)))

    async def _hand_over(self, request: Request) -> object:
        if not self._gate.try_enter():
            await self._gate.enter()
        with self._guard:
            if self._closed:
                self._gate.leave(1)
                raise StoreClosed(f"{self._path} was closed", hint="open it again")
            self._queue.put(request)
        return await request.future

    @property
    def accepted(self) -> int:
        """How many requests were handed over and are not finished."""
        return self._gate.inside

    def close(self) -> None:
        """Refuse new work, finish what was accepted, and stop. May be called twice and at interpreter exit."""
        with self._guard:
            first, self._closed = not self._closed, True
            if first:
                self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # The thread's side

    def _run(self) -> None:
        while not self._stopped:
            requests = self._next_group()
            start = 0
            for index, request in enumerate(requests):
                if request.job is not None:
                    self._commit_group(requests[start:index])
                    self._run_job(request)
                    start = index + 1
            self._commit_group(requests[start:])
        if self._ledger is not None:
            put_away(self._ledger.connection)

    def _next_group(self) -> list[Request]:
        request = self._queue.get()
        requests: list[Request] = []
        operations = 0
        while request is not None:
            requests.append(request)
            operations += 1 if request.batch is None else len(request.batch.operations)
            if len(requests) >= GROUP or operations >= GROUP_OPERATIONS:
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
        try:
            self._transact(requests)
        except IdTaken as error:
            if self._one_by_one(requests):
                return
            self._take_back()
            requests[0].error = AlreadyExists(error.message, hint=error.hint)
        except StoreBusy as error:
            for request in requests:
                request.error = error
        except apsw.Error as error:
            self._give_up(requests, error)
        except Exception as error:  # noqa: BLE001 - the boundary of this thread: a fault reaches its caller
            if self._one_by_one(requests):
                return
            self._give_up(requests, error)
        self._scrub_forgets(requests)
        if self._wal_pages >= self._tuning.checkpoint_pages:
            self.checkpoint_due.set()
        self._acknowledge(requests)

    def _acknowledge(self, requests: list[Request]) -> None:
        """Give the places back and tell the callers, last of all: their loop then finds this thread at rest."""
        self._gate.leave(len(requests))
        _resolve(requests)

    def _one_by_one(self, requests: list[Request]) -> bool:
        """Take a transaction back that one of several requests has spoilt, and run each alone."""
        if len(requests) == 1:
            return False
        self._take_back()
        for request in requests:
            request.error = request.result = None
            self._commit_group([request])
        return True

    def _transact(self, requests: list[Request]) -> None:
        ledger = self._own_ledger()
        with self.turn, self._lock.held():
            ledger.begin()
            for request in requests:
                try:
                    request.result = ledger.apply(cast("Batch", request.batch), request.bodies or {})
                except IdTaken:
                    raise
                except HoldfastError as error:
                    request.error = read_error(self._path, error)
            ledger.commit()

    def _run_job(self, request: Request) -> None:
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
        except Exception as error:  # noqa: BLE001 - as in _commit_group
            self._give_up([request], error)
        self._acknowledge([request])

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
        ledger.samples.clear()
        self._wal_pages = 0
        return True

    async def settle(self) -> None:
        """Write the file anew and empty its log; ``StoreBusy`` when somebody goes on reading the old pages."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLE_SECONDS
        await self._bare(lambda ledger: rewrite_pages(ledger.connection))
        while not await self._bare(lambda _: self._finish()):
            if loop.time() > deadline:
                raise StoreBusy(
                    f"another program reads old pages of {self._path}",
                    hint="let it finish, then settle again",
                )
            await asyncio.sleep(SETTLE_STEP_MS / 1000)

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


def _resolve(requests: list[Request]) -> None:
    """Tell the callers, waking each event loop once."""
    if len(requests) == 1:
        with suppress(RuntimeError):  # as below
            requests[0].loop.call_soon_threadsafe(_tell_all, requests)
        return
    loops: dict[asyncio.AbstractEventLoop, list[Request]] = {}
    for request in requests:
        loops.setdefault(request.loop, []).append(request)
    for loop, served in loops.items():
        with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(_tell_all, served)


def _tell_all(requests: list[Request]) -> None:
    for request in requests:
        future = request.future
        if future.done():
            continue
        if request.error is not None:
            future.set_exception(request.error)
        else:
            future.set_result(request.result)
