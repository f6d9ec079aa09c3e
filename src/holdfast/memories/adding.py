"""From what a caller hands in to what a batch appends, and back to a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from holdfast.errors import InvalidInput, LimitExceeded
from holdfast.memories.core import Partition
from holdfast.model.bank import BANK_CONTENT_BYTES, BankInfo, NewEntry
from holdfast.model.batch import Placed
from holdfast.model.entry import Draft, Entry, Quantised, read_entry
from holdfast.model.limits import FUTURE_SECONDS, METADATA_DEPTH
from holdfast.model.origin import Origin
from holdfast.model.values import JsonObject, JsonValue, micros

BANK_SPEAKERS = frozenset(("user", "assistant"))
SPEAKER_IGNORED = ("speaker_ignored",)


def checked_content(content: object) -> str:
    """The content itself: text with something to read in it, up to the limit of banks."""
    if not isinstance(content, str):
        raise InvalidInput(f"the content must be a str, not {type(content).__name__}", code="content_invalid")
    if not content or content.isspace():
        raise InvalidInput("the content is empty", code="content_empty")
    if len(content) * 4 > BANK_CONTENT_BYTES and (
        len(content) > BANK_CONTENT_BYTES or len(content.encode(errors="replace")) > BANK_CONTENT_BYTES
    ):
        raise LimitExceeded(
            f"the content is over {BANK_CONTENT_BYTES} bytes",
            code="content_too_large",
            hint="split it into entries",
        )
    return content


def checked_speaker(info: BankInfo, speaker: str | None) -> str | None:
    """The speaker to store: a role on conversation banks, nothing on general ones."""
    if info.kind == "general":
        return None
    if speaker is None:
        raise InvalidInput(
            "a conversation bank needs a speaker",
            code="speaker_required",
            hint="speaker='user' or 'assistant'",
        )
    if speaker not in BANK_SPEAKERS:
        raise InvalidInput(f"unknown speaker {speaker!r}", code="speaker_invalid", hint="user or assistant")
    return speaker


def checked_time(moment: object, what: str) -> int:
    """The time in microseconds; only an aware datetime will do."""
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{what} must be a datetime, not {type(moment).__name__}", code="time_invalid")
    return micros(moment)


def said_us(created_at: datetime | None, now_us: int) -> int:
    """When an entry was said: now, or for imports the time given, which cannot lie in the future."""
    if created_at is None:
        return now_us
    given = checked_time(created_at, "created_at")
    if given > now_us + FUTURE_SECONDS * 1_000_000:
        raise InvalidInput(
            f"created_at lies more than {FUTURE_SECONDS // 60} minutes in the future",
            code="created_at_future",
        )
    return given


def own_metadata(metadata: object) -> JsonObject:
    """A copy that later changes by the caller do not reach; the draft checks what is in it."""
    if not isinstance(metadata, Mapping):
        raise InvalidInput("metadata must be an object", code="metadata_invalid")
    return cast("JsonObject", _copied(cast("Mapping[object, object]", metadata), METADATA_DEPTH + 2))


def _copied(value: object, depth: int) -> object:
    # What is nested more deeply is refused by the draft's own check.
    if depth == 0 or value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        found = cast("Mapping[object, object]", value)
        return {name: _copied(item, depth - 1) for name, item in found.items()}
    if isinstance(value, list | tuple):
        return [_copied(item, depth - 1) for item in cast("Sequence[object]", value)]
    return value


def draft_of(
    new: NewEntry, info: BankInfo, identifier: str, now_us: int, vectors: tuple[Quantised, ...]
) -> Draft:
    """The entry to append, checked."""
    return Draft(
        id=identifier,
        content=checked_content(new.content),
        title=new.title or None,
        speaker=checked_speaker(info, new.speaker),
        name=new.name,
        thread=new.thread,
        subject=new.subject,
        metadata=own_metadata(new.metadata) if new.metadata else {},
        origin=new.origin,
        created_us=said_us(new.created_at, now_us),
        expires_us=None if new.expires_at is None else checked_time(new.expires_at, "expires_at"),
        vectors=vectors,
    )


def entry_of(
    draft: Draft,
    where: Partition,
    placed: Placed,
    *,
    origin: Origin,
    change: str,
    recorded_us: int,
    seen: int = 1,
) -> Entry:
    """The entry as the store now holds it, known without reading it back."""
    place = where.place
    return read_entry(
        placed.id, where.scope.space, place.bank, place.key, placed.seq, placed.version, draft.kind, draft.content,
        draft.title, draft.speaker, draft.name, draft.thread, draft.subject, cast("JsonObject", draft.metadata),
        draft.origin or origin, draft.created_us, recorded_us, draft.expires_us, change, seen, None,
    )  # fmt: skip


def revised(
    entry: Entry,
    content: str | None,
    title: str | None,
    metadata: Mapping[str, JsonValue] | None,
    vectors: tuple[Quantised, ...],
) -> Draft:
    """The next version of an entry: what is None stays; an empty title goes."""
    return Draft(
        id=entry.id,
        content=entry.content if content is None else checked_content(content),
        kind=entry.kind,
        title=entry.title if title is None else title or None,
        speaker=entry.speaker,
        name=entry.name,
        thread=entry.thread,
        subject=entry.subject,
        metadata=entry.metadata if metadata is None else own_metadata(metadata),
        created_us=entry.created_us,
        expires_us=entry.expires_us,
        vectors=vectors,
    )
