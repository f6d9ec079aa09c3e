"""The columns of records, in the order in which they are read."""

from __future__ import annotations

from typing import Final

ENTRY: Final = (
    "row, id, version, kind, content, title, speaker, name, thread, subject, metadata, origin, created, recorded,"
    " expires, change, seen"
)
PAST: Final = ENTRY + ", digest, retired, reason, by_entry, by_change, length, vectors, scales"
DOCUMENT: Final = (
    "position, id, space, bank, key, kind, name, version, value, subject, origin, recorded, expires, change"
)
CHORE: Final = (
    "id, space, bank, key, kind, dedupe, payload, state, attempts, max_attempts, due, token, lease_until, worker,"
    " last_error, created, change"
)
