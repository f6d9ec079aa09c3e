"""The file: where it may live, how a connection to it is opened, and the lock that its writers queue on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias, cast

import apsw

from holdfast.errors import (
    EmbedderMismatch,
    HoldfastError,
    StoreBusy,
    StoreDamaged,
    StoreFailed,
    StoreReadOnly,
    StoreUnsupported,
)
from holdfast.stores.sqlite.db import Connection, open_connection
from holdfast.stores.sqlite.faults import DAMAGE, UNREADABLE, Spoilt, damaged, failed, read_error
from holdfast.stores.sqlite.heads import APPLICATION
from holdfast.stores.sqlite.layout import Layout
from holdfast.stores.sqlite.migrations import SCHEMA, migrate
from holdfast.stores.sqlite.reindex import analyser, make_words_anew, up_to_date
from holdfast.stores.sqlite.tuning import PROMISED, SYNCHRONOUS, Tuning
from holdfast.stores.sqlite.write_lock import WriteLock

_NETWORK: Final = frozenset(
    (
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
        "fuse.sshfs",
        "fuse.s3fs",
    )
)

_KIND: Final = (
    "select application_id, user_version, (select count(*) from sqlite_schema)"
    " from pragma_application_id, pragma_user_version"
)
_INDEX_HEAD: Final = 136
_EMBEDDER: Final = "select value from meta where name='embedder'"
_CLAIM: Final = "insert or ignore into meta values('embedder', ?)"

PRAGMAS: Final = (
    "pragma secure_delete=on",
    "pragma wal_autocheckpoint=0",
    "pragma temp_store=memory",
    "pragma foreign_keys=off",
)


def refuse_network(path: Path) -> None:
    """Raise when the folder stands on a network file system, whose locks and syncs cannot be trusted."""
    kind = file_system_of(path)
    if kind in _NETWORK:
        raise StoreUnsupported(
            f"{path} stands on a network file system ({kind}), where locks and syncs are not reliable",
            code="network_file_system",
            hint="put the file on a local disk",
        )


def file_system_of(path: Path, table: Path = Path("/proc/self/mounts")) -> str | None:
    """The type of the file system that holds a path, where the system tells it."""
    try:
        lines = table.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    place = path.absolute()
    best: tuple[int, str | None] = (-1, None)
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        mount = Path(fields[1].replace("\\040", " "))
        depth = len(mount.parts)
        if (place == mount or mount in place.parents) and depth >= best[0]:
            best = (depth, fields[2])
    return best[1]


def refuse_lost_log(path: Path) -> None:
    """Raise when the log of the file was removed while it held what the file does not: its index still tells.

    Whoever closes a file in order removes the index first, so an index without a log was left by somebody else.
    """
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if log.exists() or not index.is_file():
        return
    head = index.read_bytes()[:_INDEX_HEAD]
    held = int.from_bytes(head[16:20], sys.byteorder)
    moved = int.from_bytes(head[96:100], sys.byteorder)
    if len(head) == _INDEX_HEAD and held > moved and not log.exists():
        raise StoreDamaged(
            f"{path} has lost its log: {log.name} is missing, with {held - moved} pages that the file does not have",
            code="log_missing",
            hint=f"put {log.name} back beside it, or restore a backup; to go on without it, remove {index.name}",
        )


def make_folder(path: Path) -> None:
    """Make the folder that the file stands in."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFailed(
            f"the folder of {path} cannot be made: {error}",
            hint="give a path in a folder that may be written",
        ) from error


def connect(path: Path, *, readonly: bool, vfs: str | None = None, tuning: Tuning = PROMISED) -> Connection:
    """A connection with the settings that every connection has."""
    connection: Connection | None = None
    try:
        connection = open_connection(str(path), readonly=readonly, vfs=vfs)
        connection.set_busy_timeout(tuning.busy_ms)
        connection.execute("pragma cache_size=-65536")
        connection.execute(SYNCHRONOUS[tuning.synchronous])
        for pragma in PRAGMAS:
            connection.execute(pragma)
    except apsw.Error as error:
        put_away(connection)
        raise cannot_open(path, error) from error
    return connection


def cannot_open(path: Path, error: apsw.Error) -> HoldfastError:
    """The typed error for a file that SQLite will not open."""
    if isinstance(error, apsw.NotADBError):
        return _foreign(path)
    if isinstance(error, DAMAGE):
        return damaged(path, error)
    if isinstance(error, apsw.BusyError):
        return StoreBusy(
            f"{path} is locked by another program", hint="it may be restoring it; try again when that is done"
        )
    if isinstance(error, apsw.ReadOnlyError):
        return StoreReadOnly(f"{path} cannot be written", hint="open it with ?mode=ro")
    return failed(f"{path} cannot be opened", error, hint="check that the folder exists and may be written")


def _foreign(path: Path) -> StoreUnsupported:
    """The error for a file without the marks of a memory: it never was one, is empty, or its first bytes are lost."""
    return StoreUnsupported(
        f"{path} is not a holdfast file",
        code="not_a_store",
        hint=f"give another path; if it was a memory once: holdfast repair {path}",
    )


