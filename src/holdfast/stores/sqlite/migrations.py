"""Migrations: steps from one schema to the next, numbered, forward only, each one transaction.

A step that is cut off has not happened; the next open takes it again. Before the first step of a file a copy is made
beside it, which stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

from holdfast.stores.sqlite.codec import row_hash
from holdfast.stores.sqlite.db import Column, Connection, copy_file, make_names_safe

SCHEMA: Final = 3
"""The schema that this holdfast reads and writes."""

_VERSION: Final = "pragma user_version"
_REMEMBER: Final = "insert or ignore into backups(path, at) values(?,?)"


def migrate(connection: Connection, path: Path, *, copy: bool = True) -> None:
    """Bring a file up to date. The caller holds the write lock: another process may have done it meanwhile."""
    version = cast("int", connection.execute(_VERSION).get)
    if version >= SCHEMA:
        return
    if copy:
        _copy_first(connection, path, version)
    for number in range(version + 1, SCHEMA + 1):
        connection.execute("begin immediate")
        try:
            step, mark = _STEPS[number]
            step(connection)
            if number == SCHEMA:
                _remember_copies(connection, path)
            connection.execute(mark)
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:  # a full or broken disk has taken it back already
                connection.execute("rollback")
            raise


def _remember_copies(connection: Connection, path: Path) -> None:
    """Have later receipts name the copies that were made before a step: they hold what is forgotten from now on."""
    for version in range(1, SCHEMA):
        copy = copy_of(path, version)
        if copy.exists():
            connection.execute(_REMEMBER, (str(copy), copy.stat().st_mtime_ns // 1000))


def copy_of(path: Path, version: int) -> Path:
    """Where the copy of a file stands that was made before it left a schema."""
    return path.with_name(f"{path.name}.schema-{version}")


def _copy_first(connection: Connection, path: Path, version: int) -> None:
    target = copy_of(path, version)
    if target.exists():
        return
    # Under another name until it is whole: a copy that was cut off is not taken for one.
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    try:
        copy_file(connection, str(part))
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    part.replace(target)
    make_names_safe(target.parent)


def _to_2(connection: Connection) -> None:
    """Guards for what had none, and in a form that is made faster; forgets to settle, and known backups."""
    connection.create_scalar_function("guarded", row_hash)
    connection.create_scalar_function("guarded_anew", _guarded_anew)
    connection.execute(Path(__file__).with_name("migration_2.sql").read_text(encoding="utf-8"))


def _to_3(connection: Connection) -> None:
    """Guards for what still had none; places that were forgotten; quotas; whose doing a backup is."""
    connection.create_scalar_function("guarded", row_hash)
    connection.execute(Path(__file__).with_name("migration_3.sql").read_text(encoding="utf-8"))


def _guarded_anew(old: bytes, *columns: Column) -> bytes:
    """The new guard of a row that is whole; a damaged one keeps its old guard, which does not fit, and is found."""
    first = blake2b(repr(columns).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return row_hash(*columns) if first == old else old


_STEPS: Final[Mapping[int, tuple[Callable[[Connection], None], str]]] = MappingProxyType(
    {2: (_to_2, "pragma user_version=2"), 3: (_to_3, "pragma user_version=3")}
)
