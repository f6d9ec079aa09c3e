"""Entries: what was said or learnt, appended in order under a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, cast

from holdfast.errors import InvalidInput, LimitExceeded
from holdfast.model.ids import checked_id
from holdfast.model.limits import (
    CHUNKS,
    CONTENT_BYTES,
    METADATA_BYTES,
    METADATA_DEPTH,
    METADATA_KEY,
    TITLE_CHARACTERS,
    VECTOR_DIMENSIONS,
)
from holdfast.model.origin import Origin
from holdfast.model.scope import checked_name
from holdfast.model.values import (
    JsonObject,
    JsonValue,
    checked_json,
    checked_micros,
    checked_text,
    dump_json,
    moment,
)

Kind = Literal["entry", "summary"]
KINDS = frozenset(("entry", "summary"))
SPEAKERS = frozenset(("user", "assistant", "system", "tool"))
RESERVED_METADATA = frozenset(
    (
        "id", "bank_id", "tenant", "key", "kind", "speaker", "title", "content", "agent_id", "run_id", "step_id",
        "created_at", "updated_at", "ordinal",
    )
)  # fmt: skip


class Reason(StrEnum):
    """Why a version of an entry is no longer current."""

    REVISED = "revised"
    SUPERSEDED = "superseded"
    DELETED = "deleted"
    HIDDEN = "hidden"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Quantised:
    """One vector as it is stored: int8 components and the scale that multiplies them."""

    data: bytes
    scale: float

    def __post_init__(self) -> None:
        if not 1 <= len(self.data) <= VECTOR_DIMENSIONS:
            raise LimitExceeded(
                f"a vector has {len(self.data)} dimensions, not 1 to {VECTOR_DIMENSIONS}",
                code="vector_invalid",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An entry that is to be written; its seq is given at commit.

    ``subject`` says whom the entry is about when that is not its key. ``created_us`` is when it was said; when the
    store learnt of it is the commit's own time.
    """

    id: str
    content: str
    kind: Kind = "entry"
    title: str | None = None
    speaker: str | None = None
    name: str | None = None
    thread: str | None = None
    subject: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    origin: Origin | None = None
    created_us: int
    expires_us: int | None = None
    vectors: tuple[Quantised, ...] = ()

    def __post_init__(self) -> None:
        checked_id(self.id, what="the entry id")
        checked_text(self.content, what="the content", code="content_invalid")
        if len(self.content) > CONTENT_BYTES or (
            len(self.content) * 4 > CONTENT_BYTES and len(self.content.encode()) > CONTENT_BYTES
        ):
            raise LimitExceeded(f"the content is over {CONTENT_BYTES} bytes", code="content_too_large")
        checked_micros(self.created_us, what="the time it was said")
        if self.expires_us is not None:
            checked_micros(self.expires_us, what="the expiry")
        if self.kind not in KINDS:
            raise InvalidInput(f"unknown kind {self.kind!r}", code="kind_invalid")
        if self.speaker is not None and self.speaker not in SPEAKERS:
            raise InvalidInput(
                f"unknown speaker {self.speaker!r}",
                code="speaker_invalid",
                hint="user, assistant, system or tool",
            )
        if self.title is not None and len(
            checked_text(self.title, what="the title", code="title_invalid")
        ) > (TITLE_CHARACTERS):
            raise LimitExceeded(f"the title is over {TITLE_CHARACTERS} characters", code="title_invalid")
        for what, text in (
            ("the name", self.name),
            ("the thread", self.thread),
            ("the subject", self.subject),
        ):
            if text is not None:
                checked_name(text, what=what)
        if self.metadata:
            checked_metadata(self.metadata)
        if len(self.vectors) > CHUNKS:
            raise LimitExceeded(f"{len(self.vectors)} vectors, over {CHUNKS}", code="vector_invalid")


