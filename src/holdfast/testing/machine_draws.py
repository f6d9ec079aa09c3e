"""What the store machine writes: operations drawn from small pools, so that names, texts and ids meet often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from hypothesis import strategies as st

from holdfast.model.batch import (
    Append,
    DocumentVersion,
    Drop,
    Enqueue,
    EntryVersion,
    Fail,
    Finish,
    Forget,
    Head,
    Idempotency,
    Operation,
    Put,
    Remove,
    Requirement,
    Restore,
    Retire,
    Retry,
    Revise,
)
from holdfast.model.chore import Chore
from holdfast.model.document import DocumentRef
from holdfast.model.entry import Draft, Kind, Quantised, Reason
from holdfast.model.filter import Filter, compile_filter
from holdfast.model.forget import OriginMatch, Selector
from holdfast.model.origin import UNKNOWN, Origin
from holdfast.model.scope import Place, Scope
from holdfast.model.values import JsonValue
from holdfast.model.window import Window
from holdfast.testing.clock import ManualClock
from holdfast.testing.making import Maker

T = TypeVar("T")
SPACES: Final = ("acme", "acme", "acme", "acme", "globex")
BANKS: Final = ("notes", "notes", "letters")
KEYS: Final = ("a", "a", "a", "ab", "\xe9", "\uff5e", "\U0001f600")
TEXTS: Final = (
    "tea",
    "tea tea milk",
    "coffee with milk",
    "",
    "Straße café",
    "日本語",
    "milk " * 5,
    "a tea",
    "Tea's",
)
TERMS: Final = ("tea", "milk", "coffee", "strasse", "cafe", "日本", "with", "a", "teas", "gin")
KINDS: Final = ("block", "block", "value", "working", "digest")
NAMES: Final = ("n", "n", "m%", "m_", "\xe9")
OPERATIONS: Final = (
    *("append",) * 7, *("revise", "retire", "restore", "put") * 3,
    "remove", "enqueue", "enqueue", "drop", "retry", "end",
)  # fmt: skip
METADATA: Final[tuple[dict[str, JsonValue], ...]] = (
    {},
    {},
    {"a": 1},
    {"b": [1, {"c": None}]},
    {"a": "x", "d": True},
)
FILTERS: Final[tuple[Mapping[str, object], ...]] = (
    {"a": {"$eq": 1}}, {"a": {"$exists": True}}, {"kind": {"$eq": "entry"}}, {"$name": {"$eq": "Ann"}},
)  # fmt: skip
PAYLOADS: Final[tuple[JsonValue, ...]] = (None, {"a": 1}, "x")
VALUES: Final[tuple[JsonValue, ...]] = (None, 1, "x", [1, {"a": []}])
ORIGINS: Final = (
    UNKNOWN,
    UNKNOWN,
    Origin(author="ann"),
    Origin(author="ann", run_id="r"),
    Origin(channel="tool"),
)
MATCHES: Final = (OriginMatch(author="ann"), OriginMatch(run_id="r"), OriginMatch(channel="user"))
VECTORS: Final = tuple(
    Quantised(bytes(component % 256 for component in components), scale)
    for components, scale in (((1, 0, 0), 1.0), ((0, 2, 0), 0.5), ((-3, 4, 0), 0.25), ((127, -128, 5), 0.125))
)
ODD_VECTOR: Final = Quantised(b"\x01\x02", 1.0)


@dataclass(slots=True)
class Known:
    """Ids and times that were handed out in one space, whatever became of them."""

    entries: list[str] = field(default_factory=list[str])
    documents: list[str] = field(default_factory=list[str])
    chores: list[str] = field(default_factory=list[str])
    changes: list[str] = field(default_factory=list[str])
    digests: dict[str, tuple[Place, bytes]] = field(default_factory=dict[str, tuple[Place, bytes]])
    """Where entries stand that were appended with a digest."""
    cleared: set[str] = field(default_factory=set[str])
    """Chores that a forget has cleared: whether they keep their dedupe keys is not said, so none is queued again."""
    sized: bool = False
    """Whether a vector was written here, so that one of another size is surely refused."""

    def note(self, operation: Operation) -> None:
        """Remember the id that an operation brings."""
        match operation:
            case Append():
                self.entries.append(operation.draft.id)
                if operation.digest is not None:
                    self.digests[operation.draft.id] = (operation.place, operation.digest)
            case Put():
                self.documents.append(operation.id)
            case Enqueue():
                self.chores.append(operation.draft.id)
            case _:
                pass


@dataclass(frozen=True, slots=True)
class Sight:
    """What stands in one space now, as far as it helps to draw operations that mostly succeed."""

    visible: Sequence[str]
    retired: Sequence[str]
    leased: Sequence[Chore]
    live: Sequence[Chore]
    ended: Sequence[Chore]


class Dice:
    """Draws what a step writes or asks for."""

    __slots__ = ("clock", "data", "known", "make", "times")

    def __init__(
        self, data: st.DataObject, clock: ManualClock, make: Maker, known: Known, times: list[int]
    ) -> None:
        self.data = data
        self.clock = clock
        self.make = make
        self.known = known
        self.times = times

    def one(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return self.data.draw(st.sampled_from(choices))

    def some(self, choices: Sequence[T], most: int = 4) -> list[T]:
        """A few of the choices, repeats allowed."""
        return self.data.draw(st.lists(st.sampled_from(choices), max_size=most)) if choices else []

    def chance(self, one_in: int) -> bool:
        """True once in so many times."""
        return self.data.draw(st.integers(0, one_in - 1)) == one_in - 1

    def maybe(self, choices: Sequence[T], one_in: int = 3) -> T | None:
        """One of the choices once in so many times."""
        return self.one(choices) if self.chance(one_in) else None

    def likely(self, fitting: Sequence[str], known: Sequence[str]) -> str:
        """An id that fits, mostly; else one that was handed out, or one that never was."""
        if fitting and not self.chance(8):
            return self.one(fitting)
        return self.one(known) if known and not self.chance(8) else self.make.id()

    def soon(self) -> int:
        """A time around now."""
        return self.clock.now_us() + self.one((-5, 0, 3, 50, 100_000))

    def place(self) -> Place:
        """A place."""
        return Place(self.one(BANKS), self.one(KEYS))

    def ref(self) -> DocumentRef:
        """The name of a document."""
        return DocumentRef(self.one(BANKS), self.one(KEYS[:4]), self.one(KINDS), self.one(NAMES))

    def origin(self) -> Origin | None:
        """No origin, one of the usual ones, or one with sources."""
        if self.chance(4):
            sources = self.some([*self.known.entries, *self.known.documents], 3)
            return Origin(method=self.one(("merged", "extracted", "stated")), sources=tuple(sources))
        return self.maybe(ORIGINS)

    def vectors(self) -> tuple[Quantised, ...]:
        """Vectors of an entry, of the size of the others."""
        return tuple(self.some(VECTORS, 2)) if self.chance(2) else ()

    def draft(self, identifier: str) -> Draft:
        """A draft of an entry."""
        kind: Kind = "summary" if self.chance(6) else "entry"
        return Draft(
            id=identifier,
            content=self.one(TEXTS),
            kind=kind,
            title=self.maybe(("Tea time", "x"), 5),
            name=self.maybe(("Ann", "Milk"), 6),
            subject=self.maybe(KEYS, 6),
            metadata=self.one(METADATA),
            origin=self.origin(),
            created_us=self.soon(),
            expires_us=self.soon() if self.chance(6) else None,
            vectors=self.vectors(),
        )

    def append(self) -> Append:
        """An append; of a known id, or of a vector of another size, once in a long time."""
        place = self.place()
        if self.known.entries and self.chance(30):
            return Append(place, self.draft(self.one(self.known.entries)))
        draft = self.draft(self.make.id(place.key, place.bank))
        if self.known.sized and self.chance(40):
            draft = replace(draft, vectors=(ODD_VECTOR,))
        return Append(place, draft, self.maybe((b"1", b"2"), 2))

    def put(self) -> Put:
        """A put of a document."""
        return Put(
            self.ref(),
            self.make.id(),
            self.one(VALUES),
            expires_us=self.soon() if self.chance(5) else None,
            subject=self.maybe(KEYS, 6),
            expected=self.maybe((0, 1, 2), 6),
        )

    def operation(self, sight: Sight) -> Operation:
        """Any operation but a forget."""
        known = self.known
        leased = [chore.id for chore in sight.leased]
        holding = self.maybe((0, 1, 2, 3), 10)
        match self.fitting(self.one(OPERATIONS), sight):
            case "revise":
                return Revise(self.draft(self.likely(sight.visible, known.entries)), holding)
            case "retire":
                by = self.maybe(sight.visible or ("0" * 32,), 2)
                return Retire(self.likely(sight.visible, known.entries), self.reason(), by, holding)
            case "restore":
                return Restore(self.likely(sight.retired, known.entries), self.maybe((1, 2, 3), 4))
            case "put":
                return self.put()
            case "remove":
                return Remove(self.ref(), self.maybe((1, 2), 6))
            case "enqueue":
                return self.enqueue()
            case "drop":
                return Drop(self.likely([chore.id for chore in sight.live], known.chores))
            case "retry":
                chores = [chore for chore in known.chores if chore not in known.cleared]
                ended = [chore.id for chore in sight.ended if chore.id not in known.cleared]
                return Retry(self.likely(ended, chores), self.soon())
            case "end":
                return self.end(sight.leased, self.likely(leased, known.chores))
            case _:
                return self.append()

    def fitting(self, kind: str, sight: Sight) -> str:
        """The kind of operation, or one that brings what it needs when there is nothing for it, mostly."""
        lacking = {
            "revise": (sight.visible, "append"), "retire": (sight.visible, "append"),
            "restore": (sight.retired, "append"), "drop": (sight.live, "enqueue"),
            "retry": (sight.ended, "enqueue"), "end": (sight.leased, "enqueue"),
        }  # fmt: skip
        there, instead = lacking.get(kind, (True, kind))
        return kind if there or self.chance(8) else instead

    def reason(self) -> Reason:
        """Why an entry is retired: behind a summary, mostly."""
        return self.one((Reason.HIDDEN, Reason.HIDDEN, Reason.DELETED, Reason.SUPERSEDED))

    def enqueue(self) -> Enqueue:
        """A chore."""
        ids = [*self.known.entries, *self.known.documents]
        naming: list[JsonValue] = [self.one(ids)] if ids else []
        payload = naming if self.chance(2) else self.one(PAYLOADS)
        place = self.place()
        return self.make.enqueue(
            self.one(("extract", "digest")), key=place.key, bank=place.bank, due_us=self.soon(),
            dedupe=self.maybe(("d", "e"), 2), payload=payload, max_attempts=self.one((1, 2, 8)),
        )  # fmt: skip

    def end(self, leased: Sequence[Chore], chore_id: str) -> Operation:
        """The end of a chore: finished or failed, with its own token, mostly."""
        tokens = {chore.id: chore.token for chore in leased}
        token = self.one((0, 1, 2)) if self.chance(8) else tokens.get(chore_id, 1)
        if self.chance(2):
            return Finish(chore_id, token)
        return Fail(chore_id, token, self.one(("no", "never")), self.maybe((self.clock.now_us() + 10,), 2))

    def forget(self, sight: Sight) -> Forget:
        """A forget, mostly of little."""
        ids = [self.likely(sight.visible, [*self.known.entries, *self.known.documents])]
        ids += self.some([*self.known.entries, *self.known.documents], 1)
        before_us = self.one(self.times) if self.times and self.chance(5) else None
        match self.one(("ids", "ids", "ids", "key", "place", "subject", "origin", "both")):
            case "key":
                selector = Selector(key=self.one(KEYS), created_before_us=before_us)
            case "place":
                selector = Selector(bank=self.one(BANKS), key=self.one(KEYS), created_before_us=before_us)
            case "subject":
                selector = Selector(subject=self.one(KEYS), bank=self.maybe(BANKS))
            case "origin":
                selector = Selector(origin=self.one(MATCHES[:2]), bank=self.maybe(BANKS))
            case "both":
                selector = Selector(ids=tuple(ids), key=self.one(KEYS), created_before_us=before_us)
            case _:
                selector = Selector(ids=tuple(ids))
        return Forget(selector, self.maybe(("ann",)), self.maybe(("asked",)))

    def requirement(self, sight: Sight) -> Requirement:
        """Something that may or may not hold."""
        match self.one(("entry", "document", "head")):
            case "entry":
                return EntryVersion(self.likely(sight.visible, self.known.entries), self.one((1, 1, 0, 2)))
            case "document":
                return DocumentVersion(self.ref(), self.one((0, 1, None)))
            case _:
                return Head(self.place(), self.one((0, 1, 2)))

    def idempotency(self) -> Idempotency:
        """One of a few idempotency keys."""
        return Idempotency(
            Place("notes", self.one(KEYS[:4])), self.one(("i", "j")), self.one((b"1", b"1", b"2"))
        )

    def scope(self, space: str) -> Scope:
        """A bank or a key, of the space mostly."""
        where = space if not self.chance(10) else self.one(SPACES)
        return Scope(where, self.one(BANKS), self.maybe(KEYS, 2))

    def any_scope(self, space: str) -> Scope:
        """A space, a bank or a key."""
        return Scope(space) if self.chance(2) else self.scope(space)

    def as_of(self, one_in: int = 3) -> int | None:
        """No time, or one around a commit."""
        return self.one(self.times) + self.one((-1, 0, 0, 1)) if self.times and self.chance(one_in) else None

    def filter(self) -> Filter | None:
        """No filter, or a simple one."""
        chosen = self.maybe(FILTERS, 4)
        return None if chosen is None else compile_filter(chosen)

    def window(self) -> Window:
        """Any window."""
        return Window(
            order=self.one(("oldest_first", "newest_first")),
            by=self.one(("seq", "created")),
            limit=self.one((1, 2, 3, 100)),
            created_from_us=self.soon() if self.chance(8) else None,
            created_until_us=self.soon() if self.chance(8) else None,
            filter=self.filter(),
            as_of_us=self.as_of(),
            hidden=self.chance(3),
        )
