"""Reading entries: pages in order, single entries, versions, keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from holdfast.errors import ScopeError
from holdfast.model.entry import Entry, Reason
from holdfast.model.ids import is_id
from holdfast.model.scope import Place, Scope
from holdfast.model.window import Cursor, EntryPage, KeyInfo, Window
from holdfast.stores.sqlite import columns
from holdfast.stores.sqlite.codec import entry_of, retirement_of
from holdfast.stores.sqlite.db import Connection, Record
from holdfast.stores.sqlite.guards import whole_entry, whole_key, whole_past
from holdfast.stores.sqlite.layout import KeyRange
from holdfast.stores.sqlite.places import bank_number, hidden_name
from holdfast.stores.sqlite.reading import Reading

if TYPE_CHECKING:
    from holdfast.model.filter import Filter

_SELECT: Final = "select " + columns.ENTRY + ", digest, hash from entries "
_SELECT_PAST: Final = "select " + columns.PAST + ", hash, number from past "
_BOUNDED: Final = (
    "where row between ? and ? and (expires is null or expires>=?) and created>=? and created<? "
)
_ASCENDING: Final = _SELECT + _BOUNDED + "order by row limit ?"
_DESCENDING: Final = _SELECT + _BOUNDED + "order by row desc limit ?"
_ALL: Final = _SELECT + "where row between ? and ?"
_ALL_PAST: Final = _SELECT_PAST + "where row between ? and ?"
_BY_ID: Final = _SELECT + "where id=?"
_BY_ROW: Final = _SELECT + "where row=?"
_PAST_BY_ID: Final = _SELECT_PAST + "where id=? order by version"
_PAST_BY_NUMBER: Final = _SELECT_PAST + "where number=?"
_KEY: Final = "select key, number, base, disordered, hash from keys where bank=? and key=? order by base"
_KEYS_UP: Final = (
    "select key, number, base, disordered, hash from keys where bank=? and key>=? order by key, base"
)
_KEYS_DOWN: Final = (
    "select key, number, base, disordered, hash from keys where bank=? and key<=? order by key desc, base"
)
_COUNT: Final = (
    "select count(*), max(row) from entries where row between ? and ? and (expires is null or expires>=?)"
)
_CREATED: Final = "select created from entries where row=?"
_HIGH: Final = "select number, base, high, hash from keys where bank=? and key=? order by base desc limit 1"
_SPENT: Final = "select high from spent where bank=? and name=?"
_SALT: Final = "select value from meta where name='salt'"
_LAST_ROW: Final = (
    "select max(coalesce((select max(row) from entries where row between ?1 and ?2), 0),"
    " coalesce((select max(row) from past where row between ?1 and ?2), 0))"
)
_FIRST: Final = -(1 << 62)
_LAST: Final = 1 << 62
_KEY_END: Final = "\U0010ffff" * 513


@dataclass(slots=True)
class Key:
    """A key while it is read."""

    place: Place
    ranges: list[KeyRange]
    disordered: bool


Found = tuple[int, Entry]
"""A row handle and its entry.

