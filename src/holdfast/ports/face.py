"""The face: what users hold. Implemented over a store, over HTTP, and generated without ``await``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol, Self

from holdfast.model.backup import Backup, Schedule
from holdfast.model.bank import BankInfo, BankKind, NewEntry
from holdfast.model.chore import Chore, ChoreState
from holdfast.model.entry import Entry
from holdfast.model.filter import Filter
from holdfast.model.forget import OriginMatch, Receipt
from holdfast.model.journal import Change
from holdfast.model.origin import Origin
from holdfast.model.recall import AddResult, Hits, Page
from holdfast.model.usage import Usage
from holdfast.model.values import JsonValue
from holdfast.model.window import Cursor, KeyInfo, Order

FilterInput = Filter | Mapping[str, object]
Method = Literal["hybrid", "vector", "lexical"]


class Bank(Protocol):
    """A named collection of entries with its policies. Options are those of the reference page "Banks"."""

    @property
    def id(self) -> str:
        """The bank's id, for good."""
        ...

    @property
    def name(self) -> str:
        """The bank's name when this handle was made."""
        ...

    @property
    def info(self) -> BankInfo:
        """The settings as this handle last saw them."""
        ...

    async def add(
        self,
        content: str,
        *,
        key: str,
        metadata: Mapping[str, JsonValue] | None = None,
        speaker: str | None = None,
        name: str | None = None,
        thread: str | None = None,
        title: str | None = None,
        subject: str | None = None,
        created_at: datetime | None = None,
        expires_at: datetime | None = None,
        idempotency_key: str | None = None,
        origin: Origin | None = None,
        vector: Sequence[float] | None = None,
    ) -> AddResult:
        """Append an entry; durable and searchable when this returns.

        Conversation banks need a ``speaker`` (``user`` or ``assistant``), general ones ignore it with a warning. The
        same ``idempotency_key`` again gives the first result, or ``IdempotencyConflict`` when the content, speaker or
        metadata differ. ``created_at`` is for imports.
        """
        ...

    async def add_many(
        self, entries: Sequence[NewEntry], *, idempotency_key: str | None = None, origin: Origin | None = None
    ) -> list[AddResult]:
        """Append many entries in one atomic batch; results in the order given, without ``messages``."""
        ...

    async def search(
        self,
        query: str,
        *,
        key: str | None = None,
        limit: int = 10,
        filter: FilterInput | None = None,
        added_after: datetime | None = None,
        added_before: datetime | None = None,
        as_of: datetime | None = None,
        min_score: float | None = None,
        method: Method = "hybrid",
        vector: Sequence[float] | None = None,
    ) -> Hits:
        """The entries that fit a question best, best first, each with its reasons.

        Without a ``key`` the whole bank is searched. ``added_after`` is inclusive, ``added_before`` exclusive.
        ``as_of`` asks what was known then. ``hybrid`` uses words, and vectors where there are any.
        """
        ...

    async def load(
        self,
        *,
        key: str,
        order: Order = "newest_first",
        limit: int = 100,
        filter: FilterInput | None = None,
        added_after: datetime | None = None,
        added_before: datetime | None = None,
        as_of: datetime | None = None,
        include_originals: bool = False,
        after: Cursor | None = None,
    ) -> Page:
        """Entries of a key in order: that of arrival in conversation banks, of ``created_at`` in general ones.

        ``include_originals`` shows entries behind a summary as well; ``after`` is the ``next`` of the page before.
        """
        ...

    async def get(self, entry_id: str, *, as_of: datetime | None = None) -> Entry:
        """One entry; ``EntryNotFound`` when it is not visible here."""
        ...

    async def update(
        self,
        entry_id: str,
        *,
        content: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        expected_version: int | None = None,
        origin: Origin | None = None,
        vector: Sequence[float] | None = None,
    ) -> Entry:
        """Write a new version of an entry; the old one stays in its history.

        What is None stays as it is, an empty title goes, metadata is replaced as a whole. A vector that was handed in
        must be handed in again. ``VersionConflict`` when the version is not the one expected.
        """
        ...

    async def delete(self, entry_id: str, *, hard: bool = False) -> Receipt | None:
        """Take an entry out of sight, restorable; with ``hard`` erase it and return the receipt."""
        ...

    async def restore(self, entry_id: str) -> Entry:
        """Bring an entry back that was deleted in the last 30 days."""
        ...

    async def history(self, entry_id: str) -> list[Entry]:
        """All kept versions of an entry, oldest first."""
        ...

    async def keys(self, *, prefix: str = "", after: str | None = None, limit: int = 100) -> list[KeyInfo]:
        """Keys that hold visible entries; what retention hides does not count."""
        ...

    async def configure(self, *, expected_version: int | None = None, **settings: object) -> BankInfo:
        """Change settings: what is not named stays, 0 or None switches a number off.

        A ``history_window`` without a ``window_chunk`` brings its chunk, as when a bank is made.
        """
        ...

    async def wipe(self) -> Receipt:
        """Erase every entry, keep the bank."""
        ...

    async def list(
        self,
        *,
        key: str | None = None,
        limit: int = 100,
        filter: FilterInput | None = None,
        after: Cursor | None = None,
    ) -> Page:
        """Entries of the whole bank (or of one key), by key and time, page by page."""
        ...


