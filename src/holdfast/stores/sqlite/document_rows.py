"""Documents: put and remove, with the versions that their kind keeps."""

from __future__ import annotations

from typing import Final, cast

import apsw

from holdfast.errors import AlreadyExists, VersionConflict
from holdfast.model.batch import Placed, Put, Remove
from holdfast.model.document import KEEP_ALL, DocumentRef, kept_versions
from holdfast.model.journal import Step
from holdfast.model.origin import UNKNOWN
from holdfast.model.values import dump_json
from holdfast.stores.sqlite import columns
from holdfast.stores.sqlite.codec import origin_column, row_hash
from holdfast.stores.sqlite.db import Record
from holdfast.stores.sqlite.guards import document_hash, whole_document
from holdfast.stores.sqlite.ledger import Ledger, Work
from holdfast.stores.sqlite.quotas import size_of

_CURRENT: Final = (
    "select "
    + columns.DOCUMENT
    + ", hash from documents where space=? and bank=? and key=? and kind=? and name=?"
)
_LAST_KEPT: Final = (
    "select id, version from document_versions where space=? and bank=? and key=? and kind=? and name=?"
    " order by version desc limit 1"
)
_PUT: Final = (
    "insert into documents(id, space, bank, key, kind, name, version, value, subject, origin, recorded, expires, change,"
    " hash) values(?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_REPLACE: Final = (
    "update documents set version=?, value=?, subject=?, origin=?, recorded=?, expires=?, change=?, hash=?"
    " where position=?"
)
_DROP: Final = "delete from documents where position=?"
_KEEP: Final = (
    "insert into document_versions(position, id, space, bank, key, kind, name, version, value, subject, origin,"
    " recorded, expires, change, ended, ended_change, hash) values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_PRUNE: Final = "delete from document_versions where id=? and version<=?"
_NTH_KEPT: Final = "select version from document_versions where id=? order by version desc limit 1 offset ?"
_KNOWN: Final = "select 1 from document_versions where id=?1 union all select 1 from tombstones where id=?1"
_PRUNED: Final = (
    "select coalesce(sum(octet_length(value)), 0) from document_versions where id=? and version<=?"
)
_PUT_DERIVED: Final = "insert or ignore into derived values(?,?,1)"


def name_columns(space: str, ref: DocumentRef) -> tuple[str, str, str, str, str]:
    """The columns that name a document."""
    return space, ref.bank, ref.key, ref.kind, ref.name


def current(ledger: Ledger, space: str, ref: DocumentRef) -> Record | None:
    """The row of a document, visible or expired."""
    found = ledger.connection.execute(_CURRENT, name_columns(space, ref)).fetchone()
    return None if found is None else whole_document(found)


def expired(row: Record, now: int) -> bool:
    """Whether a document's row has run out."""
    expires = cast("int | None", row[12])
    return expires is not None and now > expires


def visible_version(ledger: Ledger, space: str, ref: DocumentRef) -> int:
    """The version of a visible document; 0 when there is none."""
    name = (space, ref)
    known = ledger.documents.get(name)
    if known is None:
        row = current(ledger, space, ref)
        if row is None or expired(row, ledger.now_us()):
            return 0
        known = cast("int", row[7])
        if row[12] is None:  # what expires has to be looked at each time
            ledger.documents[name] = known
    return known


def put(ledger: Ledger, work: Work, operation: Put) -> None:
    """Write a document."""
    ledger.documents.clear()
    space, ref = work.batch.space, operation.ref
    row = current(ledger, space, ref)
    alive = row is not None and not expired(row, work.now)
    before = cast("int", row[7]) if row is not None and alive else 0
    _expect(ref, before, operation.expected)
    if row is not None:
        keep_version(ledger, work, row)
        work.grown -= size_of(row[8]) if work.metered else 0
    identifier, version = _identity(ledger, space, operation, row, work.now)
    origin = origin_column(work.batch.origin)
    value = dump_json(operation.value)
    work.grown += size_of(value) if work.metered else 0
    written = (version, value, operation.subject, origin, work.at, operation.expires_us, work.change)
    guard = document_hash(identifier, *name_columns(space, ref), *written)
    if row is not None and alive:
        ledger.connection.execute(_REPLACE, (*written, guard, row[0]))
    else:
        if row is not None:
            ledger.connection.execute(_DROP, (row[0],))
        try:
            ledger.connection.execute(_PUT, (identifier, *name_columns(space, ref), *written, guard))
        except apsw.ConstraintError as error:
            raise AlreadyExists("a document with this id exists already", hint="make a new id") from error
    if work.batch.origin is not UNKNOWN:
        ledger.connection.executemany(
            _PUT_DERIVED, [(bytes.fromhex(source), identifier) for source in work.batch.origin.sources]
        )
    work.placed.append(Placed(identifier.hex(), 0, version))
    work.steps.append(Step("put", identifier.hex(), before, version))


def remove(ledger: Ledger, work: Work, operation: Remove) -> None:
    """Remove a document."""
    ledger.documents.clear()
    row = current(ledger, work.batch.space, operation.ref)
    if row is None or expired(row, work.now):
        _expect(operation.ref, 0, operation.expected)
        work.placed.append(Placed("", 0, 0))
        return
    version = cast("int", row[7])
    _expect(operation.ref, version, operation.expected)
    keep_version(ledger, work, row)
    work.grown -= size_of(row[8]) if work.metered else 0
    ledger.connection.execute(_DROP, (row[0],))
    reference = cast("bytes", row[1]).hex()
    work.placed.append(Placed(reference, 0, version))
    work.steps.append(Step("remove", reference, version, 0))


def keep_version(ledger: Ledger, work: Work, row: Record) -> None:
    """Keep the version that ends, as far as its kind keeps any."""
    keep = kept_versions(cast("str", row[5]))
    if keep == 0:
        return
    kept = (*row, work.at, work.change)
    work.grown += size_of(row[8]) if work.metered else 0
    ledger.connection.execute(_KEEP, (*kept, row_hash(*kept)))
    if keep != KEEP_ALL:
        surplus = ledger.connection.execute(_NTH_KEPT, (row[1], keep)).fetchone()
        if surplus is not None:
            if work.metered:
                work.grown -= cast("int", ledger.connection.execute(_PRUNED, (row[1], surplus[0])).get)
            ledger.connection.execute(_PRUNE, (row[1], surplus[0]))


def write_new(ledger: Ledger, work: Work, ref: DocumentRef, identifier: bytes, value: str) -> None:
    """Write a document that is known to be new and belongs to nobody."""
    names = name_columns(work.batch.space, ref)
    written = (1, value, None, origin_column(work.batch.origin), work.at, None, work.change)
    guard = document_hash(identifier, *names, *written)
    try:
        ledger.connection.execute(_PUT, (identifier, *names, *written, guard))
    except apsw.ConstraintError as error:
        raise AlreadyExists(f"the change {identifier.hex()} exists already", hint="make a new id") from error


def _identity(ledger: Ledger, space: str, operation: Put, row: Record | None, now: int) -> tuple[bytes, int]:
    """The id and version of what is put: those of earlier versions go on."""
    keeps = kept_versions(operation.ref.kind) != 0
    if row is not None and (keeps or not expired(row, now)):
        return cast("bytes", row[1]), cast("int", row[7]) + 1
    if keeps:
        last = ledger.connection.execute(_LAST_KEPT, name_columns(space, operation.ref)).fetchone()
        if last is not None:
            return cast("bytes", last[0]), cast("int", last[1]) + 1
    identifier = bytes.fromhex(operation.id)
    if ledger.connection.execute(_KNOWN, (identifier,)).fetchone() is not None:
        raise AlreadyExists("a document with this id was here before", hint="make a new id")
    return identifier, 1


def _expect(ref: DocumentRef, version: int, expected: int | None) -> None:
    if expected is not None and version != expected:
        raise VersionConflict(
            f"the {ref.kind} {ref.name!r} has version {version}, not {expected}",
            hint="read it again and repeat the change",
        )