The handle is the row of a current entry; minus the number of a version of the past; or, since numbers stay far below
the first row, minus the row of an entry that is read as of a time, when it may have expired since.
"""


def load(reading: Reading, scope: Scope, window: Window) -> EntryPage:
    """A page of visible entries."""
    found: list[Entry] = []
    with reading.snapshot():
        for _, entry in admitted(reading, scope, window):
            found.append(entry)
            if len(found) > window.limit:
                break
    if len(found) <= window.limit:
        return EntryPage(tuple(found), None)
    last = found[window.limit - 1]
    return EntryPage(tuple(found[: window.limit]), Cursor(last.key, last.created_us, last.seq))


def admitted(reading: Reading, scope: Scope, window: Window, *, unlimited: bool = False) -> Iterator[Found]:
    """Entries that a window admits, in its order: at least one more than its limit, where there are so many."""
    passes: Callable[[Filter, Entry], bool] | None = None
    if window.filter is not None:
        from holdfast.model.filter import accepts  # only where there is a filter

        passes = accepts
    for key in _keys(reading, scope, window):
        after = window.after if window.after is not None and window.after.key == key.place.key else None
        limit = -1 if unlimited or window.filter is not None else window.limit + 1
        entries = _key_entries(reading, scope.space, key, window, after, limit)
        if window.filter is None or passes is None:
            yield from entries
        else:
            for found in entries:
                if passes(window.filter, found[1]):
                    yield found


def _keys(reading: Reading, scope: Scope, window: Window) -> Iterator[Key]:
    if scope.bank is None:
        raise ScopeError("reading entries needs a bank", code="bank_required")
    bank = bank_number(reading.connection, scope.space, scope.bank)
    if bank is None:
        return
    start = None if window.after is None else window.after.key
    if scope.key is not None:
        rows = reading.connection.execute(_KEY, (bank, scope.key))
    elif window.order == "oldest_first":
        rows = reading.connection.execute(_KEYS_UP, (bank, start or ""))
    else:
        rows = reading.connection.execute(_KEYS_DOWN, (bank, start or _KEY_END))
    yield from _gathered(reading, scope.bank, bank, rows)


def _gathered(reading: Reading, name: str, bank: int, rows: Iterable[Record]) -> Iterator[Key]:
    held: Key | None = None
    for key, number, base, disordered, guard in rows:
        whole_key(bank, number, key, base, guard)
        kept = KeyRange(*reading.layout.key_rows(bank, cast("int", number)), cast("int", base))
        if held is not None and held.place.key == key:
            held.ranges.append(kept)
            held.disordered = held.disordered or bool(disordered)
            continue
        if held is not None:
            yield held
        held = Key(Place(name, cast("str", key)), [kept], bool(disordered))
    if held is not None:
        yield held


def _key_entries(
    reading: Reading, space: str, key: Key, window: Window, after: Cursor | None, limit: int
) -> Iterator[Found]:
    if window.as_of_us is None and not window.hidden and (window.by == "seq" or not key.disordered):
        return _in_row_order(reading, space, key, window, after, limit)
    found = list(_known(reading, space, key, window))
    descending = window.order == "newest_first"
    if window.by == "seq":
        found.sort(key=lambda item: item[1].seq, reverse=descending)
        beyond = None if after is None else (0, after.seq)
        positions = [(0, entry.seq) for _, entry in found]
    else:
        found.sort(key=lambda item: (item[1].created_us, item[1].seq), reverse=descending)
        beyond = None if after is None else (after.created_us, after.seq)
        positions = [(entry.created_us, entry.seq) for _, entry in found]
    if beyond is None:
        return iter(found)
    return (
        item
        for item, position in zip(found, positions, strict=True)
        if (position < beyond if descending else position > beyond)
    )


def _in_row_order(
    reading: Reading, space: str, key: Key, window: Window, after: Cursor | None, limit: int
) -> Iterator[Found]:
    descending = window.order == "newest_first"
    place = key.place
    low_time = _FIRST if window.created_from_us is None else window.created_from_us
    high_time = _LAST if window.created_until_us is None else window.created_until_us
    now = reading.now_us()
    for kept in reversed(key.ranges) if descending else key.ranges:
        low, high = kept.low, kept.high
        if after is not None:
            row = kept.row_of(after.seq)
            low, high = (low, min(high, row - 1)) if descending else (max(low, row + 1), high)
        if low > high:
            continue
        sql = _DESCENDING if descending else _ASCENDING
        offset = kept.base - kept.low
        records = reading.connection.execute(sql, (low, high, now, low_time, high_time, limit))
        # A page at once; without a limit, one by one, since the caller may stop early.
        for record in records if limit < 0 else records.fetchall():
            handle = cast("int", record[0])
            yield handle, entry_of(whole_entry(record), space, place.bank, place.key, handle + offset)


def _known(reading: Reading, space: str, key: Key, window: Window) -> Iterator[Found]:
    """Entries of a key as the window's time and mode show them, in no order."""
    now = reading.now_us()
    for kept in key.ranges:
        bounds = (kept.low, kept.high)
        versions: dict[int, list[Found]] = {}
        if window.as_of_us is not None or window.hidden:
            for record in reading.connection.execute(_ALL_PAST, bounds):
                row = cast("int", record[0])
                found = past_found(record, space, key.place, kept.seq_of(row))
                versions.setdefault(row, []).append(found)
        for record in reading.connection.execute(_ALL, bounds):
            row = cast("int", record[0])
            entry = entry_of(whole_entry(record), space, key.place.bank, key.place.key, kept.seq_of(row))
            versions.setdefault(row, []).append((row if window.as_of_us is None else -row, entry))
        for held in versions.values():
            chosen = chosen_version(held, window, now)
            if chosen is not None and _in_time(chosen[1], window):
                yield chosen


def past_found(record: Record, space: str, place: Place, seq: int) -> Found:
    """A version of the past with its handle."""
    whole = whole_past(record)
    entry = entry_of(whole, space, place.bank, place.key, seq)
    return -cast("int", whole[25]), replace(entry, retired=retirement_of(whole[18:22]))


def chosen_version(held: Sequence[Found], window: Window, now: int) -> Found | None:
    """Which of an entry's versions a window shows, if any."""
    at = now if window.as_of_us is None else window.as_of_us
    if window.as_of_us is None:
        newest = max(held, key=lambda item: item[1].version)
    else:
        then = [item for item in held if item[1].recorded_us <= at]
        if not then:
            return None
        newest = max(then, key=lambda item: item[1].version)
    entry = newest[1]
    if entry.expires_us is not None and at > entry.expires_us:
        return None
    retired = entry.retired
    if retired is None or (window.as_of_us is not None and at < retired.at_us):
        return newest
    return newest if window.hidden and retired.reason is Reason.HIDDEN else None


def _in_time(entry: Entry, window: Window) -> bool:
    return (window.created_from_us is None or entry.created_us >= window.created_from_us) and (
        window.created_until_us is None or entry.created_us < window.created_until_us
    )


