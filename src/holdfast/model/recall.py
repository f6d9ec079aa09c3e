"""Results that users hold: additions, hits and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import overload

from holdfast.model.entry import Entry
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

    ``messages`` is the cacheable window of a conversation bank, the new entry last; empty on general banks.
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
    def content(self) -> str:
        """The entry's content."""
        return self.entry.content

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
    def speaker(self) -> str | None:
        """The role of who spoke."""
        return self.entry.speaker

    @property
    def metadata(self) -> JsonObject:
        """The entry's metadata."""
        return self.entry.metadata

    @property
    def created_at(self) -> datetime:
        """When it was said."""
        return self.entry.created_at


@dataclass(frozen=True, slots=True)
class Why:
    """Each feature's share of a hit's score."""

    shares: Mapping[str, float] = field(default_factory=lambda: MappingProxyType(dict[str, float]()))
    matched: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search: the entry, its score in [0, 1], and why it was chosen."""

    entry: Entry
    score: float
    why: Why


@dataclass(frozen=True, slots=True)
class Hits(Sequence[Hit]):
    """Hits, best first. ``omitted`` counts matches that the limit left out."""

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
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many entries."""
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        """The entries in order."""
        return iter(self.entries)

    def messages(self) -> tuple[Message, ...]:
        """The entries as messages, always chronological."""
        in_order = sorted(self.entries, key=lambda entry: entry.seq)
        return tuple(Message(self.role_of(entry), entry.content) for entry in in_order)

    def role_of(self, entry: Entry) -> str:
        """The role that an entry's message takes."""
        return self.summary_role if entry.kind == "summary" else entry.speaker or "user"
