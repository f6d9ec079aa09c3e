"""Adding entries to a bank: the hot path."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from holdfast.errors import InvalidInput, VersionConflict
from holdfast.memories.adding import SPEAKER_IGNORED, checked_content, draft_of, entry_of
from holdfast.memories.checking import check_origin, checked_items
from holdfast.memories.core import Partition, partition, quantised
from holdfast.memories.settings import BankSettings
from holdfast.model.bank import BankInfo, NewEntry
from holdfast.model.batch import Append, Batch, Commit, Idempotency, Operation, Placed, Revise
from holdfast.model.entry import Draft, Entry, Quantised
from holdfast.model.limits import SOURCES
from holdfast.model.origin import UNKNOWN, Origin
from holdfast.model.recall import AddResult, Message, message_of
from holdfast.model.scope import Scope
from holdfast.model.window import Cursor, Window
from holdfast.rules.dedupe import request_digest, requests_digest, same_text_digest
from holdfast.rules.quotes import LOOK_BACK, may_quote, without_quotes
from holdfast.rules.window import stable_window


@dataclass(frozen=True, slots=True)
class Prepared:
    """An entry that is ready to be appended: ``cut`` is its next version, when quotations were taken out."""

    draft: Draft
    where: Partition
    digest: bytes | None
    cut: Draft | None = None

    def operations(self) -> tuple[Operation, ...]:
        """Append the text as it came; with a quotation cut out, as the version after it."""
        append = Append(self.where.place, self.draft, self.digest)
        return (append,) if self.cut is None else (append, Revise(self.cut))


class Adder:
    """Appends to one bank."""

    __slots__ = ("_settings",)

    def __init__(self, settings: BankSettings) -> None:
        self._settings = settings

    async def add(self, new: NewEntry, idempotency_key: str | None) -> AddResult:
        """Append one entry in a batch of its own."""
        settings = self._settings
        core = settings.core
        check_origin(new.origin)
        now_us = core.clock.now_us()
        # Here and below, what needs no waiting goes without a coroutine.
        info = settings.recent(now_us) or await settings.fresh(now_us)
        vectors = await self._vectors(new) if new.vector is None else (quantised(new.vector),)
        prepared = self._prepare(new, info, now_us, vectors)
        if info.strip_quoted_reply_chains:
            (prepared,) = await self._without_quotes((prepared,), info, now_us)
        draft, where = prepared.draft, prepared.where
        idempotency = None
        if idempotency_key is not None:
            idempotency = Idempotency(where.place, idempotency_key, request_digest(draft))
        origin = new.origin or UNKNOWN
        commit = await self._commit(where, now_us, prepared.operations(), origin, idempotency)
        duplicate = commit.duplicate or commit.placed[0].duplicate
        entry = await self._found(prepared, commit.placed) if duplicate else None
        entry = entry or _entry_as_stored(prepared, commit, commit.placed, origin)
        warnings = SPEAKER_IGNORED if new.speaker is not None and info.kind == "general" else ()
        if info.kind == "general":
            return AddResult(entry, duplicate, warnings)
        messages, omitted = await self._window(info, where.scope, entry, now_us)
        return AddResult(entry, duplicate, warnings, messages, omitted)

    async def add_many(
        self, entries: Sequence[NewEntry], idempotency_key: str | None, origin: Origin | None
    ) -> list[AddResult]:
        """Append entries in one batch; results carry no window."""
        check_origin(origin)
        entries = _checked_entries(entries)
        if not entries:
            return []
        settings = self._settings
        now_us = settings.core.clock.now_us()
        info = await settings.fresh(now_us)
        vectors = await self._vectors_of(entries)
        ready = [self._prepare(new, info, now_us, found) for new, found in zip(entries, vectors, strict=True)]
        if info.strip_quoted_reply_chains:
            ready = await self._without_quotes(ready, info, now_us)
        where = ready[0].where
        idempotency = None
        if idempotency_key is not None:
            digest = requests_digest((one.where.place.key, one.draft) for one in ready)
            idempotency = Idempotency(where.place, idempotency_key, digest)
        made = origin or _shared_origin(entries)
        operations = [one.operations() for one in ready]
        commit = await self._commit(where, now_us, tuple(chain.from_iterable(operations)), made, idempotency)
        results: list[AddResult] = []
        at = 0
        for new, one, done in zip(entries, ready, operations, strict=True):
            placed = commit.placed[at : at + len(done)]
            at += len(done)
            duplicate = commit.duplicate or placed[0].duplicate
            entry = await self._found(one, placed) if duplicate else None
            entry = entry or _entry_as_stored(one, commit, placed, made)
            ignored = new.speaker is not None and info.kind == "general"
            results.append(AddResult(entry, duplicate, SPEAKER_IGNORED if ignored else ()))
        return results

    def _prepare(
        self, new: NewEntry, info: BankInfo, now_us: int, vectors: tuple[Quantised, ...]
    ) -> Prepared:
        settings = self._settings
        where = partition(settings.space, info.id, new.key)
        draft = draft_of(new, info, settings.core.make_id(where.bucket), now_us, vectors)
        return Prepared(draft, where, same_text_digest(draft.content) if info.dedupe == "exact" else None)

    async def _vectors(self, new: NewEntry) -> tuple[Quantised, ...]:
        if self._settings.core.embedder is None:
            return ()
        return (await self._settings.core.vectors_of([checked_content(new.content)]))[0]

    async def _vectors_of(self, entries: Sequence[NewEntry]) -> list[tuple[Quantised, ...]]:
        """As ``_vectors``, with one call of the embedder for all."""
        missing = [checked_content(new.content) for new in entries if new.vector is None]
        made = iter(await self._settings.core.vectors_of(missing))
        return [next(made) if new.vector is None else (quantised(new.vector),) for new in entries]

    async def _commit(
        self,
        where: Partition,
        now_us: int,
        operations: tuple[Operation, ...],
        origin: Origin,
        idempotency: Idempotency | None,
    ) -> Commit:
        settings = self._settings
        change = settings.core.make_id(where.bucket)
        batch = Batch(settings.space, change, now_us, operations, origin, settings.requires, idempotency)
        try:
            return await settings.core.commit(batch)
        except VersionConflict as error:
            raise await settings.explain(error) from None

    async def _found(self, prepared: Prepared, placed: Sequence[Placed]) -> Entry | None:
        """The entry that was there before; None when it was erased since."""
        store, scope, name = self._settings.core.store, prepared.where.scope, placed[-1].id
        found = await store.find(scope, [name]) or (await store.versions(scope, name))[-1:]
        return found[0] if found else None

    async def _window(
        self, info: BankInfo, scope: Scope, entry: Entry, now_us: int
    ) -> tuple[tuple[Message, ...], int]:
        """The cacheable window that ends with an entry, whatever was appended after it meanwhile."""
        # The only entry of its key needs no read.
        if entry.seq == 1:
            return (message_of(entry, info.summary_role),), 0
        window = Window(
            order="newest_first",
            limit=info.history_window,
            after=Cursor(entry.key, entry.created_us, entry.seq),
            created_from_us=info.kept_from_us(now_us),
        )
        earlier = (await self._settings.core.store.load(scope, window)).entries
        shown = stable_window([*reversed(earlier), entry], info.history_window, info.window_chunk)
        return tuple(message_of(one, info.summary_role) for one in shown.entries), shown.omitted

    async def _without_quotes(self, ready: Sequence[Prepared], info: BankInfo, now_us: int) -> list[Prepared]:
        """User turns without what they quote from the last turns of their key, those of this batch included."""
        store = self._settings.core.store
        turns: dict[str, deque[str]] = {}
        found: list[Prepared] = []
        if not any(_may_quote(one.draft) for one in ready):
            return list(ready)
        for one in ready:
            scope = one.where.scope
            key = one.where.place.key
            if key not in turns:
                window = Window(
                    order="newest_first", limit=LOOK_BACK, created_from_us=info.kept_from_us(now_us)
                )
                page = await store.load(scope, window)
                turns[key] = deque((entry.content for entry in reversed(page.entries)), LOOK_BACK)
            kept = await self._cut(one, turns[key]) if _may_quote(one.draft) else one
            found.append(kept)
            turns[key].append((kept.cut or kept.draft).content)
        return found

    async def _cut(self, prepared: Prepared, earlier: Iterable[str]) -> Prepared:
        draft = prepared.draft
        content = without_quotes(draft.content, earlier)
        if content == draft.content:
            return prepared
        vectors = (await self._settings.core.vectors_of([content]))[0] or draft.vectors
        # A version that replaces another has no digest of its own: the text that came is not looked for either.
        return Prepared(draft, prepared.where, None, replace(draft, content=content, vectors=vectors))


def _entry_as_stored(prepared: Prepared, commit: Commit, placed: Sequence[Placed], origin: Origin) -> Entry:
    return entry_of(
        prepared.cut or prepared.draft,
        prepared.where,
        placed[-1],
        origin=origin,
        change=commit.change,
        recorded_us=commit.at_us,
    )


def _may_quote(draft: Draft) -> bool:
    return draft.speaker == "user" and may_quote(draft.content)


def _shared_origin(entries: Sequence[NewEntry]) -> Origin:
    """The origin of a batch: that of its entries when it is one, else at least what they were made from."""
    origins = {new.origin for new in entries}
    if len(origins) == 1:
        return origins.pop() or UNKNOWN
    sources = dict.fromkeys(source for origin in origins if origin is not None for source in origin.sources)
    return Origin(sources=tuple(sources)[:SOURCES])


def _checked_entries(entries: object) -> list[NewEntry]:
    """The entries themselves, when all of them are."""
    found: list[NewEntry] = []
    for new in checked_items(entries, what="entries", hint="[holdfast.NewEntry(content, key), …]"):
        if not isinstance(new, NewEntry):
            raise InvalidInput(
                f"entries holds a {type(new).__name__}, not a NewEntry",
                code="entries_invalid",
                hint="[holdfast.NewEntry(content, key), …]",
            )
        check_origin(new.origin)
        found.append(new)
    return found
