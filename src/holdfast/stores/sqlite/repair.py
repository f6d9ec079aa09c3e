"""Repairing: everything of a damaged file that is whole goes into a new one, where what is derived is made anew.

The damaged file is only read. A copy of it with its log is brought to rest first, as far as that goes; then its pages
are read one by one, past its trees, and each record counts whose guard fits. So a broken tree loses nothing but the
pages that are broken themselves.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import apsw

from holdfast.errors import AlreadyExists, HoldfastError, StoreFailed
from holdfast.stores.sqlite.db import Connection, open_connection
from holdfast.stores.sqlite.faults import UNREADABLE, failed
from holdfast.stores.sqlite.files import connect, prepare, put_away
from holdfast.stores.sqlite.heads import head_of
from holdfast.stores.sqlite.layout import DEFAULT
from holdfast.stores.sqlite.migrations import SCHEMA
from holdfast.stores.sqlite.raw_records import RawFile, page_size_of, raw_records
from holdfast.stores.sqlite.salvage import Salvage
from holdfast.stores.sqlite.salvaging import write_salvage
from holdfast.stores.sqlite.write_lock import WriteLock

_TOUCH: Final = "pragma user_version"
_KNOWN: Final = (
    ("entries", "select id from entries indexed by entries_id"),
    ("past", "select id, version from past indexed by past_id"),
    ("documents", "select id from documents indexed by documents_id"),
    ("document_versions", "select id, version from document_versions indexed by document_versions_name"),
    ("journal", "select id from journal indexed by journal_id"),
    ("chores", "select id from chores indexed by chores_place"),
)
"""The names of records by an index, which may be whole where the table is not."""


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair kept and what it could not, by kind; the ids of what is lost, as far as anything still tells them.

    ``without_vectors`` counts entries that keep their text and lost their vectors, ``notes`` tell what else is new.
    """

    target: Path
    kept: Mapping[str, int]
    lost: Mapping[str, int]
    lost_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    without_vectors: int = 0
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing is lost."""
        return not any(self.lost.values()) and not self.without_vectors and not self.notes


def repair_file(source: Path, target: Path) -> RepairReport:
    """Write what is whole in a file into a new one. The source stays as it is; the target must not exist."""
    if not source.is_file():
        raise StoreFailed(f"no such file: {source}", hint="give the path of a memory")
    for suffix in ("", "-wal", "-shm", "-journal"):
        beside = target.with_name(target.name + suffix)
        if beside.is_symlink() or beside.exists():
            raise AlreadyExists(
                f"{beside} exists already", hint="give another path with --to, or put it elsewhere"
            )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="holdfast-repair-", dir=target.parent) as folder:
            copy = _up_to_date(source, Path(folder) / "copy")
            part = Path(folder) / "new"
            salvage = read_salvage(copy)
            if not salvage.anything:
                raise StoreFailed(
                    f"nothing in {source} is a record of a memory",
                    hint="give another file, or restore a backup",
                )
            with _new_file(part) as connection:
                write_salvage(connection, salvage)
            report = _report(target, salvage, _names_in(copy))
            part.replace(target)
    except (OSError, apsw.Error) as error:
        raise failed(
            f"{target} could not be written", error, hint="free space, or give another path"
        ) from error
    return report


def _up_to_date(source: Path, copy: Path) -> Path:
    """A copy of the file at rest; one of an earlier schema is brought up to date, if it is whole enough for that."""
    _at_rest(source, copy)
    head = head_of(copy)
    if head is not None and head.schema < SCHEMA:
        lock = WriteLock(copy, 10_000)
        connection: Connection | None = None
        try:
            connection = connect(copy, readonly=False)
            prepare(connection, copy, lock, DEFAULT, readonly=False)
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (HoldfastError, apsw.Error):
            put_away(connection)
            _at_rest(source, copy)
        finally:
            put_away(connection)
            lock.close()
    return copy


def _at_rest(source: Path, copy: Path) -> Path:
    """A copy of the file into which its log was moved, as far as the log is whole."""
    for suffix in ("", "-wal", "-shm"):
        copy.with_name(copy.name + suffix).unlink(missing_ok=True)
    shutil.copyfile(source, copy)
    log = source.with_name(source.name + "-wal")
    if log.exists():
        shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
    connection: Connection | None = None
    try:
        connection = open_connection(str(copy), readonly=False, vfs=None)
        connection.execute(_TOUCH)  # only a file that was read from is known to have a log
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.Error:
        shutil.copyfile(source, copy)  # without its log, since the database can make nothing of either
    finally:
        put_away(connection)
    return copy


def read_salvage(path: Path) -> Salvage:
    """Every record of a file at rest that is whole."""
    salvage = Salvage()
    with path.open("rb") as opened:

        def read(offset: int, size: int) -> bytes:
            opened.seek(offset)
            return opened.read(size).ljust(size, b"\x00")

        size = path.stat().st_size
        page_size = page_size_of(read(0, 100))
        file = RawFile(read, -(-size // page_size) * page_size, page_size)
        for record in raw_records(file):
            salvage.take(record)
    salvage.settle()
    return salvage


@contextmanager
def _new_file(path: Path) -> Generator[Connection]:
    lock = WriteLock(path, 10_000)
    connection = connect(path, readonly=False)
    try:
        prepare(connection, path, lock, DEFAULT, readonly=False)
        connection.execute("begin immediate")
        yield connection
        connection.execute("commit")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        put_away(connection)
        lock.close()


def _names_in(copy: Path) -> dict[str, set[tuple[object, ...]]]:
    """The names of records that the indexes of the damaged file still tell."""
    found: dict[str, set[tuple[object, ...]]] = {table: set() for table, _ in _KNOWN}
    connection: Connection | None = None
    try:
        connection = open_connection(str(copy), readonly=True, vfs=None)
        for table, sql in _KNOWN:
            with suppress(apsw.Error, *UNREADABLE):
                found[table].update(row for row in connection.execute(sql))
    except apsw.Error:
        pass
    finally:
        put_away(connection)
    return found


def _report(target: Path, salvage: Salvage, named: dict[str, set[tuple[object, ...]]]) -> RepairReport:
    lost: Counter[str] = Counter()
    ids: dict[str, tuple[str, ...]] = {}
    for table, names in salvage.missing(named).items():
        lost[table] = len(names)
        ids[table] = tuple(sorted({name[0].hex() for name in names if isinstance(name[0], bytes)}))
    return RepairReport(
        target, dict(salvage.kept), {table: count for table, count in lost.items() if count},
        {table: found for table, found in ids.items() if found}, salvage.without_vectors, tuple(salvage.notes),
    )  # fmt: skip
