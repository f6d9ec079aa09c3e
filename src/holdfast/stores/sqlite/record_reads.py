"""Reading documents, the journal, chores and tombstones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from holdfast.errors import HistoryUnavailable
from holdfast.model.chore import Chore, ChoreState
from holdfast.model.document import Document, DocumentRef, kept_versions
from holdfast.model.forget import OriginMatch
from holdfast.model.ids import is_id
from holdfast.model.journal import Change
from holdfast.model.scope import Scope
from holdfast.model.values import dump_json
from holdfast.stores.sqlite import columns
from holdfast.stores.sqlite.codec import change_of, chore_of, document_of
from holdfast.stores.sqlite.guards import (
    whole_change,
    whole_chore,
    whole_document,
    whole_version,
)
from holdfast.stores.sqlite.reading import Reading

_NAMED: Final = " where space=? and bank=? and key=? and kind=? and name=?"
_DOCUMENT: Final = "select " + columns.DOCUMENT + ", hash from documents" + _NAMED
_VERSION_COLUMNS: Final = columns.DOCUMENT + ", ended, ended_change, hash"
_PAST_DOCUMENTS: Final = (
    "select " + _VERSION_COLUMNS + " from document_versions" + _NAMED + " order by version"
)
_DOCUMENTS: Final = (
    "select "
    + columns.DOCUMENT
    + ", hash from documents where space=? and bank=? and key=? and kind=? and position>?"
    " and (expires is null or expires>=?) and substr(name, 1, ?)=? order by position limit ?"
)
_BY_ID: Final = "select " + columns.DOCUMENT + ", hash from documents where id=?"
_PAST_BY_ID: Final = "select " + _VERSION_COLUMNS + " from document_versions where id=? order by version"
_JOURNAL: Final = "select cursor, id, space, at, origin, steps, undoes, hash from journal "
_CHANGES: Final = _JOURNAL + "where space=? and cursor>? order by cursor"
_CHANGE: Final = _JOURNAL + "where id=? and space=?"
_CHORES: Final = (
    "select "
    + columns.CHORE
    + ", hash from chores where space=?1 and (?2 is null or bank=?2) and (?3 is null or key=?3)"
    " and (?4 is null or state in (select value from json_each(?4)))"
    " and (?5 is null or kind in (select value from json_each(?5))) order by id limit ?6"
)
_NEXT_DUE: Final = (
    "select min(due) from (select min(due) as due from chores where state='queued'"
    " union all select min(lease_until) from chores where state='leased')"
)
_UNSETTLED: Final = "select receipt, rewritten from unsettled order by receipt"
_ERASED: Final = "select 1 from tombstones where id=? and space=?"


def _covers(scope: Scope, ref: DocumentRef) -> bool:
    return (scope.bank is None or scope.bank == ref.bank) and (scope.key is None or scope.key == ref.key)


def document(reading: Reading, scope: Scope, ref: DocumentRef, as_of_us: int | None) -> Document | None:
    """The visible document of a name, or the one of an earlier time."""
    if as_of_us is not None and kept_versions(ref.kind) == 0:
        raise HistoryUnavailable(f"documents of kind {ref.kind!r} keep no earlier versions")
    if not _covers(scope, ref):
        return None
    names = (scope.space, ref.bank, ref.key, ref.kind, ref.name)
    with reading.snapshot() as connection:
        row = connection.execute(_DOCUMENT, names).fetchone()
        now = None if row is None else document_of(whole_document(row))
        if as_of_us is None:
            return now if now is not None and now.visible(reading.now_us()) else None
        past = [document_of(whole_version(kept)) for kept in connection.execute(_PAST_DOCUMENTS, names)]
    held = [*past, *([now] if now is not None else [])]
    if held and held[0].version > 1 and as_of_us < held[0].recorded_us:
        raise HistoryUnavailable(
            f"the {ref.kind} {ref.name!r} keeps {kept_versions(ref.kind)} versions; that time is before the oldest"
        )
    return next((version for version in reversed(held) if version.known(as_of_us)), None)


def documents(
    reading: Reading, scope: Scope, kind: str, prefix: str, after: int, limit: int
) -> list[Document]:
    """Visible documents of a kind in a place, in the order of first insertion."""
    place = scope.place
    arguments = (
        scope.space, place.bank, place.key, kind, after, reading.now_us(), len(prefix), prefix, limit
    )  # fmt: skip
    return [document_of(whole_document(row)) for row in reading.connection.execute(_DOCUMENTS, arguments)]


def document_versions(reading: Reading, scope: Scope, identifier: str) -> list[Document]:
    """Kept versions of a document, the current one last."""
    if not is_id(identifier):
        return []
    name = (bytes.fromhex(identifier),)
    with reading.snapshot() as connection:
        rows = [whole_version(row) for row in connection.execute(_PAST_BY_ID, name)]
        rows += [whole_document(row) for row in connection.execute(_BY_ID, name)]
    found = [document_of(row) for row in rows]
    return [version for version in found if version.space == scope.space and _covers(scope, version.ref)]


def changes(
    reading: Reading, scope: Scope, after: int, limit: int, origin: OriginMatch | None
) -> list[Change]:
    """Changes of a space in commit order."""
    found: list[Change] = []
    with reading.snapshot() as connection:
        for row in connection.execute(_CHANGES, (scope.space, after)):
            change = change_of(whole_change(row))
            if origin is None or origin.accepts(change.origin):
                found.append(change)
                if len(found) >= limit:
                    break
    return found


def change(reading: Reading, scope: Scope, identifier: str) -> Change | None:
    """One change of a space."""
    if not is_id(identifier):
        return None
    row = reading.connection.execute(_CHANGE, (bytes.fromhex(identifier), scope.space)).fetchone()
    return None if row is None else change_of(whole_change(row))


def chores(
    reading: Reading, scope: Scope, states: Sequence[ChoreState], kinds: Sequence[str] | None, limit: int
) -> list[Chore]:
    """Chores of a scope, oldest first."""
    of_states = dump_json([str(state) for state in states]) if states else None
    of_kinds = None if kinds is None else dump_json(list(kinds))
    asked = (scope.space, scope.bank, scope.key, of_states, of_kinds, limit)
    return [chore_of(whole_chore(row)) for row in reading.connection.execute(_CHORES, asked)]


def next_due_us(reading: Reading) -> int | None:
    """When something is due next."""
    return cast("int | None", reading.connection.execute(_NEXT_DUE).get)


def unsettled(reading: Reading) -> dict[str, tuple[str, ...]]:
    """Receipts that are not complete, with what each waits for."""
    return {
        cast("bytes", receipt).hex(): ("wal",) if rewritten else ("pages", "wal")
        for receipt, rewritten in reading.connection.execute(_UNSETTLED)
    }


def erased(reading: Reading, scope: Scope, ids: Sequence[str]) -> set[str]:
    """Those of the ids that have a tombstone."""
    with reading.snapshot() as connection:
        return {
            identifier
            for identifier in filter(is_id, ids)
            if connection.execute(_ERASED, (bytes.fromhex(identifier), scope.space)).fetchone() is not None
        }
