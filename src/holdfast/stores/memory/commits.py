"""The one write path of the store in memory: a batch, all of it or nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from holdfast.errors import AlreadyExists, IdempotencyConflict, VersionConflict, quota_exceeded
from holdfast.model.batch import (
    Append,
    Batch,
    Commit,
    DocumentVersion,
    Drop,
    Enqueue,
    EntryVersion,
    Fail,
    Finish,
    Forget,
    Head,
    Operation,
    Placed,
    Put,
    Remove,
    Requirement,
    Restore,
    Retire,
    Retry,
    Revise,
)
from holdfast.model.forget import Receipt
from holdfast.model.journal import Change
from holdfast.stores.memory.forgetting import forget
from holdfast.stores.memory.tables import Repeat, Tables, Undo
from holdfast.stores.memory.upkeep import bytes_held
from holdfast.stores.memory.writing import Writer


def commit(tables: Tables, batch: Batch, now_us: int) -> Commit:
    """Apply a batch, or raise and change nothing."""
    repeated = _repeated(tables, batch)
    if repeated is not None:
        return repeated
    if batch.id in tables.changes:
        raise AlreadyExists(f"the change {batch.id} exists already")
    at_us = max(batch.at_us, tables.last_us + 1)
    for requirement in batch.requires:
        _require(tables, batch.space, requirement, now_us)
    receipts: list[Receipt] = []
    limit = tables.limits.get(batch.space)
    used = 0 if limit is None else bytes_held(tables, batch.space)
    with Undo() as undo:
        writer = Writer(tables, undo, batch, at_us=at_us, now_us=now_us)
        placed = tuple(_apply(writer, operation, receipts) for operation in batch.operations)
        if limit is not None and not receipts:
            _check_limit(tables, batch.space, used, limit)
    _record(tables, writer)
    done = Commit(batch.id, at_us, placed, tuple(receipts))
    if batch.idempotency is not None:
        name = (batch.space, batch.idempotency.place, batch.idempotency.key)
        tables.repeats[name] = Repeat(batch.idempotency.digest, replace(done, receipts=(), duplicate=True))
    return done


def _check_limit(tables: Tables, space: str, before: int, limit: int) -> None:
    """Refuse what makes a space larger than it may be."""
    after = bytes_held(tables, space)
    if after > limit and after > before:
        raise quota_exceeded(space, before, after, limit)


def _repeated(tables: Tables, batch: Batch) -> Commit | None:
    """The first commit of an idempotency key."""
    if batch.idempotency is None:
        return None
    first = tables.repeats.get((batch.space, batch.idempotency.place, batch.idempotency.key))
    if first is None:
        return None
    if first.digest != batch.idempotency.digest:
        raise IdempotencyConflict(
            "the idempotency key was used before with other content", hint="use a new key"
        )
    return first.commit


def _require(tables: Tables, space: str, requirement: Requirement, now_us: int) -> None:
    match requirement:
        case EntryVersion():
            entry = tables.visible_entry(space, requirement.id, now_us)
            found = 0 if entry is None else entry.bare.version
            held = found == requirement.version
        case DocumentVersion():
            document = tables.visible_document(space, requirement.ref, now_us)
            found = 0 if document is None else document.bare.version
            held = found > 0 if requirement.version is None else found == requirement.version
        case Head():
            found = tables.heads.get((space, requirement.place.bank, requirement.place.key), 0)
            held = found == requirement.seq
        case _:
            assert_never(requirement)
    if not held:
        raise VersionConflict(f"found {found}, against {requirement}", hint="read it again")


def _apply(writer: Writer, operation: Operation, receipts: list[Receipt]) -> Placed:
    match operation:
        case Append():
            return writer.append(operation)
        case Revise():
            return writer.revise(operation)
        case Retire():
            return writer.retire(operation)
        case Restore():
            return writer.restore(operation)
        case Put():
            return writer.put(operation)
        case Remove():
            return writer.remove(operation)
        case Forget():
            receipt = forget(writer, operation)
            receipts.append(receipt)
            return Placed(receipt.id, 0, 0)
        case Enqueue() | Finish() | Fail() | Drop() | Retry():
            return _apply_to_chore(writer, operation)
        case _:
            assert_never(operation)


def _apply_to_chore(writer: Writer, operation: Enqueue | Finish | Fail | Drop | Retry) -> Placed:
    match operation:
        case Enqueue():
            return writer.enqueue(operation)
        case Finish():
            return writer.finish(operation)
        case Fail():
            return writer.fail(operation)
        case Drop():
            return writer.drop(operation)
        case Retry():
            return writer.retry(operation)
        case _:
            assert_never(operation)


def _record(tables: Tables, writer: Writer) -> None:
    """Write the change into the journal."""
    batch = writer.batch
    tables.last_us = writer.at_us
    tables.last_cursor += 1
    change = Change(
        id=batch.id,
        space=batch.space,
        cursor=tables.last_cursor,
        at_us=writer.at_us,
        origin=batch.origin,
        steps=tuple(writer.steps),
        undoes=batch.undoes,
    )
    tables.changes[batch.id] = change
    tables.feeds.setdefault(batch.space, []).append(change)
