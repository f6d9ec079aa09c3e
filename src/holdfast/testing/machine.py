"""A state machine that does the same to a store under test and to the store in memory, and compares what both tell."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final, TypeAlias, TypeVar, cast

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from holdfast.model.batch import Append, Batch, Commit, Finish, Forget, Operation, Restore, Revise
from holdfast.model.chore import LIVE, Chore, ChoreState
from holdfast.model.scope import Scope
from holdfast.model.window import Window
from holdfast.ports.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing import machine_looks as looks
from holdfast.testing.clock import ManualClock
from holdfast.testing.machine_draws import (
    BANKS,
    KEYS,
    KINDS,
    MATCHES,
    NAMES,
    ODD_VECTOR,
    ORIGINS,
    SPACES,
    TERMS,
    VECTORS,
    Dice,
    Known,
    Sight,
)
from holdfast.testing.machine_looks import Ask, Handle, Near, Pair
from holdfast.testing.making import Maker

T = TypeVar("T")
MakeStore: TypeAlias = Callable[[ManualClock], AbstractAsyncContextManager[Store]]
EVERYTHING: Final = Window(limit=10_000, hidden=True)
STEPS: Final = (*("write",) * 12, "forget", "repeat", *("lease",) * 3, "pile", *("pass time",) * 3, "limit")
LOOKS: Final = (
    "load", "load", "load", "find", "versions", "keys", "head", "document", "documents", "document_versions", "words",
    "words", "nearest", "nearest", "eligible", "fetch", "fetch", "changes", "change", "chores", "next_due", "erased",
    "usage",
)  # fmt: skip


class StoreMachine(RuleBasedStateMachine):
    """Writes, leases, lets time pass and forgets, the same in both stores; after each step it looks at a few things."""

    make_store: ClassVar[MakeStore]

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.make = Maker(self.clock)
        self.known = {space: Known() for space in SPACES}
        self.times: list[int] = []
        self.repeatable: list[Batch] = []
        self.handles: list[Handle] = []
        self.agreed = True
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.pair = Pair(MemoryStore(self.clock), self.runner.run(self._open()))

    async def _open(self) -> Store:
        return await self.stack.enter_async_context(type(self).make_store(self.clock))

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a step to its end; a disagreement is the last thing that the machine does."""
        try:
            return self.runner.run(work)
        except AssertionError:
            self.agreed = False
            raise

    @property
    def cleared(self) -> frozenset[str]:
        """Chores that a forget has cleared, in any space."""
        return frozenset(chore for known in self.known.values() for chore in known.cleared)

    def teardown(self) -> None:
        """Compare everything once more, then close."""
        try:
            if self.agreed:
                self.run(self._look_at_everything())
        finally:
            self.runner.run(self.stack.aclose())
            self.runner.close()

    # Steps

    @rule(data=st.data(), space=st.sampled_from(SPACES), kind=st.sampled_from(STEPS))
    def step(self, data: st.DataObject, space: str, kind: str) -> None:
        """Do one thing to both stores, then look at a few others."""
        self.run(self._step(kind, Dice(data, self.clock, self.make, self.known[space], self.times), space))

    async def _step(self, kind: str, dice: Dice, space: str) -> None:
        match kind:
            case "forget":
                await self._forget(dice, space)
            case "repeat" if self.repeatable:
                await self._repeat(dice.one(self.repeatable))
            case "lease":
                await self._lease(dice, space)
            case "pile":
                await self._pile(dice, space)
            case "limit":
                await self._limit(dice, space)
            case "pass time":
                self.clock.advance(microseconds=dice.one((0, 1, 3, 50, 51, 1_000, 100_001, -2, -200_000)))
            case _:
                await self._write(dice, space)
        for what in dice.some(LOOKS, 3):
            await self._look_at(what, dice, space)

    async def _sight(self, space: str) -> Sight:
        model, known = self.pair.model, self.known[space]
        visible = [entry.id for entry in await model.find(Scope(space), known.entries)]
        chores = await model.chores(Scope(space), limit=1_000)
        return Sight(
            visible=visible,
            retired=[entry for entry in known.entries if entry not in visible],
            leased=[chore for chore in chores if chore.state is ChoreState.LEASED],
            live=[chore for chore in chores if chore.state in LIVE],
            ended=[chore for chore in chores if chore.state in (ChoreState.DEAD, ChoreState.CANCELLED)],
        )

    async def _write(self, dice: Dice, space: str) -> None:
        sight = await self._sight(space)
        operations = self._with_one_twin(
            [dice.operation(sight) for _ in range(dice.one((1, 1, 2, 3)))], space, sight
        )
        requires = (dice.requirement(sight),) if dice.chance(10) else ()
        idempotency = dice.idempotency() if dice.chance(8) else None
        batch = self.make.batch(
            *operations, space=space, origin=dice.one(ORIGINS), requires=requires, idempotency=idempotency
        )
        await self._commit(batch)

    def _with_one_twin(self, operations: list[Operation], space: str, sight: Sight) -> list[Operation]:
        """Operations without digests that several visible entries may have: which one is kept is not said."""
        known = self.known[space].digests
        held = Counter(known[entry] for entry in sight.visible if entry in known)
        brings_back = any(isinstance(operation, Restore | Forget) for operation in operations)

        return [
            replace(operation, digest=None)
            if isinstance(operation, Append)
            and operation.digest is not None
            and (brings_back or held[operation.place, operation.digest] > 1)
            else operation
            for operation in operations
        ]

    async def _forget(self, dice: Dice, space: str) -> None:
        sight = await self._sight(space)
        operations: list[Operation] = [dice.forget(sight)]
        if dice.chance(3):
            operations.insert(dice.one((0, 1)), dice.operation(sight))
        operations = self._with_one_twin(operations, space, sight)
        await self._commit(self.make.batch(*operations, space=space))

    async def _repeat(self, batch: Batch) -> None:
        again = self.make.batch(
            *batch.operations, space=batch.space, requires=batch.requires, idempotency=batch.idempotency
        )
        await self._commit(again)

    async def _lease(self, dice: Dice, space: str) -> None:
        if not (await self._sight(space)).live:
            await self._commit(self.make.batch(dice.enqueue(), dice.enqueue(), space=space))
        now_us = self.clock.now_us()
        kinds = dice.maybe((("extract",), ("digest", "extract"), ()), 4)
        limit, until_us = dice.one((1, 2, 9)), now_us + dice.one((0, 5, 60, 200_000))
        worker = dice.one(("v", "w"))

        async def leased(store: Store) -> list[Chore]:
            return await store.lease(
                worker=worker, now_us=now_us, until_us=until_us, kinds=kinds, limit=limit
            )

        chores = cast("list[Chore]", await self.pair.agree(f"lease {kinds} {limit}", leased))
        for chore in chores:
            if dice.chance(3):
                token = chore.token + dice.one((0, 0, 1))
                renewed = partial(looks.renew, chore_id=chore.id, token=token, until_us=until_us + 7)
                await self.pair.agree(f"renew {chore.id}", renewed)
            elif dice.chance(2):
                result = replace(dice.append(), digest=None)
                await self._commit(self.make.batch(result, Finish(chore.id, chore.token), space=chore.space))
        if dice.chance(5):
            await self.pair.agree(f"release {worker}", partial(looks.release, worker=worker))

    async def _pile(self, dice: Dice, space: str) -> None:
        first = dice.put()
        times = dice.one((18, 21, 22, 30))
        puts = [self.make.put(first.ref, number) for number in range(times)]
        await self._commit(self.make.batch(*puts, space=space))

    async def _limit(self, dice: Dice, space: str) -> None:
        held = (await self.pair.model.usage(space)).bytes
        size = dice.maybe((0, held - 1, held, held + 1, held + 20, held + 200, 10**9), 4)
        await self.pair.agree(f"limit {space} {size}", partial(looks.limit, space=space, size=size))

    async def _commit(self, batch: Batch) -> None:
        known = self.known[batch.space]
        for operation in batch.operations:
            known.note(operation)
        known.changes.append(batch.id)
        note(f"commit in {batch.space}: {batch.operations} {batch.requires} {batch.idempotency}")
        done = await self.pair.agree(f"commit {batch}", partial(looks.committed, batch=batch))
        if isinstance(done, Commit):
            self.times.append(done.at_us)
            known.sized = known.sized or any(has_vectors(operation) for operation in batch.operations)
            if batch.idempotency is not None:
                self.repeatable.append(batch)
            if done.receipts:
                cleared = await self.pair.model.chores(Scope(batch.space), limit=10_000)
                known.cleared.update(chore.id for chore in cleared if chore.change == batch.id)

    # Looks

    async def _look_at(self, what: str, dice: Dice, space: str) -> None:
        match what:
            case "load" | "find" | "versions" | "keys" | "head":
                ask = self._entry_look(what, dice, space)
            case "document" | "documents" | "document_versions":
                ask = self._document_look(what, dice, space)
            case "words" | "nearest":
                ask = self._index_look(what, dice, space)
            case "eligible":
                await self._look_at_rows(dice.scope(space), dice.window())
                return
            case "fetch":
                await self._look_behind_rows(dice, space)
                return
            case _:
                ask = self._other_look(what, dice, space)
        note(f"look at {what}: {ask}")
        await self.pair.agree(f"{what} {ask}", ask)

    def _entry_look(self, what: str, dice: Dice, space: str) -> Ask:
        known = self.known[space].entries
        match what:
            case "find":
                ids = [*dice.some(known, 6), dice.likely((), known)]
                return partial(looks.find, scope=dice.any_scope(space), ids=ids, as_of_us=dice.as_of())
            case "versions":
                return partial(looks.versions, scope=dice.any_scope(space), entry_id=dice.likely(known, ()))
            case "keys":
                prefix, after = dice.one(("", "", "a", "\uff5e")), dice.maybe((*KEYS, "b"))
                scope, limit = Scope(space, dice.one(BANKS)), dice.one((1, 2, 100))
                return partial(looks.keys, scope=scope, prefix=prefix, after=after, limit=limit)
            case "head":
                return partial(looks.head, scope=Scope(space, dice.one(BANKS), dice.one(KEYS)))
            case _:
                return partial(looks.pages, scope=dice.scope(space), window=dice.window())

    def _document_look(self, what: str, dice: Dice, space: str) -> Ask:
        place = Scope(space, dice.one(BANKS), dice.one(KEYS[:3]))
        match what:
            case "document":
                ref = dice.ref()
                where = place if dice.chance(8) else Scope(space, ref.bank, ref.key)
                return partial(looks.document, scope=where, ref=ref, as_of_us=dice.as_of(2))
            case "documents":
                kind, prefix, limit = dice.one(KINDS), dice.one(("", "", *NAMES)), dice.one((1, 2, 100))
                return partial(looks.documents, scope=place, kind=kind, prefix=prefix, limit=limit)
            case _:
                document_id = dice.likely(self.known[space].documents, ())
                return partial(looks.document_versions, scope=dice.any_scope(space), document_id=document_id)

    def _index_look(self, what: str, dice: Dice, space: str) -> Ask:
        scope, as_of_us = dice.scope(space), dice.as_of()
        if what == "words":
            return partial(looks.statistics, scope=scope, terms=dice.some(TERMS, 5), as_of_us=as_of_us)
        vector = ODD_VECTOR if dice.chance(20) else dice.one(VECTORS)
        among = dice.window() if dice.chance(3) else None
        as_of_us = as_of_us if among is None else among.as_of_us
        return partial(looks.similar, near=Near(scope, vector, dice.one((1, 3, 100)), among, as_of_us))

    def _other_look(self, what: str, dice: Dice, space: str) -> Ask:
        known, scope = self.known[space], Scope(space)
        match what:
            case "changes":
                skip, limit, origin = dice.one((0, 1, 5)), dice.one((1, 3, 100)), dice.maybe(MATCHES)
                return partial(looks.changes, scope=scope, skip=skip, limit=limit, origin=origin)
            case "change":
                return partial(looks.change, scope=scope, change_id=dice.likely(known.changes, ()))
            case "chores":
                states, limit = dice.some(list(ChoreState), 2), dice.one((1, 3, 100))
                return partial(
                    looks.chores,
                    scope=dice.any_scope(space),
                    states=states,
                    limit=limit,
                    cleared=self.cleared,
                )
            case "next_due":
                return partial(looks.next_due)
            case "usage":
                return partial(looks.usage, space=space)
            case _:
                ids = dice.some([*known.entries, *known.documents, *known.cleared], 6)
                return partial(looks.erased, scope=scope, ids=ids)

    async def _look_at_rows(self, scope: Scope, window: Window) -> None:
        """The same versions are eligible; their handles are kept, to see later what has become of them."""
        expected = await looks.rows_by_version(self.pair.model, scope, window)
        found = await looks.rows_by_version(self.pair.subject, scope, window)
        if expected.keys() != found.keys():
            raise AssertionError(f"eligible {scope} {window}\n  model:   {expected}\n  subject: {found}")
        entries = await self.pair.model.fetch(scope, list(expected.values()))
        for entry, (version, row) in zip(entries, expected.items(), strict=True):
            if entry is not None and entry.retired is not None:
                self.handles.append(Handle(version, row, found[version], "past"))
            elif window.as_of_us is None:
                self.handles.append(Handle(version, row, found[version], "present"))
            else:
                self.handles.append(Handle(version, row, found[version], "current as of a time"))

    async def _look_behind_rows(self, dice: Dice, space: str) -> None:
        """Handles from any time lead where the law says, in both stores."""
        handles, scope = dice.some(self.handles, 6), dice.any_scope(space)
        model = await self.pair.model.fetch(scope, [handle.in_model for handle in handles])
        subject = await self.pair.subject.fetch(scope, [handle.in_subject for handle in handles])
        for handle, *found in zip(handles, model, subject, strict=True):
            allowed = await looks.allowed_behind(self.pair.model, scope, handle)
            if not all(entry in allowed for entry in found):
                raise AssertionError(
                    f"fetch {handle} in {scope}\n  allowed: {allowed}\n  model, subject: {found}"
                )

    async def _look_at_everything(self) -> None:
        for space in dict.fromkeys(SPACES):
            await self._look_at_space(space)
        report = await self.pair.subject.check()
        if not report.ok:
            raise AssertionError(f"the check found {report.findings}")

    async def _look_at_space(self, space: str) -> None:
        agree, known = self.pair.agree, self.known[space]
        for bank in dict.fromkeys(BANKS):
            for window in (EVERYTHING, Window(limit=10_000, by="created", order="newest_first")):
                await agree("all entries", partial(looks.pages, scope=Scope(space, bank), window=window))
            terms = partial(looks.statistics, scope=Scope(space, bank), terms=TERMS, as_of_us=None)
            await agree("all words", terms)
            near = Near(Scope(space, bank), VECTORS[3], 10_000, None, None)
            await agree("all vectors", partial(looks.similar, near=near))
            for key in KEYS:
                for kind in dict.fromkeys(KINDS):
                    scope = Scope(space, bank, key)
                    await agree(
                        "documents", partial(looks.documents, scope=scope, kind=kind, prefix="", limit=99)
                    )
        for entry in known.entries:
            await agree("versions", partial(looks.versions, scope=Scope(space), entry_id=entry))
        for document in known.documents:
            ask = partial(looks.document_versions, scope=Scope(space), document_id=document)
            await agree("document versions", ask)
        await agree("usage", partial(looks.usage, space=space))
        await agree("changes", partial(looks.changes, scope=Scope(space), skip=0, limit=10_000, origin=None))
        await agree(
            "chores",
            partial(looks.chores, scope=Scope(space), states=(), limit=10_000, cleared=self.cleared),
        )
        receipts = Scope(space, "~receipts", "receipts")
        await agree(
            "receipts", partial(looks.documents, scope=receipts, kind="receipt", prefix="", limit=1_000)
        )
        await agree(
            "erased", partial(looks.erased, scope=Scope(space), ids=[*known.entries, *known.documents])
        )


def has_vectors(operation: Operation) -> bool:
    """Whether an operation writes vectors."""
    return isinstance(operation, Append | Revise) and bool(operation.draft.vectors)


def machine_for(make_store: MakeStore) -> type[StoreMachine]:
    """A machine for stores of one kind: ``machine_for(make_store).TestCase`` is the test.

    ``make_store`` is called with the clock of a run; its context opens a new, empty store and closes it.
    """
    return type("StoreMachineForOneKind", (StoreMachine,), {"make_store": staticmethod(make_store)})
