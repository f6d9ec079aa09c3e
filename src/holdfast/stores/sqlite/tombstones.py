"""Tombstones: gathering from files what was erased, and finding in another what has to go again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Final, cast

import apsw

from holdfast.model.forget import SETTINGS, Selector
from holdfast.model.values import load_json
from holdfast.rules.cascade import names_any
from holdfast.stores.sqlite.codec import row_hash
from holdfast.stores.sqlite.db import Connection, Record
from holdfast.stores.sqlite.faults import UNREADABLE
from holdfast.stores.sqlite.migrations import SCHEMA
from holdfast.stores.sqlite.places import selector_name

SLICE: Final = 500
_SALT: Final = "select value from meta where name='salt'"
_TOMBSTONES: Final = "select id, space, at from tombstones"
_GUARDED_TOMBSTONES: Final = "select id, space, at, hash from tombstones"
_FORGOTTEN: Final = "select name, at, hash from forgotten"
_VERSION: Final = "pragma user_version"
_WITHOUT_PLACES: Final = (1, 2)
"""The schemas without a table of forgotten places."""
_PUT_TOMBSTONE: Final = "insert or ignore into tombstones values(?,?,?,?)"
_PUT_FORGOTTEN: Final = "insert or replace into forgotten values(?,?,?)"
_THERE: Final = (
    "select exists(select 1 from entries where id=?1) or exists(select 1 from past where id=?1)"
    " or exists(select 1 from documents where id=?1) or exists(select 1 from document_versions where id=?1)"
    " or exists(select 1 from chores where id=?1)"
)
_THERE_STILL: Final = (
    "select exists(select 1 from entries where id=?1) or exists(select 1 from past where id=?1)"
    " or exists(select 1 from documents where id=?1) or exists(select 1 from document_versions where id=?1)"
    " or exists(select 1 from chores where id=?1 and payload is not null)"
)
_PLACES: Final = (
    "select b.space, b.name, k.key, null from keys k join banks b on b.bank=k.bank"
    " union select space, bank, key, subject from documents where kind<>'receipt'"
    " union select space, bank, key, subject from document_versions where kind<>'receipt'"
    " union select space, bank, key, null from chores"
)
_SUBJECTS: Final = (
    "select distinct b.space, b.name, k.key, e.subject from"
    " (select row, subject from entries where subject is not null"
    " union select row, subject from past where subject is not null) e"
    " join keys k on k.bank=e.row>>?1 and k.number=(e.row>>?2)&?3 join banks b on b.bank=k.bank"
)
_SETTINGS: Final = "select space, id, kind, value from documents union all select space, id, kind, value from document_versions"


@dataclass(slots=True)
class Erased:
    """What was erased: records by id, with space and time; places and subjects by their hidden names, with times."""

    records: dict[bytes, tuple[str, int]] = field(default_factory=dict[bytes, tuple[str, int]])
    places: dict[bytes, int] = field(default_factory=dict[bytes, int])

    @property
    def anything(self) -> bool:
        """Whether anything was erased."""
        return bool(self.records or self.places)

    def add(self, other: Erased) -> None:
        """Take over what another file knows."""
        for name, found in other.records.items():
            self.records.setdefault(name, found)
        for name, at in other.places.items():
            self.places[name] = max(at, self.places.get(name, at))

    def since(self, known: Erased) -> Erased:
        """What is not in another, or was erased there before only."""
        return Erased(
            {name: found for name, found in self.records.items() if name not in known.records},
            {name: at for name, at in self.places.items() if at > known.places.get(name, at - 1)},
        )


def salt_of(connection: Connection) -> bytes | None:
    """What tells one memory from another, in all its copies; None where it cannot be read."""
    try:
        return cast("bytes | None", connection.execute(_SALT).get)
    except apsw.Error:
        return None


def erased_in(connection: Connection) -> tuple[Erased, bool]:
    """What a file knows to be erased, as far as it can be read; and whether that is all of it."""
    found = Erased()
    version, whole = readable(connection, _VERSION)
    schema = version[0][0] if version else 0
    guarded = schema == SCHEMA
    records, all_read = _rows_of(connection, "tombstones", _GUARDED_TOMBSTONES if guarded else _TOMBSTONES)
    whole &= all_read
    for name, space, at, *_ in records:
        found.records[cast("bytes", name)] = (cast("str", space), cast("int", at))
    if guarded or schema not in _WITHOUT_PLACES:
        places, all_read = _rows_of(connection, "forgotten", _FORGOTTEN)
        whole &= all_read
        for name, at, _ in places:
            found.places[cast("bytes", name)] = cast("int", at)
    return found, whole


def _rows_of(connection: Connection, table: str, sql: str) -> tuple[list[Record], bool]:
    """The rows that fit their guards, where they have one; and whether the table is whole."""
    rows, whole = readable(connection, sql)
    told, _ = readable(connection, f"pragma quick_check({table})")
    guarded = sql != _TOMBSTONES
    fit = [row for row in rows if not guarded or row_hash(*row[:-1]) == row[-1]]
    return fit, whole and told == [("ok",)] and len(fit) == len(rows)


def readable(connection: Connection, sql: str) -> tuple[list[Record], bool]:
    """Rows up to the first that cannot be read; and whether these are all."""
    found: list[Record] = []
    try:
        found.extend(connection.execute(sql))
    except (apsw.Error, *UNREADABLE):
        return found, False
    return found, True


def selectors(connection: Connection, erased: Erased, bits: tuple[int, int]) -> list[tuple[str, Selector]]:
    """The forgets, each with its space, that take out of a file what was erased elsewhere.

    ``bits`` are those of seqs and of keys in the file's rows.
    """
    found = list(_places(connection, erased, bits)) if erased.places else []
    by_space: dict[str, list[str]] = {}
    gone = frozenset(name.hex() for name in erased.records)
    there = [name for name in erased.records if connection.execute(_THERE, (name,)).get]
    for name in there:
        by_space.setdefault(erased.records[name][0], []).append(name.hex())
    for space, named in _naming(connection, gone):
        by_space.setdefault(space, []).append(named)
    for space, ids in by_space.items():
        unique = sorted(set(ids))
        found += [
            (space, Selector(ids=tuple(unique[at : at + SLICE]))) for at in range(0, len(unique), SLICE)
        ]
    return found


def _naming(connection: Connection, gone: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Settings that stand for what was erased: the name of a bank stands beside the bank."""
    if not gone:
        return
    for space, name, kind, value in connection.execute(_SETTINGS).fetchall():
        if kind in SETTINGS and names_any(load_json(cast("str", value)), gone):
            yield cast("str", space), cast("bytes", name).hex()


