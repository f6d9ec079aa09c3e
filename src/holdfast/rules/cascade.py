"""What a forget takes along: derived records, and entries that an erased summary gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from holdfast.model.origin import Method
from holdfast.model.values import JsonValue


@dataclass(frozen=True, slots=True)
class Derived:
    """A record that names sources: an entry (any of its versions) or a document."""

    id: str
    sources: frozenset[str]
    is_document: bool
    is_summary: bool
    method: Method


@dataclass(frozen=True, slots=True)
class Cascade:
    """Ids to erase beside the seeds, and ids that only lose sources."""

    erased: frozenset[str]
    trimmed: frozenset[str]


def cascade(seeds: Iterable[str], derived_from: Callable[[frozenset[str]], Iterable[Derived]]) -> Cascade:
    """Follow derivations from the seeds until nothing changes.

    ``derived_from`` gives the records that name any of a set of ids among their sources.
    """
    gone = set(seeds)
    remaining: dict[str, frozenset[str]] = {}
    wave = frozenset(gone)
    added: set[str] = set()
    while wave:
        following: set[str] = set()
        for record in derived_from(wave):
            if record.id in gone:
                continue
            left = remaining.get(record.id, record.sources) - wave
            if record.is_document or record.is_summary or record.method == "merged" or not left:
                following.add(record.id)
                remaining.pop(record.id, None)
            else:
                remaining[record.id] = left
        gone |= following
        added |= following
        wave = frozenset(following)
    return Cascade(frozenset(added), frozenset(remaining))


def trimmed_sources(sources: tuple[str, ...], gone: frozenset[str]) -> tuple[str, ...]:
    """The sources that are left."""
    return tuple(source for source in sources if source not in gone)


def names_any(payload: JsonValue, gone: frozenset[str]) -> bool:
    """Whether a JSON value holds one of the ids as a string, at any depth."""
    if isinstance(payload, str):
        return payload in gone
    if isinstance(payload, list):
        return any(names_any(item, gone) for item in payload)
    if isinstance(payload, Mapping):
        return any(key in gone or names_any(item, gone) for key, item in payload.items())
    return False
