"""Chores: due background work on one place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from holdfast.errors import InvalidInput
from holdfast.model.ids import checked_id
from holdfast.model.scope import Place, checked_name
from holdfast.model.values import JsonValue, checked_json, checked_micros, moment

MAX_ATTEMPTS = 8
FORGOTTEN_KEY = "~forgotten"
"""Where chores of a forgotten place stand afterwards: a key may name whom it belonged to."""


class ChoreState(StrEnum):
    """Where a chore stands."""

    QUEUED = "queued"
    LEASED = "leased"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"


LIVE = frozenset((ChoreState.QUEUED, ChoreState.LEASED))
OVER = frozenset((ChoreState.DONE, ChoreState.CANCELLED))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoreDraft:
    """Work that a batch makes due. While a chore of its place with the same ``dedupe`` key lives, no second is made."""

    id: str
    kind: str
    place: Place
    due_us: int
    dedupe: str | None = None
    payload: JsonValue = None
    max_attempts: int = MAX_ATTEMPTS

    def __post_init__(self) -> None:
        checked_id(self.id, what="the chore id")
        checked_name(self.kind, what="the chore kind", code="kind_invalid")
        if self.dedupe is not None:
            checked_name(self.dedupe, what="the dedupe key")
        checked_json(self.payload, what="the chore payload")
        checked_micros(self.due_us, what="the due time")
        if self.max_attempts < 1:
            raise InvalidInput("max_attempts must be at least 1", code="attempts_invalid")


@dataclass(frozen=True, slots=True)
class Chore:
    """A chore as stored.

    ``token`` fences: it grows with each lease, and only the holder of the newest may write a result.
    """

    id: str
    space: str
    place: Place
    kind: str
    dedupe: str | None
    payload: JsonValue
    state: ChoreState
    attempts: int
    max_attempts: int
    due_us: int
    token: int
    lease_until_us: int | None
    worker: str | None
    last_error: str | None
    created_us: int
    change: str

    @property
    def due_at(self) -> datetime:
        """When it is due, or was when it was leased."""
        return moment(self.due_us)

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        return moment(self.created_us)
