"""Banks: named collections of entries and their policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from holdfast.model.origin import Origin
from holdfast.model.values import JsonValue

BankKind = Literal["general", "conversation"]


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to add: the options of ``bank.add`` as a value."""

    content: str
    key: str
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    speaker: str | None = None
    name: str | None = None
    thread: str | None = None
    title: str | None = None
    subject: str | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    origin: Origin | None = None
    vector: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class BankInfo:
    """PLACEHOLDER: the settings are written by the owner of this module."""

    id: str
    name: str
