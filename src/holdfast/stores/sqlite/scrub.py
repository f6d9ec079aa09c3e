"""Scrubbing: after a forget, no byte of what was erased stays in the file or its log.

``secure_delete`` zeroes what is deleted, but pages that were split or merged before may still hold older copies of a
row in their unused part, and the word index keeps words as separators between its pages. Only writing the file anew
leaves nothing: the index merged into one segment, the pages copied, the log emptied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from pathlib import Path
from typing import Final, cast

import apsw

from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.raw import residue

_MERGE: Final = (
    "insert into words(words) values('optimize')",
    "insert into past_words(past_words) values('optimize')",
)
_SIZE: Final = "select (select * from pragma_page_count) * (select * from pragma_page_size)"
IN_MEMORY_BYTES: Final = 64 * 1024 * 1024
"""A file up to this size is written anew by way of the memory; a larger one by way of a file without a name."""
_REWRITTEN: Final = "update unsettled set rewritten=1"
_IN_LOG_ONLY: Final = (
    "select exists(select 1 from unsettled) and not exists(select 1 from unsettled where rewritten=0)"
)
_SETTLED: Final = "delete from unsettled where rewritten=1"
UNSETTLED: Final = "select receipt from unsettled"
_AGAIN: Final = "update unsettled set rewritten=0"
_HELD: Final = (
    "select 1 from entries where instr(concat_ws(char(10), content, title, name, thread, subject, metadata, origin), ?)",
    "select 1 from past where instr(concat_ws(char(10), content, title, name, thread, subject, metadata, origin), ?)",
    "select 1 from documents where instr(concat_ws(char(10), bank, key, name, value, subject, origin), ?)",
    "select 1 from document_versions where instr(concat_ws(char(10), bank, key, name, value, subject, origin), ?)",
    "select 1 from chores where instr(concat_ws(char(10), bank, key, dedupe, payload, last_error), ?)",
    "select 1 from journal where instr(origin, ?)",
    "select 1 from fresh where instr(terms, ?)",
    "select 1 from keys where instr(key, ?)",
    "select 1 from banks where instr(concat_ws(char(10), space, name), ?)",
)
"""Where a piece of erased text may stand by right: others may have said the same."""
SAMPLES: Final = 16
_SAMPLE_SIZE: Final = 64
_TELLING: Final = 12


def rewrite_pages(connection: Connection, *, anyway: bool = False) -> None:
    """Write the whole file anew; takes time in proportion to its size, and writers wait meanwhile.

    Nothing is done when this was done for all that was forgotten, and only the log is left, unless ``anyway``.
    """
    if not anyway and connection.execute(_IN_LOG_ONLY).get:
        return
    for statement in _MERGE:
        connection.execute(statement)
    _vacuum(connection)
    connection.execute(_REWRITTEN)


def _vacuum(connection: Connection) -> None:
    if cast("int", connection.execute(_SIZE).get) <= IN_MEMORY_BYTES:
        connection.execute("vacuum")
        return
    connection.execute("pragma temp_store=file")
    try:
        connection.execute("vacuum")
    finally:
        connection.execute("pragma temp_store=memory")


def sampled(texts: Iterable[str]) -> tuple[str, ...]:
    """Pieces of what is erased, to look for in the raw files afterwards: of the longest texts, from their middle."""
    longest = nlargest(SAMPLES, (text for text in texts if len(text) >= _TELLING), key=len)
    # A single word may stand in the word index by right, for entries that wrote it in another way.
    return tuple([piece for piece in map(_middle, longest) if len(piece.split()) > 1 or not piece.isascii()])


def _middle(text: str) -> str:
    start = max(0, (len(text) - _SAMPLE_SIZE) // 2)
    return text[start : start + _SAMPLE_SIZE].strip()


def finish(connection: Connection, path: Path, samples: Sequence[str], wait_ms: int, usual_ms: int) -> bool:
    """Empty the log, look for what was erased, and strike the forgets off the list; False when something is left.

    The list goes last: a process that is killed before has it finished by the next.
    """
    if not empty_log(connection, wait_ms, usual_ms):
        return False
    if any(left_over(connection, path, sample) for sample in samples):
        connection.execute(_AGAIN)
        return False
    connection.execute(_SETTLED)
    return True


def left_over(connection: Connection, path: Path, sample: str) -> bool:
    """Whether a piece of text is in the raw files though no record holds it."""
    if not residue(path, [sample.encode()]):
        return False
    return not any(connection.execute(sql, (sample,)).fetchone() for sql in _HELD)


def empty_log(connection: Connection, wait_ms: int, usual_ms: int) -> bool:
    """Move the log into the file and cut it off; False while somebody still reads the pages it holds."""
    connection.set_busy_timeout(wait_ms)
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        return False
    finally:
        connection.set_busy_timeout(usual_ms)
    return True
