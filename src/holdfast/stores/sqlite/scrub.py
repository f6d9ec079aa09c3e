"""Scrubbing: after a forget, no byte of what was erased stays in the file or its log.

``secure_delete`` zeroes what is deleted, but pages that were split or merged before may still hold older copies of a
row in their unused part, and the word index keeps words as separators between its pages. Only writing the file anew
leaves nothing: the index merged into one segment, the pages copied, the log emptied.
"""

from __future__ import annotations

from typing import Final

import apsw

from holdfast.stores.sqlite.db import Connection

_REWRITE: Final = (
    "insert into words(words) values('optimize')",
    "insert into past_words(past_words) values('optimize')",
    "vacuum",
)


def rewrite_pages(connection: Connection) -> None:
    """Write the whole file anew; takes time in proportion to its size, and writers wait meanwhile."""
    for statement in _REWRITE:
        connection.execute(statement)


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
