"""Rows and values: how records are written into columns and read back, and the hash that guards each row."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from marshal import dumps
from typing import Final, TypeAlias, cast

from holdfast.model.batch import Placed
from holdfast.model.chore import Chore, ChoreState
from holdfast.model.document import Document, DocumentRef
from holdfast.model.entry import Entry, Kind, Quantised, Reason, Retirement, read_entry
from holdfast.model.journal import Change, Step, Verb
from holdfast.model.origin import UNKNOWN, Origin, origin_from_text, origin_text
from holdfast.model.scope import Place
from holdfast.model.values import JsonObject, dump_json, load_json
from holdfast.stores.sqlite.db import Column, Record

KINDS: Final[tuple[Kind, ...]] = ("entry", "summary")
KIND_NUMBERS: Final = {"entry": 0, "summary": 1}
_REASONS: Final = {reason.value: reason for reason in Reason}
_VERBS: Final[dict[str, Verb]] = {
    "a": "append", "m": "merge", "v": "revise", "t": "retire", "s": "restore", "p": "put", "r": "remove",
    "q": "enqueue", "n": "finish", "l": "fail", "d": "drop", "y": "retry", "f": "forget",
}  # fmt: skip
Text: TypeAlias = str | None
EntryRow: TypeAlias = tuple[
    int, bytes, int, int, str, Text, Text, Text, Text, Text, Text, Text, int, int, int | None, bytes, int
]
"""The columns of ``columns.ENTRY``."""
_LETTERS: Final = {verb: letter for letter, verb in _VERBS.items()}


def row_hash(*columns: Column) -> bytes:
    """Eight bytes that tell whether the columns are still what was written.

    The bytes that are hashed are those of marshal's second format, which has one form for each value and is the same
    in every Python: the fastest there is for a row. Nothing is ever read back from them.
    """
    try:
        return blake2b(dumps(columns, 2), digest_size=8).digest()
    except ValueError:  # a subclass that a caller handed in: the file holds the plain value
        return blake2b(dumps(tuple([_plain(column) for column in columns]), 2), digest_size=8).digest()


def _plain(column: Column) -> Column:
    if isinstance(column, str):
        return str.__str__(column)
    if isinstance(column, int):
        return int(column)
    return column


def words_text(terms: dict[str, int]) -> str:
    """Terms for the word index: each once, and once more as ``term~n`` for every further occurrence.

    So the rows of ``term~n`` are those where the term occurs at least n times: exact frequencies from an index that
    keeps nothing but row ids.
    """
    further = [
        f"{term}~{level}" for term, count in terms.items() if count > 1 for level in range(2, count + 1)
    ]
    return " ".join([*terms, *further])


def origin_column(origin: Origin) -> str | None:
    """The stored form; nothing for the default origin."""
    return None if origin is UNKNOWN or origin == UNKNOWN else origin_text(origin)


def origin_of(column: Column) -> Origin:
    """The origin that a column holds."""
    return UNKNOWN if column is None else origin_from_text(cast("str", column))


def metadata_column(metadata: object) -> str | None:
    """The stored form; nothing for empty metadata."""
    return dump_json(metadata) if metadata else None


def metadata_of(column: Column) -> JsonObject:
    """The metadata that a column holds, fresh for each reader."""
    return {} if column is None else cast("JsonObject", load_json(cast("str", column)))


def vector_columns(vectors: Sequence[Quantised]) -> tuple[bytes | None, bytes | None]:
    """Components side by side, and the scales."""
    if not vectors:
        return None, None
    return b"".join([vector.data for vector in vectors]), array(
        "d", [vector.scale for vector in vectors]
    ).tobytes()


def vectors_of(data: bytes | None, scales: bytes | None) -> tuple[Quantised, ...]:
    """The vectors that two columns hold."""
    if not data or not scales:
        return ()
    factors = array("d")
    factors.frombytes(scales)
    size = len(data) // len(factors)
    return tuple(Quantised(data[i * size : (i + 1) * size], factor) for i, factor in enumerate(factors))


def entry_of(row: Record, space: str, bank: str, key: str, seq: int) -> Entry:
    """An entry from the columns of ``ENTRY_COLUMNS``."""
    # One cast for all columns: this runs for every entry that is read.
    (_, identifier, version, kind, content, title, speaker, name, thread, subject, metadata, origin, created,
     recorded, expires, change, seen) = cast("EntryRow", row[:17])  # fmt: skip
    return read_entry(
        identifier.hex(), space, bank, key, seq, version, KINDS[kind], content, title, speaker, name, thread, subject,
        metadata_of(metadata) if metadata else {}, origin_of(origin) if origin else UNKNOWN,
        created, recorded, expires, change.hex(), seen, None,
    )  # fmt: skip


def retirement_of(columns: Record) -> Retirement:
    """A retirement from ``retired, reason, by_entry, by_change``."""
    at, reason, by, change = columns
    return Retirement(
        cast("int", at), _REASONS[cast("str", reason)], cast("bytes", change).hex(),
        None if by is None else cast("bytes", by).hex(),
    )  # fmt: skip


def steps_text(steps: Iterable[Step]) -> str:
    """The stored form of a change's steps."""
    return " ".join([f"{_LETTERS[step.verb]}{step.ref}{step.before},{step.after}" for step in steps])


