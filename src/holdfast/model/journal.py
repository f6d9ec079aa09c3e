"""The journal: one row a change, references only, never content."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from holdfast.model.origin import Origin
from holdfast.model.values import moment

Verb = Literal[
    "append", "merge", "revise", "retire", "restore", "put", "remove", "enqueue", "finish", "fail", "drop", "retry",
    "forget",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a change: what was done to which record, and its version before and after (0 = none)."""

    verb: Verb
    ref: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Change:
    """One accepted write. ``cursor`` grows with each change of the store and serves to follow the feed."""

    id: str
    space: str
    cursor: int
    at_us: int
    origin: Origin
    steps: tuple[Step, ...]
    undoes: tuple[str, ...] = ()

    @property
    def at(self) -> datetime:
        """When the change was recorded."""
        return moment(self.at_us)
