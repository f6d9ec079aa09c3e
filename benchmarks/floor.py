"""The floor: what one durable add costs when nothing but SQLite runs.

A bare apsw loop in one thread sends the statements that the product's writer sends for one ``bank.add``, in the same
order and with the same values, which lie ready: one transaction with a full sync each. The values come from a traced
run of the product on a copy of the same file. When the product sends something else than this loop knows, the trace is
refused; and the rows of the two files are compared.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import cast

import apsw

from holdfast.stores.sqlite.db import Connection, Record, open_connection

Sent = tuple[str, Record]
"""A statement with what was bound to it."""

BEGIN = "begin immediate"
VERSION = "pragma data_version"
JOURNAL = "insert into journal(id, space, at, origin, steps, undoes, hash) values(?,?,?,?,?,?,?)"
ENTRY = "insert into entries values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
FRESH = "insert into fresh(row, terms) values(?,?)"
WAITING = "select row, terms from fresh order by row"
CLEAR = "delete from fresh"
WORDS = "insert into words(rowid, terms) values(?,?)"
TAIL = "insert into tail values(?,?,?,?,?)"
KEPT = "select row, length, vectors, scales, hash from tail where row between ? and ? order by row"
DROP = "delete from tail where row=?"
PAGE = "insert into pages values(?,?,?,?,?,?,?,?)"
VECTORS = "insert into vectors values(?,?,?,?)"
COMMIT = "commit"

_HEAD, _WAIT, _BUNCH = (BEGIN, VERSION, JOURNAL, ENTRY), (FRESH,), (WAITING, CLEAR, WORDS)
_LAY, _SEAL = (TAIL,), (KEPT, DROP, PAGE, VECTORS)
SHAPES = frozenset(_HEAD + words + slots + (COMMIT,) for words in (_WAIT, _BUNCH) for slots in (_LAY, _SEAL))
"""The four forms of an add: its words wait or go in with their bunch, its vector waits or completes a page."""

CHECKPOINT_PAGES = 2_000
"""Where the product moves its log into the file; the floor does the same, in its one thread."""


@dataclass(frozen=True, slots=True)
class Add:
    """The values of one add. A bunch of words and a sealed page come with every 512th and every 128th."""

    journal: Record
    entry: Record
    fresh: Record | None
    bunch: list[Record]
    tail: Record | None
    kept: Record | None
    dropped: list[Record]
    page: Record | None
    vectors: Record | None


@dataclass(frozen=True, slots=True)
class Trace:
    """What the product's writer sent: its settings, then one list of statements a transaction."""

    settings: list[Sent]
    transactions: list[list[Sent]]


@contextmanager
def traced_writer() -> Generator[list[Sent]]:
    """Gather what the writer's connections of this process send, as long as this is in force."""
    sent: list[Sent] = []

    def watch(connection: apsw.Connection) -> None:
        if threading.current_thread().name == "holdfast-writer":
            gather(connection, sent)

    apsw.connection_hooks.append(watch)
    try:
        yield sent
    finally:
        apsw.connection_hooks.remove(watch)


