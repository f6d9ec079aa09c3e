"""Undo: what must be written so that records are again as they were before some changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from holdfast.errors import HistoryUnavailable
from holdfast.model.batch import (
    DocumentVersion,
    EntryVersion,
    Operation,
    Put,
    Remove,
    Requirement,
    Restore,
    Retire,
)
from holdfast.model.document import Document
from holdfast.model.entry import Entry, Reason
from holdfast.model.journal import Change, Step, Verb

RecordKind = Literal["entry", "document", "chore"]

_KIND_OF_VERB: Final[Mapping[Verb, RecordKind]] = {
    "append": "entry",
    "merge": "entry",
    "revise": "entry",
    "retire": "entry",
    "restore": "entry",
    "put": "document",
    "remove": "document",
    "enqueue": "chore",
}
"""Verbs that can be taken back; those of running chores cannot, and stand in no undo's way."""


@dataclass(frozen=True, slots=True)
class Touch:
    """The first of the undone steps on a record: what it was before (version 0 = not there), and when."""

    ref: str
    kind: RecordKind
    before: int
    at_us: int
    cursor: int


@dataclass(frozen=True, slots=True)
class Inverse:
    """The operation that takes a record back, and what must still hold when it is applied."""

    operation: Operation
    requires: Requirement | None = None


def is_final(change: Change) -> bool:
    """Whether a change erased something: that cannot be taken back."""
    return any(step.verb == "forget" for step in change.steps)


def first_touches(changes: Iterable[Change]) -> dict[str, Touch]:
    """Each record that the changes made different, with the first step on it."""
    found: dict[str, Touch] = {}
    for change in sorted(changes, key=lambda one: one.cursor):
        for step in change.steps:
            kind = _KIND_OF_VERB.get(step.verb)
            if kind is not None and step.ref not in found and not _left_as_it_was(step):
                found[step.ref] = Touch(step.ref, kind, step.before, change.at_us, change.cursor)
    return found


def later_changes(touch: Touch, versions: Sequence[Entry] | Sequence[Document]) -> set[str]:
    """Ids of the changes that wrote or ended a version of the record after it was touched."""
    later: set[str] = set()
    for version in versions:
        if version.recorded_us > touch.at_us:
            later.add(version.change)
        change, at_us = _ending(version)
        if change is not None and at_us > touch.at_us:
            later.add(change)
    return later


def standing(later: Mapping[str, Change], undone: frozenset[str]) -> list[Change]:
    """Those of the later changes that still have effect, in order.

    A change and the undo that took it back cancel out, unless that undo took back one of ``undone`` as well.
    """
    left = dict(later)
    for change in sorted(later.values(), key=lambda one: -one.cursor):
        taken_back = [ref for ref in change.undoes if ref in left]
        if change.id in left and taken_back and undone.isdisjoint(change.undoes):
            for ref in (change.id, *taken_back):
                left.pop(ref, None)
    return sorted(left.values(), key=lambda one: one.cursor)


def taken_back(changes: Mapping[str, Change]) -> set[str]:
    """Ids that an undo among the changes has taken back, and that no undo of that undo has brought back."""
    gone: set[str] = set()
    for change in sorted(changes.values(), key=lambda one: -one.cursor):
        if change.id not in gone:
            gone.update(change.undoes)
    return gone


def inverse_of_entry(touch: Touch, versions: Sequence[Entry], now_us: int) -> Inverse | None:
    """Back to the version before, or out of sight when there was none; None when nothing is left to do."""
    if not versions:
        return None
    current = versions[-1] if versions[-1].retired is None else None
    if touch.before == 0:
        if current is None:
            return None
        return Inverse(Retire(touch.ref, Reason.UNDONE, expected=current.version))
    shown = current.version if current is not None and current.visible(now_us) else 0
    return Inverse(Restore(touch.ref, touch.before), EntryVersion(touch.ref, shown))


def inverse_of_document(touch: Touch, versions: Sequence[Document], now_us: int) -> Inverse | None:
    """Back to the value before, or removed when there was none; None when nothing is left to do.

    Raises ``HistoryUnavailable`` when the value before is not kept.
    """
    current = next((version for version in versions if version.visible(now_us)), None)
    before = next((version for version in versions if version.version == touch.before), None)
    if touch.before and before is None:
        raise HistoryUnavailable(
            f"version {touch.before} of the document {touch.ref} is not kept",
            hint="write the old value again",
        )
    if before is not None and (before.expires_us is None or now_us <= before.expires_us):
        expected = 0 if current is None else current.version
        put = Put(before.ref, before.id, before.value, before.expires_us, before.subject, expected)
        return Inverse(put, DocumentVersion(before.ref, expected))
    if current is None:
        return None
    return Inverse(Remove(current.ref, current.version), DocumentVersion(current.ref, current.version))


def _left_as_it_was(step: Step) -> bool:
    """A merge that added nothing, or an enqueue that found a live chore."""
    return step.verb in ("merge", "enqueue") and step.before == step.after


def _ending(version: Entry | Document) -> tuple[str | None, int]:
    if isinstance(version, Document):
        return version.ended_change, version.ended_us or 0
    return (None, 0) if version.retired is None else (version.retired.change, version.retired.at_us)