def checked_metadata(metadata: object) -> JsonObject:
    """The metadata itself: a JSON object within the limits, without reserved names."""
    if not isinstance(metadata, dict):
        raise InvalidInput("metadata must be an object", code="metadata_invalid")
    found = cast("JsonObject", metadata)
    for key in found:
        if not isinstance(key, str) or not 1 <= len(key) <= METADATA_KEY or "." in key or key.startswith("$"):
            raise InvalidInput(
                f"metadata key {key!r} is not allowed",
                code="metadata_key_invalid",
                hint=f"1 to {METADATA_KEY} characters, no dot, not starting with $",
            )
        if key in RESERVED_METADATA:
            raise InvalidInput(f"metadata key {key!r} is reserved", code="reserved_metadata_key")
    checked_json(found, what="metadata", max_depth=METADATA_DEPTH)
    if len(dump_json(found).encode()) > METADATA_BYTES:
        raise LimitExceeded(f"metadata is over {METADATA_BYTES} bytes", code="metadata_too_large")
    return found


@dataclass(frozen=True, slots=True)
class Retirement:
    """When, why and by which change a version stopped being current; ``by`` is the entry that took its place."""

    at_us: int
    reason: Reason
    change: str
    by: str | None = None

    @property
    def at(self) -> datetime:
        """When the version stopped being current."""
        return moment(self.at_us)


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of an entry, as stored. ``retired`` is None for the current version."""

    id: str
    space: str
    bank: str
    key: str
    seq: int
    version: int
    kind: Kind
    content: str
    title: str | None
    speaker: str | None
    name: str | None
    thread: str | None
    subject: str | None
    metadata: JsonObject
    origin: Origin
    created_us: int
    recorded_us: int
    expires_us: int | None
    change: str
    seen: int = 1
    retired: Retirement | None = None

    @property
    def created_at(self) -> datetime:
        """When it was said."""
        return moment(self.created_us)

    @property
    def updated_at(self) -> datetime:
        """When the store recorded this version."""
        return moment(self.recorded_us)

    @property
    def expires_at(self) -> datetime | None:
        """When it stops being visible by itself."""
        return None if self.expires_us is None else moment(self.expires_us)

    def visible(self, now_us: int) -> bool:
        """Whether it is current and not expired."""
        return self.retired is None and (self.expires_us is None or now_us <= self.expires_us)

    def known(self, as_of_us: int) -> bool:
        """Whether this version was the current one at that time."""
        if self.recorded_us > as_of_us or (self.expires_us is not None and as_of_us > self.expires_us):
            return False
        return self.retired is None or as_of_us < self.retired.at_us

    def end(self, retired: Retirement) -> Entry:
        """This version, no longer current."""
        return replace(self, retired=retired)


class _Filling:
    """An entry while an engine fills it: the constructor of a frozen class takes six times as long."""

    __slots__ = Entry.__slots__

    def __init__(
        self,
        id: str,
        space: str,
        bank: str,
        key: str,
        seq: int,
        version: int,
        kind: Kind,
        content: str,
        title: str | None,
        speaker: str | None,
        name: str | None,
        thread: str | None,
        subject: str | None,
        metadata: JsonObject,
        origin: Origin,
        created_us: int,
        recorded_us: int,
        expires_us: int | None,
        change: str,
        seen: int,
        retired: Retirement | None,
    ) -> None:
        self.id = id
        self.space = space
        self.bank = bank
        self.key = key
        self.seq = seq
        self.version = version
        self.kind = kind
        self.content = content
        self.title = title
        self.speaker = speaker
        self.name = name
        self.thread = thread
        self.subject = subject
        self.metadata = metadata
        self.origin = origin
        self.created_us = created_us
        self.recorded_us = recorded_us
        self.expires_us = expires_us
        self.change = change
        self.seen = seen
        self.retired = retired

        self.__class__ = Entry  # type: ignore[assignment] # the same slots in the same order


read_entry: Final = cast("type[Entry]", _Filling)
"""Makes an entry from all its fields, as ``Entry`` does, for engines that make many in a read."""
