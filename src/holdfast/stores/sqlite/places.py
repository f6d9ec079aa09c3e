"""Numbering: which bank and key stand behind which rows."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, cast

from holdfast.model.scope import Place
from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.faults import Spoilt
from holdfast.stores.sqlite.guards import whole_bank, whole_key
from holdfast.stores.sqlite.layout import KeyRange, Layout

_BANK: Final = "select bank, hash from banks where space=? and name=?"
_KEY_RANGES: Final = "select number, base, hash from keys where bank=? and key=? order by base"
_NAMES: Final = (
    "select b.space, b.name, k.key, k.base, b.hash, k.hash from keys k join banks b on b.bank=k.bank"
    " where k.bank=? and k.number=?"
)


def bank_number(connection: Connection, space: str, bank: str) -> int | None:
    """The number of a bank, if it holds anything."""
    found = connection.execute(_BANK, (space, bank)).fetchone()
    return None if found is None else whole_bank(found[0], space, bank, found[1])


def key_ranges(connection: Connection, layout: Layout, bank: int, key: str) -> list[KeyRange]:
    """The ranges of a key in the order of their seqs."""
    found: list[KeyRange] = []
    for number, base, guard in connection.execute(_KEY_RANGES, (bank, key)):
        whole_key(bank, number, key, base, guard)
        found.append(KeyRange(*layout.key_rows(bank, cast("int", number)), cast("int", base)))
    return found


class Names:
    """Remembers whom rows belong to. Numbers are never given twice, so what was once true stays true."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[tuple[int, int], tuple[str, Place, KeyRange]] = {}

    def of_row(self, connection: Connection, row: int) -> tuple[str, Place, int]:
        """Space, place and seq of a row that exists."""
        numbers = self._layout.range_of(row)
        known = self._known.get(numbers)
        if known is None:
            found = connection.execute(_NAMES, numbers).fetchone()
            if found is None:
                raise Spoilt("keys", f"the range of row {row}")
            space, bank, key, base = cast("tuple[str, str, str, int]", found[:4])
            whole_bank(numbers[0], space, bank, found[4])
            whole_key(*numbers, key, base, found[5])
            known = (space, Place(bank, key), KeyRange(*self._layout.key_rows(*numbers), base))
            if len(self._known) > 100_000:
                self._known.clear()
            self._known[numbers] = known
        return known[0], known[1], known[2].seq_of(row)


def hidden_name(salt: bytes, bank: int, key: str) -> bytes:
    """A name for a key that was forgotten: enough to go on counting, not enough to tell the key."""
    return blake2b(key.encode(), key=salt, salt=bank.to_bytes(8, "big"), digest_size=16).digest()


def selector_name(salt: bytes, space: str, bank: str | None, key: str | None, subject: str | None) -> bytes:
    """A name for a place or subject that was forgotten as a whole: to be known again, not to be told."""
    joined = "\x00".join(["" if part is None else f"={part}" for part in (space, bank, key, subject)])
    return blake2b(joined.encode(), key=salt, digest_size=16, person=b"forgotten").digest()
