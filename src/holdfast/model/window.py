"""Windows over a place or a bank: which entries, in which order, how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from holdfast.errors import InvalidInput
from holdfast.model.entry import Entry
from holdfast.model.limits import PAGE_LIMIT

if TYPE_CHECKING:  # the language of filters is loaded with the first filter
    from holdfast.model.filter import Filter

Order = Literal["newest_first", "oldest_first"]
ORDERS = frozenset(("newest_first", "oldest_first"))


@dataclass(frozen=True, slots=True)
class Cursor:
    """The entry after which the next page starts."""

    key: str
    created_us: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which entries of a scope to read.

    Inside one key they come by ``by``: ``seq`` (the order of arrival) or ``created`` (when they were said, ties by
    seq). Over a bank they come by key (code points), then as inside each key; ``order`` turns the whole list around.
    ``created_from_us`` is inclusive, ``created_until_us`` exclusive. With ``hidden``, entries behind a summary are
    shown as well. ``as_of_us`` reads what was known then.
    """

    order: Order = "oldest_first"
    by: Literal["seq", "created"] = "seq"
    limit: int = 100
    after: Cursor | None = None
    created_from_us: int | None = None
    created_until_us: int | None = None
    filter: Filter | None = None
    as_of_us: int | None = None
    hidden: bool = False

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise InvalidInput(
                f"unknown order {self.order!r}", code="order_invalid", hint=" or ".join(sorted(ORDERS))
            )
        if isinstance(self.limit, bool) or not 1 <= self.limit <= PAGE_LIMIT:
            raise InvalidInput(f"the limit must be 1 to {PAGE_LIMIT}, not {self.limit}", code="limit_invalid")


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Entries in the order asked for; ``next`` continues after the last one, None at the end."""

    entries: tuple[Entry, ...]
    next: Cursor | None


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key that holds visible entries."""

    key: str
    entries: int
    last_us: int
