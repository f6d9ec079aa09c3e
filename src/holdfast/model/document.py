"""Documents: named values, replaced, versioned, with optional expiry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from holdfast.errors import InvalidInput
from holdfast.model.origin import Origin
from holdfast.model.scope import checked_name
from holdfast.model.values import JsonValue, moment

KEEP_ALL: Final = -1

KEEP: Final[Mapping[str, int]] = MappingProxyType(
    {
        "bank": KEEP_ALL,
        "bank_name": 0,
        "block": KEEP_ALL,
        "digest": 20,
        "value": 20,
        "receipt": KEEP_ALL,
        "working": 0,
        "cache": 0,
    }
)
"""How many earlier versions each kind of document keeps; a kind that is not named keeps all."""


def kept_versions(kind: str) -> int:
    """How many earlier versions a kind keeps; ``KEEP_ALL`` for all of them."""
    return KEEP.get(kind, KEEP_ALL)


@dataclass(frozen=True, slots=True)
class DocumentRef:
    """The name of a document inside its space: where it is, what kind it is, what it is called."""

    bank: str
    key: str
    kind: str
    name: str

    def __post_init__(self) -> None:
        checked_name(self.bank, what="the bank", code="bank_invalid")
        checked_name(self.key, what="the key", code="key_invalid")
        checked_name(self.name, what="the document name", code="name_invalid")
        if not self.kind.isascii() or not self.kind.isidentifier():
            raise InvalidInput(f"document kind {self.kind!r} is not an ASCII identifier", code="kind_invalid")


@dataclass(frozen=True, slots=True)
class Document:
    """One version of a document, as stored. ``ended_us`` is None for the current version.

    ``position`` orders the documents of a place by first insertion.
    """

    id: str
    space: str
    ref: DocumentRef
    value: JsonValue
    version: int
    position: int
    subject: str | None
    origin: Origin
    recorded_us: int
    expires_us: int | None
    change: str
    ended_us: int | None = None
    ended_change: str | None = None

    @property
    def updated_at(self) -> datetime:
        """When the store recorded this version."""
        return moment(self.recorded_us)

    @property
    def expires_at(self) -> datetime | None:
        """When it stops being visible by itself."""
        return None if self.expires_us is None else moment(self.expires_us)

    def visible(self, now_us: int) -> bool:
        """Whether it is current and not expired; the last microsecond still counts."""
        return self.ended_us is None and (self.expires_us is None or now_us <= self.expires_us)

    def known(self, as_of_us: int) -> bool:
        """Whether this version was the current one at that time."""
        if self.recorded_us > as_of_us or (self.expires_us is not None and as_of_us > self.expires_us):
            return False
        return self.ended_us is None or as_of_us < self.ended_us
