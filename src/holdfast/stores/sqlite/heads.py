"""The head of a file: what can be told of a database without opening it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw

APPLICATION: Final = 0x484F4C44  # "HOLD"
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


def _number(head: bytes, at: int) -> int:
    return int.from_bytes(head[at : at + 4], "big")
