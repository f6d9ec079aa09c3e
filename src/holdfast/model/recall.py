"""Results that users hold: additions, hits and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import overload

from holdfast.model.entry import Entry, Kind
from holdfast.model.origin import Origin
from holdfast.model.values import JsonObject
from holdfast.model.window import Cursor


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, as a model takes it."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class AddResult:
    """What an add did. The entry's fields can be read on the result itself.

    ``duplicate`` says that nothing was added, because the idempotency key or an equal entry was there already.
    ``warnings`` are codes. ``messages`` is the cacheable window of a conversation bank, the new entry last; empty on
    general banks. ``omitted`` counts entries between its summary and its first message.
    """

    entry: Entry
    duplicate: bool = False
    warnings: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    omitted: int = 0

    @property
    def id(self) -> str:
        """The entry's id."""
        return self.entry.id

    @property
    def key(self) -> str:
        """The entry's key."""
        return self.entry.key

    @property
    def seq(self) -> int:
        """The entry's number inside its key."""
        return self.entry.seq

    @property
    def version(self) -> int:
        """The entry's version."""
        return self.entry.version

    @property
    def change(self) -> str:
        """The change that wrote this version: what ``undo`` takes."""
        return self.entry.change

    @property
    def kind(self) -> Kind:
        """Entry or summary."""
        return self.entry.kind

    @property
    def content(self) -> str:
        """The entry's content."""
        return self.entry.content

    @property
    def title(self) -> str | None:
        """The entry's title."""
        return self.entry.title

    @property
    def speaker(self) -> str | None:
        """The role of who spoke."""
        return self.entry.speaker

    @property
    def name(self) -> str | None:
        """What the speaker is called."""
        return self.entry.name

    @property
    def thread(self) -> str | None:
        """The chat session."""
        return self.entry.thread

    @property
    def subject(self) -> str | None:
        """Whom the entry is about."""
        return self.entry.subject

    @property
    def metadata(self) -> JsonObject:
        """The entry's metadata."""
        return self.entry.metadata

    @property
    def origin(self) -> Origin:
        """Where the entry came from."""
        return self.entry.origin

    @property
    def seen(self) -> int:
        """How often it was said."""
        return self.entry.seen

    @property
    def created_at(self) -> datetime:
        """When it was said."""
        return self.entry.created_at

    @property
    def updated_at(self) -> datetime:
        """When this version was recorded."""
        return self.entry.updated_at

    @property
    def expires_at(self) -> datetime | None:
        """When it stops being visible by itself."""
        return self.entry.expires_at


@dataclass(frozen=True, slots=True)
class Why:
    """Why a hit was chosen: each feature's share of its score (they add up to it), and the words that matched."""

    shares: Mapping[str, float] = field(default_factory=lambda: MappingProxyType(dict[str, float]()))
    matched: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line for people."""
        shares = ", ".join(f"{name} {share:.2f}" for name, share in self.shares.items())
        return f"{shares} (matched: {', '.join(self.matched)})" if self.matched else shares


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search: the entry, its score in [0, 1], and why it was chosen."""

    entry: Entry
    score: float
    why: Why


@dataclass(frozen=True, slots=True)
class Hits(Sequence[Hit]):
    """Hits, best first. ``omitted`` counts matches that the limit left out; ``warnings`` are codes."""

    found: tuple[Hit, ...] = ()
    omitted: int = 0
    warnings: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        """A hit, or a slice of them."""
        return self.found[index]

    def __len__(self) -> int:
        """How many hits."""
        return len(self.found)

    def __iter__(self) -> Iterator[Hit]:
        """The hits, best first."""
        return iter(self.found)


@dataclass(frozen=True, slots=True)
class Page:
    """Entries in the order asked for; ``next`` is the cursor of the following page, None at the end."""

    entries: tuple[Entry, ...]
    next: Cursor | None = None
    summary_role: str = "user"
    by_seq: bool = True

    def __len__(self) -> int:
        """How many entries."""
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        """The entries in order."""
        return iter(self.entries)

    def messages(self) -> tuple[Message, ...]:
        """The entries as messages, always chronological."""
        order = _arrival if self.by_seq else _said
        return tuple(message_of(entry, self.summary_role) for entry in sorted(self.entries, key=order))


def message_of(entry: Entry, summary_role: str) -> Message:
    """An entry as a model takes it."""
    return Message(summary_role if entry.kind == "summary" else entry.speaker or "user", entry.content)


def _arrival(entry: Entry) -> tuple[str, int]:
    return entry.key, entry.seq


def _said(entry: Entry) -> tuple[int, str, int]:
    return entry.created_us, entry.key, entry.seq
