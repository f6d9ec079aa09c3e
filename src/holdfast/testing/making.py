"""Small builders for what a test writes: scopes, drafts, operations, batches; ids are the same each run."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final, TypedDict, Unpack

from holdfast.model.batch import (
    Append,
    Batch,
    Enqueue,
    Idempotency,
    Operation,
    Put,
    Requirement,
    Revise,
)
from holdfast.model.chore import MAX_ATTEMPTS, ChoreDraft
from holdfast.model.document import DocumentRef
from holdfast.model.entry import Draft, Kind, Quantised
from holdfast.model.ids import IdMaker, bucket_of
from holdfast.model.origin import Origin
from holdfast.model.scope import Place, Scope
from holdfast.model.values import JsonValue
from holdfast.ports.clock import Clock

SPACE: Final = "acme"
OTHER_SPACE: Final = "globex"
BANK: Final = "notes"
OTHER_BANK: Final = "letters"
KEY: Final = "alice"
OTHER_KEY: Final = "bob"


class DraftFields(TypedDict, total=False):
    """Optional fields of an entry draft."""

    kind: Kind
    title: str | None
    speaker: str | None
    name: str | None
    thread: str | None
    subject: str | None
    metadata: Mapping[str, JsonValue]
    origin: Origin | None
    expires_us: int | None
    vectors: tuple[Quantised, ...]


class BatchFields(TypedDict, total=False):
    """Optional fields of a batch."""

    origin: Origin
    requires: tuple[Requirement, ...]
    idempotency: Idempotency | None
    undoes: tuple[str, ...]


class PutFields(TypedDict, total=False):
    """Optional fields of a document put."""

    expires_us: int | None
    subject: str | None
    expected: int | None


def in_key(key: str = KEY, bank: str = BANK, space: str = SPACE) -> Scope:
    """A scope of one key."""
    return Scope(space, bank, key)


def in_bank(bank: str = BANK, space: str = SPACE) -> Scope:
    """A scope of one bank."""
    return Scope(space, bank)


def in_space(space: str = SPACE) -> Scope:
    """A scope of one space."""
    return Scope(space)


def at(key: str = KEY, bank: str = BANK) -> Place:
    """A place."""
    return Place(bank, key)


def named(name: str, kind: str = "block", *, key: str = KEY, bank: str = BANK) -> DocumentRef:
    """The name of a document; of a kind that keeps every version, when no kind is said."""
    return DocumentRef(bank, key, kind, name)


class Maker:
    """Makes drafts, operations and batches at the time of a clock, with ids that depend on a seed only."""

    __slots__ = ("_clock", "_ids")

    def __init__(self, clock: Clock, seed: int = 0) -> None:
        self._clock = clock
        self._ids = IdMaker(clock.now_us, Random(seed).getrandbits)

    def id(self, key: str = KEY, bank: str = BANK, space: str = SPACE) -> str:
        """A new id; those of one maker increase."""
        return self._ids(bucket_of(space, bank, key))

    def draft(
        self,
        content: str = "tea",
        *,
        id: str | None = None,
        created_us: int | None = None,
        **fields: Unpack[DraftFields],
    ) -> Draft:
        """A draft of an entry, said now."""
        said_us = self._clock.now_us() if created_us is None else created_us
        return Draft(id=id or self.id(), content=content, created_us=said_us, **fields)

    def append(
        self,
        content: str = "tea",
        *,
        key: str = KEY,
        bank: str = BANK,
        digest: bytes | None = None,
        id: str | None = None,
        created_us: int | None = None,
        **fields: Unpack[DraftFields],
    ) -> Append:
        """An append of a new entry."""
        draft = self.draft(content, id=id or self.id(key, bank), created_us=created_us, **fields)
        return Append(Place(bank, key), draft, digest)

    def revise(
        self,
        id: str,
        content: str = "coffee",
        *,
        expected: int | None = None,
        created_us: int | None = None,
        **fields: Unpack[DraftFields],
    ) -> Revise:
        """A revision of an entry."""
        return Revise(self.draft(content, id=id, created_us=created_us, **fields), expected)

    def put(
        self,
        ref: DocumentRef | str,
        value: JsonValue = "on",
        *,
        id: str | None = None,
        **fields: Unpack[PutFields],
    ) -> Put:
        """A put of a document; a plain name means a block at the usual place."""
        target = named(ref) if isinstance(ref, str) else ref
        return Put(target, id or self.id(target.key, target.bank), value, **fields)

    def enqueue(
        self,
        kind: str = "extract",
        *,
        key: str = KEY,
        bank: str = BANK,
        id: str | None = None,
        due_us: int | None = None,
        dedupe: str | None = None,
        payload: JsonValue = None,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> Enqueue:
        """A chore, due now."""
        draft = ChoreDraft(
            id=id or self.id(key, bank),
            kind=kind,
            place=Place(bank, key),
            due_us=self._clock.now_us() if due_us is None else due_us,
            dedupe=dedupe,
            payload=payload,
            max_attempts=max_attempts,
        )
        return Enqueue(draft)

    def batch(
        self,
        *operations: Operation,
        space: str = SPACE,
        id: str | None = None,
        at_us: int | None = None,
        **fields: Unpack[BatchFields],
    ) -> Batch:
        """A batch at the time of the clock."""
        now_us = self._clock.now_us() if at_us is None else at_us
        return Batch(space, id or self.id(space=space), now_us, operations, **fields)


def repeatable(key: str, digest: bytes = b"same", *, place: Place | None = None) -> Idempotency:
    """An idempotency key at the usual place."""
    return Idempotency(place or at(), key, digest)


def told_by(author: str, *sources: str) -> Origin:
    """An origin with an author and sources."""
    return Origin(author=author, sources=sources) if sources else Origin(author=author)


def from_sources(*sources: str, merged: bool = False) -> Origin:
    """The origin of something derived from entries."""
    return Origin(method="merged" if merged else "extracted", sources=sources)
