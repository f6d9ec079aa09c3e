"""Reading records from the raw pages of a database file, with no help of its trees.

What comes out may be anything: a record counts only when its guard fits. Pages and cells that make no sense are passed
over. The form of pages, cells and records is that of "Database File Format" in SQLite's documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from holdfast.stores.sqlite.db import Column, Record

DEFAULT_PAGE: Final = 4096
_MAGIC: Final = b"SQLite format 3\x00"
_SIZES: Final = frozenset(1 << bits for bits in range(9, 17))
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x0A, 0x02
_INTEGERS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
Read = Callable[[int, int], bytes]
"""Bytes of the file: offset and size."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as it was found: the columns, and the row id where it stands in a table with one."""

    rowid: int | None
    columns: Record


@dataclass(frozen=True, slots=True)
class RawFile:
    """The pages of a database file."""

    read: Read
    size: int
    page_size: int

    @property
    def pages(self) -> int:
        """How many whole pages there are."""
        return self.size // self.page_size

    def page(self, number: int) -> bytes:
        """The bytes of a page; the first has the number 1."""
        return self.read((number - 1) * self.page_size, self.page_size)


def page_size_of(header: bytes) -> int:
    """The size of pages that the first bytes of a file tell; that of every memory when they cannot be believed."""
    told = int.from_bytes(header[16:18], "big")
    told = 65_536 if told == 1 else told
    return told if header.startswith(_MAGIC) and told in _SIZES else DEFAULT_PAGE


def raw_records(file: RawFile) -> Iterator[RawRecord]:
    """Every record in every page that has the form of a leaf, or of a tree without row ids."""
    for number in range(1, file.pages + 1):
        yield from page_records(file, number)


def page_records(file: RawFile, number: int) -> Iterator[RawRecord]:
    """Every record that begins in a page."""
    page = file.page(number)
    start = 100 if number == 1 else 0
    if page[start] in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR):
        yield from _page_records(file, page, start)


def _page_records(file: RawFile, page: bytes, start: int) -> Iterator[RawRecord]:
    kind = page[start]
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    first = start + (12 if kind == _INDEX_INTERIOR else 8)
    for index in range(min(count, (len(page) - first) // 2)):
        (offset,) = struct.unpack_from(">H", page, first + 2 * index)
        try:
            yield _cell(file, page, kind, offset + (4 if kind == _INDEX_INTERIOR else 0))
        except (ValueError, IndexError, struct.error):
            continue  # not a cell, or one that was hit


def _cell(file: RawFile, page: bytes, kind: int, at: int) -> RawRecord:
    size, at = varint(page, at)
    rowid: int | None = None
    if kind == _TABLE_LEAF:
        rowid, at = varint(page, at)
        rowid = rowid - (1 << 64) if rowid >= 1 << 63 else rowid
    return RawRecord(rowid, columns_of(_payload(file, page, kind, size, at)))


def _payload(file: RawFile, page: bytes, kind: int, size: int, at: int) -> bytes:
    if size > file.size:
        raise ValueError("longer than the file")
    usable = len(page)
    local = local_size(usable, size, table=kind == _TABLE_LEAF)
    payload = page[at : at + local]
    if local == size:
        return _of_size(payload, size)
    (following,) = struct.unpack_from(">I", page, at + local)
    parts = [payload]
    left = size - local
    while left > 0:
        if not 1 < following <= file.pages:
            raise ValueError("the chain leaves the file")
        further = file.page(following)
        parts.append(further[4 : 4 + min(left, usable - 4)])
        left -= usable - 4
        (following,) = struct.unpack_from(">I", further)
    return _of_size(b"".join(parts), size)


def _of_size(payload: bytes, size: int) -> bytes:
    if len(payload) != size:
        raise ValueError("cut short")
    return payload


def local_size(usable: int, size: int, *, table: bool) -> int:
    """How much of a payload stands in the page itself; the rest is in a chain of further pages."""
    most = usable - 35 if table else (usable - 12) * 64 // 255 - 23
    if size <= most:
        return size
    least = (usable - 12) * 32 // 255 - 23
    fitting = least + (size - least) % (usable - 4)
    return fitting if fitting <= most else least


def columns_of(payload: bytes) -> Record:
    """The columns of a record; ``ValueError`` or ``IndexError`` when it is none."""
    end, at = varint(payload, 0)
    kinds: list[int] = []
    while at < end:
        kind, at = varint(payload, at)
        kinds.append(kind)
    found: list[Column] = []
    for kind in kinds:
        value, at = _column(payload, kind, at)
        found.append(value)
    if at != len(payload):
        raise ValueError("longer or shorter than its columns")
    return tuple(found)


def _column(payload: bytes, kind: int, at: int) -> tuple[Column, int]:
    if kind == 0:
        return None, at
    if kind in (8, 9):
        return kind - 8, at
    if kind in _INTEGERS:
        width = _INTEGERS[kind]
        return int.from_bytes(_of_size(payload[at : at + width], width), "big", signed=True), at + width
    if kind == 7:
        return struct.unpack_from(">d", payload, at)[0], at + 8
    if kind < 12:
        raise ValueError("no such type")
    width = (kind - 12) // 2
    held = _of_size(payload[at : at + width], width)
    return (held.decode("utf-8") if kind % 2 else held), at + width


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    value = 0
    for offset in range(8):
        byte = data[at + offset]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + offset + 1
    return value << 8 | data[at + 8], at + 9
