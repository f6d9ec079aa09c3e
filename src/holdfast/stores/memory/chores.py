"""Leasing chores from the tables of the store in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.errors import LeaseLost
from holdfast.model.chore import Chore, ChoreState
from holdfast.model.scope import Place, Scope
from holdfast.stores.memory.tables import ChoreRecord, Tables, Undo
from holdfast.stores.memory.writing import in_state


@dataclass(frozen=True, slots=True)
class Lease:
    """What a worker asks for."""

    worker: str
    now_us: int
    until_us: int
    kinds: Sequence[str] | None
    limit: int


def lease(tables: Tables, asked: Lease) -> list[Chore]:
    """Take due chores, oldest first, of each place at most one."""
    due: list[ChoreRecord] = []
    busy: set[tuple[str, Place]] = set()
    taken: list[Chore] = []
    with Undo() as undo:
        for record in [tables.chores[chore_id] for chore_id in tables.live]:
            chore = record.bare
            if _running(chore, asked.now_us):
                busy.add((chore.space, chore.place))
            elif chore.state is ChoreState.LEASED and chore.attempts >= chore.max_attempts:
                tables.keep_chore(undo, replace(record, bare=in_state(ChoreState.DEAD, chore)))
            elif _due(chore, asked.now_us) and (asked.kinds is None or chore.kind in asked.kinds):
                due.append(record)
        for record in sorted(due, key=lambda record: (record.bare.due_us, record.bare.id)):
            place = (record.bare.space, record.bare.place)
            if len(taken) < asked.limit and place not in busy:
                busy.add(place)
                taken.append(_take(tables, undo, record, asked))
    return taken


def renew(tables: Tables, chore_id: str, token: int, until_us: int) -> None:
    """Extend a lease."""
    record = tables.chores.get(chore_id)
    if record is None or record.bare.state is not ChoreState.LEASED or record.bare.token != token:
        raise LeaseLost(f"the lease {token} of the chore {chore_id} was lost")
    with Undo() as undo:
        tables.keep_chore(undo, replace(record, bare=replace(record.bare, lease_until_us=until_us)))


def release(tables: Tables, worker: str) -> int:
    """Give back what a worker holds."""
    held = [
        record
        for record in (tables.chores[chore_id] for chore_id in tables.live)
        if record.bare.state is ChoreState.LEASED and record.bare.worker == worker
    ]
    with Undo() as undo:
        for record in held:
            queued = in_state(ChoreState.QUEUED, record.bare)
            before = replace(queued, attempts=queued.attempts - 1)
            tables.keep_chore(undo, replace(record, bare=before))
    return len(held)


def chores(
    tables: Tables, scope: Scope, states: Sequence[ChoreState], kinds: Sequence[str] | None, limit: int
) -> list[Chore]:
    """The chores of a scope, oldest first."""
    found = [
        record
        for record in tables.chores.values()
        if record.bare.space == scope.space
        and scope.bank in (None, record.bare.place.bank)
        and scope.key in (None, record.bare.place.key)
        and (not states or record.bare.state in states)
        and (kinds is None or record.bare.kind in kinds)
    ]
    found.sort(key=lambda record: record.bare.id)
    return [record.read() for record in found[:limit]]


def next_due_us(tables: Tables) -> int | None:
    """The least due time of what is queued and end of what is leased."""
    waiting = [tables.chores[chore_id].bare for chore_id in tables.live]
    return min(
        (chore.due_us if chore.lease_until_us is None else chore.lease_until_us for chore in waiting),
        default=None,
    )


def _running(chore: Chore, now_us: int) -> bool:
    return chore.lease_until_us is not None and chore.lease_until_us >= now_us


def _due(chore: Chore, now_us: int) -> bool:
    return chore.state is ChoreState.LEASED or chore.due_us <= now_us


def _take(tables: Tables, undo: Undo, record: ChoreRecord, asked: Lease) -> Chore:
    chore = replace(
        record.bare,
        state=ChoreState.LEASED,
        attempts=record.bare.attempts + 1,
        token=record.bare.token + 1,
        lease_until_us=asked.until_us,
        worker=asked.worker,
    )
    leased = replace(record, bare=chore)
    tables.keep_chore(undo, leased)
    return leased.read()
