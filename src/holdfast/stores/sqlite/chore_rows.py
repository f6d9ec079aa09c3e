"""Chores: their changes of state, and leasing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import merge
from typing import Final, cast

import apsw

from holdfast.errors import AlreadyExists, ChoreNotFound, Conflict, InvalidInput, LeaseLost
from holdfast.model.batch import Drop, Enqueue, Fail, Finish, Operation, Placed, Retry
from holdfast.model.chore import Chore
from holdfast.model.ids import is_id
from holdfast.model.journal import Step, Verb
from holdfast.model.values import dump_json
from holdfast.stores.sqlite import columns
from holdfast.stores.sqlite.codec import chore_of
from holdfast.stores.sqlite.db import Column, Connection, Record
from holdfast.stores.sqlite.guards import chore_hash, whole_chore
from holdfast.stores.sqlite.ledger import Ledger, Work

_LIVE: Final = (
    "select id from chores where space=? and bank=? and key=? and dedupe=? and state in ('queued', 'leased')"
)
_PUT: Final = "insert into chores values(?,?,?,?,?,?,?,'queued',0,?,?,0,null,null,null,?,?,?)"
_STATE: Final = "select state, token from chores where id=? and space=?"
_FINISH: Final = "update chores set state='done', lease_until=null, change=? where id=?"
_REQUEUE: Final = (
    "update chores set state='queued', due=?, lease_until=null, last_error=?, change=? where id=?"
)
_KILL: Final = "update chores set state='dead', lease_until=null, last_error=?, change=? where id=?"
_DROP: Final = "update chores set state='cancelled', lease_until=null, change=? where id=?"
_RETRY: Final = "update chores set state='queued', due=?, attempts=0, change=? where id=?"
_USED_UP: Final = "update chores set state='dead', lease_until=null where state='leased' and lease_until<? and attempts>=max_attempts"
_BUSY: Final = "select space, bank, key from chores where state='leased' and lease_until>=?"
_OF_KINDS: Final = "(?2 is null or kind in (select value from json_each(?2)))"
_QUEUED: Final = (
    "select due, id, space, bank, key from chores indexed by chores_due where state='queued' and due<=?1 and "
    + _OF_KINDS
    + " order by due, id"
)
_ENDED: Final = (
    "select due, id, space, bank, key from chores indexed by chores_leased where state='leased' and lease_until<?1 and "
    + _OF_KINDS
    + " order by due, id"
)
_TAKE: Final = (
    "update chores set state='leased', attempts=attempts+1, token=token+1, lease_until=?, worker=? where id=?"
    " returning " + columns.CHORE + ", hash"
)
_RELEASE: Final = "update chores set state='queued', attempts=attempts-1, lease_until=null where state='leased' and worker=? returning id"
_RENEW: Final = "update chores set lease_until=? where id=? and token=? and state='leased' returning id"


def run(ledger: Ledger, work: Work, operation: Operation) -> None:
    """Run an operation on a chore."""
    match operation:
        case Enqueue():
            _enqueue(ledger, work, operation)
        case Finish(chore=chore, token=token):
            _leased(ledger, work, chore, token)
            ledger.connection.execute(_FINISH, (work.change, bytes.fromhex(chore)))
            _note(work, "finish", chore, token)
        case Fail(chore=chore, token=token, error=error, retry_us=retry_us):
            _leased(ledger, work, chore, token)
            if retry_us is None:
                ledger.connection.execute(_KILL, (error, work.change, bytes.fromhex(chore)))
            else:
                ledger.connection.execute(_REQUEUE, (retry_us, error, work.change, bytes.fromhex(chore)))
            _note(work, "fail", chore, token)
        case Drop(chore=chore):
            token = _in_state(ledger, work, chore, ("queued", "leased", "dead"))
            ledger.connection.execute(_DROP, (work.change, bytes.fromhex(chore)))
            _note(work, "drop", chore, token)
        case Retry(chore=chore, due_us=due_us):
            token = _in_state(ledger, work, chore, ("dead", "cancelled"))
            try:
                ledger.connection.execute(_RETRY, (due_us, work.change, bytes.fromhex(chore)))
            except apsw.ConstraintError as error:
                raise Conflict(
                    f"chore {chore} has a live twin with its dedupe key", hint="drop that one first"
                ) from error
            _note(work, "retry", chore, token)
        case _:
            raise InvalidInput("not an operation on a chore", code="batch_invalid")


def _enqueue(ledger: Ledger, work: Work, operation: Enqueue) -> None:
    draft = operation.draft
    space = work.batch.space
    if draft.dedupe is not None:
        live = ledger.connection.execute(
            _LIVE, (space, draft.place.bank, draft.place.key, draft.dedupe)
        ).fetchone()
        if live is not None:
            reference = cast("bytes", live[0]).hex()
            work.placed.append(Placed(reference, 0, 1, duplicate=True))
            work.steps.append(Step("enqueue", reference, 1, 1))
            return
    payload = None if draft.payload is None else dump_json(draft.payload)
    names = bytes.fromhex(draft.id), space, draft.place.bank, draft.place.key, draft.kind
    guard = chore_hash(*names, draft.dedupe, payload, draft.max_attempts, work.at)
    row = (*names, draft.dedupe, payload, draft.max_attempts, draft.due_us, work.at, work.change, guard)
    try:
        ledger.connection.execute(_PUT, row)
    except apsw.ConstraintError as error:
        raise AlreadyExists("a chore with this id exists already", hint="make a new id") from error
    work.placed.append(Placed(draft.id, 0, 1))
    work.steps.append(Step("enqueue", draft.id, 0, 1))


def _find(ledger: Ledger, work: Work, chore: str) -> tuple[str, int]:
    found = ledger.connection.execute(_STATE, (bytes.fromhex(chore), work.batch.space)).fetchone()
    if found is None:
        raise ChoreNotFound(f"there is no chore {chore} here")
    return cast("tuple[str, int]", found)


def _leased(ledger: Ledger, work: Work, chore: str, token: int) -> None:
    state, held = _find(ledger, work, chore)
    if state != "leased" or held != token:
        raise LeaseLost(f"the lease {token} of chore {chore} is not held any more", hint="drop this result")


def _in_state(ledger: Ledger, work: Work, chore: str, states: Sequence[str]) -> int:
    state, token = _find(ledger, work, chore)
    if state not in states:
        raise Conflict(f"chore {chore} is {state}", hint="look at the chore again")
    return token


def _note(work: Work, verb: Verb, chore: str, token: int) -> None:
    work.placed.append(Placed(chore, 0, token))
    work.steps.append(Step(verb, chore, token, token))


def lease(
    connection: Connection,
    worker: str,
    now_us: int,
    until_us: int,
    kinds: Sequence[str] | None,
    limit: int,
) -> list[Chore]:
    """Take due chores, oldest first, one of each place; inside the open transaction."""
    if limit < 1:
        return []
    connection.execute(_USED_UP, (now_us,))
    asked = (now_us, None if kinds is None else dump_json(list(kinds)))
    busy = set(connection.execute(_BUSY, (now_us,)))
    # Each comes in order from its index, and no further than is needed.
    due = merge(connection.execute(_QUEUED, asked), connection.execute(_ENDED, asked))
    return [
        chore_of(whole_chore(connection.execute(_TAKE, (until_us, worker, identifier)).fetchall()[0]))
        for identifier in _first_of_places(due, busy, limit)
    ]


def _first_of_places(due: Iterable[Record], busy: set[Record], limit: int) -> list[Column]:
    """The ids of the first chores, one of each place that is not busy."""
    chosen: list[Column] = []
    for row in due:
        place = row[2:]
        if place not in busy:
            busy.add(place)
            chosen.append(row[1])
            if len(chosen) >= limit:
                break
    return chosen


def release(connection: Connection, worker: str) -> int:
    """Give back what a worker holds; inside the open transaction."""
    return len(connection.execute(_RELEASE, (worker,)).fetchall())


def renew(connection: Connection, chore: str, token: int, until_us: int) -> None:
    """Extend a lease; inside the open transaction."""
    if not is_id(chore) or not connection.execute(_RENEW, (until_us, bytes.fromhex(chore), token)).fetchall():
        raise LeaseLost(f"the lease {token} of chore {chore} is not held any more", hint="drop this result")
