"""A bank as a handle over a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from holdfast.errors import Conflict, EntryNotFound, InvalidInput, ScopeError
from holdfast.memories.adder import Adder
from holdfast.memories.adding import checked_content, checked_time, entry_of, revised
from holdfast.memories.checking import check_cursor, check_limit, check_order, check_origin, check_prefix
from holdfast.memories.core import following, partition, quantised
from holdfast.memories.receipts import completed, settle_later
from holdfast.memories.settings import BankSettings, banks_partition, change_settings
from holdfast.model.bank import (
    LOAD_LIMIT,
    QUERY_CHARACTERS,
    SEARCH_LIMIT,
    BankInfo,
    NewEntry,
)
from holdfast.model.batch import EntryVersion, Forget, Restore, Retire, Revise
from holdfast.model.entry import Entry, Quantised, Reason
from holdfast.model.forget import Receipt, Selector
from holdfast.model.ids import is_id
from holdfast.model.limits import TRASH_DAYS
from holdfast.model.origin import UNKNOWN, Origin
from holdfast.model.recall import AddResult, Hits, Page
from holdfast.model.scope import Scope
from holdfast.model.values import DAY_US, JsonValue, checked_text
from holdfast.model.window import Cursor, KeyInfo, Order, Window
from holdfast.rules.words import query_terms

if TYPE_CHECKING:  # Protocols are needed by type checkers only
    from holdfast.model.filter import Filter
    from holdfast.ports.face import FilterInput, Method

METHODS: Final = ("hybrid", "vector", "lexical")
RESTORABLE: Final = frozenset((Reason.DELETED, Reason.UNDONE))


class StoredBank:
    """A bank of a store. Any number of handles, tasks and event loops may use one bank at once."""

    __slots__ = ("_adder", "_settings")

    def __init__(self, settings: BankSettings) -> None:
        self._settings = settings
        self._adder = Adder(settings)

    @property
    def id(self) -> str:
        return self._settings.info.id

    @property
    def name(self) -> str:
        return self._settings.info.name

    @property
    def info(self) -> BankInfo:
        return self._settings.info

    async def add(
        self,
        content: str,
        *,
        key: str,
        metadata: Mapping[str, JsonValue] | None = None,
        speaker: str | None = None,
        name: str | None = None,
        thread: str | None = None,
        title: str | None = None,
        subject: str | None = None,
        created_at: datetime | None = None,
        expires_at: datetime | None = None,
        idempotency_key: str | None = None,
        origin: Origin | None = None,
        vector: Sequence[float] | None = None,
    ) -> AddResult:
        new = NewEntry(
            content, key, {} if metadata is None else metadata, speaker, name, thread, title, subject, created_at,
            expires_at, origin, vector,
        )  # fmt: skip
        return await self._adder.add(new, idempotency_key)

    async def add_many(
        self, entries: Sequence[NewEntry], *, idempotency_key: str | None = None, origin: Origin | None = None
    ) -> list[AddResult]:
        return await self._adder.add_many(entries, idempotency_key, origin)

    async def search(
        self,
        query: str,
        *,
        key: str | None = None,
        limit: int = 10,
        filter: FilterInput | None = None,
        added_after: datetime | None = None,
        added_before: datetime | None = None,
        as_of: datetime | None = None,
        min_score: float | None = None,
        method: Method = "hybrid",
        vector: Sequence[float] | None = None,
    ) -> Hits:
        info, now_us = await self._fresh()
        if key is None and not info.allow_cross_key_search:
            raise ScopeError(
                "this bank is searched one key at a time", code="key_required", hint="give a key"
            )
        text, warnings = _checked_query(query, vector)
        check_limit(limit, SEARCH_LIMIT)
        # Loaded with the first search: adding and reading do without.
        from holdfast.recall.search import Question, search

        question = Question(
            terms=query_terms(text) if method != "vector" else None,
            vector=await self._vector(text, method, vector),
            limit=limit,
            filter=_compiled(filter),
            from_us=_time(added_after, "added_after"),
            until_us=_time(added_before, "added_before"),
            as_of_us=_time(as_of, "as_of"),
            kept_from_us=info.kept_from_us(now_us),
            min_score=_checked_score(min_score),
        )
        hits = await search(self._settings.core.store, self._scope(key), question)
        return Hits(hits.found, hits.omitted, warnings) if warnings else hits

    async def load(
        self,
        *,
        key: str,
        order: Order = "newest_first",
        limit: int = 100,
        filter: FilterInput | None = None,
        added_after: datetime | None = None,
        added_before: datetime | None = None,
        as_of: datetime | None = None,
        include_originals: bool = False,
        after: Cursor | None = None,
    ) -> Page:
        info, now_us = await self._fresh()
        check_limit(limit, LOAD_LIMIT)
        check_order(order)
        check_cursor(after)
        by_seq = info.kind == "conversation"
        window = Window(
            order=order,
            by="seq" if by_seq else "created",
            limit=limit,
            after=after,
            created_from_us=_later(info.kept_from_us(now_us), _time(added_after, "added_after")),
            created_until_us=_time(added_before, "added_before"),
            filter=_compiled(filter),
            as_of_us=_time(as_of, "as_of"),
            hidden=include_originals,
        )
        found = await self._settings.core.store.load(
            partition(self._settings.space, info.id, key).scope, window
        )
        return Page(found.entries, found.next, info.summary_role, by_seq)

    async def get(self, entry_id: str, *, as_of: datetime | None = None) -> Entry:
        info, now_us = await self._fresh()
        return await self._find(entry_id, info.kept_from_us(now_us), _time(as_of, "as_of"))

    async def update(
        self,
        entry_id: str,
        *,
        content: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        expected_version: int | None = None,
        origin: Origin | None = None,
        vector: Sequence[float] | None = None,
    ) -> Entry:
        if content is None and title is None and metadata is None:
            raise InvalidInput(
                "nothing to change", code="update_empty", hint="give content, title or metadata"
            )
        check_origin(origin)

        async def revise() -> Entry:
            return await self._revise(entry_id, content, title, metadata, expected_version, origin, vector)

        if expected_version is None:
            # What is not named here stays as others leave it, so the update follows them.
            return await following(revise)
        return await revise()

    async def delete(self, entry_id: str, *, hard: bool = False) -> Receipt | None:
        info, now_us = await self._fresh()
        core, space = self._settings.core, self._settings.space
        if hard:
            entry = (await self._versions(entry_id, info.kept_from_us(now_us)))[-1]
            forget = Forget(Selector(bank=info.id, ids=(entry.id,)))
            operations = (forget, settle_later(core, space))
            return await completed(core, await core.write(partition(space, info.id, entry.key), operations))
        entry = await self._find(entry_id, info.kept_from_us(now_us), None)
        await core.write(partition(space, info.id, entry.key), (Retire(entry.id, Reason.DELETED),))
        return None

    async def restore(self, entry_id: str) -> Entry:
        info, now_us = await self._fresh()
        oldest = info.kept_from_us(now_us)
        last = (await self._versions(entry_id, oldest))[-1]
        retired = last.retired
        if retired is None or retired.reason not in RESTORABLE:
            raise Conflict(f"the entry {entry_id} was not deleted", code="not_deleted")
        if retired.at_us < now_us - TRASH_DAYS * DAY_US:
            raise EntryNotFound(
                f"the entry {entry_id} was deleted more than {TRASH_DAYS} days ago",
                hint="space.undo() reaches further",
            )
        where = partition(self._settings.space, last.bank, last.key)
        # The version after the deleted one must be this one: two restores at once give one new version.
        await self._settings.core.write(where, (Restore(last.id),), requires=(EntryVersion(last.id, 0),))
        return (await self._versions(entry_id, oldest))[-1]

    async def history(self, entry_id: str) -> list[Entry]:
        info, now_us = await self._fresh()
        return await self._versions(entry_id, info.kept_from_us(now_us))

    async def keys(self, *, prefix: str = "", after: str | None = None, limit: int = 100) -> list[KeyInfo]:
        info, now_us = await self._fresh()
        check_limit(limit, LOAD_LIMIT)
        check_prefix(prefix)
        if after is not None:
            checked_text(after, what="the key to go on after", code="cursor_invalid")
        oldest = info.kept_from_us(now_us)
        scope, store = self._settings.whole, self._settings.core.store
        if oldest is None:
            return await store.keys(scope, prefix=prefix, after=after, limit=limit)
        kept: list[KeyInfo] = []
        while True:
            found = await store.keys(scope, prefix=prefix, after=after, limit=limit)
            for one in found:
                left = await self._left(one, oldest)
                if left is not None:
                    kept.append(left)
                if len(kept) == limit:
                    return kept
            if len(found) < limit:
                return kept
            after = found[-1].key

    async def configure(self, *, expected_version: int | None = None, **settings: object) -> BankInfo:
        async def change() -> BankInfo:
            return await change_settings(self._settings, settings, expected_version)

        return await (following(change) if expected_version is None else change())

    async def wipe(self) -> Receipt:
        await self._fresh()
        kept = self._settings
        operations = (Forget(Selector(bank=self.id)), settle_later(kept.core, kept.space))
        return await completed(kept.core, await kept.core.write(banks_partition(kept.space), operations))

    async def _fresh(self) -> tuple[BankInfo, int]:
        now_us = self._settings.core.clock.now_us()
        return await self._settings.fresh(now_us), now_us

    def _scope(self, key: str | None) -> Scope:
        return self._settings.whole if key is None else partition(self._settings.space, self.id, key).scope

    async def _left(self, info: KeyInfo, oldest: int) -> KeyInfo | None:
        """What a key holds that retention does not hide; None when that is nothing."""
        store = self._settings.core.store
        scope = self._scope(info.key)
        # Imports come late and may be old: the last to arrive need not be the last that is still shown.
        window = Window(order="newest_first", limit=1, created_from_us=oldest)
        entries = len(await store.eligible(scope, window))
        last = (await store.load(scope, window)).entries if entries else ()
        return KeyInfo(info.key, entries, last[0].created_us) if last else None

    async def _find(self, entry_id: str, oldest: int | None, as_of_us: int | None) -> Entry:
        found: list[Entry] = []
        if is_id(entry_id):
            found = await self._settings.core.store.find(self._settings.whole, [entry_id], as_of_us=as_of_us)
        if not found or (oldest is not None and found[0].created_us < oldest):
            raise EntryNotFound(f"no entry {entry_id!r} in this bank")
        return found[0]

    async def _versions(self, entry_id: str, oldest: int | None) -> list[Entry]:
        found: list[Entry] = []
        if is_id(entry_id):
            found = await self._settings.core.store.versions(self._settings.whole, entry_id)
        if not found or (oldest is not None and found[-1].created_us < oldest):
            raise EntryNotFound(f"no entry {entry_id!r} in this bank")
        return found

    async def _revise(
        self,
        entry_id: str,
        content: str | None,
        title: str | None,
        metadata: Mapping[str, JsonValue] | None,
        expected_version: int | None,
        origin: Origin | None,
        vector: Sequence[float] | None,
    ) -> Entry:
        info, now_us = await self._fresh()
        core = self._settings.core
        entry = await self._find(entry_id, info.kept_from_us(now_us), None)
        if vector is None:
            (vectors,) = await core.vectors_of(
                [entry.content if content is None else checked_content(content)]
            )
        else:
            vectors = (quantised(vector),)
        draft = revised(entry, content, title, metadata, vectors)
        expected = entry.version if expected_version is None else expected_version
        where = partition(self._settings.space, info.id, entry.key)
        commit = await core.write(where, (Revise(draft, expected),), origin=origin)
        return entry_of(
            draft, where, commit.placed[0], origin=origin or UNKNOWN, change=commit.change,
            recorded_us=commit.at_us, seen=entry.seen,
        )  # fmt: skip

    async def _vector(self, text: str, method: Method, vector: Sequence[float] | None) -> Quantised | None:
        if method not in METHODS:
            raise InvalidInput(f"unknown method {method!r}", code="method_invalid", hint=", ".join(METHODS))
        if method == "lexical":
            return None
        if vector is not None:
            return quantised(vector)
        found = (await self._settings.core.vectors_of([text]))[0]
        if not found and method == "vector":
            raise InvalidInput(
                "there is no embedder to make a vector of the query",
                code="embedder_missing",
                hint="open with an embedder, or hand a vector in",
            )
        return found[0] if found else None

    # Last, so that `list` still names the type everywhere above.
    async def list(
        self,
        *,
        key: str | None = None,
        limit: int = 100,
        filter: FilterInput | None = None,
        after: Cursor | None = None,
    ) -> Page:
        info, now_us = await self._fresh()
        check_limit(limit, LOAD_LIMIT)
        check_cursor(after)
        by_seq = info.kind == "conversation"
        window = Window(
            by="seq" if by_seq else "created",
            limit=limit,
            after=after,
            created_from_us=info.kept_from_us(now_us),
            filter=_compiled(filter),
        )
        found = await self._settings.core.store.load(self._scope(key), window)
        return Page(found.entries, found.next, info.summary_role, by_seq)


def _checked_query(query: object, vector: Sequence[float] | None) -> tuple[str, tuple[str, ...]]:
    """The query, cut when it is too long, and the warning that tells so."""
    if not isinstance(query, str):
        raise InvalidInput(f"the query must be a str, not {type(query).__name__}", code="query_invalid")
    if vector is None and not query.strip():
        raise InvalidInput(
            "the query is empty", code="query_empty", hint="load() gives entries without a question"
        )
    if len(query) > QUERY_CHARACTERS:
        return query[:QUERY_CHARACTERS], ("query_cut",)
    return query, ()


def _checked_score(score: object) -> float | None:
    if score is None:
        return None
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise InvalidInput(f"min_score must be 0 to 1, not {score!r}", code="min_score_invalid")
    return float(score)


def _time(moment: object, what: str) -> int | None:
    return None if moment is None else checked_time(moment, what)


def _later(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _compiled(given: FilterInput | None) -> Filter | None:
    if given is None:
        return None
    # Loaded with the first filter.
    from holdfast.model.filter import compile_filter

    return compile_filter(given)
