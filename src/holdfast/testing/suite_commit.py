"""Laws of the commit: order, atomicity, time, seqs, requirements, idempotency."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holdfast.errors import (
    AlreadyExists,
    ChoreNotFound,
    Conflict,
    EmbedderMismatch,
    EntryNotFound,
    HoldfastError,
    IdempotencyConflict,
    LeaseLost,
    VersionConflict,
)
from holdfast.model.batch import (
    Commit,
    DocumentVersion,
    Drop,
    EntryVersion,
    Fail,
    Finish,
    Forget,
    Head,
    Operation,
    Placed,
    Remove,
    Restore,
    Retire,
    Retry,
)
from holdfast.model.entry import Quantised, Reason
from holdfast.model.forget import Selector
from holdfast.testing.clock import START_US
from holdfast.testing.making import (
    KEY,
    OTHER_BANK,
    OTHER_KEY,
    OTHER_SPACE,
    at,
    in_key,
    in_space,
    named,
    repeatable,
)
from holdfast.testing.suite_ground import Bench, Ground

Failing = Callable[[Bench, str, str], Operation]
"""Makes an operation that must fail, from a bench and the ids of a visible entry and of a queued chore."""

FAILING: dict[str, tuple[type[HoldfastError], Failing]] = {
    "append of a known id": (AlreadyExists, lambda b, entry, _: b.make.append("again", id=entry)),
    "append of a vector of another size": (
        EmbedderMismatch,
        lambda b, _, __: b.make.append("odd", vectors=(Quantised(b"\x01\x02\x03", 1.0),)),
    ),
    "revise of nothing": (EntryNotFound, lambda b, _, __: b.make.revise(b.make.id())),
    "revise of another version": (VersionConflict, lambda b, entry, _: b.make.revise(entry, expected=9)),
    "revise to a vector of another size": (
        EmbedderMismatch,
        lambda b, entry, _: b.make.revise(entry, vectors=(Quantised(b"\x01\x02\x03", 1.0),)),
    ),
    "retire of nothing": (EntryNotFound, lambda b, _, __: Retire(b.make.id(), Reason.DELETED)),
    "retire of another version": (
        VersionConflict,
        lambda _, entry, __: Retire(entry, Reason.DELETED, expected=9),
    ),
    "restore of nothing": (EntryNotFound, lambda b, _, __: Restore(b.make.id())),
    "restore of what is current": (Conflict, lambda _, entry, __: Restore(entry)),
    "restore of a version that never was": (EntryNotFound, lambda _, entry, __: Restore(entry, 9)),
    "put over an existing document": (VersionConflict, lambda b, _, __: b.make.put("kept", expected=0)),
    "put over another version": (VersionConflict, lambda b, _, __: b.make.put("kept", expected=9)),
    "put over a version of nothing": (VersionConflict, lambda b, _, __: b.make.put("missing", expected=1)),
    "remove of another version": (VersionConflict, lambda _, __, ___: Remove(named("kept"), expected=9)),
    "remove of a version of nothing": (
        VersionConflict,
        lambda _, __, ___: Remove(named("missing"), expected=1),
    ),
    "finish without a lease": (LeaseLost, lambda _, __, chore: Finish(chore, 0)),
    "finish of nothing": (ChoreNotFound, lambda b, _, __: Finish(b.make.id(), 1)),
    "fail without a lease": (LeaseLost, lambda _, __, chore: Fail(chore, 0, "no", None)),
    "fail of nothing": (ChoreNotFound, lambda b, _, __: Fail(b.make.id(), 1, "no", None)),
    "drop of nothing": (ChoreNotFound, lambda b, _, __: Drop(b.make.id())),
    "retry of what is queued": (Conflict, lambda _, __, chore: Retry(chore, START_US)),
    "retry of nothing": (ChoreNotFound, lambda b, _, __: Retry(b.make.id(), START_US)),
}


class CommitLaws(Ground):
    """Order, atomicity, recorded time and seqs."""

    async def test_commit_answers_for_each_operation(self, bench: Bench) -> None:
        """A commit names its change, its recorded time and one result an operation, in order."""
        batch = bench.make.batch(bench.make.append("one"), bench.make.append("two"), bench.make.put("note"))
        commit = await bench.store.commit(batch)
        assert (commit.change, commit.at_us) == (batch.id, bench.clock.now_us())
        assert (commit.duplicate, commit.receipts) == (False, ())
        first, second, put = commit.placed
        assert (first.seq, first.version, second.seq, second.version, put.version) == (1, 1, 2, 1, 1)
        assert [first.id, second.id] == [entry.id for entry in await bench.load()]
        document = await bench.document("note")
        assert document is not None
        assert document.id == put.id

    @pytest.mark.parametrize("kind", FAILING)
    async def test_a_failing_operation_leaves_nothing(self, bench: Bench, kind: str) -> None:
        """Any error of any operation leaves everything as it was, with nothing of the operations around it."""
        entry, spare = await bench.add_all("tea", "coffee")
        await bench.add("near", vectors=(Quantised(b"\x01\x02", 1.0),))
        await bench.put("kept")
        chore = await bench.enqueue()
        error, make = FAILING[kind]
        await bench.refused(
            error,
            bench.make.append("tea before"),
            bench.make.put("new"),
            bench.make.put("kept", "changed"),
            bench.make.enqueue("digest", key=OTHER_KEY),
            bench.make.revise(spare, "coffee revised"),
            make(bench, entry, chore),
            Retire(spare, Reason.DELETED),
            bench.make.append("tea after"),
        )

    async def test_a_failing_operation_undoes_a_forget(self, bench: Bench) -> None:
        """What a forget of a failing batch selected is still there."""
        entry = await bench.add("tea")
        await bench.put("kept")
        await bench.refused(EntryNotFound, Forget(Selector(key=KEY)), bench.make.revise(bench.make.id()))
        assert await bench.store.erased(in_space(), [entry]) == set()

    async def test_a_failing_operation_takes_no_seq_and_no_time(self, bench: Bench) -> None:
        """A refused batch takes no seq, no recorded time and no cursor."""
        await bench.add()
        await bench.refused(EntryNotFound, bench.make.append(), bench.make.revise(bench.make.id()))
        commit = await bench.commit(bench.make.append())
        assert commit.placed[0].seq == 2
        assert commit.at_us == bench.clock.now_us() + 1
        assert [change.id for change in await bench.store.changes(in_space())][-1] == commit.change

    async def test_later_operations_see_earlier_ones(self, bench: Bench) -> None:
        """Operations apply in order: an entry can be appended, revised, retired and restored in one batch."""
        entry = bench.make.id()
        commit = await bench.commit(
            bench.make.append("one", id=entry),
            bench.make.revise(entry, "two", expected=1),
            Retire(entry, Reason.DELETED, expected=2),
            Restore(entry, 1),
        )
        assert [placed.version for placed in commit.placed][:2] == [1, 2]
        assert commit.placed[3] == Placed(entry, 1, 3)
        assert await bench.texts() == ["one"]

    async def test_later_document_operations_see_earlier_ones(self, bench: Bench) -> None:
        """A document can be put, put again at its new version, removed and put anew in one batch."""
        commit = await bench.commit(
            bench.make.put("note", 1, expected=0),
            bench.make.put("note", 2, expected=1),
            Remove(named("note"), expected=2),
            bench.make.put("note", 3, expected=0),
        )
        assert [commit.placed[i].version for i in (0, 1, 3)] == [1, 2, 3]
        document = await bench.document("note")
        assert document is not None
        assert document.value == 3

    async def test_operations_apply_in_the_order_given(self, bench: Bench) -> None:
        """The order of operations decides: removing before putting keeps the document, after it does not."""
        await bench.commit(Remove(named("kept")), bench.make.put("kept"))
        await bench.commit(bench.make.put("gone"), Remove(named("gone")))
        assert await bench.names() == ["kept"]

    async def test_a_forget_sees_what_stands_before_it(self, bench: Bench) -> None:
        """A forget takes what earlier operations of its batch wrote, and leaves what later ones write."""
        await bench.commit(
            bench.make.append("before"),
            Forget(Selector(key=KEY)),
            bench.make.append("after"),
            bench.make.put("note"),
        )
        assert await bench.texts() == ["after"]
        assert await bench.names() == ["note"]

    async def test_recorded_time_is_the_batchs(self, bench: Bench) -> None:
        """The recorded time is the batch's own when that is later than the last one."""
        await bench.add()
        now_us = bench.clock.advance(milliseconds=5)
        commit = await bench.commit(bench.make.append())
        assert commit.at_us == now_us

    async def test_recorded_time_grows_when_the_clock_stands(self, bench: Bench) -> None:
        """Recorded times strictly increase while the clock stands still."""
        times = [(await bench.commit(bench.make.append())).at_us for _ in range(4)]
        assert times == [bench.clock.now_us() + n for n in range(4)]

    async def test_recorded_time_grows_when_the_clock_goes_back(self, bench: Bench) -> None:
        """Recorded times strictly increase when the clock jumps back, and follow it again when it has caught up."""
        first = (await bench.commit(bench.make.append())).at_us
        bench.clock.advance(days=-1)
        second = (await bench.commit(bench.make.append())).at_us
        bench.clock.advance(days=1, seconds=1)
        third = (await bench.commit(bench.make.append())).at_us
        assert (second, third) == (first + 1, bench.clock.now_us())

    async def test_recorded_time_grows_in_each_place(self, bench: Bench) -> None:
        """A batch over several places is recorded after the last commit of each of them."""
        one = (await bench.commit(bench.make.append())).at_us
        two = (await bench.commit(bench.make.put(named("note", key=OTHER_KEY)))).at_us
        bench.clock.advance(seconds=-1)
        both = await bench.commit(bench.make.append(), bench.make.put(named("more", key=OTHER_KEY)))
        assert both.at_us > max(one, two)

    async def test_recorded_time_stands_on_every_record(self, bench: Bench) -> None:
        """Entry, document, chore and change of a batch carry its recorded time and its id."""
        await bench.add()
        entry, chore = bench.make.append(), bench.make.enqueue()
        commit = await bench.commit(entry, bench.make.put("note"), chore)
        found = await bench.entry(entry.draft.id)
        document = await bench.document("note")
        change = await bench.store.change(in_space(), commit.change)
        assert document is not None
        assert change is not None
        assert {found.recorded_us, document.recorded_us, change.at_us} == {commit.at_us}
        assert {found.change, document.change, (await bench.chore(chore.draft.id)).change} == {commit.change}

    async def test_seqs_count_from_one_in_commit_order(self, bench: Bench) -> None:
        """Seqs of a place are 1, 2, 3 … without gaps, over batches and inside one."""
        await bench.add("one")
        await bench.add_all("two", "three")
        await bench.add("four")
        assert [(entry.seq, entry.content) for entry in await bench.load()] == [
            (1, "one"), (2, "two"), (3, "three"), (4, "four"),
        ]  # fmt: skip

    async def test_seqs_belong_to_a_place(self, bench: Bench) -> None:
        """Each key of each bank of each space counts its own seqs."""
        await bench.add()
        await bench.add(key=OTHER_KEY)
        await bench.add(bank=OTHER_BANK)
        await bench.add(space=OTHER_SPACE)
        scopes = [in_key(), in_key(OTHER_KEY), in_key(bank=OTHER_BANK), in_key(space=OTHER_SPACE)]
        assert [[entry.seq for entry in await bench.load(scope=scope)] for scope in scopes] == [[1]] * 4

    async def test_seqs_do_not_follow_created_times(self, bench: Bench) -> None:
        """A backdated entry gets the next seq all the same."""
        await bench.add("late")
        await bench.add("early", created_us=START_US - 1_000_000)
        assert [(entry.seq, entry.content) for entry in await bench.load()] == [(1, "late"), (2, "early")]

    async def test_seqs_are_never_given_twice(self, bench: Bench) -> None:
        """A retired or forgotten entry's seq is not given again, not even when the whole place was forgotten."""
        _, last = await bench.add_all("one", "two")
        await bench.commit(Retire(last, Reason.DELETED))
        assert (await bench.commit(bench.make.append("three"))).placed[0].seq == 3
        await bench.forget(Selector(ids=(last,)))
        await bench.forget(Selector(key=KEY))
        assert await bench.store.head(in_key()) == 3
        assert (await bench.commit(bench.make.append("four"))).placed[0].seq == 4

    async def test_head_is_the_last_seq_ever_given(self, bench: Bench) -> None:
        """The head of a place is the seq of the last entry ever appended, 0 for none."""
        assert await bench.store.head(in_key()) == 0
        entries = await bench.add_all("one", "two")
        await bench.add(key=OTHER_KEY)
        await bench.commit(Retire(entries[1], Reason.DELETED))
        await bench.commit(bench.make.revise(entries[0]))
        assert await bench.store.head(in_key()) == 2


