"""What the store in memory holds: dictionaries of frozen records, and a way to take changes of them back.

A record keeps JSON as text and parses it afresh for each reader, so that nobody can change what is stored.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Self, TypeAlias, TypeVar, cast

from holdfast.model.batch import Commit
from holdfast.model.chore import LIVE, Chore
from holdfast.model.document import Document, DocumentRef
from holdfast.model.entry import Entry, Quantised, Reason
from holdfast.model.forget import OriginMatch
from holdfast.model.journal import Change
from holdfast.model.scope import Place
from holdfast.model.values import JsonObject, load_json

K = TypeVar("K")
V = TypeVar("V")
Spot: TypeAlias = tuple[str, str, str]
"""Space, bank and key."""
Shelf: TypeAlias = tuple[str, str, str, str]
"""Space, bank, key and kind of document."""


class Undo:
    """Changes tables and remembers how to take each change back; does so when its block ends in an error."""

    __slots__ = ("_back",)

    def __init__(self) -> None:
        self._back: list[Callable[[], object]] = []

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        """Set an item of a table."""
        if key in table:
            before = table[key]
            self._back.append(lambda: table.__setitem__(key, before))
        else:
            self._back.append(lambda: table.pop(key, None))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> None:
        """Remove an item of a table, if it is there."""
        if key in table:
            before = table[key]
            self._back.append(lambda: table.__setitem__(key, before))
            del table[key]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            for step in reversed(self._back):
                step()


@dataclass(frozen=True, slots=True)
class EntryRecord:
    """One version of an entry with its index data. ``row`` numbers all versions in the store."""

    row: int
    bare: Entry
    metadata: str
    digest: bytes | None
    vectors: tuple[Quantised, ...]
    terms: Mapping[str, int]

    @property
    def length(self) -> int:
        """How many terms it has, repeated ones counted each time."""
        return sum(self.terms.values())

    def read(self) -> Entry:
        """The version with its metadata, for a reader to own."""
        return replace(self.bare, metadata=cast("JsonObject", load_json(self.metadata)))

    def hidden(self, as_of_us: int | None, now_us: int) -> bool:
        """Whether it was retired behind a summary by that time, and would not have expired anyway."""
        retired, expires_us = self.bare.retired, self.bare.expires_us
        if retired is None or retired.reason is not Reason.HIDDEN:
            return False
        if expires_us is not None and expires_us < (now_us if as_of_us is None else as_of_us):
            return False
        return as_of_us is None or retired.at_us <= as_of_us


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """One version of a document."""

    bare: Document
    value: str

    def read(self) -> Document:
        """The version with its value, for a reader to own."""
        return replace(self.bare, value=load_json(self.value))


@dataclass(frozen=True, slots=True)
class ChoreRecord:
    """A chore."""

    bare: Chore
    payload: str

    def read(self) -> Chore:
        """The chore with its payload, for a reader to own."""
        return replace(self.bare, payload=load_json(self.payload))


@dataclass(frozen=True, slots=True)
class Repeat:
    """What an idempotency key stands for: the digest of the input, and the commit that it gave."""

    digest: bytes
    commit: Commit


Versions: TypeAlias = tuple[EntryRecord, ...]
DocumentVersions: TypeAlias = tuple[DocumentRecord, ...]


@dataclass(slots=True)
class Tables:
    """All that is stored. Tuples of versions are never empty: oldest first, the current one last."""

    entries: dict[str, Versions] = field(default_factory=dict[str, Versions])
    rows: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    keys: dict[tuple[str, str], dict[str, dict[int, str]]] = field(
        default_factory=dict[tuple[str, str], dict[str, dict[int, str]]]
    )
    """By space and bank: the ids of the entries of each key, by seq."""
    heads: dict[Spot, int] = field(default_factory=dict[Spot, int])
    digests: dict[tuple[Spot, bytes], tuple[str, ...]] = field(
        default_factory=dict[tuple[Spot, bytes], tuple[str, ...]]
    )
    """The entries whose current version has a digest, in the order in which they took it."""
    documents: dict[Shelf, dict[str, DocumentVersions]] = field(
        default_factory=dict[Shelf, dict[str, DocumentVersions]]
    )
    document_refs: dict[str, tuple[str, DocumentRef]] = field(
        default_factory=dict[str, tuple[str, DocumentRef]]
    )
    """The space and the name of each document, by id."""
    positions: dict[Spot, int] = field(default_factory=dict[Spot, int])
    chores: dict[str, ChoreRecord] = field(default_factory=dict[str, ChoreRecord])
    live: dict[str, None] = field(default_factory=dict[str, None])
    """The chores that are queued or leased."""
    dedupes: dict[tuple[str, Place, str], str] = field(default_factory=dict[tuple[str, Place, str], str])
    """The live chore of each space, place and dedupe key."""
    erased: dict[str, str] = field(default_factory=dict[str, str])
    """Tombstones: the space of each erased entry and document."""
    repeats: dict[tuple[str, Place, str], Repeat] = field(
        default_factory=dict[tuple[str, Place, str], Repeat]
    )
    changes: dict[str, Change] = field(default_factory=dict[str, Change])
    feeds: dict[str, list[Change]] = field(default_factory=dict[str, list[Change]])
    """The changes of each space in commit order."""
    limits: dict[str, int] = field(default_factory=dict[str, int])
    """How many bytes a space may hold, where it has a limit."""
    last_us: int = -1
    last_cursor: int = 0
    counters: dict[str, int] = field(default_factory=lambda: {"row": 0, "dimensions": 0})

    def versions(self, space: str, entry_id: str) -> Versions:
        """All versions of an entry; none when there is no such entry in the space."""
        found = self.entries.get(entry_id, ())
        return found if found and found[0].bare.space == space else ()

    def visible_entry(self, space: str, entry_id: str, now_us: int) -> EntryRecord | None:
        """The visible version of an entry."""
        found = self.versions(space, entry_id)
        return found[-1] if found and found[-1].bare.visible(now_us) else None

    def document_versions(self, space: str, ref: DocumentRef) -> DocumentVersions:
        """The kept versions of a document."""
        return self.documents.get((space, ref.bank, ref.key, ref.kind), {}).get(ref.name, ())

    def visible_document(self, space: str, ref: DocumentRef, now_us: int) -> DocumentRecord | None:
        """The visible version of a document."""
        found = self.document_versions(space, ref)
        return found[-1] if found and found[-1].bare.visible(now_us) else None

    def all_documents(self, space: str) -> Iterator[DocumentVersions]:
        """The kept versions of each document of a space."""
        for shelf, names in self.documents.items():
            if shelf[0] == space:
                yield from names.values()

    def feed(self, space: str, after: int, limit: int, origin: OriginMatch | None) -> list[Change]:
        """Changes of a space after a cursor."""
        changes = self.feeds.get(space, [])
        start = bisect_right(changes, after, key=lambda change: change.cursor)
        later = (changes[place] for place in range(start, len(changes)))
        return list(islice((c for c in later if origin is None or origin.accepts(c.origin)), limit))

    def keep_chore(self, undo: Undo, record: ChoreRecord) -> None:
        """Write a chore and what finds it."""
        chore = record.bare
        undo.put(self.chores, chore.id, record)
        if chore.state in LIVE:
            undo.put(self.live, chore.id, None)
        else:
            undo.drop(self.live, chore.id)
        if chore.dedupe is not None:
            name = (chore.space, chore.place, chore.dedupe)
            if chore.state in LIVE:
                undo.put(self.dedupes, name, chore.id)
            elif self.dedupes.get(name) == chore.id:
                undo.drop(self.dedupes, name)