def _places(connection: Connection, erased: Erased, bits: tuple[int, int]) -> Iterator[tuple[str, Selector]]:
    salt = salt_of(connection) or b""
    seen: set[tuple[str | None, ...]] = set()
    for space, *parts in _combinations(connection, bits):
        mark = (space, *parts)
        if mark in seen:
            continue
        seen.add(mark)
        bank, key, subject = parts
        if selector_name(salt, space or "", bank, key, subject) in erased.places:
            yield space or "", Selector(bank=bank, key=key, subject=subject)


def _combinations(connection: Connection, bits: tuple[int, int]) -> Iterable[tuple[str | None, ...]]:
    """Everything that a selector of whole places or subjects could have named."""
    seq_bits, key_bits = bits
    masks = (seq_bits + key_bits, seq_bits, (1 << key_bits) - 1)
    rows = [*connection.execute(_PLACES), *connection.execute(_SUBJECTS, masks)]
    for space, bank, key, subject in cast("list[tuple[str, str, str, str | None]]", rows):
        for chosen in product((bank, None), (key, None), {None, key, subject}):
            if any(chosen):
                yield (space, *chosen)


def bury(connection: Connection, erased: Erased) -> None:
    """Write down what was erased elsewhere, so that this file knows it as well."""
    for name, (space, at) in erased.records.items():
        connection.execute(_PUT_TOMBSTONE, (name, space, at, row_hash(name, space, at)))
    for name, at in erased.places.items():
        connection.execute(_PUT_FORGOTTEN, (name, at, row_hash(name, at)))


def left(connection: Connection, erased: Erased) -> int:
    """How many erased records are still there; chores stay, without what they said."""
    return sum(bool(connection.execute(_THERE_STILL, (name,)).get) for name in erased.records)


def is_other(salt: bytes | None, connection: Connection) -> bool:
    """Whether a file is surely that of another memory."""
    found = salt_of(connection)
    return found is not None and found != salt


def files_beside(backup: Path, to: Path) -> list[Path]:
    """Where tombstones may stand: files in the folder of the backup, and copies of the memory in its own."""
    found = {file for file in backup.parent.iterdir() if file.is_file()}
    found |= {file for file in to.parent.iterdir() if file.is_file() and file.name.startswith(to.name)}
    return sorted(file for file in found if file not in (backup, to))