def put_away(connection: Connection | None) -> None:
    """Close a connection that may be broken; what it was told is safe or was reported as failed."""
    if connection is not None:
        with suppress(apsw.Error):
            connection.close(force=True)


Identity: TypeAlias = tuple[int, int]


def identity_of(path: Path) -> Identity | None:
    """Which file a path names; None for none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _refuse_replaced(path: Path, was: Identity | None) -> None:
    """Raise when the path names another file than was opened: its log would be taken for that of the other."""
    if was is not None and identity_of(path) != was:
        raise StoreBusy(f"{path} was replaced while it was opened", hint="open it again")


def prepare(
    connection: Connection,
    path: Path,
    lock: WriteLock,
    layout: Layout,
    *,
    readonly: bool,
    was: Identity | None = None,
) -> None:
    """Make the schema in an empty file; refuse a foreign or a newer one.

    ``was`` is the file that the path named before it was opened.
    """
    try:
        # One statement, one state of the file: another process may be making it at this moment.
        application, version, tables = cast("tuple[int, int, int]", connection.execute(_KIND).fetchone())
        _refuse_replaced(path, was)
        if application == APPLICATION:
            _accept(path, version, readonly=readonly)
            if version < SCHEMA:
                with lock.held():
                    migrate(connection, path)
            _accept_layout(connection, path, layout)
            if not readonly and connection.execute("pragma journal_mode").get != "wal":
                with lock.held():  # a restore has set it aside, or was killed before it put it back
                    _use_log(connection, path)
            if not readonly and not up_to_date(connection):
                with lock.held():
                    _in_transaction(connection, lambda: make_words_anew(connection, layout))
            return
        if readonly or application or tables:
            raise _foreign(path)
        with lock.held():
            _use_log(connection, path)
            _in_transaction(connection, lambda: _create(connection, layout))
        _accept_layout(connection, path, layout)
    except apsw.Error as error:
        raise cannot_open(path, error) from error
    except OSError as error:
        raise StoreFailed(
            f"{path} cannot be brought up to date: {error}", hint="check the disk, then open it again"
        ) from error
    except (Spoilt, *UNREADABLE) as error:
        raise read_error(path, error) or error from error


def _use_log(connection: Connection, path: Path) -> None:
    """Write through a log from now on. The database does not raise when that fails: it only says what it uses."""
    mode = connection.execute("pragma journal_mode=wal").get
    if mode != "wal":
        raise StoreFailed(
            f"{path} cannot be given a write-ahead log; it would use {mode!r}",
            hint="check the disk, then open it again",
        )


def claim_embedder(connection: Connection, path: Path, lock: WriteLock, name: str, *, readonly: bool) -> None:
    """Record whose vectors the file holds; refuse an embedder of another name."""
    known = connection.execute(_EMBEDDER).fetchone()
    if known is None and not readonly:
        with lock.held():
            connection.execute(_CLAIM, (name,))
        known = connection.execute(_EMBEDDER).fetchone()
    if known is not None and known[0] != name:
        raise EmbedderMismatch(
            f"{path} holds vectors of the embedder {known[0]!r}, not of {name!r}",
            hint="open it with that embedder, or without one",
        )


def _create(connection: Connection, layout: Layout) -> None:
    if not _number(connection, "select count(*) from sqlite_schema"):
        connection.execute(Path(__file__).with_name("schema.sql").read_text(encoding="utf-8"))
        connection.execute("insert into meta values('salt', randomblob(16)), ('quantisation', 'int8')")
        connection.execute("insert into meta values('layout', ?), ('analyser', ?)", (layout.name, analyser()))
        connection.execute("pragma application_id=1213156420")
        connection.execute("pragma user_version=3")  # as migrations.SCHEMA


def _in_transaction(connection: Connection, work: Callable[[], None]) -> None:
    connection.execute("begin immediate")
    try:
        work()
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # a full or broken disk has taken it back already
            connection.execute("rollback")
        raise


def _accept_layout(connection: Connection, path: Path, layout: Layout) -> None:
    known = connection.execute("select value from meta where name='layout'").get
    if known != layout.name:
        raise StoreUnsupported(
            f"{path} numbers its rows by {known!r}, not by {layout.name}",
            code="layout_differs",
            hint="open it as it was made",
        )


def _accept(path: Path, version: int, *, readonly: bool) -> None:
    if version > SCHEMA:
        raise StoreUnsupported(
            f"{path} was written by a newer holdfast (schema {version}, this one knows {SCHEMA})",
            code="schema_newer",
            hint="upgrade holdfast",
        )
    if version < SCHEMA and readonly:
        raise StoreUnsupported(
            f"{path} was written by an older holdfast (schema {version}, this one needs {SCHEMA})",
            code="schema_older",
            hint="open it once without ?mode=ro: it is brought up to date, after a copy was made beside it",
        )


def _number(connection: Connection, sql: str) -> int:
    return cast("int", connection.execute(sql).get)
