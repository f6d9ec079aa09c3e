"""The store on one SQLite file."""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import StoreClosed, StoreForked, StoreReadOnly
from holdfast.model.backup import Backup
from holdfast.model.batch import Batch, Commit
from holdfast.model.chore import Chore, ChoreState
from holdfast.model.document import Document, DocumentRef
from holdfast.model.entry import Entry, Quantised
from holdfast.model.forget import OriginMatch
from holdfast.model.journal import Change
from holdfast.model.scope import Scope
from holdfast.model.usage import Usage
from holdfast.model.window import EntryPage, KeyInfo, Window
from holdfast.ports.clock import Clock
from holdfast.ports.store import CheckReport, Overdue, Store, StoreStats, WordStats
from holdfast.stores.sqlite import entry_reads, record_reads
from holdfast.stores.sqlite.checkpoint import Checkpointer
from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.files import (
    claim_embedder,
    connect,
    identity_of,
    make_folder,
    prepare,
    put_away,
    refuse_lost_log,
    refuse_network,
)
from holdfast.stores.sqlite.layout import DEFAULT, Layout
from holdfast.stores.sqlite.readers import Readers
from holdfast.stores.sqlite.reading import Reading
from holdfast.stores.sqlite.tuning import PROMISED, Tuning
from holdfast.stores.sqlite.write_lock import WriteLock
from holdfast.stores.sqlite.writer import Writer

if TYPE_CHECKING:
    from holdfast.stores.sqlite.ledger import Ledger
    from holdfast.stores.sqlite.prepared import Bodies

T = TypeVar("T")


