"""Forgetting: what is selected, and the proof that is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from types import MappingProxyType

from holdfast.errors import InvalidInput
from holdfast.model.ids import checked_id
from holdfast.model.origin import Origin
from holdfast.model.scope import checked_key, checked_name
from holdfast.model.values import JsonValue, canonical_json, checked_text, moment

SETTINGS = frozenset(("bank", "bank_name"))
"""Kinds of documents that belong to the space and not to a subject: a wide selector leaves them alone."""

OWN_STORE = "store"
"""What a receipt calls the memory's own store, beside the names of those that were registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginMatch:
    """Selects by origin: every field that is given must be equal."""

    author: str | None = None
    channel: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        for text in (self.author, self.channel, self.agent_id, self.run_id, self.model):
            if text is not None:
                checked_text(text, what="a field of the origin selector", code="selector_invalid")
        if not any((self.author, self.channel, self.agent_id, self.run_id, self.model)):
            raise InvalidInput(
                "an origin selector names nothing", code="selector_empty", hint="give a run_id or author"
            )

    def accepts(self, origin: Origin) -> bool:
        """Whether every field that is given equals the origin's."""
        return (
            (self.author is None or self.author == origin.author)
            and (self.channel is None or self.channel == origin.channel)
            and (self.agent_id is None or self.agent_id == origin.agent_id)
            and (self.run_id is None or self.run_id == origin.run_id)
            and (self.model is None or self.model == origin.model)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """What a forget removes inside a space: all given parts must hold; an empty selector is an error.

    ``subject`` selects what is about somebody: entries and documents that carry the subject, and those that carry none
    and stand under a key of that name. ``ids`` are those of entries and documents; the id of a chore clears it.
    ``created_before_us`` serves retention.
    """

    bank: str | None = None
    key: str | None = None
    subject: str | None = None
    ids: tuple[str, ...] = ()
    origin: OriginMatch | None = None
    created_before_us: int | None = None

    def __post_init__(self) -> None:
        if self.bank is not None:
            checked_name(self.bank, what="the bank", code="bank_invalid")
        if self.key is not None:
            checked_key(self.key)
        if self.subject is not None:
            checked_name(self.subject, what="the subject", code="subject_invalid")
        for identifier in self.ids:
            checked_id(identifier, what="an id of the selector")
        if not (self.bank or self.key or self.subject or self.ids or self.origin):
            raise InvalidInput(
                "an empty selector never means everything",
                code="selector_empty",
                hint="give a bank, key, subject or id",
            )

    @property
    def whole(self) -> bool:
        """Whether it names whole places or subjects, and nothing narrower inside them."""
        return not self.ids and self.origin is None and self.created_before_us is None

    def reaches(self, kind: str) -> bool:
        """Whether documents of a kind can be selected: receipts never, settings only by id or bank."""
        return kind != "receipt" and (kind not in SETTINGS or bool(self.bank or self.ids))

    def digest(self) -> str:
        """A hash that names the selector without telling its words."""
        origin = self.origin
        parts: list[JsonValue] = [
            self.bank, self.key, self.subject, list(self.ids), self.created_before_us,
            None if origin is None else [origin.author, origin.channel, origin.agent_id, origin.run_id, origin.model],
        ]  # fmt: skip
        return sha256(canonical_json(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The proof that a forget leaves: ids and counts, never content.

    ``complete`` is False while a copy may still be in the store; ``waiting_for`` says where: ``pages`` and ``wal`` are
    parts of a file. ``backups`` are the known copies of the store that were made before: they still hold what went, and
    ``restore`` erases it again.
    """

    id: str
    space: str
    at_us: int
    by: str | None
    reason: str | None
    selector: str
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType(dict[str, int]()))
    stores: Mapping[str, str] = field(default_factory=lambda: MappingProxyType(dict[str, str]()))
    complete: bool = True
    waiting_for: tuple[str, ...] = ()
    backups: tuple[str, ...] = ()

    @property
    def at(self) -> datetime:
        """When it was forgotten."""
        return moment(self.at_us)

    @property
    def total(self) -> int:
        """How many records went."""
        return sum(self.counts.values())
