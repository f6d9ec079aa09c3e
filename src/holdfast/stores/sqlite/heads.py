"""The head of a file: what can be told of a database without opening it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import apsw

from holdfast.stores.sqlite.db import Column, Connection

APPLICATION: Final = 0x484F4C44  # "HOLD"
ORIGIN: Final = 2
"""The ``scheduled`` of the row in which a backup says which file it was made of; a memory in use has no such row."""
_SALT: Final = "select value from meta where name='salt'"
_ORIGIN: Final = "select path from backups where scheduled=2"
_MAGIC: Final = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True)
class Head:
    """The schema of a holdfast file, and how large it says it is and is."""

    schema: int
    stated_bytes: int
    bytes: int

    @property
    def whole(self) -> bool:
        """Whether nothing is cut off."""
        return 0 < self.stated_bytes <= self.bytes


def head_of(path: Path) -> Head | None:
    """What a file says of itself; None when it is no holdfast file, or cannot be read.

    Read through the database's own layer: closing a file in any other way gives back all locks that this process has
    on it, those of SQLite included.
    """
    if not path.is_file():
        return None
    try:
        file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        try:
            head, size = bytes(file.xRead(100, 0)), file.xFileSize()
        finally:
            file.xClose()
    except apsw.Error:
        return None
    if not head.startswith(_MAGIC) or _number(head, 68) != APPLICATION:
        return None
    page = int.from_bytes(head[16:18], "big")
    return Head(_number(head, 60), (65_536 if page == 1 else page) * _number(head, 28), size)


@dataclass(frozen=True, slots=True)
class Marks:
    """Of which memory a file is, and as a backup of which file it was made; None where nothing tells that."""

    salt: bytes | None = None
    origin: str | None = None


def marks_of(path: Path) -> Marks:
    """Whose copy a file is. The file is taken as it lies there, without its log, and nothing is made beside it."""
    if not path.is_file():
        return Marks()
    connection: apsw.Connection | None = None
    try:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=flags)
        return marks_in(cast("Connection", connection))
    except apsw.Error:
        return Marks()
    finally:
        if connection is not None:
            connection.close(force=True)


def marks_in(connection: Connection) -> Marks:
    """Whose copy the file behind a connection is."""
    salt, origin = _told(connection, _SALT), _told(connection, _ORIGIN)
    return Marks(salt if isinstance(salt, bytes) else None, origin if isinstance(origin, str) else None)


def _told(connection: Connection, sql: str) -> Column:
    try:
        return connection.execute(sql).get
    except (apsw.Error, ValueError):  # damaged, or of a schema that did not say it
        return None


def _number(head: bytes, at: int) -> int:
    return int.from_bytes(head[at : at + 4], "big")
