"""What the store machine looks at: each read asked of both stores, with what engines may number freely left out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from holdfast.errors import HoldfastError
from holdfast.model.batch import Batch, Commit
from holdfast.model.chore import Chore, ChoreState
from holdfast.model.document import Document, DocumentRef
from holdfast.model.entry import Entry, Quantised
from holdfast.model.forget import OriginMatch
from holdfast.model.journal import Change
from holdfast.model.scope import Scope
from holdfast.model.usage import Usage
from holdfast.model.window import KeyInfo, Window
from holdfast.ports.store import Store

CLOSE: Final = 1e-9
Ask: TypeAlias = Callable[[Store], Awaitable[object]]
Version: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Refused:
    """An error, as far as stores must agree about it."""

    error: str
    code: str


@dataclass(frozen=True, slots=True)
class Pair:
    """The model and the store under test."""

    model: Store
    subject: Store

    async def agree(self, what: str, ask: Ask) -> object:
        """Ask both stores, and see that they tell the same; what they told."""
        expected, found = await outcome(ask(self.model)), await outcome(ask(self.subject))
        if expected != found:
            raise AssertionError(f"{what}\n  model:   {expected}\n  subject: {found}")
        return expected


async def outcome(work: Awaitable[object]) -> object:
    """What a call gave, or how it was refused."""
    try:
        return await work
    except HoldfastError as error:
        return Refused(public_class(error), error.code)


def public_class(error: HoldfastError) -> str:
    """The class of an error as callers know it; engines may have finer ones for themselves."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == HoldfastError.__module__)


async def committed(store: Store, batch: Batch) -> Commit | Refused:
    """A commit without what engines say about their own files.

    Where several operations may be at fault, no law says which of them names the error.
    """
    try:
        commit = await store.commit(batch)
    except HoldfastError as error:
        several = len(batch.operations) > 1
        return Refused("any", "any") if several else Refused(public_class(error), error.code)
    plain = [
        replace(receipt, stores=dict(receipt.stores), counts=dict(receipt.counts))
        for receipt in commit.receipts
    ]
    return replace(commit, receipts=tuple(plain))


def name(entry: Entry | None) -> Version | None:
    """Which version an entry is."""
    return None if entry is None else (entry.id, entry.version)


def without_position(document: Document) -> Document:
    """A document without its position, which engines number freely."""
    return replace(document, position=0)


def without_cursor(change: Change) -> Change:
    """A change without its cursor, which engines number freely."""
    return replace(change, cursor=0)


async def fetched(store: Store, scope: Scope, rows: Sequence[int]) -> list[Version | None]:
    """The versions behind handles."""
    return [name(entry) for entry in await store.fetch(scope, rows)]


async def rows_by_version(store: Store, scope: Scope, window: Window) -> dict[Version, int]:
    """The handles of what a window admits; that they ascend and lead somewhere is seen here."""
    rows = list(await store.eligible(scope, window))
    if rows != sorted(set(rows)):
        raise AssertionError(f"handles do not ascend: {rows}")
    found = await fetched(store, scope, rows)
    return {version: row for version, row in zip(found, rows, strict=True) if version is not None}


@dataclass(frozen=True, slots=True)
class Handle:
    """The handles of one version in both stores; ``of`` says what the version was when they were read."""

    version: Version
    in_model: int
    in_subject: int
    of: Literal["past", "present", "current as of a time"]


async def allowed_behind(store: Store, scope: Scope, handle: Handle) -> list[Entry | None]:
    """What a handle may give, by the law."""
    entry_id, number = handle.version
    kept = await store.versions(scope, entry_id)
    same = [entry for entry in kept if entry.version == number]
    if handle.of == "past" or not kept:
        return [*same] or [None]
    if handle.of == "present":
        visible: list[Entry | None] = [*await store.find(scope, [entry_id])]
        return visible if visible and visible == same else [*visible, None]
    newest = kept[-1]
    return [newest] if newest.retired is None and same == [newest] else [None, newest, *same]


async def pages(store: Store, scope: Scope, window: Window) -> list[object]:
    """The first pages of a window."""
    found: list[object] = []
    for _ in range(4):
        page = await store.load(scope, window)
        found.append(page)
        if page.next is None:
            break
        window = replace(window, after=page.next)
    return found


async def statistics(store: Store, scope: Scope, terms: Sequence[str], as_of_us: int | None) -> object:
    """Word statistics with versions in place of handles."""
    stats = await store.words(scope, terms, as_of_us=as_of_us)
    postings: dict[str, object] = {}
    for term, part in stats.postings.items():
        rows = list(part.rows)
        if rows != sorted(set(rows)):
            raise AssertionError(f"rows of {term!r} do not ascend: {rows}")
        versions = await fetched(store, scope, rows)
        postings[term] = sorted(zip(map(str, versions), part.frequencies, part.lengths, strict=True))
    return stats.entries, stats.terms, postings