class RequirementLaws(Ground):
    """What a batch may require of the state before it."""

    async def test_entry_version_holds(self, bench: Bench) -> None:
        """``EntryVersion(id, n)`` passes at the current version of a visible entry."""
        entry = await bench.add()
        await bench.commit(bench.make.revise(entry), requires=(EntryVersion(entry, 1),))
        await bench.commit(bench.make.append(), requires=(EntryVersion(entry, 2),))

    @pytest.mark.parametrize("version", [0, 1, 3])
    async def test_entry_version_fails(self, bench: Bench, version: int) -> None:
        """``EntryVersion`` of any other version, and 0 for a visible entry, is a version conflict."""
        entry = await bench.add()
        await bench.commit(bench.make.revise(entry))
        await bench.refused(VersionConflict, bench.make.append(), requires=(EntryVersion(entry, version),))

    async def test_entry_version_zero_means_not_visible(self, bench: Bench) -> None:
        """``EntryVersion(id, 0)`` passes for a missing, a retired and an expired entry; a number fails for them."""
        retired = await bench.add("retired")
        await bench.commit(Retire(retired, Reason.DELETED))
        expired = await bench.add("expired", expires_us=bench.clock.now_us())
        bench.clock.advance(seconds=1)
        for entry in (bench.make.id(), retired, expired):
            await bench.commit(bench.make.append(), requires=(EntryVersion(entry, 0),))
            await bench.refused(VersionConflict, bench.make.append(), requires=(EntryVersion(entry, 1),))

    async def test_document_version_holds(self, bench: Bench) -> None:
        """``DocumentVersion`` passes at the visible version, with None when one exists, with 0 when none does."""
        await bench.put("note")
        await bench.put("note")
        for requirement in (
            DocumentVersion(named("note"), 2),
            DocumentVersion(named("note"), None),
            DocumentVersion(named("missing"), 0),
        ):
            await bench.commit(bench.make.append(), requires=(requirement,))

    async def test_document_version_fails(self, bench: Bench) -> None:
        """``DocumentVersion`` of another version, 0 for one that exists, None or n for a missing one: conflict."""
        await bench.put("note")
        await bench.put("note")
        for requirement in (
            DocumentVersion(named("note"), 1),
            DocumentVersion(named("note"), 3),
            DocumentVersion(named("note"), 0),
            DocumentVersion(named("missing"), None),
            DocumentVersion(named("missing"), 1),
        ):
            await bench.refused(VersionConflict, bench.make.append(), requires=(requirement,))

    async def test_document_version_counts_only_what_is_visible(self, bench: Bench) -> None:
        """A removed or expired document does not exist for a requirement."""
        await bench.put("removed")
        await bench.commit(Remove(named("removed")))
        await bench.put("expired", expires_us=bench.clock.now_us())
        bench.clock.advance(seconds=1)
        for name in ("removed", "expired"):
            await bench.commit(bench.make.append(), requires=(DocumentVersion(named(name), 0),))
            await bench.refused(
                VersionConflict, bench.make.append(), requires=(DocumentVersion(named(name), None),)
            )

    async def test_head_holds_or_fails(self, bench: Bench) -> None:
        """``Head(place, n)`` passes when n is the last seq ever given there, also after a forget."""
        await bench.commit(bench.make.append(), requires=(Head(at(), 0), Head(at(OTHER_KEY), 0)))
        await bench.commit(bench.make.append(), requires=(Head(at(), 1),))
        await bench.forget(Selector(key=KEY))
        for seq in (0, 1, 3):
            await bench.refused(VersionConflict, bench.make.append(), requires=(Head(at(), seq),))
        await bench.commit(bench.make.append(), requires=(Head(at(), 2),))

    async def test_requirements_see_the_state_before(self, bench: Bench) -> None:
        """Requirements are checked on the state before the batch's own operations."""
        entry = bench.make.id()
        requires = (EntryVersion(entry, 0), DocumentVersion(named("note"), 0), Head(at(), 0))
        await bench.commit(bench.make.append(id=entry), bench.make.put("note"), requires=requires)
        assert await bench.texts() == ["tea"]

    async def test_all_requirements_must_hold(self, bench: Bench) -> None:
        """One failing requirement among holding ones refuses the batch."""
        await bench.add()
        requires = (Head(at(), 1), DocumentVersion(named("note"), 0), Head(at(OTHER_KEY), 1))
        await bench.refused(VersionConflict, bench.make.append(), requires=requires)

    async def test_one_of_many_writers_passes_a_head(self, bench: Bench) -> None:
        """Of writers that require the same head at once exactly one succeeds."""
        work = [bench.commit(bench.make.append(f"{n}"), requires=(Head(at(), 0),)) for n in range(8)]
        results = await asyncio.gather(*work, return_exceptions=True)
        assert sum(isinstance(result, VersionConflict) for result in results) == 7
        assert len(await bench.load()) == 1


