"""The store in memory, as the protocol asks for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from holdfast.errors import HistoryUnavailable, StoreClosed, StoreForked, StoreUnsupported
from holdfast.model.backup import Backup
from holdfast.model.batch import Batch, Commit
from holdfast.model.chore import Chore, ChoreState
from holdfast.model.document import Document, DocumentRef, kept_versions
from holdfast.model.entry import Entry, Quantised
from holdfast.model.forget import OriginMatch
from holdfast.model.journal import Change
from holdfast.model.scope import Scope
from holdfast.model.usage import Usage
from holdfast.model.window import EntryPage, KeyInfo, Window
from holdfast.ports.clock import Clock
from holdfast.ports.store import CheckReport, Overdue, Store, StoreStats, WordStats
from holdfast.stores.memory import chores, upkeep
from holdfast.stores.memory.commits import commit
from holdfast.stores.memory.reading import Reader, within
from holdfast.stores.memory.tables import Tables


class MemoryStore:
    """A store that lives as long as the process. Several threads and event loops may use one."""

    __slots__ = ("_clock", "_closed", "_lock", "_process", "_tables")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tables = Tables()
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._closed = False

    @contextmanager
    def _open(self) -> Generator[Tables]:
        if os.getpid() != self._process:
            raise StoreForked("the store was opened before a fork", hint="open a store in the child")
        with self._lock:
            if self._closed:
                raise StoreClosed("the store is closed", hint="open it again")
            yield self._tables

    @contextmanager
    def _reader(self, as_of_us: int | None = None, *, hidden: bool = False) -> Generator[Reader]:
        with self._open() as tables:
            yield Reader(tables, self._clock.now_us(), as_of_us, hidden)

    async def commit(self, batch: Batch) -> Commit:
        with self._open() as tables:
            return commit(tables, batch, self._clock.now_us())

    async def load(self, scope: Scope, window: Window) -> EntryPage:
        with self._reader(window.as_of_us, hidden=window.hidden) as reader:
            return reader.page(scope, window)

    async def find(self, scope: Scope, ids: Sequence[str], *, as_of_us: int | None = None) -> list[Entry]:
        with self._reader(as_of_us) as reader:
            found = [reader.shown(reader.tables.entries.get(entry_id, ())) for entry_id in dict.fromkeys(ids)]
            return [record.read() for record in found if record is not None and within(scope, record)]

    async def versions(self, scope: Scope, entry_id: str) -> list[Entry]:
        with self._open() as tables:
            return [record.read() for record in tables.entries.get(entry_id, ()) if within(scope, record)]

    async def keys(
        self, scope: Scope, *, prefix: str = "", after: str | None = None, limit: int = 100
    ) -> list[KeyInfo]:
        with self._reader() as reader:
            return reader.key_infos(scope, prefix, after, limit)

    async def head(self, scope: Scope) -> int:
        place = scope.place
        with self._open() as tables:
            return tables.heads.get((scope.space, place.bank, place.key), 0)

    async def document(
        self, scope: Scope, ref: DocumentRef, *, as_of_us: int | None = None
    ) -> Document | None:
        with self._open() as tables:
            if as_of_us is not None and kept_versions(ref.kind) == 0:
                raise HistoryUnavailable(f"documents of kind {ref.kind!r} keep no versions")
            if not _names(scope, ref):
                return None
            if as_of_us is None:
                found = tables.visible_document(scope.space, ref, self._clock.now_us())
                return None if found is None else found.read()
            versions = tables.document_versions(scope.space, ref)
            if versions and versions[0].bare.version > 1 and as_of_us < versions[0].bare.recorded_us:
                raise HistoryUnavailable(f"the versions of {ref.name!r} of that time are not kept any more")
            return next((record.read() for record in reversed(versions) if record.bare.known(as_of_us)), None)

    async def documents(
        self, scope: Scope, kind: str, *, prefix: str = "", after: int = 0, limit: int = 1000
    ) -> list[Document]:
        place = scope.place
        with self._open() as tables:
            now_us = self._clock.now_us()
            names = tables.documents.get((scope.space, place.bank, place.key, kind), {})
            found = [
                versions[-1]
                for name, versions in names.items()
                if name.startswith(prefix)
                and versions[-1].bare.position > after
                and versions[-1].bare.visible(now_us)
            ]
            found.sort(key=lambda record: record.bare.position)
            return [record.read() for record in found[:limit]]

    async def document_versions(self, scope: Scope, document_id: str) -> list[Document]:
        with self._open() as tables:
            space, ref = tables.document_refs.get(document_id, (None, None))
            if ref is None or space != scope.space or not _names(scope, ref):
                return []
            return [record.read() for record in tables.document_versions(scope.space, ref)]

    async def words(self, scope: Scope, terms: Sequence[str], *, as_of_us: int | None = None) -> WordStats:
        with self._reader(as_of_us) as reader:
            return reader.word_stats(scope, terms)

    async def nearest(
        self,
        scope: Scope,
        vector: Quantised,
        limit: int,
        *,
        rows: Sequence[int] | None = None,
        as_of_us: int | None = None,
    ) -> list[tuple[int, float]]:
        with self._reader(as_of_us) as reader:
            return reader.nearest(scope, vector, limit, rows)

    async def eligible(self, scope: Scope, window: Window) -> Sequence[int]:
        with self._reader(window.as_of_us, hidden=window.hidden) as reader:
            return reader.eligible(scope, window)

    async def fetch(self, scope: Scope, rows: Sequence[int]) -> list[Entry | None]:
        with self._reader() as reader:
            found = [reader.behind(scope, handle) for handle in rows]
            return [None if record is None else record.read() for record in found]

    async def changes(
        self, scope: Scope, *, after: int = 0, limit: int = 100, origin: OriginMatch | None = None
    ) -> list[Change]:
        with self._open() as tables:
            return tables.feed(scope.space, after, limit, origin)

    async def change(self, scope: Scope, change_id: str) -> Change | None:
        with self._open() as tables:
            found = tables.changes.get(change_id)
            return found if found is not None and found.space == scope.space else None

    async def lease(
        self, *, worker: str, now_us: int, until_us: int, kinds: Sequence[str] | None = None, limit: int = 1
    ) -> list[Chore]:
        with self._open() as tables:
            return chores.lease(tables, chores.Lease(worker, now_us, until_us, kinds, limit))

    async def renew(self, chore_id: str, token: int, until_us: int) -> None:
        with self._open() as tables:
            chores.renew(tables, chore_id, token, until_us)

    async def release(self, worker: str) -> int:
        with self._open() as tables:
            return chores.release(tables, worker)

    async def chores(
        self,
        scope: Scope,
        *,
        states: Sequence[ChoreState] = (),
        kinds: Sequence[str] | None = None,
        limit: int = 100,
    ) -> list[Chore]:
        with self._open() as tables:
            return chores.chores(tables, scope, states, kinds, limit)

    async def next_due_us(self) -> int | None:
        with self._open() as tables:
            return chores.next_due_us(tables)

    async def check(self) -> CheckReport:
        with self._open() as tables:
            return upkeep.check(tables)

    async def residue(self, needles: Sequence[bytes]) -> Mapping[str, int]:
        """Occurrences of byte strings in what is held, by the name ``memory``; empty when there are none."""
        with self._open() as tables:
            found = upkeep.residue(tables, needles)
            return {"memory": found} if found else {}

    async def backup(
        self, target: str | None = None, *, verify: bool = False, scheduled: bool = False
    ) -> Backup:
        """Not possible: ``StoreUnsupported``."""
        with self._open():
            raise _no_copies()

    async def backups(self) -> list[Backup]:
        """Not possible: ``StoreUnsupported``."""
        with self._open():
            raise _no_copies()

    async def drop_backup(self, path: str) -> None:
        """Not possible: ``StoreUnsupported``."""
        with self._open():
            raise _no_copies()

    async def settle(self) -> None:
        """Nothing to do: no erased byte is left behind."""
        with self._open():
            return

    async def unsettled(self) -> Mapping[str, tuple[str, ...]]:
        """None ever: what was forgotten is gone at once."""
        with self._open():
            return {}

    async def erased(self, scope: Scope, ids: Sequence[str]) -> set[str]:
        with self._open() as tables:
            return {record_id for record_id in ids if tables.erased.get(record_id) == scope.space}

    async def limit(self, space: str, size: int | None) -> None:
        with self._open() as tables:
            if size is None:
                tables.limits.pop(space, None)
            else:
                tables.limits[space] = size

    async def usage(self, space: str) -> Usage:
        with self._open() as tables:
            return Usage(upkeep.bytes_held(tables, space), tables.limits.get(space))

    async def spaces(self) -> list[str]:
        with self._open() as tables:
            return upkeep.spaces(tables)

    async def overdue(
        self, *, expired_before_us: int, deleted_before_us: int, limit: int = 1000
    ) -> list[Overdue]:
        with self._open() as tables:
            return upkeep.overdue(tables, expired_before_us, deleted_before_us, limit)

    async def trim_journal(self, before_us: int) -> int:
        with self._open() as tables:
            return upkeep.trim_journal(tables, before_us)

    async def trim_chores(self, before_us: int) -> int:
        with self._open() as tables:
            return upkeep.trim_chores(tables, before_us)

    async def stats(self) -> StoreStats:
        with self._open() as tables:
            return upkeep.stats(tables)

    async def compact(self) -> None:
        """Nothing to do: what is not used is not held."""
        with self._open():
            return

    async def rebuild(self) -> None:
        """Nothing to do: what is derived is worked out when it is asked for."""
        with self._open():
            return

    async def aclose(self) -> None:
        if os.getpid() == self._process:
            with self._lock:
                self._closed = True


def _no_copies() -> StoreUnsupported:
    return StoreUnsupported(
        "a store in memory cannot be copied to a file", hint="use a store on a file from the start"
    )


def _names(scope: Scope, ref: DocumentRef) -> bool:
    """Whether a document of that name would lie inside a scope."""
    return scope.bank in (None, ref.bank) and scope.key in (None, ref.key)


_conforms: type[Store] = MemoryStore
