"""The raw files: looking for bytes in them, whatever the database makes of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

PIECE: Final = 1 << 22


def residue(path: Path, needles: Sequence[bytes]) -> Mapping[str, int]:
    """Occurrences of byte strings in the database file and its log."""
    found: dict[str, int] = {}
    for suffix in ("", "-wal", "-shm"):
        file = path.with_name(path.name + suffix)
        with suppress(FileNotFoundError):
            descriptor = _held_open(file)
            count = sum(_occurrences(descriptor, needle) for needle in needles if needle)
            if count:
                found[file.name] = count
    return found


_open_files: Final[dict[tuple[int, int], int]] = {}
_opening: Final = threading.Lock()


def _held_open(file: Path) -> int:
    """A descriptor that stays open for the life of the process.

    Closing any descriptor of a file drops all locks that the process has on it, those of SQLite included: others would
    then take the log for abandoned.
    """
    with _opening:
        for place, descriptor in list(_open_files.items()):
            if not os.fstat(descriptor).st_nlink:  # deleted: nobody can come to rely on its locks
                os.close(descriptor)
                del _open_files[place]
        stat = file.stat()
        known = _open_files.get((stat.st_dev, stat.st_ino))
        if known is None:
            known = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            _open_files[stat.st_dev, stat.st_ino] = known
        return known


def _occurrences(descriptor: int, needle: bytes) -> int:
    """Counts in pieces that overlap by less than the needle, so that none is missed or counted twice."""
    total = offset = 0
    while piece := os.pread(descriptor, PIECE + len(needle) - 1, offset):
        total += piece.count(needle)
        offset += PIECE
    return total
