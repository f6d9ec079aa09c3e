"""Restoring: a backup takes the place of a file, after everything that was erased since is erased in it again.

All work is done on a copy beside the file. One rename puts it in place, so that a restore that is killed leaves the
file as it was or as it is to be.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

import apsw

from holdfast.errors import Conflict, InvalidInput, StoreBusy, StoreDamaged, StoreFailed, StoreUnsupported
from holdfast.model.backup import CHORE, SCHEDULE, SPACE, Restored, is_usable
from holdfast.model.batch import Batch, Drop, Forget, Remove
from holdfast.model.chore import LIVE
from holdfast.model.forget import Selector
from holdfast.model.ids import IdMaker, bucket_of
from holdfast.model.origin import Origin
from holdfast.model.scope import Scope
from holdfast.ports.clock import Clock
from holdfast.stores.sqlite import tombstones
from holdfast.stores.sqlite.backing_up import origin_of, unwritable
from holdfast.stores.sqlite.db import (
    Connection,
    Record,
    copy_file,
    make_names_safe,
    make_safe,
    open_connection,
)
from holdfast.stores.sqlite.faults import failed
from holdfast.stores.sqlite.files import connect, put_away, refuse_network
from holdfast.stores.sqlite.heads import ORIGIN, Head, head_of, marks_in
from holdfast.stores.sqlite.layout import Layout
from holdfast.stores.sqlite.migrations import SCHEMA, migrate
from holdfast.stores.sqlite.raw_tombstones import raw_erased
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.sqlite.tombstones import Erased
from holdfast.stores.sqlite.work_files import BESIDE, WorkFile, clear_left, is_taken, is_work
from holdfast.stores.sqlite.write_lock import WriteLock

Stage: TypeAlias = Literal["seized", "copied", "migrated", "forgotten", "settled", "safe", "kept", "placed"]
STAGES: Final[tuple[Stage, ...]] = (
    "seized", "copied", "migrated", "forgotten", "settled", "safe", "kept", "placed",
)  # fmt: skip
"""Where a test may end the process."""
BY: Final = "restore"
"""Who forgets, in the receipts."""
_KEPT: Final = ".before-restore"
_WAIT_MS: Final = 1_000
_FIRST: Final = ("pragma locking_mode=exclusive", "pragma journal_mode=delete", "begin exclusive")
_LAYOUT: Final = "select value from meta where name='layout'"
_FACTS: Final = (
    "select (select value from meta where name='salt'), (select count(*) from entries),"
    " (select count(*) from documents), (select count(*) from tombstones)"
)
"""Whose file it is, and how much is in it."""
_QUICK: Final = "pragma quick_check(1)"
_BACKUPS: Final = "select path, at, scheduled from backups"
_PUT_BACKUP: Final = "insert or ignore into backups values(?,?,?)"
_NO_ORIGIN: Final = "delete from backups where scheduled=?"
_BY_HAND: Final = "update backups set scheduled=0 where scheduled=1"
_TABLES: Final = "select count(*) from sqlite_schema"
_LOGS: Final = ("-wal", "-journal")
_OPERATOR: Final = Origin(author="holdfast", channel="operator", method="manual")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be restored, and where to. ``discard`` keeps nothing of what stood there, ``dry_run`` only looks.

    ``anyway`` goes on when the file there cannot tell what was forgotten.
    """

    backup: Path
    to: Path
    discard: bool = False
    dry_run: bool = False
    anyway: bool = False


def _quiet(_stage: Stage) -> None:
    """Tell nobody."""