@dataclass(frozen=True, slots=True)
class Near:
    """A search for the nearest."""

    scope: Scope
    vector: Quantised
    limit: int
    among: Window | None
    as_of_us: int | None


async def similar(store: Store, near: Near) -> object:
    """Similarities, and the versions that are surely among the nearest: ties at the end may fall either way."""
    rows = None
    if near.among is not None:
        admitted = await rows_by_version(store, near.scope, near.among)
        rows = [admitted[version] for version in sorted(admitted)[::2]]
    found = await store.nearest(near.scope, near.vector, near.limit, rows=rows, as_of_us=near.as_of_us)
    if any((-score, row) > (-after, below) for (row, score), (below, after) in pairwise(found)):
        raise AssertionError(f"not in order: {found}")
    scores = [round(score / CLOSE) for _, score in found]
    versions = await fetched(store, near.scope, [row for row, _ in found])
    sure = [
        (s, v)
        for s, v in zip(scores, map(str, versions), strict=True)
        if len(scores) < near.limit or s > scores[-1]
    ]
    return scores, sorted(sure)


async def documents(store: Store, scope: Scope, kind: str, prefix: str, limit: int) -> list[Document]:
    """Documents of a kind, from the start and then after the first one."""
    first = await store.documents(scope, kind, prefix=prefix, limit=limit)
    rest = await store.documents(scope, kind, prefix=prefix, after=first[0].position) if first else []
    return [without_position(document) for document in [*first, *rest]]


async def document(store: Store, scope: Scope, ref: DocumentRef, as_of_us: int | None) -> Document | None:
    """One document."""
    found = await store.document(scope, ref, as_of_us=as_of_us)
    return None if found is None else without_position(found)


async def document_versions(store: Store, scope: Scope, document_id: str) -> list[Document]:
    """The kept versions of a document."""
    return [without_position(found) for found in await store.document_versions(scope, document_id)]


async def changes(
    store: Store, scope: Scope, skip: int, limit: int, origin: OriginMatch | None
) -> list[Change]:
    """Changes after the first few."""
    before = await store.changes(scope, limit=skip) if skip else []
    after = before[-1].cursor if before else 0
    found = await store.changes(scope, after=after, limit=limit, origin=origin)
    return [without_cursor(change) for change in found]


async def change(store: Store, scope: Scope, change_id: str) -> Change | None:
    """One change."""
    found = await store.change(scope, change_id)
    return None if found is None else without_cursor(found)


async def chores(
    store: Store, scope: Scope, states: Sequence[ChoreState], limit: int, cleared: frozenset[str]
) -> list[Chore]:
    """The first chores of a scope; those that a forget has cleared without what it may clear beside payloads."""
    found = await store.chores(scope, states=states, limit=limit)
    return [
        replace(chore, dedupe=None, last_error=None, worker=None) if chore.id in cleared else chore
        for chore in found
    ]


async def find(store: Store, scope: Scope, ids: Sequence[str], as_of_us: int | None) -> list[Entry]:
    """Entries by id."""
    return await store.find(scope, ids, as_of_us=as_of_us)


async def versions(store: Store, scope: Scope, entry_id: str) -> list[Entry]:
    """The versions of an entry."""
    return await store.versions(scope, entry_id)


async def keys(store: Store, scope: Scope, prefix: str, after: str | None, limit: int) -> list[KeyInfo]:
    """Keys of a bank."""
    return await store.keys(scope, prefix=prefix, after=after, limit=limit)


async def head(store: Store, scope: Scope) -> int:
    """The last seq of a place."""
    return await store.head(scope)


async def renew(store: Store, chore_id: str, token: int, until_us: int) -> None:
    """Extend a lease."""
    await store.renew(chore_id, token, until_us)


async def release(store: Store, worker: str) -> int:
    """Give back what a worker holds."""
    return await store.release(worker)


async def next_due(store: Store) -> int | None:
    """The next due time."""
    return await store.next_due_us()


async def erased(store: Store, scope: Scope, ids: Sequence[str]) -> set[str]:
    """Tombstones."""
    return await store.erased(scope, ids)


async def limit(store: Store, space: str, size: int | None) -> None:
    """Limit what a space may hold."""
    await store.limit(space, size)


async def usage(store: Store, space: str) -> Usage:
    """What a space holds."""
    return await store.usage(space)
