"""Checking a file: every row against its guard, what has no guard against what it follows from, and every index.

A check never raises because of what it finds: a table that cannot be read is a finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Final, cast

import apsw

from holdfast.errors import StoreDamaged, StoreFailed, StoreUnsupported
from holdfast.ports.store import CheckReport, Finding
from holdfast.stores.sqlite import columns
from holdfast.stores.sqlite.codec import row_hash
from holdfast.stores.sqlite.db import Column, Connection, Record, open_at_rest
from holdfast.stores.sqlite.faults import DAMAGE, UNREADABLE, named, read_error
from holdfast.stores.sqlite.files import put_away
from holdfast.stores.sqlite.guards import chore_guarded, entry_hash, past_hash, plain_hash, possible_chore
from holdfast.stores.sqlite.heads import APPLICATION
from holdfast.stores.sqlite.index_checks import (
    check_derived,
    check_past_words,
    check_slots_and_words,
)
from holdfast.stores.sqlite.layout import DEFAULT, Layout
from holdfast.stores.sqlite.migrations import SCHEMA

_MARKS: Final = "select application_id, user_version from pragma_application_id, pragma_user_version"
_LAYOUT: Final = "select value from meta where name='layout'"
_INTEGRITY: Final = "pragma integrity_check(50)"
_META: Final = "select name, value from meta"
_ENTRIES: Final = "select " + columns.ENTRY + ", digest, hash from entries order by row"
_PAST: Final = "select " + columns.PAST + ", hash from past"
_PAGES: Final = "select first, last, count, terms, rows, lengths, chunks, hash from pages"
_VECTORS: Final = "select first, data, scales, hash from vectors"
_TAIL: Final = "select row, length, vectors, scales, hash from tail"
_JOURNAL: Final = "select cursor, id, space, at, origin, steps, undoes, hash from journal order by cursor"
_DOCUMENTS: Final = "select " + columns.DOCUMENT + ", hash from documents"
_VERSIONS: Final = "select " + columns.DOCUMENT + ", ended, ended_change, hash from document_versions"
_CHORES: Final = "select " + columns.CHORE + ", hash from chores"
_IDEMPOTENCY: Final = "select name, digest, change, at, placed, hash from idempotency"
_TOMBSTONES: Final = "select id, space, at, hash from tombstones"
_SPENT: Final = "select bank, name, high, hash from spent"
_FORGOTTEN: Final = "select name, at, hash from forgotten"
_QUOTAS: Final = "select space, bytes, used, hash from quotas"
_BANKS: Final = "select bank, space, name, next_key, hash from banks"
_KEYS: Final = "select bank, number, key, base, high, disordered, hash from keys"
_KEY: Final = "select disordered from keys where bank=? and number=?"
_BANK: Final = "select 1 from banks where bank=?"
_LAST_BASE: Final = "select max(base) from keys where bank=? and key=?"
_HAS_VECTORS: Final = "select 1 from vectors where first=?"
_LAST_KEY: Final = "select coalesce(max(number), -1) from keys where bank=?"
_RETURNED: Final = (
    "select e.id from tombstones t join entries e on e.id=t.id union all"
    " select d.id from tombstones t join documents d on d.id=t.id limit 10"
)
_COUNTED: Final = "select seq from sqlite_sequence where name='journal'"
_SEQUENCES: Final = (
    "select s.name from sqlite_sequence s where s.seq < case s.name when 'past' then (select max(number) from past)"
    " when 'documents' then (select max(position) from documents) when 'journal' then (select max(cursor) from journal)"
    " else 0 end"
)


_FINDINGS: Final = (*DAMAGE, StoreDamaged, StoreUnsupported, AttributeError, *UNREADABLE)
"""What a damaged file comes to. A disk that refuses to read is something else: that is raised."""


@dataclass(slots=True)
class Inspection:
    """A check under way: what it looked at, and what it found."""

    path: Path
    connection: Connection
    layout: Layout
    examined: dict[str, int] = field(default_factory=dict[str, int])
    findings: list[Finding] = field(default_factory=list[Finding])
    merges: Counter[str] = field(default_factory=Counter[str])
    changes: set[Column] = field(default_factory=set[Column])
    whole_journal: bool = True
    dimensions: int | None = None

    def find(self, where: str, what: str) -> None:
        """Note something wrong."""
        self.findings.append(Finding(where, what, repair_step(self.path)))

    @contextmanager
    def looking_at(self, where: str) -> Generator[None]:
        """Whatever cannot be read meanwhile is a finding."""
        try:
            yield
        except _FINDINGS as error:
            self.find(where, f"cannot be read: {' '.join(str(error).split()) or type(error).__name__}")


def repair_step(path: Path) -> str:
    """What to do about a finding."""
    return f"run: holdfast repair {quote(str(path))}, or restore a backup"


def check_file(path: Path) -> CheckReport:
    """Check a file that need not be open, or not be possible to open, as a store."""
    if not path.is_file():
        raise StoreFailed(f"no such file: {path}", hint="give the path of a memory")
    try:
        return check(path, lambda: open_at_rest(path), None)
    except apsw.Error as error:
        raise read_error(path, error) or error from error


def check(path: Path, connect: Callable[[], Connection], layout: Layout | None) -> CheckReport:
    """Check a file through a connection of its own: one that has read before may answer from what it remembers."""
    connection: Connection | None = None
    try:
        connection = connect()
        return _checked(path, connection, layout)
    except _FINDINGS as error:
        what = f"cannot be read: {' '.join(str(error).split()) or type(error).__name__}"
        return CheckReport({}, (Finding("file", what, repair_step(path)),))
    finally:
        put_away(connection)


def _checked(path: Path, connection: Connection, layout: Layout | None) -> CheckReport:
    application, version = cast("tuple[int, int]", connection.execute(_MARKS).fetchone())
    if application == APPLICATION and version > SCHEMA:
        newer = Finding(
            "file", f"was written by schema {version}, this holdfast knows {SCHEMA}", "upgrade holdfast"
        )
        return CheckReport({}, (newer,))
    if application == APPLICATION and 0 < version < SCHEMA:
        older = Finding(
            "file", f"was written by schema {version}, this holdfast checks {SCHEMA}",
            "open it once for writing, which brings it up to date, then check it again",
        )  # fmt: skip
        return CheckReport({}, (older,))
    inspection = Inspection(path, connection, layout or _layout_of(connection))
    if application != APPLICATION or version != SCHEMA:
        inspection.find("file", f"is not marked as a memory of schema {SCHEMA}")
    connection.execute("begin")
    with inspection.looking_at("file"):
        for (answer,) in connection.execute(_INTEGRITY):
            if answer != "ok":
                inspection.find("file", str(answer))
    for where, look in _LOOKS:
        with inspection.looking_at(where):
            look(inspection)
    return CheckReport(inspection.examined, tuple(inspection.findings))


def _layout_of(connection: Connection) -> Layout:
    try:
        bits = str(connection.execute(_LAYOUT).get).split("/")
        bank, key, seq = [int(part) for part in bits]
    except (apsw.Error, *UNREADABLE):
        return DEFAULT
    return Layout(bank, key, seq) if bank > 0 and key > 0 and seq > 0 and bank + key + seq == 63 else DEFAULT


def _guarded(
    inspection: Inspection, where: str, sql: str, guard: Callable[[Record], bytes], name: int = 0
) -> Generator[Record]:
    """The rows of a table that are whole; the others are findings."""
    inspection.examined[where] = 0
    for row in inspection.connection.execute(sql):
        inspection.examined[where] += 1
        if guard(row[:-1]) == row[-1]:
            yield row
        else:
            inspection.find(where, f"{named(row[name])} is not what was written")


def _check_meta(inspection: Inspection) -> None:
    held = dict(cast("Sequence[tuple[str, Column]]", inspection.connection.execute(_META).fetchall()))
    salt, dimensions = held.get("salt"), held.get("dimensions")
    if not isinstance(salt, bytes) or len(salt) != 16:
        inspection.find("meta", "the salt is not what was written")
    if held.get("layout") != inspection.layout.name or held.get("quantisation") != "int8":
        inspection.find("meta", "the layout is not what was written")
    if not isinstance(held.get("analyser"), str):
        inspection.find("meta", "the analyser is not named")
    if dimensions is not None and (not isinstance(dimensions, int) or dimensions < 1):
        inspection.find("meta", "the dimensions are not a number")
    elif isinstance(dimensions, int):
        inspection.dimensions = dimensions
    if unknown := set(held).difference(
        ("salt", "layout", "analyser", "quantisation", "dimensions", "embedder")
    ):
        inspection.find("meta", f"{sorted(map(str, unknown))} is unknown")
    for (table,) in inspection.connection.execute(_SEQUENCES):
        inspection.find("meta", f"{table!r} would count again what it has counted")


def _check_banks(inspection: Inspection) -> None:
    for bank, *_, next_key, _ in _guarded(inspection, "banks", _BANKS, lambda row: row_hash(*row[:3])):
        last = cast("int", inspection.connection.execute(_LAST_KEY, (bank,)).get)
        if not isinstance(next_key, int) or next_key <= last:
            inspection.find("banks", f"{bank!r} would number a key by {next_key!r} again")


def _check_keys(inspection: Inspection) -> None:
    for bank, number, key, base, high, disordered, _ in _guarded(
        inspection, "keys", _KEYS, lambda row: row_hash(*row[:4]), 1
    ):
        at = f"{bank!r}/{number!r}"
        if inspection.connection.execute(_BANK, (bank,)).fetchone() is None:
            inspection.find("banks", f"{bank!r} is missing, and has the key {at}")
        last = cast("int", inspection.connection.execute(_LAST_BASE, (bank, key)).get)
        if not isinstance(high, int) or not cast("int", base) <= high <= last + inspection.layout.range_size:
            inspection.find("keys", f"{at} has counted to {high!r}")
        if disordered not in (0, 1):
            inspection.find("keys", f"{at} has the order {disordered!r}")


def _check_journal(inspection: Inspection) -> None:
    cursor = 0
    for row in _guarded(inspection, "journal", _JOURNAL, lambda row: row_hash(*row[1:]), 1):
        inspection.whole_journal = inspection.whole_journal and row[0] == cursor + 1
        cursor = cast("int", row[0])
        inspection.changes.add(row[1])
        for part in cast("str", row[5]).split():
            if part[0] == "m":
                inspection.merges[part[1:33]] += 1
    counted = inspection.connection.execute(_COUNTED).fetchone()
    inspection.whole_journal = inspection.whole_journal and (0 if counted is None else counted[0]) == cursor


def _check_entries(inspection: Inspection) -> None:
    current: tuple[int, int] | None = None
    disordered, latest = True, 0
    for row in _guarded(inspection, "entries", _ENTRIES, entry_hash, 1):
        place = inspection.layout.range_of(cast("int", row[0]))
        if place != current:
            current = place
            found = inspection.connection.execute(_KEY, place).fetchone()
            disordered = found is None or bool(found[0])
            latest = cast("int", row[12])
            if found is None:
                inspection.find("keys", f"{place[0]!r}/{place[1]!r} is missing, and has entries")
        if not disordered and cast("int", row[12]) < latest:
            inspection.find("keys", f"{place[0]}/{place[1]} is not in order, and says that it is")
            disordered = True
        latest = cast("int", row[12])
        _check_seen(inspection, "entries", row)
    for (name,) in inspection.connection.execute(_RETURNED):
        inspection.find("tombstones", f"{named(name)} was erased, and is there")


def _check_seen(inspection: Inspection, where: str, row: Record) -> None:
    """How often an entry was seen is not guarded: it has to agree with the journal as far as that goes back."""
    seen = row[16]
    told = 1 + inspection.merges[cast("bytes", row[1]).hex()]
    if (
        not isinstance(seen, int)
        or seen < 1
        or (inspection.whole_journal and (seen != told if where == "entries" else seen > told))
    ):
        inspection.find(where, f"{named(row[1])} says that it was seen {seen!r} times")


def _check_past(inspection: Inspection) -> None:
    for row in _guarded(inspection, "past", _PAST, past_hash, 1):
        _check_seen(inspection, "past", row)
        _check_size(inspection, "past", row[1], row[23], row[24])


def _check_size(inspection: Inspection, where: str, name: Column, data: Column, scales: Column) -> None:
    size = inspection.dimensions or 0
    if len(cast("bytes", data or b"")) * 8 != size * len(cast("bytes", scales or b"")):
        inspection.find(where, f"{named(name)} has vectors of another size")


def _check_vectors(inspection: Inspection) -> None:
    for row, _, data, scales, _ in _guarded(inspection, "tail", _TAIL, plain_hash):
        _check_size(inspection, "tail", row, data, scales)
    for first, data, scales, _ in _guarded(inspection, "vectors", _VECTORS, plain_hash):
        _check_size(inspection, "vectors", first, data, scales)
    for page in _guarded(inspection, "pages", _PAGES, plain_hash):
        found = inspection.connection.execute(_HAS_VECTORS, (page[0],)).fetchone()
        if (found is not None) != any(cast("bytes", page[6])):
            inspection.find("vectors", f"{page[0]!r} has no page, or a page has no vectors")


def _check_documents(inspection: Inspection) -> None:
    for _ in _guarded(inspection, "documents", _DOCUMENTS, lambda row: row_hash(*row[1:]), 1):
        pass
    for _ in _guarded(inspection, "document_versions", _VERSIONS, plain_hash, 1):
        pass


def _check_chores(inspection: Inspection) -> None:
    for row in _guarded(inspection, "chores", _CHORES, lambda row: row_hash(*chore_guarded(row))):
        if not possible_chore(row):
            inspection.find("chores", f"{named(row[0])} is in no state that there is")
        elif inspection.whole_journal and row[16] not in inspection.changes:
            inspection.find("chores", f"{named(row[0])} was changed by nothing that the journal knows")


_PLAIN: Final = {
    "idempotency": _IDEMPOTENCY, "tombstones": _TOMBSTONES, "spent": _SPENT, "forgotten": _FORGOTTEN, "quotas": _QUOTAS,
}  # fmt: skip
"""Small tables of which every column is guarded."""


def _check_plain(inspection: Inspection) -> None:
    for where, sql in _PLAIN.items():
        for _ in _guarded(inspection, where, sql, plain_hash):
            pass


_LOOKS: Final[Sequence[tuple[str, Callable[[Inspection], None]]]] = (
    ("meta", _check_meta),
    ("banks", _check_banks),
    ("keys", _check_keys),
    ("journal", _check_journal),
    ("entries", _check_entries),
    ("past", _check_past),
    ("vectors", _check_vectors),
    ("documents", _check_documents),
    ("chores", _check_chores),
    ("tombstones", _check_plain),
    ("derived", lambda held: check_derived(held.connection, held.find)),
    ("words", lambda held: check_slots_and_words(held.connection, held.find)),
    ("past_words", lambda held: check_past_words(held.connection, held.find)),
)
