"""What an engine can do. Small abilities, each with its laws; ``Store`` is all of them.

Laws that hold for every call:

* Everything happens inside a scope; what lies outside looks missing.
* A returned commit is durable and visible to every later read, from any task, thread or process.
* Reads give values that later writes, or the caller, cannot change.
* Ids, times and randomness come from the caller; the store adds only seqs, versions, positions and cursors.

``holdfast.testing.StoreSuite`` holds each law as a test.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from holdfast.model.backup import Backup
from holdfast.model.batch import Batch, Commit
from holdfast.model.chore import Chore, ChoreState
from holdfast.model.document import Document, DocumentRef
from holdfast.model.entry import Entry, Quantised
from holdfast.model.forget import OriginMatch
from holdfast.model.journal import Change
from holdfast.model.scope import Scope
from holdfast.model.usage import Usage
from holdfast.model.window import EntryPage, KeyInfo, Window


class Commits(Protocol):
    """The one write path."""

    async def commit(self, batch: Batch) -> Commit:
        """Apply a batch atomically, durably, or raise and change nothing.

        * Operations apply in order; later ones see earlier ones. Requirements are checked first, on the state before.
        * A repeated idempotency key in its place with an equal digest returns the first commit, ``duplicate=True``,
          and writes nothing; with another digest it raises ``IdempotencyConflict``. Concurrent repeats write once.
        * The recorded time is the batch's, or later: inside a place recorded times strictly increase.
        * Seqs of a place are 1, 2, 3 … in commit order and never given twice, even after a forget.
        * A batch that was handed over completes even when its caller is cancelled.
        """
        ...


class Entries(Protocol):
    """Reading entries."""

    async def load(self, scope: Scope, window: Window) -> EntryPage:
        """Visible entries of a key, or of a bank, in the window's order. The scope must name a bank."""
        ...

    async def find(self, scope: Scope, ids: Sequence[str], *, as_of_us: int | None = None) -> list[Entry]:
        """The visible entries with these ids, in the order asked for, each once; missing ones are left out."""
        ...

    async def versions(self, scope: Scope, entry_id: str) -> list[Entry]:
        """All kept versions of an entry, oldest first; empty when there is none in this scope."""
        ...

    async def keys(
        self, scope: Scope, *, prefix: str = "", after: str | None = None, limit: int = 100
    ) -> list[KeyInfo]:
        """Keys of a bank that hold visible entries, by code points, starting after a key."""
        ...

    async def head(self, scope: Scope) -> int:
        """The seq of the last entry ever appended to the place; 0 when there was none."""
        ...


class Documents(Protocol):
    """Reading documents."""

    async def document(
        self, scope: Scope, ref: DocumentRef, *, as_of_us: int | None = None
    ) -> Document | None:
        """The visible document of that name. ``as_of_us`` raises ``HistoryUnavailable`` for kinds without versions."""
        ...

    async def documents(
        self, scope: Scope, kind: str, *, prefix: str = "", after: int = 0, limit: int = 1000
    ) -> list[Document]:
        """Visible documents of a kind in a place, in the order of first insertion, after a position."""
        ...

    async def document_versions(self, scope: Scope, document_id: str) -> list[Document]:
        """Kept versions of a document, oldest first, the current one last; empty when there is none in this scope."""
        ...


@dataclass(frozen=True, slots=True)
class Postings:
    """Where a term occurs: parallel arrays of row handles (ascending), term frequencies and entry lengths."""

    rows: array[int]
    frequencies: array[int]
    lengths: array[int]


@dataclass(frozen=True, slots=True)
class WordStats:
    """Term statistics of a scope: how many current entries, how many terms in all, and the postings of each term."""

    entries: int
    terms: int
    postings: Mapping[str, Postings]


class Words(Protocol):
    """The word index. Terms are those of ``holdfast.rules.words.index_terms``."""

    async def words(self, scope: Scope, terms: Sequence[str], *, as_of_us: int | None = None) -> WordStats:
        """Statistics of these terms in a key or a bank.

        Only visible entries count. Under ``as_of_us`` the postings are those of the versions known then, while
        ``entries`` and ``terms`` stay those of the present: exact for content, not for scores.
        """
        ...


class Vectors(Protocol):
    """The vector index."""

    async def nearest(
        self,
        scope: Scope,
        vector: Quantised,
        limit: int,
        *,
        rows: Sequence[int] | None = None,
        as_of_us: int | None = None,
    ) -> list[tuple[int, float]]:
        """Row handles and similarities, best first, ties by handle; an entry counts with its best vector.

        The similarity is the dot product of the stored forms, exact inside a key. ``rows`` restricts the search.
        A vector of another size than those stored raises ``EmbedderMismatch``.
        """
        ...


class Rows(Protocol):
    """Row handles: what the indexes speak. A handle is an opaque int of one store."""

    async def eligible(self, scope: Scope, window: Window) -> Sequence[int]:
        """Handles, ascending, of all entries that the window admits; its limit, cursor and order do not count."""
        ...

    async def fetch(self, scope: Scope, rows: Sequence[int]) -> list[Entry | None]:
        """The entries behind handles, in order; None for what is gone or outside the scope."""
        ...


class Journal(Protocol):
    """Reading what was changed."""

    async def changes(
        self,
        scope: Scope,
        *,
        after: int = 0,
        limit: int = 100,
        origin: OriginMatch | None = None,
    ) -> list[Change]:
        """Changes of the space in commit order, after a cursor; only those of an origin, when one is given."""
        ...

    async def change(self, scope: Scope, change_id: str) -> Change | None:
        """One change of the space."""
        ...


