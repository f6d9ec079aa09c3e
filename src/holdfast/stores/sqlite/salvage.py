"""What a repair has found whole: records by kind, each once, and what is known to be lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast

from holdfast.stores.sqlite.codec import row_hash
from holdfast.stores.sqlite.db import Column, Record
from holdfast.stores.sqlite.guards import chore_guarded, entry_hash, past_hash, plain_hash
from holdfast.stores.sqlite.raw_records import RawRecord


class Form(NamedTuple):
    """How the records of a table look: columns, types of some, the guard, and where the name is."""

    table: str
    columns: int
    rowid: bool
    types: tuple[tuple[int, type], ...]
    guard: Callable[[Record], bytes]
    name: tuple[int, ...]


def _version_guard(row: Record) -> bytes:
    return row_hash(row[2], row[0], *row[3:8], row[1], *row[8:])


def _past_guard(row: Record) -> bytes:
    return past_hash(row[1:])


def _guard_but_first(row: Record) -> bytes:
    return row_hash(*row[1:])


def _chore_guard(row: Record) -> bytes:
    return row_hash(*chore_guarded(row))


def _bank_guard(row: Record) -> bytes:
    return row_hash(*row[:3])


def _key_guard(row: Record) -> bytes:
    return row_hash(*row[:4])


FORMS: Final = (
    Form("entries", 19, True, ((1, bytes), (4, str)), entry_hash, (1,)),
    Form("past", 27, True, ((2, bytes), (5, str)), _past_guard, (2, 3)),
    Form("documents", 15, True, ((1, bytes), (8, str)), _guard_but_first, (1,)),
    Form("document_versions", 17, False, ((0, bytes), (8, str)), _version_guard, (0, 1)),
    Form("journal", 8, True, ((1, bytes), (5, str)), _guard_but_first, (1,)),
    Form("chores", 18, False, ((0, bytes), (4, str)), _chore_guard, (0,)),
    Form("banks", 5, True, ((1, str), (2, str)), _bank_guard, (0,)),
    Form("keys", 7, False, ((0, int), (2, str)), _key_guard, (0, 1)),
    Form("tail", 5, True, ((1, int), (4, bytes)), plain_hash, (0,)),
    Form("pages", 8, True, ((1, int), (4, bytes)), plain_hash, (0,)),
    Form("vectors", 4, True, ((1, bytes), (2, bytes)), plain_hash, (0,)),
    Form("tombstones", 4, False, ((0, bytes), (1, str), (3, bytes)), plain_hash, (0,)),
    Form("spent", 4, False, ((0, int), (1, bytes), (3, bytes)), plain_hash, (0, 1)),
    Form("idempotency", 6, False, ((0, bytes), (4, str), (5, bytes)), plain_hash, (0,)),
    Form("forgotten", 3, False, ((0, bytes), (1, int), (2, bytes)), plain_hash, (0,)),
    Form("quotas", 4, False, ((0, str), (1, int), (3, bytes)), plain_hash, (0,)),
)
"""The guarded tables; a record that has the form and not the guard was hit."""

_LOOSE: Final[dict[str, tuple[type | tuple[type, ...], ...]]] = {
    "tombstones": (bytes, str, int),
    "spent": (int, bytes, int),
    "unsettled": (bytes, int, int),
    "idempotency": (bytes, bytes, bytes, int, str),
    "backups": (str, int),
    "key_names": (int, str, int, int),
    "bank_names": (str, str, int),
}
"""Tables, and two indexes, that have no guard, or had none before schema 3: what has their form is taken as it is."""
_GUARDED_SINCE: Final = {"tombstones": (0,), "spent": (0, 1), "idempotency": (0,)}
"""Those that have a guard by now, and where the name is."""
META: Final[dict[str, type]] = {
    "salt": bytes, "layout": str, "analyser": str, "quantisation": str, "dimensions": int, "embedder": str,
}  # fmt: skip
ID: Final = 16


@dataclass(slots=True)
class Salvage:
    """The records of a damaged file."""

    rows: dict[str, dict[tuple[Column, ...], Record]] = field(
        default_factory=lambda: {form.table: {} for form in FORMS}
    )
    loose: dict[str, dict[Record, None]] = field(default_factory=lambda: {name: {} for name in _LOOSE})
    meta: dict[str, Column] = field(default_factory=dict[str, Column])
    hit: dict[str, set[tuple[Column, ...]]] = field(
        default_factory=lambda: {form.table: set() for form in FORMS}
    )
    kept: dict[str, int] = field(default_factory=dict[str, int])
    notes: list[str] = field(default_factory=list[str])
    without_vectors: int = 0
    erased: set[Column] = field(default_factory=set[Column])

    @property
    def anything(self) -> bool:
        """Whether there is any record of a memory."""
        return any(self.rows.values()) or "layout" in self.meta

    def take(self, raw: RawRecord) -> None:
        """Take a record if it is one."""
        if raw.rowid is not None and raw.columns and raw.columns[0] is None:
            self._take_guarded((raw.rowid, *raw.columns[1:]), rowid=True)
        elif raw.rowid is None:
            self._take_guarded(raw.columns, rowid=False)
            self._take_loose(raw.columns)

    def _take_guarded(self, row: Record, *, rowid: bool) -> None:
        forms = [
            form
            for form in FORMS
            if form.columns == len(row)
            and form.rowid == rowid
            and all(isinstance(row[at], kind) for at, kind in form.types)
        ]
        for form in forms:
            name = tuple(row[at] for at in form.name)
            if form.guard(row[:-1]) == row[-1]:
                held = self.rows[form.table].get(name)
                if held is None or _newer(form.table, row, held):
                    self.rows[form.table][name] = row
                return
        for form in forms:
            self.hit[form.table].add(tuple(row[at] for at in form.name))

    def _take_loose(self, row: Record) -> None:
        if len(row) == 2 and isinstance(row[0], str) and row[0] in META and isinstance(row[1], META[row[0]]):
            self.meta[row[0]] = row[1]
            return
        for table, types in _LOOSE.items():
            if len(row) == len(types) and all(
                isinstance(one, kind) for one, kind in zip(row, types, strict=True)
            ):
                names = [one for one in row if isinstance(one, bytes)]
                if table in ("backups", "key_names", "bank_names") or len(names[0]) == ID:
                    self.loose[table][row] = None

    def settle(self) -> None:
        """Of several copies of a record keep the one that counts; what was erased stays away."""
        for table, names in _GUARDED_SINCE.items():
            for row in self.loose[table]:
                self.rows[table].setdefault(tuple(row[at] for at in names), (*row, row_hash(*row)))
        self.erased = {row[0] for row in self.rows["tombstones"].values()}
        past = {(row[2], row[3]) for row in self.rows["past"].values()}
        ended = {(row[0], row[1]) for row in self.rows["document_versions"].values()}
        self._keep("past", lambda row: row[2] not in self.erased)
        self._keep("document_versions", lambda row: row[0] not in self.erased)
        self._keep("entries", lambda row: row[1] not in self.erased and (row[1], row[2]) not in past)
        self._keep("documents", lambda row: row[1] not in self.erased and (row[1], row[7]) not in ended)
        for form in FORMS:
            self.kept[form.table] = len(self.rows[form.table])

    def _keep(self, table: str, wanted: Callable[[Record], bool]) -> None:
        self.rows[table] = {name: row for name, row in self.rows[table].items() if wanted(row)}

    def of(self, table: str) -> Iterable[Record]:
        """The records of a table, in the order of their first column where that is a number."""
        return sorted(self.rows[table].values(), key=_order)

    def steps(self) -> Iterator[tuple[str, str]]:
        """Letters and ids of all steps of the journal, in order."""
        for row in self.of("journal"):
            for part in cast("str", row[5]).split():
                yield part[0], part[1:33]

    @property
    def whole_journal(self) -> bool:
        """Whether every change since the first is there: none is left out, and none is only referred to."""
        changes = {row[1] for row in self.rows["journal"].values()}
        referred = (("entries", 15), ("past", 16), ("documents", 13), ("chores", 16))
        return [row[0] for row in self.of("journal")] == list(range(1, len(changes) + 1)) and all(
            row[at] in changes for table, at in referred for row in self.rows[table].values()
        )

    def merges(self) -> Counter[str]:
        """How often each entry was seen again."""
        return Counter(name for letter, name in self.steps() if letter == "m")

    def missing(self, named: dict[str, set[tuple[object, ...]]]) -> dict[str, set[tuple[object, ...]]]:
        """The names of records that something still tells of, and that were not found whole."""
        found: dict[str, set[tuple[object, ...]]] = {}
        for form in FORMS:
            names: set[tuple[object, ...]] = {*named.get(form.table, ()), *self.hit[form.table]}
            kept: set[tuple[object, ...]] = {*self.rows[form.table]}
            found[form.table] = {name for name in names - kept if name[0] not in self.erased}
        there = {cast("bytes", row[1]).hex() for row in self.rows["entries"].values()}
        there |= {cast("bytes", row[2]).hex() for row in self.rows["past"].values()}
        there |= {name.hex() for name in self.erased if isinstance(name, bytes)}
        for letter, name in self.steps():
            if letter in "avmts" and name not in there:
                found["entries"].add((bytes.fromhex(name),))
        return found


def _order(row: Record) -> tuple[int, bytes]:
    first = row[0]
    return (first, b"") if isinstance(first, int) else (0, first if isinstance(first, bytes) else b"")


def _newer(table: str, row: Record, held: Record) -> bool:
    version = {"entries": 2, "documents": 7}.get(table)
    return version is not None and cast("int", row[version]) > cast("int", held[version])