class Banks(Protocol):
    """The banks of a space."""

    async def create(self, name: str, *, kind: BankKind = "conversation", **settings: object) -> Bank:
        """Make a bank; ``AlreadyExists`` when the name is taken, upper or lower case."""
        ...

    async def get(self, name: str) -> Bank:
        """The bank with this name or id; ``BankNotFound`` otherwise."""
        ...

    async def ensure(self, name: str, *, kind: BankKind | None = None, **settings: object) -> Bank:
        """The bank with this name, made first when it is missing (as a conversation bank when no kind is given).

        ``AlreadyExists`` with the code ``bank_kind_differs`` when it is there with another kind than the one given.
        """
        ...

    async def list(
        self, *, kind: BankKind | None = None, prefix: str = "", limit: int = 100
    ) -> list[BankInfo]:
        """Settings of the banks, oldest first."""
        ...

    async def delete(self, name: str) -> Receipt:
        """Erase a bank with everything in it."""
        ...


class Values(Protocol):
    """Named values with optional expiry: the seed's MemoryStore, versioned."""

    async def get(self, key: str) -> JsonValue:
        """The value, or None when there is none or it has expired."""
        ...

    async def get_many(self, keys: Sequence[str]) -> dict[str, JsonValue]:
        """The values that exist, by key."""
        ...

    async def set(self, key: str, value: JsonValue, ttl_ms: int | None = None) -> None:
        """Write a value; without ``ttl_ms`` it never expires."""
        ...

    async def list(self, prefix: str | None = None) -> list[str]:
        """Live keys with a prefix, in the order of first insertion."""
        ...

    async def delete(self, key: str) -> None:
        """Remove a value; nothing happens when there is none."""
        ...


class Chores(Protocol):
    """The background work of a space. Running it, with ``drain`` and ``run_once``, is for all spaces together."""

    async def drain(self, timeout: float | None = None) -> int:
        """Run everything that is due by now, of every space, and tell how many chores ran.

        It looks first for what is due by the state of the memory. What fails is due again later, and not waited for.
        After ``timeout`` seconds, what still runs is handed back to whoever comes next.
        """
        ...

    async def run_once(self) -> Chore | None:
        """Run the oldest chore that is due, of any space, and return it as it was taken; None when nothing is due."""
        ...

    async def pending(self, *, limit: int = 100) -> list[Chore]:
        """Chores that wait or run."""
        ...

    async def dead(self, *, limit: int = 100) -> list[Chore]:
        """Chores that failed too often; ``last_error`` says where, without any content."""
        ...

    async def retry(self, chore_id: str) -> None:
        """Make a dead or cancelled chore due now, with its attempts counted anew; ``Conflict`` for others."""
        ...

    async def drop(self, chore_id: str) -> None:
        """Cancel a chore that is not done; a result that still arrives is not written."""
        ...

    async def cancel(self, chore_id: str) -> None:
        """The same as ``drop``."""
        ...

    async def rebuild(self) -> None:
        """Make the chore due that makes words and other derived data of the whole memory anew from its records."""
        ...

    async def list(
        self, *, states: Sequence[ChoreState | str] = (), kind: str | None = None, limit: int = 100
    ) -> list[Chore]:
        """Chores of this space, oldest first; of these states and this kind, or of all."""
        ...


