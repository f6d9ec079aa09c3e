"""A store that fails or dawdles when it is told to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from holdfast.errors import StoreFailed
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
from holdfast.ports.store import CheckReport, Overdue, Store, StoreStats, WordStats

T = TypeVar("T")
Method: TypeAlias = Literal[
    "commit", "load", "find", "versions", "keys", "head", "document", "documents", "document_versions", "words",
    "nearest", "eligible", "fetch", "changes", "change", "lease", "renew", "release", "chores", "next_due_us", "check",
    "residue", "backup", "settle", "unsettled", "erased", "spaces", "overdue", "trim_journal", "trim_chores", "stats",
    "compact", "rebuild", "backups", "drop_backup", "limit", "usage", "aclose",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Fault:
    method: Method
    call: int
    after: bool


class FaultyStore:
    """Any store, with faults on order: a call that fails before or after it took effect, calls that are late."""

    def __init__(self, inner: Store) -> None:
        self.calls: Counter[Method] = Counter()
        self._inner = inner
        self._faults: set[_Fault] = set()
        self._delays: dict[Method, float] = {}

    def fail(self, method: Method, *, nth: int = 1, after: bool = False) -> None:
        """Let the nth call of a method from now on raise ``StoreFailed``; ``after`` it took effect, or instead."""
        self._faults.add(_Fault(method, self.calls[method] + nth, after))

    def delay(self, method: Method, seconds: float) -> None:
        """Let every call of a method wait first; 0 for no wait any more."""
        self._delays[method] = seconds

    def heal(self) -> None:
        """Take back every order that was not carried out yet."""
        self._faults.clear()
        self._delays.clear()

    async def _through(self, method: Method, work: Coroutine[object, object, T]) -> T:
        self.calls[method] += 1
        call = self.calls[method]
        try:
            seconds = self._delays.get(method, 0)
            if seconds:
                await asyncio.sleep(seconds)
            self._raise_if(_Fault(method, call, after=False))
            found = await work
            self._raise_if(_Fault(method, call, after=True))
            return found
        finally:
            work.close()

    def _raise_if(self, fault: _Fault) -> None:
        if fault in self._faults:
            self._faults.remove(fault)
            when = "after" if fault.after else "before"
            raise StoreFailed(f"call {fault.call} of {fault.method} fails on order, {when} it took effect")

    async def commit(self, batch: Batch) -> Commit:
        return await self._through("commit", self._inner.commit(batch))

    async def load(self, scope: Scope, window: Window) -> EntryPage:
        return await self._through("load", self._inner.load(scope, window))

    async def find(self, scope: Scope, ids: Sequence[str], *, as_of_us: int | None = None) -> list[Entry]:
        return await self._through("find", self._inner.find(scope, ids, as_of_us=as_of_us))

    async def versions(self, scope: Scope, entry_id: str) -> list[Entry]:
        return await self._through("versions", self._inner.versions(scope, entry_id))

    async def keys(
        self, scope: Scope, *, prefix: str = "", after: str | None = None, limit: int = 100
    ) -> list[KeyInfo]:
        return await self._through("keys", self._inner.keys(scope, prefix=prefix, after=after, limit=limit))

    async def head(self, scope: Scope) -> int:
        return await self._through("head", self._inner.head(scope))

    async def document(
        self, scope: Scope, ref: DocumentRef, *, as_of_us: int | None = None
    ) -> Document | None:
        return await self._through("document", self._inner.document(scope, ref, as_of_us=as_of_us))

    async def documents(
        self, scope: Scope, kind: str, *, prefix: str = "", after: int = 0, limit: int = 1000
    ) -> list[Document]:
        work = self._inner.documents(scope, kind, prefix=prefix, after=after, limit=limit)
        return await self._through("documents", work)

    async def document_versions(self, scope: Scope, document_id: str) -> list[Document]:
        return await self._through("document_versions", self._inner.document_versions(scope, document_id))

    async def words(self, scope: Scope, terms: Sequence[str], *, as_of_us: int | None = None) -> WordStats:
        return await self._through("words", self._inner.words(scope, terms, as_of_us=as_of_us))

    async def nearest(
        self,
        scope: Scope,
        vector: Quantised,
        limit: int,
        *,
        rows: Sequence[int] | None = None,
        as_of_us: int | None = None,
    ) -> list[tuple[int, float]]:
        work = self._inner.nearest(scope, vector, limit, rows=rows, as_of_us=as_of_us)
        return await self._through("nearest", work)

    async def eligible(self, scope: Scope, window: Window) -> Sequence[int]:
        return await self._through("eligible", self._inner.eligible(scope, window))

    async def fetch(self, scope: Scope, rows: Sequence[int]) -> list[Entry | None]:
        return await self._through("fetch", self._inner.fetch(scope, rows))

    async def changes(
        self, scope: Scope, *, after: int = 0, limit: int = 100, origin: OriginMatch | None = None
    ) -> list[Change]:
        work = self._inner.changes(scope, after=after, limit=limit, origin=origin)
        return await self._through("changes", work)

    async def change(self, scope: Scope, change_id: str) -> Change | None:
        return await self._through("change", self._inner.change(scope, change_id))

    async def lease(
        self, *, worker: str, now_us: int, until_us: int, kinds: Sequence[str] | None = None, limit: int = 1
    ) -> list[Chore]:
        work = self._inner.lease(worker=worker, now_us=now_us, until_us=until_us, kinds=kinds, limit=limit)
        return await self._through("lease", work)

    async def renew(self, chore_id: str, token: int, until_us: int) -> None:
        await self._through("renew", self._inner.renew(chore_id, token, until_us))

    async def release(self, worker: str) -> int:
        return await self._through("release", self._inner.release(worker))

    async def chores(
        self,
        scope: Scope,
        *,
        states: Sequence[ChoreState] = (),
        kinds: Sequence[str] | None = None,
        limit: int = 100,
    ) -> list[Chore]:
        work = self._inner.chores(scope, states=states, kinds=kinds, limit=limit)
        return await self._through("chores", work)

    async def next_due_us(self) -> int | None:
        return await self._through("next_due_us", self._inner.next_due_us())

    async def check(self) -> CheckReport:
        return await self._through("check", self._inner.check())

    async def residue(self, needles: Sequence[bytes]) -> Mapping[str, int]:
        return await self._through("residue", self._inner.residue(needles))

    async def backup(
        self, target: str | None = None, *, verify: bool = False, scheduled: bool = False
    ) -> Backup:
        work = self._inner.backup(target, verify=verify, scheduled=scheduled)
        return await self._through("backup", work)

    async def backups(self) -> list[Backup]:
        return await self._through("backups", self._inner.backups())

    async def drop_backup(self, path: str) -> None:
        await self._through("drop_backup", self._inner.drop_backup(path))

    async def limit(self, space: str, size: int | None) -> None:
        await self._through("limit", self._inner.limit(space, size))

    async def usage(self, space: str) -> Usage:
        return await self._through("usage", self._inner.usage(space))

    async def settle(self) -> None:
        await self._through("settle", self._inner.settle())

    async def unsettled(self) -> Mapping[str, tuple[str, ...]]:
        return await self._through("unsettled", self._inner.unsettled())

    async def erased(self, scope: Scope, ids: Sequence[str]) -> set[str]:
        return await self._through("erased", self._inner.erased(scope, ids))

    async def spaces(self) -> list[str]:
        return await self._through("spaces", self._inner.spaces())

    async def overdue(
        self, *, expired_before_us: int, deleted_before_us: int, limit: int = 1000
    ) -> list[Overdue]:
        work = self._inner.overdue(
            expired_before_us=expired_before_us, deleted_before_us=deleted_before_us, limit=limit
        )
        return await self._through("overdue", work)

    async def trim_journal(self, before_us: int) -> int:
        return await self._through("trim_journal", self._inner.trim_journal(before_us))

    async def trim_chores(self, before_us: int) -> int:
        return await self._through("trim_chores", self._inner.trim_chores(before_us))

    async def stats(self) -> StoreStats:
        return await self._through("stats", self._inner.stats())

    async def compact(self) -> None:
        await self._through("compact", self._inner.compact())

    async def rebuild(self) -> None:
        await self._through("rebuild", self._inner.rebuild())

    async def aclose(self) -> None:
        await self._through("aclose", self._inner.aclose())


_conforms: type[Store] = FaultyStore