class Restoring:
    """One restore. Blocks; not for a running event loop."""

    def __init__(
        self,
        order: Order,
        clock: Clock,
        random_bits: Callable[[int], int],
        *,
        reached: Callable[[Stage], None] = _quiet,
        vfs: str | None = None,
    ) -> None:
        if order.to.is_symlink():  # what the link names is replaced, not the link
            order = replace(order, to=Path(os.path.realpath(order.to)))
        self._order = order
        self._clock = clock
        self._make_id = IdMaker(clock.now_us, random_bits)
        self._reached = reached
        self._vfs = vfs
        self._work = WorkFile(order.to, random_bits(64))
        self._part = self._work.path
        self._old: Connection | None = None
        self._sources: list[str] = []
        self._damaged: list[str] = []
        self._spoilt = False
        self._at_home = False
        self._facts: Record | None = None

    def run(self) -> Restored:
        """Restore, or raise and leave everything as it was."""
        order = self._order
        refuse_network(order.to)
        _checked(order)
        try:
            with ExitStack() as stack:
                if not order.dry_run:
                    self._lock(stack)
                    clear_left(order.to)
                stack.callback(self._work.clear)
                self._seize(stack)
                self._reached("seized")
                return self._restored()
        except apsw.BusyError as error:
            raise _busy(order.to) from error
        except apsw.Error as error:
            raise failed(f"{order.to} could not be restored", error, hint="look at the disk") from error
        except OSError as error:
            raise unwritable(order.to, error) from error

    def _lock(self, stack: ExitStack) -> None:
        lock = WriteLock(self._order.to, _WAIT_MS)
        stack.callback(lock.close)
        stack.enter_context(lock.held())

    def _restored(self) -> Restored:
        order, part = self._order, self._part
        self._work.make()
        _copy_in(order.backup, part)
        self._reached("copied")
        layout = self._bring_up_to_date()
        self._reached("migrated")
        known, erased = self._gathered()
        forgets = self._forgets(erased.since(known), layout)
        count = asyncio.run(self._forget(forgets, layout))
        self._reached("settled")
        kept = self._free_name() if order.to.exists() and not order.discard else None
        self._write_down(erased, kept)
        make_safe(part)
        self._verify()
        self._reached("safe")
        if not order.dry_run:
            self._place(kept)
        return Restored(
            str(order.to), str(order.backup), None if kept is None else str(kept), count, tuple(self._sources),
            SCHEMA, done=not order.dry_run, damaged=tuple(self._damaged),
        )  # fmt: skip

    # The file that is there

    def _seize(self, stack: ExitStack) -> None:
        """Have the old file for oneself alone; a file that is no database is nobody's."""
        path = self._order.to
        if not path.exists():
            return
        if self._order.dry_run:
            self._old = _to_read(path)
            stack.callback(put_away, self._old)
            return
        if self._is_spoilt(path, stack):
            return
        connection = open_connection(str(path), readonly=False, vfs=self._vfs)
        connection.set_busy_timeout(0)
        stack.callback(self._give_back, connection)
        try:
            for statement in _FIRST:
                connection.execute(statement).fetchall()
        except apsw.BusyError:
            raise _busy(path) from None
        except (apsw.NotADBError, apsw.CorruptError):
            pass  # nobody can work with it, so there is nothing to hold off; what can be read of it is read
        self._old = connection

    def _is_spoilt(self, path: Path, stack: ExitStack) -> bool:
        """Whether nobody can work with a file. It is only read then: who may write would throw its log away."""
        connection = open_connection(str(path), readonly=True, vfs=self._vfs)
        stack.callback(put_away, connection)
        try:
            connection.execute(_TABLES).fetchall()
        except (apsw.NotADBError, apsw.CorruptError):
            self._old, self._spoilt = connection, True
            return True
        except (apsw.ReadOnlyError, apsw.CantOpenError):
            pass  # a journal is to be rolled back first
        put_away(connection)
        return False

    def _give_back(self, connection: Connection) -> None:
        """Let go of the old file. What still stands in its place gets its log back."""
        with suppress(apsw.Error, OSError):
            if connection.in_transaction:
                connection.execute("rollback")
            if self._old is connection and self._order.to.stat().st_size:
                connection.execute("pragma journal_mode=wal").fetchall()
        put_away(connection)

    # The copy

    def _bring_up_to_date(self) -> Layout:
        connection = open_connection(str(self._part), readonly=False, vfs=self._vfs)
        try:
            told = connection.execute(_QUICK).get
            if told != "ok":
                raise _damaged(self._order.backup, str(told))
            connection.execute("pragma secure_delete=on")
            migrate(connection, self._part, copy=False)
            name = cast("str", connection.execute(_LAYOUT).get)
            self._at_home = _at_home(self._order, marks_in(connection).origin)
            if self._old is not None and tombstones.is_other(tombstones.salt_of(connection), self._old):
                raise _other_memory(self._order)
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise _damaged(self._order.backup, str(error)) from error
        finally:
            put_away(connection)
        bits = [int(part) for part in name.split("/")]
        return Layout(bits[0], bits[1], bits[2])

    def _gathered(self) -> tuple[Erased, Erased]:
        """What the backup knows to be erased, and what it, the old file and its siblings know together."""
        own = connect(self._part, readonly=False, vfs=self._vfs)
        try:
            (known, _), salt = tombstones.erased_in(own), tombstones.salt_of(own)
        finally:
            put_away(own)
        every = Erased()
        every.add(known)
        if self._old is not None:
            self._add_old(self._old, salt, every)
        for file in tombstones.files_beside(self._order.backup, self._order.to):
            if is_usable(str(file)) and not is_work(file.name) and head_of(file) is not None:
                self._add_from(file, salt, every)
        return known, every

    def _add_old(self, old: Connection, salt: bytes | None, every: Erased) -> None:
        """What the file that is there knows. It is the one that knows all, so that its silence is no answer."""
        order = self._order
        erased, whole = tombstones.erased_in(old)
        if not whole:
            raw = raw_erased(order.to)
            if salt is not None and raw.salt not in (None, salt):
                raise _other_memory(order)
            erased.add(raw.erased)
            if not erased.anything and not order.anyway:
                raise StoreDamaged(
                    f"{order.to} is damaged and does not tell what was forgotten since {order.backup} was made",
                    code="forgotten_unknown",
                    hint="restore a newer backup, or go on with anyway (--anyway): what was forgotten may come back",
                )
        every.add(erased)
        (self._sources if whole else self._damaged).append(str(order.to))

    def _add_from(self, file: Path, salt: bytes | None, every: Erased) -> None:
        try:
            connection = _to_read(file)
        except apsw.Error:
            return  # it may be another program's, or away by now
        try:
            found = tombstones.salt_of(connection)
            if salt is None or found not in (None, salt):
                return
            erased, whole = tombstones.erased_in(connection)
            if found is None or not whole:
                raw = raw_erased(file)
                if salt not in (found, raw.salt):
                    return
                erased.add(raw.erased)
                whole = False
            every.add(erased)
            (self._sources if whole else self._damaged).append(str(file))
        finally:
            put_away(connection)

    def _forgets(self, erased: Erased, layout: Layout) -> list[tuple[str, Selector]]:
        connection = connect(self._part, readonly=False, vfs=self._vfs)
        try:
            return tombstones.selectors(connection, erased, (layout.seq_bits, layout.key_bits))
        finally:
            put_away(connection)

    async def _forget(self, forgets: list[tuple[str, Selector]], layout: Layout) -> int:
        """Erase again what was erased, and see that the backup is whole; how many records went."""
        store = await SqliteStore.open(self._part, clock=self._clock, vfs=self._vfs, layout=layout)
        try:
            report = await store.check()
            if not report.ok:
                raise _damaged(self._order.backup, report.findings[0].what)
            count = 0
            for space, selector in forgets:
                change = self._make_id(bucket_of(space, "", ""))
                forget = Forget(selector, by=BY)
                done = await store.commit(Batch(space, change, self._clock.now_us(), (forget,), _OPERATOR))
                count += done.receipts[0].total - done.receipts[0].counts["versions"]
            if not self._at_home:
                await _unschedule(store, self._make_id(bucket_of(SPACE, "", "")), self._clock.now_us())
            self._reached("forgotten")
            if await store.unsettled():
                await store.settle()
            return count
        finally:
            await store.aclose()

    def _write_down(self, erased: Erased, kept: Path | None) -> None:
        """What the old file knew of erasures and of backups, the new one knows; and that nothing was left over."""
        connection = connect(self._part, readonly=False, vfs=self._vfs)
        try:
            connection.execute("begin immediate")
            if left := tombstones.left(connection, erased):
                raise StoreFailed(f"{left} erased records are still there", hint="report this")
            tombstones.bury(connection, erased)
            now_us = self._clock.now_us()
            rows = [] if self._old is None else tombstones.readable(self._old, _BACKUPS)[0]
            for path in (self._order.backup, kept):
                rows += [] if path is None else [(str(path), now_us, 0)]
            for name in (*self._sources, *self._damaged):  # they may hold what will be forgotten
                if name != str(self._order.to):
                    rows.append((name, Path(name).stat().st_mtime_ns // 1000, 0))
            connection.executemany(_PUT_BACKUP, rows)
            connection.execute(_NO_ORIGIN, (ORIGIN,))
            if not self._at_home:  # what the schedule of another file has made is not for this one to remove
                connection.execute(_BY_HAND)
            connection.execute("commit")
            self._facts = connection.execute(_FACTS).fetchone()
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            put_away(connection)

    def _verify(self) -> None:
        """See that what is about to be put in place is what was made here, and nothing less."""
        head = head_of(self._part)
        if head is None or not head.whole or head.schema != SCHEMA or not self._work.is_own:
            raise self._disturbed()
        connection = _to_read(self._part)
        try:
            facts = connection.execute(_FACTS).fetchone()
        finally:
            put_away(connection)
        if facts is None or facts != self._facts:
            raise self._disturbed()

    def _disturbed(self) -> StoreFailed:
        return StoreFailed(
            f"{self._part} was changed by somebody else while {self._order.to} was restored",
            hint="nothing was changed there; look who works in its folder, then restore again",
        )

    # The change of places

    def _free_name(self) -> Path:
        base = self._order.to.with_name(self._order.to.name + _KEPT)
        found, number = base, 1
        while any(os.path.lexists(f"{found}{suffix}") for suffix in ("", *BESIDE)):
            number += 1
            found = base.with_name(f"{base.name}-{number}")
        return found

    def _place(self, kept: Path | None) -> None:
        path = self._order.to
        if kept is not None:
            _keep(path, kept)
            for suffix in _LOGS if self._spoilt else ():  # what was written last stands there alone
                log = path.with_name(path.name + suffix)
                if log.exists():
                    _keep(log, kept.with_name(kept.name + suffix))
            make_names_safe(kept.parent)  # not the file itself: that would let go of the lock on it
            self._reached("kept")
        for suffix in BESIDE:  # of a file that could not be opened, or that is long gone
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        self._part.replace(path)
        self._old, old = None, self._old
        make_names_safe(path.parent)
        self._reached("placed")
        put_away(old)


def _checked(order: Order) -> Head:
    """The head of the backup, or the typed error that says what is wrong with it."""
    if not order.backup.is_file():
        raise StoreFailed(f"no such file: {order.backup}", hint="look at holdfast backup list")
    if order.to.exists() and order.backup.samefile(order.to):
        raise InvalidInput(
            f"{order.to} is the backup itself", code="restore_invalid", hint="give another path with --to"
        )
    for name in (order.backup, Path(os.path.realpath(order.backup))):
        if is_taken(name.name, order.to.name) and name.parent.resolve() == order.to.parent.resolve():
            raise InvalidInput(
                f"{order.backup} has a name that the memory {order.to} uses itself",
                code="restore_invalid",
                hint="give the backup another name first, or give another path with --to",
            )
    if order.to.exists() and not order.to.is_file():
        raise InvalidInput(
            f"{order.to} is not a file", code="restore_invalid", hint="give the path of a file with --to"
        )
    if not order.to.parent.is_dir():
        raise StoreFailed(f"the folder of {order.to} does not exist", hint="make it first")
    head = head_of(order.backup)
    if head is None:
        raise StoreUnsupported(
            f"{order.backup} is not a holdfast file", code="not_a_store", hint="give another backup"
        )
    if head.schema > SCHEMA:
        raise StoreUnsupported(
            f"{order.backup} was written by a newer holdfast (schema {head.schema}, this one knows {SCHEMA})",
            code="schema_newer",
            hint="upgrade holdfast",
        )
    if not head.whole:
        raise _damaged(order.backup, f"it has {head.bytes} of its {head.stated_bytes} bytes")
    return head


def _at_home(order: Order, origin: str | None) -> bool:
    """Whether a backup goes back to where it came from, so that its schedule is that of the file."""
    if origin is not None:
        return origin == origin_of(order.to)
    # What was kept beside the memory before a restore or a migration was the memory itself.
    beside = order.backup.parent.resolve() == order.to.parent.resolve()
    return beside and order.backup.name.startswith((order.to.name + _KEPT, order.to.name + ".schema-"))


async def _unschedule(store: SqliteStore, change: str, now_us: int) -> None:
    """Take the schedule out of a copy: it is that of the memory that was copied."""
    live = await store.chores(Scope(SPACE), states=tuple(LIVE), kinds=(CHORE,))
    if live or await store.document(Scope(SPACE), SCHEDULE) is not None:
        drops = tuple(Drop(chore.id) for chore in live)
        await store.commit(Batch(SPACE, change, now_us, (Remove(SCHEDULE), *drops), _OPERATOR))


def _keep(path: Path, kept: Path) -> None:
    try:
        os.link(path, kept)
    except OSError:  # a file system without links
        shutil.copyfile(path, kept)


def _other_memory(order: Order) -> Conflict:
    return Conflict(
        f"{order.to} is another memory than {order.backup} is a backup of",
        code="other_memory",
        hint="restore to another path with --to, or move that file away first",
    )


def _copy_in(backup: Path, part: Path) -> None:
    """A copy of the backup; of one that is in use as well, as it is at this moment."""
    if not backup.with_name(backup.name + "-wal").exists():
        shutil.copyfile(backup, part)
        return
    source = open_connection(str(backup), readonly=True, vfs=None)
    try:
        source.execute("begin")
        source.execute("select count(*) from meta").fetchall()
        copy_file(source, str(part))
    finally:
        put_away(source)


def _to_read(file: Path) -> Connection:
    """A connection that changes nothing: not even beside a file that nobody uses."""
    if file.with_name(file.name + "-wal").exists():
        return open_connection(str(file), readonly=True, vfs=None)
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return cast("Connection", apsw.Connection(f"{file.as_uri()}?immutable=1", flags=flags))


def _damaged(backup: Path, what: str) -> StoreDamaged:
    return StoreDamaged(f"{backup} is damaged: {what}", hint="restore an older backup")


def _busy(path: Path) -> StoreBusy:
    return StoreBusy(
        f"{path} is open in another program, or in another handle of this one",
        hint="close it there, then restore again",
    )
