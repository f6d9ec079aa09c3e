"""Records read from raw pages are those that the database reads, however large they are; nonsense gives none."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.stores.sqlite.db import Column, open_connection
from holdfast.stores.sqlite.raw_records import (
    RawFile,
    columns_of,
    local_size,
    page_size_of,
    raw_records,
    varint,
)

COLUMNS: st.SearchStrategy[Column] = st.one_of(
    st.none(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40),
    st.binary(max_size=40),
)


def file_of(data: bytes) -> RawFile:
    return RawFile(
        lambda at, size: data[at : at + size].ljust(size, b"\x00"), len(data), page_size_of(data[:100])
    )


def written(path: Path, rows: list[tuple[Column, ...]], *, rowid: bool) -> bytes:
    path.unlink(missing_ok=True)
    connection = open_connection(str(path), readonly=False, vfs=None)
    connection.execute(
        "create table t(a, b, c)" if rowid else "create table t(a primary key, b, c) without rowid"
    )
    connection.executemany("insert into t values(?,?,?)", rows)
    connection.close()
    return path.read_bytes()


def read(data: bytes) -> list[tuple[Column, ...]]:
    return [record.columns for record in raw_records(file_of(data)) if len(record.columns) == 3]


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(COLUMNS, COLUMNS, COLUMNS), max_size=30))
def test_what_was_written_is_read(rows: list[tuple[Column, ...]]) -> None:
    with TemporaryDirectory() as folder:
        found = read(written(Path(folder) / "t.db", rows, rowid=True))
    # A real number without a fraction may stand there as a whole one.
    assert sorted(map(repr, (tuple(map(plain, row)) for row in found))) == sorted(
        map(repr, (tuple(map(plain, row)) for row in rows))
    )


def plain(value: Column) -> Column:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 60 else value


def test_large_rows_are_read_along_their_chains(tmp_path: Path) -> None:
    sizes = [0, 1, 1000, 4000, 4055, 4056, 4057, 4058, 4061, 4062, 4090, 8150, 8200, 100_000, 1_000_000]
    rows: list[tuple[Column, ...]] = [
        (number, bytes([number]) * size, "x" * size) for number, size in enumerate(sizes)
    ]
    for rowid in (True, False):
        assert sorted(read(written(tmp_path / "t.db", rows, rowid=rowid)), key=repr) == sorted(rows, key=repr)


def test_many_rows_without_row_ids_are_read_from_the_whole_tree(tmp_path: Path) -> None:
    rows: list[tuple[Column, ...]] = [(number, "text" * 20, None) for number in range(3000)]
    assert sorted(read(written(tmp_path / "t.db", rows, rowid=False)), key=repr) == sorted(rows, key=repr)


@settings(max_examples=100, deadline=None)
@given(page=st.binary(min_size=512, max_size=512), kind=st.sampled_from([2, 5, 10, 13]))
def test_nonsense_is_passed_over(page: bytes, kind: int) -> None:
    data = bytes([kind]) + page[1:]
    file = RawFile(lambda at, size: (data * 4)[at : at + size], 2048, 512)
    list(raw_records(file))


def test_a_chain_in_a_circle_ends() -> None:
    cell = b"\x90\x00" + b"\x01" + bytes(60) + b"\x00\x00\x00\x02"
    leaf = b"\x0d\x00\x00\x00\x01\x00\x00\x00\x00\x64".ljust(100, b"\x00") + cell
    circle = b"\x00\x00\x00\x02".ljust(512, b"\x01")
    file = RawFile(
        lambda at, size: (bytes(512) + circle + leaf.ljust(512, b"\x00"))[at : at + size], 1536, 512
    )
    assert list(raw_records(file)) == []


@given(number=st.integers(0, (1 << 64) - 1))
def test_numbers_of_one_to_nine_bytes(number: int) -> None:
    assert varint(encoded(number), 0)[0] == number


def encoded(number: int) -> bytes:
    if number >= 1 << 56:
        high = number >> 8
        return bytes([(high >> 7 * i) & 0x7F | 0x80 for i in range(7, -1, -1)]) + bytes([number & 0xFF])
    parts = [number & 0x7F]
    while number := number >> 7:
        parts.append(number & 0x7F | 0x80)
    return bytes(reversed(parts))


def test_the_size_of_pages_is_believed_only_with_the_mark() -> None:
    mark = b"SQLite format 3\x00"
    assert page_size_of(mark + b"\x04\x00") == 1024
    assert page_size_of(mark + b"\x00\x01") == 65_536
    assert page_size_of(mark + b"\x04\x01") == 4096
    assert page_size_of(bytes(100)) == 4096


def test_what_stands_in_the_page_itself_is_as_the_format_says() -> None:
    assert local_size(4096, 4061, table=True) == 4061
    assert local_size(4096, 4062, table=True) < 4061
    assert columns_of(b"\x02\x09") == (1,)