class Chores(Protocol):
    """Due work."""

    async def lease(
        self, *, worker: str, now_us: int, until_us: int, kinds: Sequence[str] | None = None, limit: int = 1
    ) -> list[Chore]:
        """Take due chores, oldest first; of each place at most one at a time, over all workers.

        A lease that has ended may be taken by anybody; its token grows, so the old holder's result is refused. A chore
        whose attempts are used up when its lease ends becomes dead instead of being leased again.
        """
        ...

    async def renew(self, chore_id: str, token: int, until_us: int) -> None:
        """Extend a lease; ``LeaseLost`` when it is not held any more."""
        ...

    async def release(self, worker: str) -> int:
        """Give back what a worker holds, and tell how much that was.

        Each of its leased chores is queued again as it was before the lease: due at the same time, with the attempt
        not counted. Its token stays, so a result that still arrives is refused.
        """
        ...

    async def chores(
        self,
        scope: Scope,
        *,
        states: Sequence[ChoreState] = (),
        kinds: Sequence[str] | None = None,
        limit: int = 100,
    ) -> list[Chore]:
        """Chores of a space, bank or key, oldest first; of these states, or of all; of these kinds, or of all."""
        ...

    async def next_due_us(self) -> int | None:
        """When the next chore or lease end is due; None when nothing waits."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong that a check found: where, what, and what to do."""

    where: str
    what: str
    hint: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check looked at and what it found."""

    examined: Mapping[str, int]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


@dataclass(frozen=True, slots=True)
class StoreStats:
    """How large a store is: bytes by what they hold, and how many records there are of each kind, in all spaces."""

    bytes: Mapping[str, int]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Overdue:
    """Records of one space whose time has passed."""

    space: str
    ids: tuple[str, ...]


class Upkeep(Protocol):
    """Looking after the store itself, over all spaces: for whoever runs it, never for whoever uses a space."""

    async def check(self) -> CheckReport:
        """Compare stored records with their hashes, and the indexes with the records."""
        ...

    async def residue(self, needles: Sequence[bytes]) -> Mapping[str, int]:
        """Occurrences of byte strings in the raw files, by file: the test of an erasure."""
        ...

    async def backup(
        self, target: str | None = None, *, verify: bool = False, scheduled: bool = False
    ) -> Backup:
        """Write a consistent copy while work goes on, and remember it, so that later receipts name it.

        ``target`` is a path that must not exist, or a folder in which a name is chosen by the time; without one that is
        the folder of the store. It holds everything that was acknowledged before the call. Under its name nothing ever
        stands that is not whole. ``verify`` has the copy compared with its hashes first. ``StoreUnsupported`` where
        there is nothing to copy.
        """
        ...

    async def backups(self) -> list[Backup]:
        """The remembered copies that are there, newest first."""
        ...

    async def drop_backup(self, path: str) -> None:
        """Remove a remembered copy; ``NotFound`` for every other file, and nothing is removed."""
        ...

    async def limit(self, space: str, size: int | None) -> None:
        """From now on refuse batches that make a space larger than so many bytes; None for no limit.

        Such a batch raises ``QuotaExceeded`` and changes nothing. One that does not make the space larger, or that
        forgets, is never refused, also where the space is over its limit already.
        """
        ...

    async def usage(self, space: str) -> Usage:
        """What a space holds, in bytes as ``Usage`` defines them, and its limit."""
        ...

    async def settle(self) -> None:
        """Bring the files to rest: everything written is in its final place and no erased byte is left behind.

        ``StoreBusy`` when that is not possible because somebody else goes on reading what was erased.
        """
        ...

    async def unsettled(self) -> Mapping[str, tuple[str, ...]]:
        """Receipts, by id, of which a byte may still be in the files, and what each waits for.

        ``settle`` finishes them, now or after the process was killed half-way.
        """
        ...

    async def erased(self, scope: Scope, ids: Sequence[str]) -> set[str]:
        """Those of the ids that a forget has removed, or cleared if they are chores (their tombstones)."""
        ...

    async def spaces(self) -> list[str]:
        """The spaces that hold anything, by code points."""
        ...

    async def overdue(
        self, *, expired_before_us: int, deleted_before_us: int, limit: int = 1000
    ) -> list[Overdue]:
        """Entries and documents that expired, and entries that were deleted and not restored, before these times.

        By space, at most so many ids in all. What a forget erases comes no more, so that asking again goes on.
        """
        ...

    async def trim_journal(self, before_us: int) -> int:
        """Remove the changes that were recorded before a time, and return how many; their records stay.

        The newest change of each space stays, and idempotency keys of that time go. A cursor goes on where it was.
        """
        ...

    async def trim_chores(self, before_us: int) -> int:
        """Remove chores that were done or cancelled and were made before a time, and return how many."""
        ...

    async def stats(self) -> StoreStats:
        """Count bytes by what they hold, and records of each kind, over all spaces."""
        ...

    async def compact(self) -> None:
        """Give space back that nothing uses. Takes time in proportion to the store; writers may wait meanwhile."""
        ...

    async def rebuild(self) -> None:
        """Make words and all else that is derived anew from the records. Writers may wait meanwhile.

        What is read is the same before and after, unless what was derived had been damaged.
        """
        ...

    async def aclose(self) -> None:
        """Finish what was accepted, then close. Closing twice does nothing."""
        ...


@runtime_checkable
class Store(Commits, Entries, Documents, Words, Vectors, Rows, Journal, Chores, Upkeep, Protocol):
    """An engine: every ability together."""
