"""Writing what a repair has found whole into a new file, with everything derived made anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, cast

from holdfast.rules.words import index_terms
from holdfast.stores.sqlite.codec import origin_of, row_hash
from holdfast.stores.sqlite.db import Column, Connection, Record
from holdfast.stores.sqlite.guards import possible_chore
from holdfast.stores.sqlite.layout import DEFAULT
from holdfast.stores.sqlite.pages import Slot, rows_of, seal, slots_in
from holdfast.stores.sqlite.quotas import limit
from holdfast.stores.sqlite.reindex import make_words_anew
from holdfast.stores.sqlite.salvage import Salvage

_PUTS: Final = {
    "entries": "insert or ignore into entries values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    "past": "insert or ignore into past values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    "documents": "insert or ignore into documents values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    "document_versions": "insert or ignore into document_versions values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    "journal": "insert or ignore into journal values(?,?,?,?,?,?,?,?)",
    "chores": "insert or ignore into chores values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    "idempotency": "insert or ignore into idempotency values(?,?,?,?,?,?)",
    "tombstones": "insert or ignore into tombstones values(?,?,?,?)",
    "spent": "insert or ignore into spent values(?,?,?,?)",
    "forgotten": "insert or ignore into forgotten values(?,?,?)",
    "unsettled": "insert or ignore into unsettled values(?,?,?)",
    "backups": "insert or ignore into backups(path, at) values(?,?)",
}
_BEGIN_TO_COUNT: Final = (
    "insert into sqlite_sequence(name, seq)"
    " select 'journal', 0 where not exists(select 1 from sqlite_sequence where name='journal')"
)
_LEAVE_A_GAP: Final = "update sqlite_sequence set seq=seq+1 where name='journal'"
_PUT_META: Final = "insert or replace into meta values(?,?)"
_PUT_BANK: Final = "insert or ignore into banks values(?,?,?,?,?)"
_PUT_KEY: Final = "insert or ignore into keys values(?,?,?,?,?,?,?)"
_DERIVED: Final = "insert or ignore into derived values(?,?,?)"
Place = tuple[int, int]
"""The numbers of a bank and of a range of a key."""


def write_salvage(connection: Connection, salvage: Salvage) -> None:
    """Write everything into the empty file behind a connection, inside the open transaction."""
    dimensions = _dimensions(salvage)
    if dimensions:
        salvage.meta["dimensions"] = dimensions
    for name in ("salt", "dimensions", "embedder"):
        if name in salvage.meta:
            connection.execute(_PUT_META, (name, salvage.meta[name]))
    _count_anew(salvage)
    for table in (
        "entries", "past", "documents", "document_versions", "journal", "chores", "idempotency", "tombstones", "spent",
        "forgotten",
    ):  # fmt: skip
        connection.executemany(_PUTS[table], salvage.of(table))
    for table in ("unsettled", "backups"):
        connection.executemany(_PUTS[table], salvage.loose[table])
    if not salvage.whole_journal:  # the counter tells that something is missing, also at the end
        connection.execute(_BEGIN_TO_COUNT)
        connection.execute(_LEAVE_A_GAP)
    _write_places(connection, salvage)
    _write_slots(connection, salvage)
    _write_derived(connection, salvage)
    for space, size, *_ in salvage.of("quotas"):  # what it holds is counted anew
        limit(connection, DEFAULT, cast("str", space), cast("int", size))
    make_words_anew(connection, DEFAULT)


def _dimensions(salvage: Salvage) -> int:
    """The size of the vectors that are whole; 0 when there are none."""
    for table, data_at, scales_at in (("vectors", 1, 2), ("tail", 2, 3), ("past", 24, 25)):
        for row in salvage.rows[table].values():
            data, scales = row[data_at], row[scales_at]
            if data and scales:
                return len(cast("bytes", data)) * 8 // len(cast("bytes", scales))
    return 0


def _count_anew(salvage: Salvage) -> None:
    """Bring what is not guarded back to what is possible: how often entries were seen, and where chores stand."""
    merges, whole = salvage.merges(), salvage.whole_journal
    for table, seen_at in (("entries", 16), ("past", 17)):
        for name, row in salvage.rows[table].items():
            told = 1 + merges[cast("bytes", row[seen_at - 15]).hex()]
            seen = row[seen_at]
            possible = seen if isinstance(seen, int) and seen >= 1 else told
            if whole:
                possible = told if table == "entries" else min(possible, told)
            salvage.rows[table][name] = (*row[:seen_at], possible, *row[seen_at + 1 :])
    for name, row in salvage.rows["chores"].items():
        if not possible_chore(row):
            salvage.rows["chores"][name] = (
                *row[:7],
                "queued",
                0,
                row[9],
                row[15],
                1,
                None,
                None,
                None,
                *row[15:],
            )
            salvage.notes.append(
                f"chore {cast('bytes', row[0]).hex()} is queued again: where it stood is not known"
            )


def _write_places(connection: Connection, salvage: Salvage) -> None:
    """Banks and keys; names that are lost with their rows are taken from their index, or given anew."""
    highest = _highest_rows(salvage)
    keys: dict[Place, Record] = {
        (cast("int", row[0]), cast("int", row[1])): row for row in salvage.of("keys")
    }
    names = {(row[0], row[3]): row for row in salvage.loose["key_names"]}
    for place in sorted(highest.keys() - keys.keys()):
        known = names.get(place)
        key, base = (f"recovered-{place[1]}", 0) if known is None else (known[1], known[2])
        keys[place] = (*place, key, base, base, 1, row_hash(*place, key, base))
        salvage.notes.append(f"the key {key!r} has its name {'anew' if known is None else 'from an index'}")
    for place, row in keys.items():
        low = DEFAULT.key_rows(*place)[0]
        base = cast("int", row[3])
        high = row[4] if isinstance(row[4], int) and 0 <= row[4] - base <= DEFAULT.range_size else base
        counted = max(high, highest.get(place, low) - low + base)
        disordered = row[5] if row[5] in (0, 1) else 1
        connection.execute(_PUT_KEY, (*row[:4], counted, disordered, row[6]))
    _write_banks(connection, salvage, keys)


def _highest_rows(salvage: Salvage) -> dict[Place, int]:
    """The last row of each range that anything is known of."""
    highest: dict[Place, int] = {}
    for row in _all_rows(salvage):
        place = DEFAULT.range_of(row)
        highest[place] = max(row, highest.get(place, 0))
    return highest


def _all_rows(salvage: Salvage) -> Iterable[int]:
    for table, at in (("entries", 0), ("past", 1)):
        yield from (cast("int", row[at]) for row in salvage.rows[table].values())


def _write_banks(connection: Connection, salvage: Salvage, keys: dict[Place, Record]) -> None:
    banks = {cast("int", row[0]): row for row in salvage.of("banks")}
    names = {row[2]: row for row in salvage.loose["bank_names"]}
    spaces = {row[1]: row[2] for row in salvage.rows["journal"].values()}
    changes = {DEFAULT.range_of(cast("int", row[0]))[0]: row[15] for row in salvage.rows["entries"].values()}
    for bank in sorted({place[0] for place in keys} - banks.keys()):
        known = names.get(bank)
        space: Column = spaces.get(changes.get(bank), "recovered") if known is None else known[0]
        name: Column = f"recovered-{bank}" if known is None else known[1]
        banks[bank] = (bank, space, name, 0, row_hash(bank, space, name))
        salvage.notes.append(f"the bank {name!r} has its name {'anew' if known is None else 'from an index'}")
    for bank, row in banks.items():
        numbered = 1 + max((place[1] for place in keys if place[0] == bank), default=-1)
        told = row[3] if isinstance(row[3], int) and 0 <= row[3] < 1 << DEFAULT.key_bits else 0
        connection.execute(_PUT_BANK, (*row[:3], max(numbered, told), row[4]))


def _write_slots(connection: Connection, salvage: Salvage) -> None:
    """The slot of each entry with the vectors that are whole; lengths are made anew with the words."""
    slots: dict[int, Slot] = {}
    lost = 0
    for page in salvage.of("pages"):
        vectors = salvage.rows["vectors"].get((page[0],))
        if vectors is None and any(cast("bytes", page[6])):
            counts = memoryview(cast("bytes", page[6])).cast("H")
            entries = zip(rows_of(page[4]), counts, strict=True)
            lost += sum(1 for row, count in entries if count and (row,) not in salvage.rows["tail"])
            continue
        slots.update((slot.row, slot) for slot in slots_in(page, vectors))
    for row in salvage.of("tail"):
        waiting = Slot(*cast("tuple[int, int, bytes | None, bytes | None]", row[:4]))
        slots[waiting.row] = waiting
    places: dict[Place, list[Slot]] = {}
    untold = 0
    for row in salvage.of("entries"):
        number = cast("int", row[0])
        slot = slots.get(number)
        untold += slot is None
        length = sum(
            index_terms(*cast("tuple[str, str | None, str | None]", (row[4], row[5], row[7]))).values()
        )
        fitting = Slot(number, length, None, None) if slot is None else replace(slot, length=length)
        places.setdefault(DEFAULT.range_of(number), []).append(fitting)
    salvage.without_vectors = max(lost, untold) if "dimensions" in salvage.meta else 0
    for place, held in places.items():
        seal(connection, *DEFAULT.key_rows(*place), held, DEFAULT.page)


def _write_derived(connection: Connection, salvage: Salvage) -> None:
    for table, name_at, origin_at, is_document in (
        ("entries", 1, 11, 0), ("past", 2, 12, 0), ("documents", 1, 10, 1), ("document_versions", 0, 10, 1),
    ):  # fmt: skip
        for row in salvage.rows[table].values():
            for source in origin_of(row[origin_at]).sources:
                connection.execute(_DERIVED, (bytes.fromhex(source), row[name_at], is_document))