class SqliteStore:
    """An engine on one file: a writer thread that commits in groups, readers beside it, several processes on the file.

    Made by ``open``. Usable from any task, thread and event loop of the process that opened it.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        readonly: bool,
        vfs: str | None,
        layout: Layout,
        tuning: Tuning = PROMISED,
    ) -> None:
        self._path = path
        self._clock = clock
        self._readonly = readonly
        self._vfs = vfs
        self._layout = layout
        self._process = os.getpid()
        self._tuning = tuning
        self._lock = WriteLock(path, tuning.busy_ms)
        self._readers = Readers(path, self._make_reading)
        self._writer: Writer | None = None
        self._checkpointer: Checkpointer | None = None
        self._closed = False
        self._prepare: Callable[[Batch], Bodies] | None = None

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        clock: Clock,
        readonly: bool = False,
        embedder: str | None = None,
        vfs: str | None = None,
        layout: Layout = DEFAULT,
        tuning: Tuning = PROMISED,
    ) -> SqliteStore:
        """Open a file, making it when it is missing. ``readonly`` opens an existing one without touching it.

        ``embedder`` is the name of the embedder whose vectors will be written and searched; the file remembers the
        first one and refuses another. ``layout`` is how rows are numbered, which has to stay the same for the life of a
        file. ``vfs`` names an apsw VFS, for tests that watch or fail the I/O, and ``tuning`` is for tests as well.
        """
        store = cls(Path.cwd() / path, clock, readonly=readonly, vfs=vfs, layout=layout, tuning=tuning)
        try:
            store._start(embedder)
        except BaseException:
            store._lock.close()
            raise
        return store

    def _start(self, embedder: str | None) -> None:
        refuse_network(self._path)
        refuse_lost_log(self._path)
        if not self._readonly:
            make_folder(self._path)
        was = identity_of(self._path)
        connection = self._connect()
        try:
            prepare(connection, self._path, self._lock, self._layout, readonly=self._readonly, was=was)
            if embedder is not None:
                claim_embedder(connection, self._path, self._lock, embedder, readonly=self._readonly)
        finally:
            put_away(connection)
        if not self._readonly:
            self._writer = Writer(self._path, self._connect, self._make_ledger, self._lock, self._tuning)
            self._checkpointer = Checkpointer(self._connect, self._writer, self._lock)
        atexit.register(self._close)

    def _connect(self) -> Connection:
        return connect(self._path, readonly=self._readonly, vfs=self._vfs, tuning=self._tuning)

    def _make_ledger(self, connection: Connection) -> Ledger:
        # The writing side is loaded with the first write: opening to read does without.
        from holdfast.stores.sqlite.ledger import Ledger
        from holdfast.stores.sqlite.operations import SqliteOperations

        return Ledger(connection, self._layout, self._clock.now_us, SqliteOperations())

    def _make_reading(self) -> Reading:
        return Reading(self._connect(), self._path, self._connect, self._layout, self._clock.now_us)

    def _check_usable(self) -> None:
        if os.getpid() != self._process:
            raise StoreForked(
                f"{self._path} was opened before a fork",
                hint="open it again in the child process, or fork before opening",
            )
        if self._closed:
            raise StoreClosed(f"{self._path} was closed", hint="open it again")

    def _writing(self) -> Writer:
        self._check_usable()
        if self._writer is None:
            raise StoreReadOnly(f"{self._path} was opened read-only", hint="open it without ?mode=ro")
        return self._writer

    async def _read(self, ask: Callable[[Reading], T]) -> T:
        self._check_usable()
        return await self._readers.read(ask)

    # Commits

    @property
    def accepted(self) -> int:
        """How many writes were handed over and are not finished."""
        return 0 if self._writer is None else self._writer.accepted

    async def commit(self, batch: Batch) -> Commit:
        """See ``Commits.commit``."""
        writer = self._writing()
        prepare = self._prepare or self._load_prepare()
        return await writer.commit(batch, prepare(batch))

    def _load_prepare(self) -> Callable[[Batch], Bodies]:
        # As in _make_ledger: the writing side is loaded with the first write.
        from holdfast.stores.sqlite.prepared import bodies_of

        self._prepare = bodies_of
        return bodies_of

    # Entries

    async def load(self, scope: Scope, window: Window) -> EntryPage:
        """See ``Entries.load``."""
        return await self._read(lambda reading: entry_reads.load(reading, scope, window))

    async def find(self, scope: Scope, ids: Sequence[str], *, as_of_us: int | None = None) -> list[Entry]:
        """See ``Entries.find``."""
        return await self._read(lambda reading: entry_reads.find(reading, scope, ids, as_of_us))

    async def versions(self, scope: Scope, entry_id: str) -> list[Entry]:
        """See ``Entries.versions``."""
        return await self._read(lambda reading: entry_reads.versions(reading, scope, entry_id))

    async def keys(
        self, scope: Scope, *, prefix: str = "", after: str | None = None, limit: int = 100
    ) -> list[KeyInfo]:
        """See ``Entries.keys``."""
        return await self._read(lambda reading: entry_reads.keys(reading, scope, prefix, after, limit))

    async def head(self, scope: Scope) -> int:
        """See ``Entries.head``."""
        return await self._read(lambda reading: entry_reads.head(reading, scope))

    # Documents

    async def document(
        self, scope: Scope, ref: DocumentRef, *, as_of_us: int | None = None
    ) -> Document | None:
        """See ``Documents.document``."""
        return await self._read(lambda reading: record_reads.document(reading, scope, ref, as_of_us))

    async def documents(
        self, scope: Scope, kind: str, *, prefix: str = "", after: int = 0, limit: int = 1000
    ) -> list[Document]:
        """See ``Documents.documents``."""
        return await self._read(
            lambda reading: record_reads.documents(reading, scope, kind, prefix, after, limit)
        )

    async def document_versions(self, scope: Scope, document_id: str) -> list[Document]:
        """See ``Documents.document_versions``."""
        return await self._read(lambda reading: record_reads.document_versions(reading, scope, document_id))

    # Indexes

    async def words(self, scope: Scope, terms: Sequence[str], *, as_of_us: int | None = None) -> WordStats:
        """See ``Words.words``."""
        from holdfast.stores.sqlite import index_reads  # with the first search

        return await self._read(lambda reading: index_reads.words(reading, scope, terms, as_of_us))

    async def nearest(
        self,
        scope: Scope,
        vector: Quantised,
        limit: int,
        *,
        rows: Sequence[int] | None = None,
        as_of_us: int | None = None,
    ) -> list[tuple[int, float]]:
        """See ``Vectors.nearest``."""
        from holdfast.stores.sqlite import index_reads  # with the first search

        return await self._read(
            lambda reading: index_reads.nearest(reading, scope, vector, limit, rows, as_of_us)
        )

    async def eligible(self, scope: Scope, window: Window) -> Sequence[int]:
        """See ``Rows.eligible``."""
        from holdfast.stores.sqlite import index_reads  # with the first search

        return await self._read(lambda reading: index_reads.eligible(reading, scope, window))

    async def fetch(self, scope: Scope, rows: Sequence[int]) -> list[Entry | None]:
        """See ``Rows.fetch``."""
        return await self._read(lambda reading: entry_reads.fetch(reading, scope, rows))

    # Journal

    async def changes(
        self, scope: Scope, *, after: int = 0, limit: int = 100, origin: OriginMatch | None = None
    ) -> list[Change]:
        """See ``Journal.changes``."""
        return await self._read(lambda reading: record_reads.changes(reading, scope, after, limit, origin))

    async def change(self, scope: Scope, change_id: str) -> Change | None:
        """See ``Journal.change``."""
        return await self._read(lambda reading: record_reads.change(reading, scope, change_id))

    # Chores

    async def lease(
        self, *, worker: str, now_us: int, until_us: int, kinds: Sequence[str] | None = None, limit: int = 1
    ) -> list[Chore]:
        """See ``Chores.lease``."""
        from holdfast.stores.sqlite import chore_rows  # with the first write

        return await self._writing().run(
            lambda ledger: chore_rows.lease(ledger.connection, worker, now_us, until_us, kinds, limit)
        )

    async def renew(self, chore_id: str, token: int, until_us: int) -> None:
        """See ``Chores.renew``."""
        from holdfast.stores.sqlite import chore_rows  # with the first write

        await self._writing().run(
            lambda ledger: chore_rows.renew(ledger.connection, chore_id, token, until_us)
        )

    async def release(self, worker: str) -> int:
        """See ``Chores.release``."""
        from holdfast.stores.sqlite import chore_rows  # with the first write

        return await self._writing().run(lambda ledger: chore_rows.release(ledger.connection, worker))

    async def chores(
        self,
        scope: Scope,
        *,
        states: Sequence[ChoreState] = (),
        kinds: Sequence[str] | None = None,
        limit: int = 100,
    ) -> list[Chore]:
        """See ``Chores.chores``."""
        return await self._read(lambda reading: record_reads.chores(reading, scope, states, kinds, limit))

    async def next_due_us(self) -> int | None:
        """See ``Chores.next_due_us``."""
        return await self._read(record_reads.next_due_us)

    # Upkeep

    async def check(self) -> CheckReport:
        """See ``Upkeep.check``."""
        from holdfast.stores.sqlite import checking  # rarely used

        return await self._read(lambda reading: checking.check(reading.path, reading.connect, reading.layout))

    async def residue(self, needles: Sequence[bytes]) -> Mapping[str, int]:
        """See ``Upkeep.residue``."""
        from holdfast.stores.sqlite import raw  # rarely used

        return await self._read(lambda reading: raw.residue(reading.path, needles))

    async def backup(
        self, target: str | None = None, *, verify: bool = False, scheduled: bool = False
    ) -> Backup:
        """See ``Upkeep.backup``."""
        from holdfast.stores.sqlite import backing_up  # rarely used

        self._check_usable()
        source = backing_up.Source(
            self._path, self._connect, self._writer, self._clock.now_us, self._check_copy
        )
        return await backing_up.backup(source, target, verify=verify, scheduled=scheduled)

    def _check_copy(self, path: Path) -> CheckReport:
        from holdfast.stores.sqlite import checking  # rarely used

        def opened() -> Connection:
            return connect(path, readonly=False, vfs=self._vfs, tuning=self._tuning)

        return checking.check(path, opened, self._layout)

    async def backups(self) -> list[Backup]:
        """See ``Upkeep.backups``."""
        from holdfast.stores.sqlite import backing_up  # rarely used

        return await self._read(lambda reading: backing_up.backups(reading.connection, self._path))

    async def drop_backup(self, path: str) -> None:
        """See ``Upkeep.drop_backup``."""
        from holdfast.stores.sqlite import backing_up  # rarely used

        await backing_up.drop_backup(self._writing(), await self.backups(), path)

    async def limit(self, space: str, size: int | None) -> None:
        """See ``Upkeep.limit``."""
        await self._writing().run(lambda ledger: ledger.limit(space, size))

    async def usage(self, space: str) -> Usage:
        """See ``Upkeep.usage``."""
        from holdfast.stores.sqlite import quotas  # with the first write

        def ask(reading: Reading) -> Usage:
            with reading.snapshot() as connection:
                return quotas.usage(connection, reading.layout, space)

        return await self._read(ask)

    async def settle(self) -> None:
        """See ``Upkeep.settle``."""
        await self._writing().settle()

    async def unsettled(self) -> Mapping[str, tuple[str, ...]]:
        """See ``Upkeep.unsettled``."""
        return await self._read(record_reads.unsettled)

    async def erased(self, scope: Scope, ids: Sequence[str]) -> set[str]:
        """See ``Upkeep.erased``."""
        return await self._read(lambda reading: record_reads.erased(reading, scope, ids))

    async def spaces(self) -> list[str]:
        """See ``Upkeep.spaces``."""
        from holdfast.stores.sqlite import running  # rarely used

        return await self._read(running.spaces)

    async def overdue(
        self, *, expired_before_us: int, deleted_before_us: int, limit: int = 1000
    ) -> list[Overdue]:
        """See ``Upkeep.overdue``."""
        from holdfast.stores.sqlite import running  # rarely used

        return await self._read(
            lambda reading: running.overdue(reading, expired_before_us, deleted_before_us, limit)
        )

    async def trim_journal(self, before_us: int) -> int:
        """See ``Upkeep.trim_journal``."""
        from holdfast.stores.sqlite import running  # rarely used

        return await self._writing().run(lambda ledger: running.trim_journal(ledger.connection, before_us))

    async def trim_chores(self, before_us: int) -> int:
        """See ``Upkeep.trim_chores``."""
        from holdfast.stores.sqlite import running  # rarely used

        return await self._writing().run(lambda ledger: running.trim_chores(ledger.connection, before_us))

    async def stats(self) -> StoreStats:
        """See ``Upkeep.stats``."""
        from holdfast.stores.sqlite import running  # rarely used

        return await self._read(running.stats)

    async def compact(self) -> None:
        """See ``Upkeep.compact``."""
        await self._writing().settle(anyway=True)

    async def rebuild(self) -> None:
        """See ``Upkeep.rebuild``."""
        from holdfast.stores.sqlite import reindex  # rarely used

        await self._writing().run(reindex.rebuild)

    async def aclose(self) -> None:
        """See ``Upkeep.aclose``."""
        if os.getpid() != self._process:
            return
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        """Finish what was accepted, then close; also run when the interpreter ends."""
        if os.getpid() != self._process:
            return
        self._closed = True
        atexit.unregister(self._close)
        if self._writer is not None:
            self._writer.close()
        if self._checkpointer is not None:
            self._checkpointer.close()
        self._readers.close()
        self._lock.close()


_: type[Store] = SqliteStore
