"""The ledger: applies batches inside one transaction of the write connection.

Many batches share a transaction (group commit). Appends are gathered and written in the order of their rows when the
transaction ends or another operation needs to see them; every other operation runs at once, behind a savepoint, so
that a batch that fails takes only itself back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Protocol, TypeAlias, cast

import apsw

from holdfast.errors import (
    AlreadyExists,
    EmbedderMismatch,
    HoldfastError,
    IdempotencyConflict,
    VersionConflict,
)
from holdfast.model.batch import (
    Append,
    Batch,
    Commit,
    EntryVersion,
    Head,
    Idempotency,
    Operation,
    Placed,
    Requirement,
)
from holdfast.model.document import DocumentRef
from holdfast.model.forget import Receipt
from holdfast.model.journal import Step
from holdfast.model.scope import Place
from holdfast.stores.sqlite import quotas
from holdfast.stores.sqlite.codec import origin_column, placed_of, placed_text, row_hash, steps_text
from holdfast.stores.sqlite.db import Connection, Record
from holdfast.stores.sqlite.faults import IdTaken
from holdfast.stores.sqlite.guards import entry_hash, whole_change
from holdfast.stores.sqlite.layout import KeyRange, Layout
from holdfast.stores.sqlite.pages import Slot, seal, write_tail
from holdfast.stores.sqlite.places import Names, bank_number, hidden_name, key_ranges
from holdfast.stores.sqlite.prepared import Bodies, Body
from holdfast.stores.sqlite.quotas import Meter, meters, size_of
from holdfast.stores.sqlite.word_rows import add_words, drop_words, waiting

_LAST: Final = (
    "select cursor, id, space, at, origin, steps, undoes, hash from journal order by cursor desc limit 1"
)
_DIMENSIONS: Final = "select value from meta where name='dimensions'"
_SET_DIMENSIONS: Final = "insert into meta values('dimensions', ?)"
_SALT: Final = "select value from meta where name='salt'"
_PUT_ENTRY: Final = "insert into entries values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_PUT_JOURNAL: Final = "insert into journal(id, space, at, origin, steps, undoes, hash) values(?,?,?,?,?,?,?)"
_PUT_DERIVED: Final = "insert or ignore into derived values(?,?,?)"
_PUT_IDEMPOTENCY: Final = "insert into idempotency values(?,?,?,?,?,?)"
_IDEMPOTENCY: Final = "select digest, change, at, placed from idempotency where name=?"
_DIGEST: Final = "select id from entries where digest=? and row between ? and ? and (expires is null or expires>=?) order by row limit 1"
_LAST_ROW: Final = (
    "select max(coalesce((select max(row) from entries where row between ?1 and ?2), 0),"
    " coalesce((select max(row) from past where row between ?1 and ?2), 0))"
)
_LAST_CREATED: Final = "select created from entries where row between ? and ? order by row desc limit 1"
_TAIL_COUNT: Final = "select count(*) from tail where row between ? and ?"
_KEY: Final = (
    "select number, base, high, disordered from keys where bank=? and key=? order by base desc limit 1"
)
_PUT_BANK: Final = "insert into banks values(?,?,?,0,?)"
_NEXT_BANK: Final = "select coalesce(max(bank)+1, 1) from banks"
_NEXT_KEY: Final = "update banks set next_key=next_key+1 where bank=? returning next_key-1"
_PUT_KEY: Final = "insert into keys values(?,?,?,?,?,0,?)"
_SPENT: Final = "select high from spent where bank=? and name=?"
_UNSPEND: Final = "delete from spent where bank=? and name=?"
_DISORDER: Final = "update keys set disordered=1 where bank=? and key=?"
_NEWEST_GONE: Final = "select (select max(id) from past), (select max(id) from tombstones)"
_GONE: Final = (
    "select 1 from entries where id=?1 union all select 1 from past where id=?1"
    " union all select 1 from tombstones where id=?1"
)
_CREATED_AFTER: Final = "select created from entries where row between ? and ? order by row limit 1"
_KEY_OF: Final = "select base, key from keys where bank=? and number=?"
_RANGES: Final = "select count(*) from keys where bank=? and key=?"
_PLACE_LIMIT: Final = 50_000
LONG_AGO: Final = -(1 << 62)


@dataclass(slots=True)
class PlaceState:
    """What the writer remembers of a place between appends."""

    bank: int
    ranges: list[KeyRange]
    seq: int
    tail: int
    last_created: int
    disordered: bool
    fresh: list[Slot] = field(default_factory=list[Slot])

    @property
    def current(self) -> KeyRange:
        """The range that new entries go to."""
        return self.ranges[-1]


Touched: TypeAlias = tuple[PlaceState, int]
"""A place that an append changed, and when its last entry was said before that."""


class Pending:
    """Rows of appends that are not written yet."""

    __slots__ = ("derived", "digests", "entries", "journal", "places", "words")

    def __init__(self) -> None:
        self.entries: list[Record] = []
        self.words: list[tuple[int, str]] = []
        self.derived: list[tuple[bytes, bytes, int]] = []
        self.places: list[PlaceState] = []
        self.digests: set[tuple[int, bytes]] = set()
        self.journal: list[Record] = []


class _NeedsSavepoint(HoldfastError):
    """A batch of appends turned out to need more than gathering: it has to run behind a savepoint."""


class Work:
    """One batch while it is applied.

    ``grown`` are the bytes by which it makes its space larger; counted only where the space has a limit.
    """

    __slots__ = (
        "at", "batch", "bodies", "change", "gathering", "grown", "metered", "now", "placed", "receipts", "steps",
    )  # fmt: skip

    def __init__(
        self, batch: Batch, bodies: Bodies, at: int, now: int, change: bytes, *, metered: bool = False
    ) -> None:
        self.batch = batch
        self.bodies = bodies
        self.at = at
        self.now = now
        self.change = change
        self.placed: list[Placed] = []
        self.steps: list[Step] = []
        self.receipts: list[Receipt] = []
        self.gathering = False
        self.metered = metered
        self.grown = 0


class Operations(Protocol):
    """What the ledger leaves to the modules of entries, documents, chores and forgetting."""

    def run(self, ledger: Ledger, work: Work, index: int, operation: Operation) -> None:
        """Run one operation at once."""
        ...

    def merge(self, ledger: Ledger, work: Work, operation: Append, identifier: bytes) -> None:
        """Fold an append into the equal entry that was found."""
        ...

    def entry_version(self, ledger: Ledger, space: str, identifier: str) -> int:
        """The version of a visible entry; 0 when there is none."""
        ...

    def document_version(self, ledger: Ledger, space: str, ref: DocumentRef) -> int:
        """The version of a visible document; 0 when there is none."""
        ...


class Ledger:
    """Applies batches on one connection; not for use by two threads at once."""

    def __init__(
        self, connection: Connection, layout: Layout, now_us: Callable[[], int], operations: Operations
    ) -> None:
        self.connection = connection
        self._operations = operations
        self.layout = layout
        self.names = Names(layout)
        self.now_us = now_us
        self._salt: bytes | None = None
        self._places: dict[tuple[str, Place], PlaceState] = {}
        self.documents: dict[tuple[str, DocumentRef], int] = {}
        self._last_at: int | None = None
        self._dimensions: int | None = None
        self._waiting: int | None = None
        self._newest_gone: bytes | None = None
        self._data_version = -1
        self._quotas: dict[str, Meter] | None = None
        self._pending = Pending()
        self.samples: dict[str, tuple[str, ...]] = {}

    # The transaction

    def begin(self) -> None:
        """Start a transaction; what was remembered is dropped when another connection has written since."""
        self.connection.execute("begin immediate")
        version = cast("int", self.connection.execute("pragma data_version").get)
        if version != self._data_version:
            self.drop_memory()
            self._data_version = version

    def commit(self) -> None:
        """Write what is gathered and make the transaction durable."""
        self.flush()
        self.connection.execute("commit")

    def rollback(self) -> None:
        """Take the whole transaction back."""
        self.drop_memory()
        if self.connection.in_transaction:
            self.connection.execute("rollback")

    def drop_memory(self) -> None:
        """Forget everything remembered across transactions: numbers given in one that was taken back as well."""
        self.names = Names(self.layout)
        self._places.clear()
        self.documents.clear()
        self._last_at = None
        self._dimensions = None
        self._waiting = None
        self._newest_gone = None
        self._quotas = None
        self._pending = Pending()

    def limit(self, space: str, size: int | None) -> None:
        """Give a space a limit, or take it away; inside the open transaction."""
        quotas.limit(self.connection, self.layout, space, size)
        self._quotas = None

    def forget_place(self, space: str, place: Place) -> None:
        """Read a place anew the next time."""
        self._places.pop((space, place), None)

    # One batch

    def apply(self, batch: Batch, bodies: Bodies) -> Commit:
        """Apply one batch inside the open transaction, or raise and leave the transaction as it was."""
        if batch.idempotency is not None:
            repeated = self._repeated(batch.space, batch.idempotency)
            if repeated is not None:
                return repeated
        if len(self._places) >= _PLACE_LIMIT:
            self.flush()
            self._places.clear()
        self._require(batch)
        if self._quotas is None:
            self._quotas = meters(self.connection)
        meter = self._quotas.get(batch.space)
        work = Work(batch, bodies, self._recorded_at(batch.at_us), self.now_us(), bytes.fromhex(batch.id))
        work.metered = meter is not None
        # What is gathered is not known to be new before it is written: a limit is looked at after that.
        if meter is None and all(isinstance(operation, Append) for operation in batch.operations):
            try:
                self._gather(work)
            except _NeedsSavepoint:
                work = Work(batch, bodies, work.at, work.now, work.change)
                self._run_guarded(work, meter)
        else:
            self._run_guarded(work, meter)
        self._last_at = work.at
        return Commit(batch.id, work.at, tuple(work.placed), tuple(work.receipts))

    def _gather(self, work: Work) -> None:
        """Apply a batch of appends without writing yet; on an error the gathered rows are dropped again."""
        pending = self._pending
        sizes = len(pending.entries), len(pending.words), len(pending.derived)
        touched: list[Touched] = []
        work.gathering = True
        try:
            for index, operation in enumerate(work.batch.operations):
                self.append(work, cast("Append", operation), work.bodies[index], touched)
            self._record(work, None)
        except HoldfastError:
            del pending.entries[sizes[0] :], pending.words[sizes[1] :], pending.derived[sizes[2] :]
            for state, last_created in reversed(touched):
                state.seq -= 1
                state.last_created = last_created
                state.fresh.pop()
            raise

    def _run_guarded(self, work: Work, meter: Meter | None) -> None:
        self.flush()
        self.connection.execute("savepoint batch")
        work.gathering = False
        try:
            for index, operation in enumerate(work.batch.operations):
                if not isinstance(operation, Append):
                    self.flush()
                self._operations.run(self, work, index, operation)
            self.flush()
            self._record(work, meter)
        except BaseException:
            self._pending = Pending()
            if self.connection.in_transaction:  # a broken disk has taken the whole transaction back already
                self.connection.execute("rollback to batch")
                self.connection.execute("release batch")
            last_at = self._last_at
            self.drop_memory()
            self._last_at = last_at
            raise
        self.connection.execute("release batch")

    # Appends

    def append(self, work: Work, operation: Append, body: Body, touched: list[Touched]) -> None:
        """Give an entry its row and gather what has to be written."""
        state = self.place(work.batch.space, operation.place, number=not work.gathering)
        if not state.ranges:
            raise _NeedsSavepoint("the place has to be numbered")
        if body.dimensions:
            self.check_dimensions(body.dimensions, gathering=work.gathering)
        if operation.digest is not None and self._merge_equal(work, operation, state):
            return
        kept = state.ranges[-1]
        seq = state.seq + 1
        if seq - kept.base > self.layout.range_size:
            if work.gathering:
                raise _NeedsSavepoint("the key needs a second range")
            self.flush()
            kept = self._next_range(state, operation.place)
        row = kept.low + seq - kept.base
        identifier = body.id
        if identifier <= (self._newest_gone or self._newest_known_gone()):
            self._check_unknown(identifier)
        touched.append((state, state.last_created))
        state.seq = seq
        columns = body.columns
        created = cast("int", columns[9])
        if created < state.last_created:
            self._mark_disordered(state, operation.place.key)
        else:
            state.last_created = created
        if work.metered:
            work.grown += size_of(columns[1], columns[2], columns[7], body.vectors)
        pending = self._pending
        record = (
            row, identifier, 1, *columns, work.at, body.expires, work.change, 1, operation.digest,
        )  # fmt: skip
        pending.entries.append((*record, entry_hash(record)))
        if (
            operation.digest is not None
        ):  # now that it is gathered: a second range writes what was gathered before
            pending.digests.add((id(state), operation.digest))
        pending.words.append((row, body.words))
        if not state.fresh:
            pending.places.append(state)
        state.fresh.append(Slot(row, body.length, body.vectors, body.scales))
        for source in body.origin.sources:
            pending.derived.append((bytes.fromhex(source), identifier, 0))
        reference = operation.draft.id
        work.placed.append(Placed(reference, seq, 1))
        work.steps.append(Step("append", reference, 0, 1))

    def _merge_equal(self, work: Work, operation: Append, state: PlaceState) -> bool:
        digest = cast("bytes", operation.digest)
        mark = (id(state), digest)
        if mark in self._pending.digests:
            if work.gathering:
                raise _NeedsSavepoint("an equal entry is gathered already")
            self.flush()
        for kept in state.ranges:
            found = self.connection.execute(_DIGEST, (digest, kept.low, kept.high, work.now)).fetchone()
            if found is not None:
                if work.gathering:
                    raise _NeedsSavepoint("an equal entry is stored already")
                self.flush()
                self._check_unknown(bytes.fromhex(operation.draft.id))
                self._operations.merge(self, work, operation, cast("bytes", found[0]))
                return True
        return False

    def flush(self) -> None:
        """Write the gathered appends in the order of their rows."""
        pending = self._pending
        if not pending.entries:
            pending.digests.clear()
            return
        self._pending = Pending()
        connection = self.connection
        try:
            connection.executemany(_PUT_JOURNAL, pending.journal)
        except apsw.ConstraintError as error:
            raise IdTaken("a change with this id exists already", hint="make a new id") from error
        try:
            connection.executemany(_PUT_ENTRY, sorted(pending.entries))
        except apsw.ConstraintError as error:
            raise IdTaken("an entry with this id exists already", hint="make a new id") from error
        self.add_words(sorted(pending.words))
        if pending.derived:
            connection.executemany(_PUT_DERIVED, pending.derived)
        self._flush_slots(pending.places)

    def _newest_known_gone(self) -> bytes:
        """The greatest id that is not current any more. Ids grow with time: a greater one needs no further look."""
        found = cast("tuple[bytes | None, bytes | None]", self.connection.execute(_NEWEST_GONE).fetchone())
        self._newest_gone = max(found[0] or b"\x00", found[1] or b"\x00")
        return self._newest_gone

    def _check_unknown(self, identifier: bytes) -> None:
        if self.connection.execute(_GONE, (identifier,)).fetchone() is not None:
            raise AlreadyExists("an entry with this id was here before", hint="make a new id")

    def forget_known_ids(self) -> None:
        """Look again for the greatest id that is gone."""
        self._newest_gone = None

    def add_words(self, rows: list[tuple[int, str]]) -> None:
        """Index the words of rows, which ascend."""
        waits = waiting(self.connection) if self._waiting is None else self._waiting
        self._waiting = add_words(self.connection, rows, waits, self.layout.bunch)

    def drop_words(self, row: int, terms: str) -> None:
        """Take a row out of the word index."""
        drop_words(self.connection, row, terms)
        self._waiting = None

    def _flush_slots(self, places: list[PlaceState]) -> None:
        loose: list[Slot] = []
        for state in places:
            fresh = state.fresh
            if not fresh:
                continue
            state.fresh = []
            if state.tail + len(fresh) < self.layout.page:
                loose += fresh
                state.tail += len(fresh)
            else:
                kept = state.current
                state.tail = seal(self.connection, kept.low, kept.high, fresh, self.layout.page)
        if loose:
            loose.sort(key=_slot_row)
            write_tail(self.connection, loose)

    # Journal, idempotency, requirements

    def _record(self, work: Work, meter: Meter | None) -> None:
        batch = work.batch
        if meter is not None:
            quotas.check(batch, work.grown, meter)
        origin = origin_column(batch.origin)
        steps = steps_text(work.steps)
        undoes = " ".join(batch.undoes) or None
        guard = row_hash(work.change, batch.space, work.at, origin, steps, undoes)
        change = (work.change, batch.space, work.at, origin, steps, undoes, guard)
        if batch.idempotency is not None:
            name = idempotency_name(batch.space, batch.idempotency)
            row = (name, batch.idempotency.digest, work.change, work.at, placed_text(work.placed))
            self.connection.execute(_PUT_IDEMPOTENCY, (*row, row_hash(*row)))
        if meter is not None:
            quotas.note(self.connection, self.layout, batch, work.grown, meter)
        if work.gathering:
            self._pending.journal.append(change)
            return
        try:
            self.connection.execute(_PUT_JOURNAL, change)
        except apsw.ConstraintError as error:
            raise AlreadyExists(f"the change {batch.id} exists already", hint="make a new id") from error

    def _repeated(self, space: str, idempotency: Idempotency) -> Commit | None:
        found = self.connection.execute(_IDEMPOTENCY, (idempotency_name(space, idempotency),)).fetchone()
        if found is None:
            return None
        digest, change, at, placed = cast("tuple[bytes, bytes, int, str]", found)
        if digest != idempotency.digest:
            raise IdempotencyConflict(
                f"the idempotency key {idempotency.key!r} was used with other content", hint="use a new key"
            )
        return Commit(change.hex(), at, placed_of(placed), duplicate=True)

    def _require(self, batch: Batch) -> None:
        if not batch.requires:
            return
        for requirement in batch.requires:
            found, expected = self._compared(batch.space, requirement)
            if found != expected:
                raise VersionConflict(
                    f"the record has version {found}, not {expected}",
                    hint="read it again and repeat the change",
                )

    def _compared(self, space: str, requirement: Requirement) -> tuple[int, int]:
        """What is there, and what is required."""
        if isinstance(requirement, EntryVersion):
            self.flush()
            return self._operations.entry_version(self, space, requirement.id), requirement.version
        if isinstance(requirement, Head):
            return self.place(space, requirement.place, number=False).seq, requirement.seq
        found = self._operations.document_version(self, space, requirement.ref)
        return found, max(found, 1) if requirement.version is None else requirement.version

    def _recorded_at(self, at_us: int) -> int:
        if self._last_at is None:
            found = self.connection.execute(_LAST).fetchone()
            self._last_at = -1 if found is None else cast("int", whole_change(found)[3])
        return max(at_us, self._last_at + 1)

    def check_dimensions(self, sizes: frozenset[int], *, gathering: bool = False) -> None:
        """Raise ``EmbedderMismatch`` unless these are the dimensions of the store; the first vector fixes them."""
        if self._dimensions is None:
            found = self.connection.execute(_DIMENSIONS).fetchone()
            self._dimensions = None if found is None else cast("int", found[0])
        if len(sizes) > 1 or (self._dimensions is not None and self._dimensions not in sizes):
            raise EmbedderMismatch(
                f"vectors of {sorted(sizes)} dimensions do not fit the {self._dimensions} of this store",
                hint="use the embedder that the store was made with, or a new file",
            )
        if self._dimensions is None:
            if gathering:
                raise _NeedsSavepoint("the first vector fixes the dimensions of the store")
            (self._dimensions,) = sizes
            self.connection.execute(_SET_DIMENSIONS, (self._dimensions,))

    # Places

    def place(self, space: str, place: Place, *, number: bool) -> PlaceState:
        """What is known of a place; a new one is numbered first, or has no ranges."""
        name = (space, place)
        state = self._places.get(name)
        if state is None:
            state = self._read_place(space, place, number=number)
            if state.ranges:
                self._places[name] = state
        return state

    def _read_place(self, space: str, place: Place, *, number: bool) -> PlaceState:
        bank = bank_number(self.connection, space, place.bank)
        if bank is None:
            if not number:
                return PlaceState(-1, [], 0, 0, 0, disordered=False)
            bank = self.layout.check_bank(cast("int", self.connection.execute(_NEXT_BANK).get))
            self.connection.execute(_PUT_BANK, (bank, space, place.bank, row_hash(bank, space, place.bank)))
        found = self.connection.execute(_KEY, (bank, place.key)).fetchone()
        if found is None:
            return self._new_place(bank, place.key, number=number)
        high, disordered = cast("tuple[int, int]", found[2:])
        ranges = key_ranges(self.connection, self.layout, bank, place.key)
        kept = ranges[-1]
        last = cast("int", self.connection.execute(_LAST_ROW, (kept.low, kept.high)).get)
        seq = max(high, kept.seq_of(last) if last else kept.base)
        tail = cast("int", self.connection.execute(_TAIL_COUNT, (kept.low, kept.high)).get)
        return PlaceState(bank, ranges, seq, tail, self._last_created(ranges), bool(disordered))

    def _last_created(self, ranges: Sequence[KeyRange]) -> int:
        """When the last current entry of a key was said; long ago when there is none."""
        for kept in reversed(ranges):
            newest = self.connection.execute(_LAST_CREATED, (kept.low, kept.high)).get
            if newest is not None:
                return cast("int", newest)
        return LONG_AGO

    def _new_place(self, bank: int, key: str, *, number: bool) -> PlaceState:
        name = hidden_name(self.salt(), bank, key)
        high = cast("int | None", self.connection.execute(_SPENT, (bank, name)).get) or 0
        if not number:
            return PlaceState(bank, [], high, 0, 0, disordered=False)
        self.connection.execute(_UNSPEND, (bank, name))
        kept = self._number_key(bank, key, high, high)
        return PlaceState(bank, [kept], high, 0, LONG_AGO, disordered=False)

    def _number_key(self, bank: int, key: str, base: int, high: int) -> KeyRange:
        number = self.layout.check_key(cast("int", self.connection.execute(_NEXT_KEY, (bank,)).get))
        guard = row_hash(bank, number, key, base)
        self.connection.execute(_PUT_KEY, (bank, number, key, base, high, guard))
        return KeyRange(*self.layout.key_rows(bank, number), base)

    def _next_range(self, state: PlaceState, place: Place) -> KeyRange:
        kept = self._number_key(state.bank, place.key, state.seq, state.seq)
        if state.disordered:
            self.connection.execute(_DISORDER, (state.bank, place.key))
        state.ranges.append(kept)
        state.tail = 0
        return kept

    def note_order(self, row: int, created: int) -> None:
        """Mark a key whose entries, read by row, are not in the order in which they were said any more."""
        numbers = self.layout.range_of(row)
        low, high = self.layout.key_rows(*numbers)
        before = self.connection.execute(_LAST_CREATED, (low, row - 1)).fetchone()
        after = self.connection.execute(_CREATED_AFTER, (row + 1, high)).fetchone()
        base, key = cast("tuple[int, str]", self.connection.execute(_KEY_OF, numbers).fetchone())
        alone = base == 0 and self.connection.execute(_RANGES, (numbers[0], key)).get == 1
        early = cast("int", before[0]) if before else (created if alone else created + 1)
        late = cast("int", after[0]) if after else (created if alone else created - 1)
        if not early <= created <= late:
            self.connection.execute(_DISORDER, (numbers[0], key))

    def _mark_disordered(self, state: PlaceState, key: str) -> None:
        if not state.disordered:
            state.disordered = True
            self.connection.execute(_DISORDER, (state.bank, key))

    def salt(self) -> bytes:
        """The file's own salt for names that must not tell what they name."""
        if self._salt is None:
            self._salt = cast("bytes", self.connection.execute(_SALT).get)
        return self._salt


def idempotency_name(space: str, idempotency: Idempotency) -> bytes:
    """The stored name of an idempotency key: unique in its place, telling nothing of either."""
    place = idempotency.place
    joined = f"{space}\x00{place.bank}\x00{place.key}\x00{idempotency.key}"
    return blake2b(joined.encode(), digest_size=16).digest()


def _slot_row(slot: Slot) -> int:
    return slot.row