class Backups(Protocol):
    """Copies of the whole memory, over all spaces: for whoever runs it."""

    async def make(self, target: str | os.PathLike[str] | None = None, *, verify: bool = False) -> Backup:
        """Copy the memory while work goes on: to a new path, or under a name by the time into a folder.

        Without a target that is the folder of the memory. ``verify`` has the copy compared with its hashes. Later
        receipts name the copy. ``StoreUnsupported`` for a memory that keeps nothing.
        """
        ...

    async def list(self) -> list[Backup]:
        """The copies that this memory has made and that are still there, newest first."""
        ...

    async def schedule(self, folder: str | os.PathLike[str], *, every: timedelta, keep: int = 7) -> Schedule:
        """Have the background work make a copy in each interval from now on, and keep the newest few.

        The setting is kept in the memory. Of all processes that have it open one does the work. Only copies that the
        schedule made are removed, and only when a newer one is whole.
        """
        ...

    async def scheduled(self) -> Schedule | None:
        """The schedule in force."""
        ...

    async def unschedule(self) -> None:
        """Make no more copies by a schedule; those that there are stay."""
        ...


class Space(Protocol):
    """A tenant: nothing reaches across."""

    @property
    def name(self) -> str:
        """The name of the space."""
        ...

    @property
    def banks(self) -> Banks:
        """The banks of this space."""
        ...

    @property
    def values(self) -> Values:
        """The values of this space."""
        ...

    @property
    def chores(self) -> Chores:
        """The background work of this space."""
        ...

    async def history(self, record_id: str) -> list[Change]:
        """The changes that made an entry or document what it is, oldest first; empty when there is none here."""
        ...

    async def changes(
        self, *, after: int = 0, limit: int = 100, origin: OriginMatch | None = None
    ) -> list[Change]:
        """The feed: changes in commit order, after a cursor."""
        ...

    async def undo(
        self, *change_ids: str, origin: OriginMatch | None = None, cascade: bool = False
    ) -> Change:
        """Take changes back, or all that came from an origin, in one new change.

        ``UndoConflict`` names later changes that build on them; ``cascade`` takes those along. An undo can be undone.
        ``HistoryUnavailable`` when a change erased something, is too old, or what was before is not kept.
        """
        ...

    async def forget(
        self,
        *,
        subject: str | None = None,
        bank: str | None = None,
        key: str | None = None,
        ids: Sequence[str] = (),
        origin: OriginMatch | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Receipt:
        """Erase for good, with everything made from it; the selectors narrow each other.

        ``bank`` is a name or an id. ``by`` and ``reason`` are kept with the receipt. What cannot be finished now,
        since another program goes on reading what was erased, is finished by a chore; ``receipt`` tells when.
        """
        ...

    async def limit(self, bytes: int | None) -> None:
        """Refuse with ``QuotaExceeded`` what would make this space larger than so many bytes; None for no limit.

        Reading, deleting and forgetting always work. A limit below what the space holds already is allowed.
        """
        ...

    async def usage(self) -> Usage:
        """What this space holds, in bytes, and its limit."""
        ...

    async def receipt(self, receipt_id: str) -> Receipt:
        """A receipt of this space as it stands now; ``DocumentNotFound`` when there is none."""
        ...


class Holdfast(Protocol):
    """An open memory. Also an async context manager; leaving it finishes what was accepted."""

    @property
    def banks(self) -> Banks:
        """The banks of the default space."""
        ...

    @property
    def values(self) -> Values:
        """The values of the default space."""
        ...

    @property
    def chores(self) -> Chores:
        """The background work of the default space."""
        ...

    async def history(self, record_id: str) -> list[Change]:
        """The same of the default space."""
        ...

    async def changes(
        self, *, after: int = 0, limit: int = 100, origin: OriginMatch | None = None
    ) -> list[Change]:
        """The feed of the default space."""
        ...

    async def undo(
        self, *change_ids: str, origin: OriginMatch | None = None, cascade: bool = False
    ) -> Change:
        """Take changes of the default space back."""
        ...

    async def forget(
        self,
        *,
        subject: str | None = None,
        bank: str | None = None,
        key: str | None = None,
        ids: Sequence[str] = (),
        origin: OriginMatch | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Receipt:
        """Erase for good in the default space."""
        ...

    @property
    def backups(self) -> Backups:
        """Copies of the whole memory."""
        ...

    async def limit(self, bytes: int | None) -> None:
        """Limit the default space."""
        ...

    async def usage(self) -> Usage:
        """What the default space holds."""
        ...

    async def receipt(self, receipt_id: str) -> Receipt:
        """A receipt of the default space as it stands now."""
        ...

    def space(self, name: str | None = None) -> Space:
        """A space by name, the default one without; spaces need no creation."""
        ...

    async def aclose(self) -> None:
        """Finish what was accepted, then close."""
        ...

    async def __aenter__(self) -> Self:
        """Itself."""
        ...

    async def __aexit__(self, *exc: object) -> None:
        """Close."""
        ...