def steps_of(text: str) -> tuple[Step, ...]:
    """The steps that a stored form describes."""
    found: list[Step] = []
    for part in text.split():
        before, after = part[33:].split(",")
        found.append(Step(_VERBS[part[0]], part[1:33], int(before), int(after)))
    return tuple(found)


def change_of(row: Record) -> Change:
    """A change from ``cursor, id, space, at, origin, steps, undoes``."""
    cursor, identifier, space, at, origin, steps, undoes = row
    return Change(
        cast("bytes", identifier).hex(), cast("str", space), cast("int", cursor), cast("int", at), origin_of(origin),
        steps_of(cast("str", steps)), tuple(cast("str", undoes).split()) if undoes else (),
    )  # fmt: skip


def document_of(row: Record) -> Document:
    """A document from ``DOCUMENT_COLUMNS``, with ``ended, ended_change`` behind them for a version of the past."""
    (position, identifier, space, bank, key, kind, name, version, value, subject, origin, recorded, expires,
     change) = row[:14]  # fmt: skip
    ended, ended_change = row[14:16] if len(row) > 14 else (None, None)
    return Document(
        cast("bytes", identifier).hex(), cast("str", space),
        DocumentRef(cast("str", bank), cast("str", key), cast("str", kind), cast("str", name)),
        load_json(cast("str", value)), cast("int", version), cast("int", position), cast("str | None", subject),
        origin_of(origin), cast("int", recorded), cast("int | None", expires), cast("bytes", change).hex(),
        cast("int | None", ended), None if ended_change is None else cast("bytes", ended_change).hex(),
    )  # fmt: skip


def chore_of(row: Record) -> Chore:
    """A chore from ``CHORE_COLUMNS``."""
    (identifier, space, bank, key, kind, dedupe, payload, state, attempts, max_attempts, due, token, lease_until,
     worker, last_error, created, change) = row  # fmt: skip
    return Chore(
        cast("bytes", identifier).hex(), cast("str", space), Place(cast("str", bank), cast("str", key)),
        cast("str", kind), cast("str | None", dedupe), None if payload is None else load_json(cast("str", payload)),
        ChoreState(cast("str", state)), cast("int", attempts), cast("int", max_attempts), cast("int", due),
        cast("int", token), cast("int | None", lease_until), cast("str | None", worker),
        cast("str | None", last_error), cast("int", created), cast("bytes", change).hex(),
    )  # fmt: skip


def placed_text(placed: Iterable[Placed]) -> str:
    """The stored form of what a batch did, for its repetition."""
    return dump_json([[item.id, item.seq, item.version, item.duplicate] for item in placed])


def placed_of(text: str) -> tuple[Placed, ...]:
    """What a batch did, from its stored form."""
    rows = cast("list[tuple[str, int, int, bool]]", load_json(text))
    return tuple(Placed(*row) for row in rows)
