"""Reading entries from the tables of the store in memory: windows, words, vectors and handles.

A handle is the row of a version. One that a read of the past or of hidden entries handed out is larger by
``PAST``, and goes on to name its version after the version was retired.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from operator import mul
from typing import Final

from holdfast.errors import ScopeError
from holdfast.model.entry import Entry, Quantised
from holdfast.model.filter import accepts
from holdfast.model.scope import Scope
from holdfast.model.window import Cursor, EntryPage, KeyInfo, Window
from holdfast.ports.store import Postings, WordStats
from holdfast.stores.memory.tables import EntryRecord, Spot, Tables, Versions
from holdfast.stores.memory.writing import check_dimensions

PAST: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Reader:
    """One read at one time; ``as_of_us`` reads the past, ``hidden`` shows what is behind summaries."""

    tables: Tables
    now_us: int
    as_of_us: int | None = None
    hidden: bool = False

    def shown(self, versions: Versions) -> EntryRecord | None:
        """The version of an entry that this read shows."""
        as_of_us = self.as_of_us
        if as_of_us is None:
            newest = versions[-1] if versions else None
            if newest is not None and newest.bare.visible(self.now_us):
                return newest
        else:
            known = [record for record in versions if record.bare.recorded_us <= as_of_us]
            newest = known[-1] if known else None
            if newest is not None and newest.bare.known(as_of_us):
                return newest
        if self.hidden and newest is not None and newest.hidden(as_of_us, self.now_us):
            return newest
        return None

    def handle(self, record: EntryRecord) -> int:
        """The handle of a version that this read shows."""
        past = self.as_of_us is not None or not record.bare.visible(self.now_us)
        return PAST + record.row if past else record.row

    def behind(self, scope: Scope, handle: int) -> EntryRecord | None:
        """The version that a handle names."""
        past = handle > PAST
        entry_id, version = self.tables.rows.get(handle - PAST if past else handle, ("", 0))
        if not version:
            return None
        record = self.tables.entries[entry_id][version - 1]
        return record if within(scope, record) and (past or record.bare.visible(self.now_us)) else None

    def every(self, scope: Scope) -> Iterator[EntryRecord]:
        """The entries of a key or a bank, in no order that means anything."""
        for _, seqs in self._keys(scope):
            for entry_id in seqs.values():
                record = self.shown(self.tables.entries[entry_id])
                if record is not None:
                    yield record

    def page(self, scope: Scope, window: Window) -> EntryPage:
        """A page of entries in order."""
        found: list[EntryRecord] = []
        for record in self._in_order(scope, window):
            if len(found) == window.limit:
                last = found[-1].bare
                return EntryPage(_read(found), Cursor(last.key, last.created_us, last.seq))
            found.append(record)
        return EntryPage(_read(found), None)

    def eligible(self, scope: Scope, window: Window) -> list[int]:
        """Handles of what a window admits."""
        return sorted(self.handle(record) for record in self.every(scope) if _admits(window, record))

    def key_infos(self, scope: Scope, prefix: str, after: str | None, limit: int) -> list[KeyInfo]:
        """Keys with visible entries."""
        found: list[KeyInfo] = []
        for (_, _, key), seqs in self._keys(scope):
            if len(found) >= limit:
                break
            if not key.startswith(prefix) or (after is not None and key <= after):
                continue
            entries = [record.bare for record in map(self._by_id, seqs.values()) if record is not None]
            if entries:
                last = max(entries, key=lambda entry: entry.seq)
                found.append(KeyInfo(key, len(entries), last.created_us))
        return found

    def _by_id(self, entry_id: str) -> EntryRecord | None:
        return self.shown(self.tables.entries[entry_id])

    def _keys(self, scope: Scope) -> list[tuple[Spot, dict[int, str]]]:
        """The keys of a scope by code points, with the ids of their entries by seq."""
        if scope.bank is None:
            raise ScopeError("this call needs a bank", code="bank_required", hint="give the bank")
        keys = self.tables.keys.get((scope.space, scope.bank), {})
        if scope.key is not None:
            keys = {scope.key: keys.get(scope.key, {})}
        return [((scope.space, scope.bank, key), keys[key]) for key in sorted(keys)]

    def _in_order(self, scope: Scope, window: Window) -> Iterator[EntryRecord]:
        """What a window admits after its cursor, without its limit."""
        newest_first, after = window.order == "newest_first", window.after
        keys = self._keys(scope)
        for spot, seqs in reversed(keys) if newest_first else keys:
            key = spot[2]
            if after is not None and after.key != key and (after.key < key) is newest_first:
                continue
            start = after if after is not None and after.key == key else None
            if window.by == "created":
                ordered = self._by_created(seqs, start, newest_first=newest_first)
            else:
                head = self.tables.heads.get(spot, 0)
                ordered = self._by_seq(seqs, start, head, newest_first=newest_first)
            yield from (record for record in ordered if _admits(window, record))

    def _by_seq(
        self, seqs: Mapping[int, str], start: Cursor | None, head: int, *, newest_first: bool
    ) -> Iterator[EntryRecord]:
        if newest_first:
            order = range(head if start is None else min(head, start.seq - 1), 0, -1)
        else:
            order = range(1 if start is None else max(1, start.seq + 1), head + 1)
        for seq in order:
            record = self._by_id(seqs[seq]) if seq in seqs else None
            if record is not None:
                yield record

    def _by_created(
        self, seqs: Mapping[int, str], start: Cursor | None, *, newest_first: bool
    ) -> Iterator[EntryRecord]:
        found = [record for record in map(self._by_id, seqs.values()) if record is not None]
        found.sort(key=_said, reverse=newest_first)
        for record in found:
            if start is None or _follows(_said(record), (start.created_us, start.seq), newest_first):
                yield record

    def word_stats(self, scope: Scope, terms: Sequence[str]) -> WordStats:
        """Statistics of terms; those of the scope are of the present, whatever time the read is of."""
        present = list(Reader(self.tables, self.now_us).every(scope))
        found = present if self.as_of_us is None else list(self.every(scope))
        found = sorted(found, key=lambda record: record.row)
        postings: dict[str, Postings] = {}
        for term in terms:
            if term not in postings:
                having = [record for record in found if term in record.terms]
                postings[term] = Postings(
                    array("q", map(self.handle, having)),
                    array("q", [record.terms[term] for record in having]),
                    array("q", [record.length for record in having]),
                )
        return WordStats(len(present), sum(record.length for record in present), postings)

    def nearest(
        self, scope: Scope, vector: Quantised, limit: int, rows: Sequence[int] | None
    ) -> list[tuple[int, float]]:
        """The handles of the most similar entries."""
        check_dimensions(self.tables, vector)
        allowed = None if rows is None else frozenset(rows)
        scored = [
            (self.handle(record), max(similarity(vector, other) for other in record.vectors))
            for record in self.every(scope)
            if record.vectors and (allowed is None or self.handle(record) in allowed)
        ]
        return nsmallest(limit, scored, key=lambda pair: (-pair[1], pair[0]))


def within(scope: Scope, record: EntryRecord) -> bool:
    """Whether a version lies inside a scope."""
    entry = record.bare
    return entry.space == scope.space and scope.bank in (None, entry.bank) and scope.key in (None, entry.key)


def similarity(one: Quantised, other: Quantised) -> float:
    """The dot product of two stored vectors."""
    a, b = memoryview(one.data).cast("b"), memoryview(other.data).cast("b")
    dot: int = sum(map(mul, a, b))
    return one.scale * other.scale * dot


def _admits(window: Window, record: EntryRecord) -> bool:
    created_us = record.bare.created_us
    if window.created_from_us is not None and created_us < window.created_from_us:
        return False
    if window.created_until_us is not None and created_us >= window.created_until_us:
        return False
    return window.filter is None or accepts(window.filter, record.read())


def _said(record: EntryRecord) -> tuple[int, int]:
    return record.bare.created_us, record.bare.seq


def _follows(said: tuple[int, int], start: tuple[int, int], newest_first: bool) -> bool:  # noqa: FBT001
    return said < start if newest_first else said > start


def _read(records: Iterable[EntryRecord]) -> tuple[Entry, ...]:
    return tuple(record.read() for record in records)
