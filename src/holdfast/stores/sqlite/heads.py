"""The head of a file: what can be told of a database without opening it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
    """What a file says of itself; None when it is no holdfast file, or not there.

    Only for files that this process has not open: closing a file gives back all locks that the process has on it.
    """
    try:
        with path.open("rb") as file:
            head = file.read(100)
            size = file.seek(0, 2)
    except OSError:
        return None
    if len(head) < 100 or not head.startswith(_MAGIC) or _number(head, 68) != APPLICATION:
        return None
    page = int.from_bytes(head[16:18], "big")
    return Head(_number(head, 60), (65_536 if page == 1 else page) * _number(head, 28), size)


def _number(head: bytes, at: int) -> int:
    return int.from_bytes(head[at : at + 4], "big")