def inside(scope: Scope, space: str, place: Place) -> bool:
    """Whether a place lies inside a scope."""
    return (
        space == scope.space
        and (scope.bank is None or place.bank == scope.bank)
        and (scope.key is None or place.key == scope.key)
    )


def find(reading: Reading, scope: Scope, ids: Sequence[str], as_of_us: int | None) -> list[Entry]:
    """Visible entries by id, in the order asked for."""
    found: list[Entry] = []
    window = Window(as_of_us=as_of_us)
    with reading.snapshot():
        now = reading.now_us()
        for identifier in filter(is_id, dict.fromkeys(ids)):
            name = bytes.fromhex(identifier)
            held = version_rows(reading, scope, name, past=as_of_us is not None)
            chosen = chosen_version(held, window, now) if held else None
            if chosen is not None:
                found.append(chosen[1])
    return found


def version_rows(reading: Reading, scope: Scope, name: bytes, *, past: bool) -> list[Found]:
    """Versions of an entry of a scope, oldest first; only the current one unless the past is asked for."""
    found: list[Found] = []
    rows = reading.connection.execute(_PAST_BY_ID, (name,)).fetchall() if past else []
    for record in rows:
        space, place, seq = reading.names.of_row(reading.connection, cast("int", record[0]))
        if inside(scope, space, place):
            found.append(past_found(record, space, place, seq))
    for record in reading.connection.execute(_BY_ID, (name,)).fetchall():
        row = cast("int", record[0])
        space, place, seq = reading.names.of_row(reading.connection, row)
        if inside(scope, space, place):
            found.append((row, entry_of(whole_entry(record), space, place.bank, place.key, seq)))
    return found


def versions(reading: Reading, scope: Scope, identifier: str) -> list[Entry]:
    """All kept versions of an entry."""
    if not is_id(identifier):
        return []
    with reading.snapshot():
        return [entry for _, entry in version_rows(reading, scope, bytes.fromhex(identifier), past=True)]


def fetch(reading: Reading, scope: Scope, rows: Sequence[int]) -> list[Entry | None]:
    """The entries behind handles."""
    with reading.snapshot() as connection:
        now = reading.now_us()
        return [_behind(reading, connection, scope, row, now) for row in rows]


def _behind(reading: Reading, connection: Connection, scope: Scope, handle: int, now: int) -> Entry | None:
    past = -handle if 0 < -handle < reading.layout.first_row else 0
    sql, argument = (_PAST_BY_NUMBER, past) if past else (_BY_ROW, abs(handle))
    record = connection.execute(sql, (argument,)).fetchone()
    if record is None:
        return None
    space, place, seq = reading.names.of_row(connection, cast("int", record[0]))
    if not inside(scope, space, place):
        return None
    if past:
        return past_found(record, space, place, seq)[1]
    entry = entry_of(whole_entry(record), space, place.bank, place.key, seq)
    return entry if handle < 0 or entry.visible(now) else None


def keys(reading: Reading, scope: Scope, prefix: str, after: str | None, limit: int) -> list[KeyInfo]:
    """Keys with visible entries."""
    found: list[KeyInfo] = []
    with reading.snapshot() as connection:
        if scope.bank is None:
            raise ScopeError("listing keys needs a bank", code="bank_required")
        bank = bank_number(connection, scope.space, scope.bank)
        if bank is None:
            return []
        rows = connection.execute(_KEYS_UP, (bank, max(prefix, after or "")))
        for key in _gathered(reading, scope.bank, bank, rows):
            name = key.place.key
            if not name.startswith(prefix):
                break
            if (scope.key is not None and name != scope.key) or (after is not None and name <= after):
                continue
            info = _key_info(reading, connection, key)
            if info is not None:
                found.append(info)
            if len(found) >= limit:
                break
    return found


def _key_info(reading: Reading, connection: Connection, key: Key) -> KeyInfo | None:
    total, last = 0, 0
    for kept in key.ranges:
        count, row = cast(
            "tuple[int, int | None]",
            connection.execute(_COUNT, (kept.low, kept.high, reading.now_us())).fetchone(),
        )
        total += count
        last = row or last
    if not total:
        return None
    return KeyInfo(key.place.key, total, cast("int", connection.execute(_CREATED, (last,)).get))


def head(reading: Reading, scope: Scope) -> int:
    """The seq of the last entry ever appended to a place."""
    place = scope.place
    with reading.snapshot() as connection:
        bank = bank_number(connection, scope.space, place.bank)
        if bank is None:
            return 0
        newest = connection.execute(_HIGH, (bank, place.key)).fetchone()
        if newest is None:
            salt = cast("bytes", connection.execute(_SALT).get)
            spent = connection.execute(_SPENT, (bank, hidden_name(salt, bank, place.key))).fetchone()
            return 0 if spent is None else cast("int", spent[0])
        number, base, high = cast("tuple[int, int, int]", newest[:3])
        whole_key(bank, number, place.key, base, newest[3])
        kept = KeyRange(*reading.layout.key_rows(bank, number), base)
        last = cast("int", connection.execute(_LAST_ROW, (kept.low, kept.high)).get)
        return max(high, kept.seq_of(last) if last else base)
