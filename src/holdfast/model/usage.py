"""Usage: what a space holds, and what it may hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes that a space holds, and its limit; None without one.

    Counted are, in UTF-8, the content, the title and the metadata (as compact JSON; nothing when empty) of every kept
    version of an entry, one byte for each component of its vectors, and the value (as compact JSON) of every kept
    version of a document. Receipts, chores, the journal and the indexes are not counted.
    """

    bytes: int
    limit: int | None

    @property
    def left(self) -> int | None:
        """How much may still come; None without a limit."""
        return None if self.limit is None else max(0, self.limit - self.bytes)