def gather(connection: apsw.Connection, sent: list[Sent]) -> None:
    """Gather what a connection sends."""

    def note(_cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
        assert bindings is None or isinstance(bindings, tuple)
        sent.append((statement, cast("Record", bindings or ())))
        return True

    connection.exec_trace = note


def trace_of(sent: Sequence[Sent]) -> Trace:
    """The transactions among what was sent."""
    starts = [index for index, (statement, _) in enumerate(sent) if statement == BEGIN]
    ends = [*starts[1:], len(sent)]
    transactions = [list(sent[start:end]) for start, end in zip(starts, ends, strict=True)]
    return Trace(list(sent[: starts[0]]), transactions)


def add_of(transaction: Sequence[Sent]) -> Add:
    """The values of a transaction that added one entry."""
    groups = [(statement, [values for _, values in sent]) for statement, sent in groupby(transaction, _text)]
    shape = tuple(statement for statement, _ in groups)
    assert shape in SHAPES, (
        f"the product sends other statements than the floor: bring floor.py up to date: {shape}"
    )
    rows = dict(groups)
    assert all(len(rows[statement]) == 1 for statement in shape if statement not in (WORDS, DROP)), shape
    (journal,), (entry,) = rows[JOURNAL], rows[ENTRY]

    def one(statement: str) -> Record | None:
        return rows[statement][0] if statement in rows else None

    return Add(
        journal, entry, one(FRESH), rows.get(WORDS, []), one(TAIL), one(KEPT), rows.get(DROP, []), one(PAGE),
        one(VECTORS),
    )  # fmt: skip


def _text(sent: Sent) -> str:
    return sent[0]


class Floor:
    """The connection of the floor, with the settings of the product's."""

    def __init__(self, file: Path, settings: Sequence[Sent]) -> None:
        self.connection: Connection = open_connection(str(file), readonly=False, vfs=None)
        self._pages = 0
        self.moving = 0.0
        self.commits = 0
        self.pages_written = 0
        for statement, bindings in settings:
            self.connection.execute(statement, bindings)
        self.connection.set_wal_hook(self._note)

    def _note(self, _connection: Connection, _database: str, pages: int) -> int:
        self.commits += 1
        self.pages_written += pages - self._pages if pages > self._pages else pages
        self._pages = pages
        return apsw.SQLITE_OK

    def repeat(self, transactions: Sequence[Sequence[Sent]]) -> None:
        """Send what the product sent, without looking at it: what comes before the measured adds."""
        for transaction in transactions:
            for statement, bindings in transaction:
                self.connection.execute(statement, bindings).fetchall()

    def run(self, adds: Sequence[Add]) -> float:
        """The loop; the seconds it took."""
        started = perf_counter()
        for add in adds:
            self.add(add)
        return perf_counter() - started

    def add(self, add: Add) -> None:
        """One durable add, and moving the log when it has grown."""
        _send(self.connection, add)
        if self._pages >= CHECKPOINT_PAGES:
            self._move_log()

    async def run_behind_a_thread(self, adds: Sequence[Add]) -> float:
        """The same loop awaited from an event loop, one add after the other: what handing over to a thread costs."""
        loop = asyncio.get_running_loop()
        waiting: SimpleQueue[tuple[Add, asyncio.Future[None]] | None] = SimpleQueue()

        def serve() -> None:
            while (found := waiting.get()) is not None:
                self.add(found[0])
                loop.call_soon_threadsafe(found[1].set_result, None)

        thread = threading.Thread(target=serve)
        thread.start()
        started = perf_counter()
        for add in adds:
            done: asyncio.Future[None] = loop.create_future()
            waiting.put((add, done))
            await done
        seconds = perf_counter() - started
        waiting.put(None)
        thread.join()
        return seconds

    def _move_log(self) -> None:
        started = perf_counter()
        self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self.moving += perf_counter() - started


def _send(connection: Connection, add: Add) -> None:
    """One add, as the product sends it."""
    execute, many = connection.execute, connection.executemany
    execute(BEGIN)
    _ = execute(VERSION).get
    execute(JOURNAL, add.journal)
    many(ENTRY, (add.entry,))
    if add.fresh is not None:
        many(FRESH, (add.fresh,))
    else:
        execute(WAITING).fetchall()
        execute(CLEAR)
        many(WORDS, add.bunch)
    if add.tail is not None:
        many(TAIL, (add.tail,))
    elif add.kept is not None and add.page is not None and add.vectors is not None:
        execute(KEPT, add.kept).fetchall()
        many(DROP, add.dropped)
        execute(PAGE, add.page)
        execute(VECTORS, add.vectors)
    execute(COMMIT)


def rows_of(file: Path) -> dict[str, list[Record]]:
    """All rows of all tables."""
    connection = open_connection(str(file), readonly=False, vfs=None)
    names = connection.execute(
        "select name from sqlite_schema where type='table' and sql not like '%virtual%'"
    )
    found: dict[str, list[Record]] = {}
    for (name,) in cast("list[tuple[str]]", names.fetchall()):
        rows = connection.execute(f'select * from "{name}" order by 1')  # noqa: S608 - a name of the schema
        found[name] = rows.fetchall()
    connection.close()
    return found


def check(base: Path, product: Path, trace: Trace, adds: Sequence[Add], before: int) -> None:
    """The floor leaves the file that the product left, and has sent the very statements."""
    floor = Floor(base, trace.settings)
    floor.repeat(trace.transactions[:before])
    sent: list[Sent] = []
    gather(cast("apsw.Connection", floor.connection), sent)
    floor.run(adds)
    floor.connection.close()
    asked = [one for transaction in trace.transactions[before:] for one in transaction]
    assert sent == asked, "the floor and the product send different statements"
    left, wanted = rows_of(base), rows_of(product)
    counts = {name: (len(left[name]), len(wanted[name])) for name in wanted}
    assert left == wanted, f"the floor and the product leave different rows: {counts}"
