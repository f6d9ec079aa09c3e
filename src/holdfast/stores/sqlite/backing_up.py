"""Backups: a consistent copy of the file while others write, known to the file, and under its name only when whole."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

import apsw

from holdfast.errors import AlreadyExists, HoldfastError, NotFound, StoreBusy, StoreDamaged, StoreFailed
from holdfast.model.backup import Backup, checked_file
from holdfast.model.values import moment
from holdfast.ports.store import CheckReport
from holdfast.stores.sqlite.db import Connection, copy_file, make_names_safe
from holdfast.stores.sqlite.faults import failed
from holdfast.stores.sqlite.files import put_away
from holdfast.stores.sqlite.heads import ORIGIN, head_of, marks_in, marks_of
from holdfast.stores.sqlite.migrations import SCHEMA
from holdfast.stores.sqlite.work_files import BESIDE
from holdfast.stores.sqlite.writer import Writer

_REMEMBER: Final = "insert or replace into backups values(?,?,?)"
_FORGET: Final = "delete from backups where path=?"
_NO_ORIGIN: Final = "delete from backups where scheduled=?"
_KNOWN: Final = "select path, at, scheduled from backups where scheduled<2 order by at desc, path desc"
PART: Final = ".part"
_LONGEST_NAME: Final = 1_000


@dataclass(frozen=True, slots=True)
class Source:
    """The store that is copied, as far as a backup needs it."""

    path: Path
    connect: Callable[[], Connection]
    writer: Writer | None
    now_us: Callable[[], int]
    check: Callable[[Path], CheckReport]


async def backup(source: Source, target: str | None, *, verify: bool, scheduled: bool) -> Backup:
    """Copy the file as it is now, while others write."""
    at_us = source.now_us()
    path = chosen_path(source.path, target, at_us, into_folder=scheduled)
    # Before the copy is begun: whatever is forgotten from here on names this backup in its receipt.
    await _remember(source, path, at_us, scheduled=scheduled)
    stop = threading.Event()
    working = asyncio.get_running_loop().run_in_executor(
        None, lambda: _copy(source, path, stop, verify=verify)
    )
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([working])
        await _unremember(source, path)
        raise
    except BaseException:
        await _unremember(source, path)
        raise
    return Backup(str(path), at_us, working.result(), SCHEMA, scheduled)


async def _remember(source: Source, path: Path, at_us: int, *, scheduled: bool) -> None:
    if source.writer is not None:  # a file that was opened to be read remembers nothing
        row = (str(path), at_us, int(scheduled))
        await source.writer.run(lambda ledger: ledger.connection.execute(_REMEMBER, row).fetchall())


async def _unremember(source: Source, path: Path) -> None:
    if source.writer is not None:
        with suppress(HoldfastError):  # a name without its file is told nobody
            await source.writer.run(
                lambda ledger: ledger.connection.execute(_FORGET, (str(path),)).fetchall()
            )


def chosen_path(file: Path, target: str | None, at_us: int, *, into_folder: bool) -> Path:
    """The file to write: the target itself, or a name by the time inside a folder."""
    path = file.parent if target is None else Path(checked_file(str(Path(target).absolute())))
    if path.is_dir():
        return _free_name(path, file.stem, moment(at_us))
    if into_folder:
        raise StoreFailed(f"the folder {path} is not there", hint="make it again, or schedule another one")
    if path.exists() or path.is_symlink():
        raise AlreadyExists(f"{path} exists already", hint="give a new path, or remove the old file first")
    if beside := _beside(path):
        raise AlreadyExists(
            f"{beside} is there, and would be taken for a part of {path}",
            hint="give a new path, or remove that file first",
        )
    if not path.parent.is_dir():
        raise StoreFailed(f"the folder of {path} does not exist", hint="make it first, or give another path")
    return path


def _beside(path: Path) -> Path | None:
    """What was left of an earlier file of that name, and the database would read as a part of the new one."""
    beside = (path.with_name(path.name + suffix) for suffix in BESIDE)
    return next((file for file in beside if os.path.lexists(file)), None)


def _free_name(folder: Path, stem: str, at: datetime) -> Path:
    base = f"{stem}-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    for number in range(1, _LONGEST_NAME):
        path = folder / (f"{base}.db" if number == 1 else f"{base}-{number}.db")
        if not os.path.lexists(path) and _beside(path) is None:
            return path
    raise AlreadyExists(f"{folder} holds {_LONGEST_NAME} backups of this second", hint="give another folder")


def _copy(source: Source, path: Path, stop: threading.Event, *, verify: bool) -> int:
    """The size of the copy."""
    part = path.with_name(path.name + PART)
    try:
        _remove(part)
        own = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.close(own)
        _write_part(source, path, part, stop)
        if not stop.is_set():
            _judge(source, part, verify=verify)
            _publish(part, path)
        return part.stat().st_size
    except apsw.BusyError as error:
        raise StoreBusy(f"{source.path} is locked by another program", hint="try again") from error
    except apsw.Error as error:
        raise failed(
            f"{path} could not be written", error, hint="check the disk, or give another path"
        ) from error
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        _remove(part)


def unwritable(path: Path, error: OSError) -> StoreFailed:
    """The typed error for what the system refuses."""
    if error.errno == _NO_SPACE:
        return failed(f"{path} could not be written", apsw.FullError(str(error)), hint="")
    return StoreFailed(f"{path} could not be written: {error}", hint="check the disk, or give another path")


_NO_SPACE: Final = 28


def _write_part(source: Source, path: Path, part: Path, stop: threading.Event) -> None:
    at_us = source.now_us()

    def leave_itself_out(copy: Connection) -> None:
        copy.execute(_FORGET, (str(path),))
        copy.execute(_NO_ORIGIN, (ORIGIN,))
        copy.execute(_REMEMBER, (origin_of(source.path), at_us, ORIGIN))

    connection = source.connect()
    try:
        # One snapshot for all steps: a writer that goes on neither waits nor makes the copy begin anew.
        connection.execute("begin")
        connection.execute("select count(*) from backups").fetchall()
        copy_file(connection, str(part), afterwards=leave_itself_out, stop=stop.is_set)
    finally:
        put_away(connection)


def _judge(source: Source, part: Path, *, verify: bool) -> None:
    """Refuse a copy that is not whole."""
    head = head_of(part)
    if head is None or not head.whole or head.schema != SCHEMA:
        raise StoreFailed(f"the copy of {source.path} is not whole", hint="check the disk, and try again")
    if verify:
        report = source.check(part)
        if not report.ok:
            raise StoreDamaged(
                f"the copy of {source.path} has {len(report.findings)} faults: {report.findings[0].what}",
                hint="run holdfast check on the memory itself",
            )


def _publish(part: Path, path: Path) -> None:
    """Give the copy its name, unless somebody has taken it meanwhile."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise AlreadyExists(f"{path} exists already", hint="give a new path") from None
    except OSError:  # a file system without links
        part.replace(path)
    make_names_safe(path.parent)


