"""Row ids: bank, key and seq side by side, so that a bank and a key are ranges of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.errors import CapacityExceeded


@dataclass(frozen=True, slots=True)
class Layout:
    """How many bits of a row id number the bank, the key range and the entry inside it, and how rows are gathered.

    ``page`` entries make a page of vectors, ``bunch`` entries go into the word index at once.
    """

    bank_bits: int = 20
    key_bits: int = 22
    seq_bits: int = 21
    page: int = 128
    bunch: int = 512

    @property
    def name(self) -> str:
        """What a file remembers of it: rows cannot be found with other numbers of bits."""
        return f"{self.bank_bits}/{self.key_bits}/{self.seq_bits}"

    @property
    def range_size(self) -> int:
        """How many seqs one key range holds; the next one starts a second range."""
        return (1 << self.seq_bits) - 1

    @property
    def first_row(self) -> int:
        """Where rows begin: bank 0 is left out, so that small numbers are never rows."""
        return self.bank_rows(1)[0]

    def bank_rows(self, bank: int) -> tuple[int, int]:
        """The first and last row of a bank."""
        shift = self.key_bits + self.seq_bits
        return bank << shift, ((bank + 1) << shift) - 1

    def key_rows(self, bank: int, number: int) -> tuple[int, int]:
        """The first and last row of a key range."""
        low = ((bank << self.key_bits) | number) << self.seq_bits
        return low, low | self.range_size

    def range_of(self, row: int) -> tuple[int, int]:
        """The bank and key range that a row stands in."""
        joined = row >> self.seq_bits
        return joined >> self.key_bits, joined & ((1 << self.key_bits) - 1)

    def check_bank(self, bank: int) -> int:
        """The number itself, or ``CapacityExceeded`` when the file has run out of bank numbers."""
        if bank >= 1 << self.bank_bits:
            raise CapacityExceeded(
                f"the file holds {1 << self.bank_bits} banks already",
                hint="open a second file, or use PostgreSQL",
            )
        return bank

    def check_key(self, number: int) -> int:
        """The number itself, or ``CapacityExceeded`` when the bank has run out of key numbers."""
        if number >= 1 << self.key_bits:
            raise CapacityExceeded(
                f"the bank holds {1 << self.key_bits} key ranges already",
                hint="spread the keys over a second bank",
            )
        return number


DEFAULT: Final = Layout()


@dataclass(frozen=True, slots=True)
class KeyRange:
    """One range of a key: its rows, and the seq that comes before its first row."""

    low: int
    high: int
    base: int

    def row_of(self, seq: int) -> int:
        """The row of a seq of this range."""
        return self.low + seq - self.base

    def seq_of(self, row: int) -> int:
        """The seq of a row of this range."""
        return row - self.low + self.base
