"""What a file knows to be erased, read from its pages where its trees cannot be read any more."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple, cast

import apsw

from holdfast.stores.sqlite.raw_records import RawFile, Read, page_size_of, raw_records
from holdfast.stores.sqlite.salvage import Salvage
from holdfast.stores.sqlite.tombstones import Erased

_WIDEST: Final = 4
"""How many columns the records have that count here: tombstones, forgotten places, and the salt."""
_LOG_HEAD: Final = 32
_FRAME_HEAD: Final = 24


class RawErased(NamedTuple):
    """What was found, and of which memory the file is as far as that was found."""

    erased: Erased
    salt: bytes | None


def raw_erased(path: Path) -> RawErased:
    """Read every page of a file and of its log; what cannot be read is passed over."""
    salvage = Salvage()
    try:
        _take_file(salvage, path)
        _take_log(salvage, path.with_name(path.name + "-wal"))
    except (OSError, apsw.Error):
        pass  # a disk that refuses to read: what was found until then counts
    salvage.settle()
    records = {
        cast("bytes", name): (cast("str", space), cast("int", at))
        for name, space, at, _ in salvage.rows["tombstones"].values()
    }
    places = {cast("bytes", name): cast("int", at) for name, at, _ in salvage.rows["forgotten"].values()}
    return RawErased(Erased(records, places), cast("bytes | None", salvage.meta.get("salt")))


def _take_file(salvage: Salvage, path: Path) -> None:
    # Through the database's own layer: closing it in any other way gives back the locks on the file.
    file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:

        def read(offset: int, size: int) -> bytes:
            return bytes(file.xRead(size, offset)).ljust(size, b"\x00")

        page = page_size_of(read(0, 100))
        _take(salvage, read, -(-file.xFileSize() // page) * page, page)
    finally:
        file.xClose()


def _take_log(salvage: Salvage, log: Path) -> None:
    if not log.is_file():
        return
    with log.open("rb") as opened:
        page = int.from_bytes(opened.read(_LOG_HEAD)[8:12], "big")
        if not 512 <= page <= 65_536:
            return
        frame = _FRAME_HEAD + page
        frames = (log.stat().st_size - _LOG_HEAD) // frame

        def read(offset: int, size: int) -> bytes:
            number, inside = divmod(offset, page)
            opened.seek(_LOG_HEAD + number * frame + _FRAME_HEAD + inside)
            return opened.read(size).ljust(size, b"\x00")

        _take(salvage, read, frames * page, page)


def _take(salvage: Salvage, read: Read, size: int, page: int) -> None:
    for record in raw_records(RawFile(read, size, page)):
        if record.rowid is None and len(record.columns) <= _WIDEST:
            salvage.take(record)