def _remove(part: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal", ".lock"):
        with suppress(OSError):
            part.with_name(part.name + suffix).unlink()


def origin_of(path: Path) -> str:
    """The name of a memory in its backups."""
    return os.path.realpath(path)


def backups(connection: Connection, path: Path) -> list[Backup]:
    """The remembered copies that are there, newest first.

    Another memory's file under a remembered name is none of them; and what a schedule made for another file, of which
    this one is a copy, is not the schedule's of this one.
    """
    found: list[Backup] = []
    own, origin = marks_in(connection).salt, origin_of(path)
    for name, at, scheduled in connection.execute(_KNOWN):
        file = Path(cast("str", name))
        head = head_of(file)
        if head is None or not head.whole:
            continue
        marks = marks_of(file)
        if marks.salt == own:
            by_schedule = bool(scheduled) and marks.origin == origin
            found.append(Backup(str(file), cast("int", at), head.bytes, head.schema, by_schedule))
    return found


async def drop_backup(writer: Writer, known: list[Backup], path: str) -> None:
    """Remove a remembered copy, first the file and then the memory of it."""
    if all(one.path != path for one in known):
        raise NotFound(f"{path} is no backup of this memory", hint="look at the list of its backups")
    try:
        await asyncio.to_thread(lambda: Path(path).unlink(missing_ok=True))
    except OSError as error:
        raise StoreFailed(f"{path} could not be removed: {error}", hint="look at its folder") from error
    await writer.run(lambda ledger: ledger.connection.execute(_FORGET, (path,)).fetchall())
