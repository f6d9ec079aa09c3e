"""The batch: the one write path. It commits atomically or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from holdfast.errors import InvalidInput, LimitExceeded
from holdfast.model.chore import ChoreDraft
from holdfast.model.document import DocumentRef
from holdfast.model.entry import Draft, Reason
from holdfast.model.forget import Receipt, Selector
from holdfast.model.ids import checked_id
from holdfast.model.limits import BATCH_OPERATIONS, DOCUMENT_BYTES, IDEMPOTENCY_CHARACTERS
from holdfast.model.origin import UNKNOWN, Origin
from holdfast.model.scope import Place, checked_name
from holdfast.model.values import JsonValue, checked_json, checked_micros, checked_text, dump_json, moment


@dataclass(frozen=True, slots=True)
class Append:
    """Append an entry to a place.

    With a ``digest``, an equal visible entry there is kept instead of a second one: its ``seen`` grows by one and
    metadata keys that it lacks are added.
    """

    place: Place
    draft: Draft
    digest: bytes | None = None


@dataclass(frozen=True, slots=True)
class Revise:
    """Replace an entry's content by a new version with the same id, place and seq."""

    draft: Draft
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class Retire:
    """Take the current version of an entry out of sight; it stays in history."""

    id: str
    reason: Reason
    by: str | None = None
    expected: int | None = None

    def __post_init__(self) -> None:
        checked_id(self.id, what="the entry id")
        if self.by is not None:
            checked_id(self.by, what="the id of what takes its place")


@dataclass(frozen=True, slots=True)
class Restore:
    """Make a kept version (the newest one, when none is named) current again, as a new version."""

    id: str
    version: int | None = None

    def __post_init__(self) -> None:
        checked_id(self.id, what="the entry id")


@dataclass(frozen=True, slots=True)
class Put:
    """Write a document. ``expected`` 0 means it must not exist, None that any version will do."""

    ref: DocumentRef
    id: str
    value: JsonValue
    expires_us: int | None = None
    subject: str | None = None
    expected: int | None = None

    def __post_init__(self) -> None:
        checked_id(self.id, what="the document id")
        checked_json(self.value, what="the document")
        if len(dump_json(self.value)) > DOCUMENT_BYTES:
            raise LimitExceeded(f"the document is over {DOCUMENT_BYTES} bytes", code="document_too_large")
        if self.subject is not None:
            checked_name(self.subject, what="the subject", code="subject_invalid")
        if self.expires_us is not None:
            checked_micros(self.expires_us, what="the expiry")


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a document; nothing happens when there is none, unless a version was expected."""

    ref: DocumentRef
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Make a chore due."""

    draft: ChoreDraft


@dataclass(frozen=True, slots=True)
class Finish:
    """Complete a leased chore in the batch of its result; fails the batch when the lease was lost."""

    chore: str
    token: int

    def __post_init__(self) -> None:
        checked_id(self.chore, what="the chore id")


@dataclass(frozen=True, slots=True)
class Fail:
    """Give a leased chore back after an error: due again at ``retry_us``, or dead when there is none."""

    chore: str
    token: int
    error: str
    retry_us: int | None

    def __post_init__(self) -> None:
        checked_id(self.chore, what="the chore id")
        checked_text(self.error, what="the error", code="error_invalid")
        if self.retry_us is not None:
            checked_micros(self.retry_us, what="the time of the retry")


@dataclass(frozen=True, slots=True)
class Drop:
    """Cancel a live or dead chore."""

    chore: str

    def __post_init__(self) -> None:
        checked_id(self.chore, what="the chore id")


@dataclass(frozen=True, slots=True)
class Retry:
    """Queue a dead or cancelled chore again, with its attempts reset."""

    chore: str
    due_us: int

    def __post_init__(self) -> None:
        checked_id(self.chore, what="the chore id")
        checked_micros(self.due_us, what="the due time")


@dataclass(frozen=True, slots=True)
class Forget:
    """Erase what the selector names, with everything that was made from it."""

    selector: Selector
    by: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        for what, text in (("who forgets", self.by), ("the reason", self.reason)):
            if text is not None:
                checked_text(text, what=what, code="forget_invalid")


Operation: TypeAlias = (
    Append | Revise | Retire | Restore | Put | Remove | Enqueue | Finish | Fail | Drop | Retry | Forget
)


@dataclass(frozen=True, slots=True)
class EntryVersion:
    """Precondition: the current version of an entry; 0 means there must be none."""

    id: str
    version: int

    def __post_init__(self) -> None:
        checked_id(self.id, what="the entry id")


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """Precondition: the current version of a document; 0 means there must be none, None that one must exist."""

    ref: DocumentRef
    version: int | None


@dataclass(frozen=True, slots=True)
class Head:
    """Precondition: the seq of the last entry ever appended to a place; 0 for an empty one."""

    place: Place
    seq: int


Requirement: TypeAlias = EntryVersion | DocumentVersion | Head


@dataclass(frozen=True, slots=True)
class Idempotency:
    """Makes a repeated batch return the first result: unique in its place; ``digest`` tells equal input from other."""

    place: Place
    key: str
    digest: bytes

    def __post_init__(self) -> None:
        checked_text(self.key, what="the idempotency key", code="idempotency_key_invalid")
        if not 1 <= len(self.key) <= IDEMPOTENCY_CHARACTERS:
            raise LimitExceeded(
                f"an idempotency key has 1 to {IDEMPOTENCY_CHARACTERS} characters",
                code="idempotency_key_invalid",
            )


@dataclass(frozen=True, slots=True)
class Batch:
    """One change: operations in order, what must hold for them, and where they come from.

    ``id`` is that of the change. ``at_us`` is the caller's clock; the store records the commit at that time or, so that
    recorded times never run backwards inside a place, a little later. ``undoes`` names the changes this one takes back.
    """

    space: str
    id: str
    at_us: int
    operations: tuple[Operation, ...]
    origin: Origin = UNKNOWN
    requires: tuple[Requirement, ...] = ()
    idempotency: Idempotency | None = None
    undoes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checked_id(self.id, what="the change id")
        checked_micros(self.at_us, what="the time of the batch")
        for change in self.undoes:
            checked_id(change, what="an undone change")
        checked_name(self.space, what="the space", code="space_invalid")
        if not self.operations:
            raise InvalidInput("a batch without operations changes nothing", code="batch_empty")
        if len(self.operations) > BATCH_OPERATIONS:
            raise LimitExceeded(
                f"a batch has {len(self.operations)} operations, over {BATCH_OPERATIONS}",
                code="batch_too_large",
                hint="split it",
            )
        if len(self.operations) > 1 and sum(isinstance(each, Forget) for each in self.operations) > 1:
            raise InvalidInput(
                "a batch holds at most one forget", code="batch_invalid", hint="use one batch for each"
            )


@dataclass(frozen=True, slots=True)
class Placed:
    """What one operation did to a record: its id, seq (entries only) and version afterwards.

    ``duplicate`` marks an append that found an equal entry, or an enqueue that found a live chore.
    """

    id: str
    seq: int
    version: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """The acknowledgement of a batch: durable, visible to every later read.

    ``placed`` has one item an operation. ``duplicate`` marks the repeated result of an idempotent batch.
    """

    change: str
    at_us: int
    placed: tuple[Placed, ...]
    receipts: tuple[Receipt, ...] = ()
    duplicate: bool = False

    @property
    def at(self) -> datetime:
        """When the change was recorded."""
        return moment(self.at_us)
