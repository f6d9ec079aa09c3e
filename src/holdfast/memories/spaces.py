"""A space: its banks and values, its journal, and forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from holdfast.errors import InvalidInput, ScopeError
from holdfast.memories.banks import StoredBanks
from holdfast.memories.checking import check_feed_cursor, check_limit, check_match, checked_items
from holdfast.memories.chores import StoredChores
from holdfast.memories.core import Core, following
from holdfast.memories.duties import Duties
from holdfast.memories.receipts import completed, read_receipt, settle_later
from holdfast.memories.settings import BANKS_KEY
from holdfast.memories.values import VALUES_KEY, StoredValues
from holdfast.model.batch import Batch, Forget
from holdfast.model.forget import OriginMatch, Receipt, Selector
from holdfast.model.ids import bucket_of, is_id
from holdfast.model.journal import Change
from holdfast.model.limits import PAGE_LIMIT
from holdfast.model.scope import Scope, checked_key, checked_name
from holdfast.model.usage import Usage

SYSTEM_KEYS: Final = frozenset((BANKS_KEY, VALUES_KEY))
MOST_BYTES: Final = 1 << 62


class StoredSpace:
    """One space of a store."""

    __slots__ = ("_banks", "_chores", "_core", "_name", "_values")

    def __init__(self, core: Core, name: str, duties: Duties) -> None:
        self._core = core
        self._name = checked_name(name, what="the space", code="space_invalid")
        self._banks = StoredBanks(core, name)
        self._values = StoredValues(core, name)
        self._chores = StoredChores(core, name, duties)

    @property
    def name(self) -> str:
        return self._name

    @property
    def banks(self) -> StoredBanks:
        return self._banks

    @property
    def values(self) -> StoredValues:
        return self._values

    @property
    def chores(self) -> StoredChores:
        return self._chores

    async def history(self, record_id: str) -> list[Change]:
        scope, store = Scope(self._name), self._core.store
        if not is_id(record_id):
            return []
        ids: set[str] = set()
        for entry in await store.versions(scope, record_id):
            ids.add(entry.change)
            if entry.retired is not None:
                ids.add(entry.retired.change)
        for document in await store.document_versions(scope, record_id):
            ids.add(document.change)
            if document.ended_change is not None:
                ids.add(document.ended_change)
        found = [await store.change(scope, change_id) for change_id in ids]
        return sorted((change for change in found if change is not None), key=lambda change: change.cursor)

    async def changes(
        self, *, after: int = 0, limit: int = 100, origin: OriginMatch | None = None
    ) -> list[Change]:
        check_feed_cursor(after)
        check_limit(limit, PAGE_LIMIT)
        check_match(origin)
        return await self._core.store.changes(Scope(self._name), after=after, limit=limit, origin=origin)

    async def undo(
        self, *change_ids: str, origin: OriginMatch | None = None, cascade: bool = False
    ) -> Change:
        if not change_ids and origin is None:
            raise InvalidInput(
                "nothing to undo was named", code="undo_empty", hint="give change ids or an origin"
            )
        check_match(origin)
        for one in change_ids:
            _check_change_id(one)
        # Loaded with the first undo.
        from holdfast.memories.undoing import Undoer

        undoer = Undoer(self._core, self._name)
        return await following(lambda: undoer.undo(change_ids, origin, cascade=cascade))

    async def forget(
        self,
        *,
        subject: str | None = None,
        bank: str | None = None,
        key: str | None = None,
        ids: Sequence[str] = (),
        origin: OriginMatch | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Receipt:
        if key is not None:
            checked_key(key)
        if subject is not None:
            checked_name(subject, what="the subject", code="subject_invalid")
        check_match(origin)
        named = checked_items(ids, what="ids", hint="ids=[entry.id]")
        if bank is None and not SYSTEM_KEYS.isdisjoint((key, subject)):
            # Settings and values stand under keys of these names.
            raise ScopeError("this key needs a bank", code="bank_required", hint="give bank= as well")
        bank_id = None if bank is None else await self._banks.id_of(bank)
        selector = Selector(
            bank=bank_id, key=key, subject=subject, ids=cast("tuple[str, ...]", named), origin=origin
        )
        change = self._core.make_id(bucket_of(self._name, bank_id or "", key or subject or ""))
        now_us = self._core.clock.now_us()
        operations = (Forget(selector, by, reason), settle_later(self._core, self._name))
        commit = await self._core.commit(Batch(self._name, change, now_us, operations))
        return await completed(self._core, commit)

    async def limit(self, bytes: int | None) -> None:
        await self._core.store.limit(self._name, _checked_bytes(bytes))

    async def usage(self) -> Usage:
        return await self._core.store.usage(self._name)

    async def receipt(self, receipt_id: str) -> Receipt:
        return await read_receipt(self._core, self._name, receipt_id)


def _checked_bytes(size: object) -> int | None:
    if size is None:
        return None
    if not isinstance(size, int) or not 0 <= size <= MOST_BYTES:
        raise InvalidInput(
            f"a limit is a number of bytes from 0 to {MOST_BYTES}",
            code="limit_invalid",
            hint="None takes it away",
        )
    return int(size)


def _check_change_id(one: object) -> None:
    if not isinstance(one, str):
        raise InvalidInput(
            f"undo takes ids of changes, not a {type(one).__name__}",
            code="ids_invalid",
            hint="give the ids as arguments: undo(change.id) or undo(*ids)",
        )