class IdempotencyLaws(Ground):
    """Repeats of a batch."""

    async def test_a_repeat_gets_the_first_commit(self, bench: Bench) -> None:
        """A repeated key with an equal digest gives the first commit again and writes nothing."""
        first = await bench.commit(bench.make.append(), bench.make.put("note"), idempotency=repeatable("k"))
        before = await bench.picture()
        bench.clock.advance(seconds=1)
        again = await bench.commit(bench.make.append(), bench.make.put("note"), idempotency=repeatable("k"))
        assert (again.change, again.at_us, again.placed) == (first.change, first.at_us, first.placed)
        assert (first.duplicate, again.duplicate) == (False, True)
        assert await bench.picture() == before

    async def test_a_repeat_takes_no_time(self, bench: Bench) -> None:
        """A repeat does not move the recorded time of the store."""
        first = await bench.commit(bench.make.append(), idempotency=repeatable("k"))
        await bench.commit(bench.make.append(), idempotency=repeatable("k"))
        assert (await bench.commit(bench.make.append())).at_us == first.at_us + 1

    async def test_another_digest_is_a_conflict(self, bench: Bench) -> None:
        """A repeated key with another digest is refused and writes nothing."""
        await bench.commit(bench.make.append(), idempotency=repeatable("k", b"one"))
        await bench.refused(IdempotencyConflict, bench.make.append(), idempotency=repeatable("k", b"two"))

    async def test_the_key_is_unique_in_its_place_only(self, bench: Bench) -> None:
        """The same key in another key, bank or space, and another key in the same place, are new."""
        await bench.commit(bench.make.append(), idempotency=repeatable("k", b"one"))
        for place in (at(OTHER_KEY), at(bank=OTHER_BANK)):
            commit = await bench.commit(bench.make.append(), idempotency=repeatable("k", b"two", place=place))
            assert not commit.duplicate
        other = await bench.commit(bench.make.append(), idempotency=repeatable("K", b"two"))
        foreign = await bench.commit(
            bench.make.append(), idempotency=repeatable("k", b"two"), space=OTHER_SPACE
        )
        assert (other.duplicate, foreign.duplicate) == (False, False)

    async def test_a_refused_batch_leaves_its_key_free(self, bench: Bench) -> None:
        """The idempotency key of a refused batch is not used up."""
        await bench.refused(
            EntryNotFound, bench.make.revise(bench.make.id()), idempotency=repeatable("k", b"one")
        )
        commit = await bench.commit(bench.make.append(), idempotency=repeatable("k", b"two"))
        assert not commit.duplicate

    async def test_a_repeat_does_not_check_requirements_again(self, bench: Bench) -> None:
        """A repeat gets the first commit even when its requirements, met then, do not hold any more."""
        requires = (Head(at(), 0),)
        first = await bench.commit(bench.make.append(), requires=requires, idempotency=repeatable("k"))
        again = await bench.commit(bench.make.append(), requires=requires, idempotency=repeatable("k"))
        assert (again.duplicate, again.placed) == (True, first.placed)

    async def test_concurrent_repeats_write_once(self, bench: Bench) -> None:
        """Of repeats at the same time one writes; all give its commit."""
        work = [bench.commit(bench.make.append(), idempotency=repeatable("k")) for _ in range(16)]
        commits = await asyncio.gather(*work)
        assert sum(not commit.duplicate for commit in commits) == 1
        assert len({(commit.change, commit.at_us, commit.placed) for commit in commits}) == 1
        assert len(await bench.load()) == 1

    async def test_concurrent_other_digests_conflict(self, bench: Bench) -> None:
        """Of batches with one key and several digests at the same time exactly one writes."""
        work = [bench.commit(bench.make.append(), idempotency=repeatable("k", bytes([n]))) for n in range(8)]
        results = await asyncio.gather(*work, return_exceptions=True)
        assert sum(isinstance(result, IdempotencyConflict) for result in results) == 7
        assert len(await bench.load()) == 1

    async def test_a_repeat_after_a_retire_writes_nothing(self, bench: Bench) -> None:
        """A repeat does not bring back an entry that was retired since."""
        first = await bench.commit(bench.make.append(), idempotency=repeatable("k"))
        await bench.commit(Retire(first.placed[0].id, Reason.DELETED))
        again = await bench.commit(bench.make.append(), idempotency=repeatable("k"))
        assert (again.duplicate, again.placed) == (True, first.placed)
        assert await bench.texts() == []

    async def test_a_repeat_after_a_forget_writes_nothing(self, bench: Bench) -> None:
        """A repeat does not bring back an entry that was forgotten since; it still gives the first commit."""
        first = await bench.commit(bench.make.append(), idempotency=repeatable("k"))
        await bench.forget(Selector(ids=(first.placed[0].id,)))
        again = await bench.commit(bench.make.append(), idempotency=repeatable("k"))
        assert (again.duplicate, again.change, again.placed) == (True, first.change, first.placed)
        assert await bench.texts() == []

    async def test_a_repeated_forget_gives_no_receipt(self, bench: Bench) -> None:
        """The repeat of a forget forgets nothing more and carries no receipt."""
        await bench.add("one")
        forget = Forget(Selector(key=KEY))
        first = await bench.commit(forget, idempotency=repeatable("k"))
        await bench.add("two")
        again = await bench.commit(forget, idempotency=repeatable("k"))
        assert (len(first.receipts), again.receipts, again.duplicate) == (1, (), True)
        assert again.placed == first.placed
        assert await bench.texts() == ["two"]

    async def test_a_change_that_is_known_fails_alone(self, bench: Bench) -> None:
        """A batch whose change is known already is refused, also one that forgets; others beside it are done."""
        make = bench.make
        forget = make.batch(Forget(Selector(key="nobody")))
        await bench.store.commit(forget)
        others = [make.batch(make.append(f"text {number}")) for number in range(20)]
        batches = (*others[:10], forget, *others[10:])
        done = await asyncio.gather(*map(bench.store.commit, batches), return_exceptions=True)
        assert isinstance(done.pop(10), AlreadyExists)
        assert all(isinstance(one, Commit) for one in done)
        assert len(await bench.texts()) == 20

    @pytest.mark.parametrize("before", range(5))
    async def test_equal_entries_of_one_batch_are_one(self, bench: Bench, before: int) -> None:
        """Of equal entries of one batch the first is kept, wherever its place is full and whatever else is done."""
        stays = await bench.add("stays", key=OTHER_KEY)
        for number in range(before):
            await bench.add(f"text {number}")
        appends = [bench.make.append("equal", digest=b"d") for _ in range(2)]
        commit = await bench.commit(Retire(stays, Reason.DELETED), *appends)
        assert [placed.duplicate for placed in commit.placed[1:]] == [False, True]
        assert commit.placed[1].id == commit.placed[2].id

    async def test_an_equal_entry_is_kept_once_more_by_the_first(self, bench: Bench) -> None:
        """Of two equal entries the one that came first is seen again, whichever was restored last."""
        first = await bench.add(digest=b"d")
        await bench.commit(Retire(first, Reason.DELETED))
        second = await bench.add(digest=b"d")
        await bench.commit(Restore(first))
        assert second != first
        assert await bench.add(digest=b"d") == first

    async def test_a_repeat_keeps_what_placed_said(self, bench: Bench) -> None:
        """A repeat tells the versions and duplicates of the first time, not those of now."""
        await bench.add(digest=b"d")
        append = bench.make.append(digest=b"d", metadata={"a": 1})
        first = await bench.commit(append, bench.make.put("note"), idempotency=repeatable("k"))
        await bench.put("note")
        again = await bench.commit(append, bench.make.put("note"), idempotency=repeatable("k"))
        assert first.placed[0].duplicate
        assert again.placed == first.placed

    async def test_a_cancelled_caller_can_repeat(self, bench: Bench) -> None:
        """A caller that was cancelled repeats with the same key and finds the batch written exactly once."""
        make = bench.make
        tasks = [
            asyncio.ensure_future(bench.commit(make.append(), idempotency=repeatable("k"))) for _ in range(2)
        ]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await bench.commit(make.append(), idempotency=repeatable("k"))
        assert len(await bench.load()) == 1
