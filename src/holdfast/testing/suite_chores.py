"""Laws of chores: due, lease, fence, finish, retry."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import ChoreNotFound, Conflict, LeaseLost
from holdfast.model.batch import Drop, Fail, Finish, Operation, Placed, Retry
from holdfast.model.chore import Chore, ChoreState
from holdfast.testing.clock import START_US
from holdfast.testing.making import OTHER_BANK, OTHER_KEY, OTHER_SPACE, at, in_bank, in_key, in_space
from holdfast.testing.suite_ground import LEASE_US, Bench, Ground


class ChoreLaws(Ground):
    """Enqueue, finish, fail, drop, retry and the list."""

    async def test_a_queued_chore_comes_back(self, bench: Bench) -> None:
        """A queued chore comes back with every field of its draft."""
        enqueue = bench.make.enqueue(
            "digest", due_us=START_US + 5, dedupe="d", payload={"a": [1]}, max_attempts=3
        )
        commit = await bench.commit(enqueue)
        chore = await bench.chore(enqueue.draft.id)
        assert chore == Chore(
            id=enqueue.draft.id, space="acme", place=at(), kind="digest", dedupe="d", payload={"a": [1]},
            state=ChoreState.QUEUED, attempts=0, max_attempts=3, due_us=START_US + 5, token=0, lease_until_us=None,
            worker=None, last_error=None, created_us=chore.created_us, change=commit.change,
        )  # fmt: skip

    async def test_a_live_chore_is_found_instead(self, bench: Bench) -> None:
        """While a chore with the dedupe key is queued or leased at a place, no second is made there."""
        chore = await bench.enqueue(dedupe="d")
        commit = await bench.commit(bench.make.enqueue("digest", dedupe="d"))
        assert (commit.placed[0].id, commit.placed[0].duplicate) == (chore, True)
        await bench.lease()
        commit = await bench.commit(bench.make.enqueue(dedupe="d"))
        assert (commit.placed[0].id, commit.placed[0].duplicate) == (chore, True)
        assert len(await bench.store.chores(in_space())) == 1

    async def test_a_dedupe_key_in_a_batch(self, bench: Bench) -> None:
        """A chore of the same batch is found as well."""
        commit = await bench.commit(*(bench.make.enqueue(dedupe="d") for _ in range(2)))
        assert [placed.duplicate for placed in commit.placed] == [False, True]

    async def test_dedupe_keys_belong_to_a_place(self, bench: Bench) -> None:
        """Another space's or place's chore, another dedupe key and chores without one are not found."""
        for operation, space in (
            (bench.make.enqueue(dedupe="d"), "acme"), (bench.make.enqueue(dedupe="d"), OTHER_SPACE),
            (bench.make.enqueue(dedupe="D"), "acme"), (bench.make.enqueue(), "acme"), (bench.make.enqueue(), "acme"),
            (bench.make.enqueue(key=OTHER_KEY, dedupe="d"), "acme"),
        ):  # fmt: skip
            assert not (await bench.commit(operation, space=space)).placed[0].duplicate

    @pytest.mark.parametrize("end", ["done", "dead", "cancelled"])
    async def test_an_ended_chore_is_not_found(self, bench: Bench, end: str) -> None:
        """Once a chore is done, dead or cancelled, its dedupe key makes a new one."""
        chore = await bench.enqueue(dedupe="d")
        await bench.lease()
        ends: dict[str, Operation] = {
            "done": Finish(chore, 1), "dead": Fail(chore, 1, "no", None), "cancelled": Drop(chore)
        }  # fmt: skip
        await bench.commit(ends[end])
        assert (await bench.chore(chore)).state == end
        commit = await bench.commit(bench.make.enqueue(dedupe="d"))
        assert not commit.placed[0].duplicate
        assert len(await bench.store.chores(in_space())) == 2

    async def test_finish_in_the_batch_of_the_result(self, bench: Bench) -> None:
        """A chore is done in the batch that writes its result; the commit's version is the token."""
        chore = await bench.enqueue()
        (leased,) = await bench.lease()
        commit = await bench.commit(bench.make.append("result"), Finish(chore, leased.token))
        assert (commit.placed[1].id, commit.placed[1].version) == (chore, leased.token)
        assert (await bench.chore(chore)).state is ChoreState.DONE
        assert await bench.texts() == ["result"]
        assert await bench.lease() == []

    async def test_a_lost_lease_leaves_nothing_written(self, bench: Bench) -> None:
        """Once another worker holds the chore, the result of the first is refused as a whole."""
        chore = await bench.enqueue()
        (first,) = await bench.lease("w1")
        bench.clock.advance(microseconds=LEASE_US + 1)
        (second,) = await bench.lease("w2")
        await bench.refused(
            LeaseLost, bench.make.append("late"), bench.make.put("note"), Finish(chore, first.token)
        )
        await bench.refused(LeaseLost, bench.make.append("late"), Fail(chore, first.token, "no", None))
        await bench.commit(bench.make.append("result"), Finish(chore, second.token))
        await bench.refused(LeaseLost, bench.make.append("late"), Finish(chore, first.token))
        assert await bench.texts() == ["result"]

    async def test_an_ended_lease_that_nobody_took_still_counts(self, bench: Bench) -> None:
        """A lease whose time is over, but which nobody took over, still finishes."""
        chore = await bench.enqueue()
        (leased,) = await bench.lease()
        bench.clock.advance(days=1)
        await bench.commit(Finish(chore, leased.token))
        assert (await bench.chore(chore)).state is ChoreState.DONE

    async def test_only_a_leased_chore_is_finished_or_failed(self, bench: Bench) -> None:
        """A queued, done, dead or cancelled chore has no lease to finish or fail; an unknown one is not found."""
        done, dead, cancelled, queued = [await bench.enqueue(key=f"k{n}") for n in range(4)]
        await bench.lease(limit=3)
        await bench.commit(Finish(done, 1), Fail(dead, 1, "no", None), Drop(cancelled))
        for chore in (done, dead, cancelled, queued):
            for token in (0, 1, 2):
                await bench.refused(LeaseLost, Finish(chore, token))
                await bench.refused(LeaseLost, Fail(chore, token, "no", None))
        await bench.refused(ChoreNotFound, Finish(bench.make.id(), 1))

    async def test_fail_with_a_time_queues_again(self, bench: Bench) -> None:
        """``Fail`` with ``retry_us`` queues the chore again at that time, with its error and attempts."""
        chore = await bench.enqueue()
        await bench.lease()
        commit = await bench.commit(Fail(chore, 1, "timeout", START_US + 500))
        assert commit.placed == (Placed(chore, commit.placed[0].seq, 1),)
        found = await bench.chore(chore)
        assert (found.state, found.due_us, found.attempts, found.last_error) == (
            ChoreState.QUEUED, START_US + 500, 1, "timeout",
        )  # fmt: skip
        bench.clock.set(START_US + 499)
        assert await bench.lease() == []
        bench.clock.set(START_US + 500)
        (again,) = await bench.lease()
        assert (again.id, again.token, again.attempts) == (chore, 2, 2)

    async def test_fail_without_a_time_is_dead(self, bench: Bench) -> None:
        """``Fail`` without ``retry_us`` makes the chore dead, with its error; it is not leased again."""
        chore = await bench.enqueue()
        await bench.lease()
        await bench.commit(Fail(chore, 1, "broken", None))
        found = await bench.chore(chore)
        assert (found.state, found.last_error) == (ChoreState.DEAD, "broken")
        bench.clock.advance(days=1)
        assert await bench.lease() == []

    async def test_drop_cancels(self, bench: Bench) -> None:
        """A queued, leased or dead chore becomes cancelled; a done or cancelled one is a conflict."""
        leased, dead, done, queued = [await bench.enqueue(key=f"k{n}") for n in range(4)]
        await bench.lease(limit=3)
        await bench.commit(Fail(dead, 1, "no", None), Finish(done, 1))
        for chore in (leased, dead, queued):
            await bench.commit(Drop(chore))
            assert (await bench.chore(chore)).state is ChoreState.CANCELLED
            await bench.refused(Conflict, Drop(chore))
        await bench.refused(Conflict, Drop(done))
        await bench.refused(LeaseLost, Finish(leased, 1))
        assert await bench.lease() == []

    async def test_retry_queues_again(self, bench: Bench) -> None:
        """A dead or cancelled chore is queued again with attempts 0; any other is a conflict."""
        dead, cancelled, leased, done, queued = [await bench.enqueue(key=f"k{n}") for n in range(5)]
        await bench.lease(limit=4)
        await bench.commit(Fail(dead, 1, "no", None), Drop(cancelled), Finish(done, 1))
        for chore in (dead, cancelled):
            await bench.commit(Retry(chore, START_US + 7))
            found = await bench.chore(chore)
            assert (found.state, found.attempts, found.due_us) == (ChoreState.QUEUED, 0, START_US + 7)
        for chore in (leased, done, queued):
            await bench.refused(Conflict, Retry(chore, START_US))

    async def test_tokens_go_on_after_a_retry(self, bench: Bench) -> None:
        """A retried chore's next lease has a token that none of its leases had before."""
        chore = await bench.enqueue()
        await bench.lease()
        await bench.commit(Drop(chore))
        await bench.commit(Retry(chore, START_US))
        (leased,) = await bench.lease()
        assert (leased.token, leased.attempts) == (2, 1)
        await bench.refused(LeaseLost, Finish(chore, 1))
        await bench.commit(Finish(chore, 2))

    async def test_chores_are_listed_by_scope_and_state(self, bench: Bench) -> None:
        """Chores are listed by space, bank or key, of the states asked for or of all, up to a limit."""
        here = await bench.enqueue()
        beside = await bench.enqueue(key=OTHER_KEY)
        elsewhere = await bench.enqueue(bank=OTHER_BANK)
        foreign = await bench.enqueue(space=OTHER_SPACE)
        store = bench.store
        for scope, ids in (
            (in_space(), {here, beside, elsewhere}), (in_bank(), {here, beside}), (in_key(OTHER_KEY), {beside}),
            (in_space(OTHER_SPACE), {foreign}), (in_key("nobody"), set[str]()),
        ):  # fmt: skip
            assert {chore.id for chore in await store.chores(scope)} == ids
        await bench.commit(Drop(beside))
        dropped = await store.chores(in_space(), states=(ChoreState.CANCELLED,))
        live = await store.chores(in_space(), states=(ChoreState.QUEUED, ChoreState.LEASED))
        assert ([chore.id for chore in dropped], {chore.id for chore in live}) == (
            [beside],
            {here, elsewhere},
        )
        assert len(await store.chores(in_space(), limit=2)) == 2

    async def test_trimming_removes_what_ended_and_is_old(self, bench: Bench) -> None:
        """Done and cancelled chores made before a time are removed, in all spaces; the rest stays as it is."""
        done, cancelled, dead, leased, queued = [await bench.enqueue(key=f"k{n}") for n in range(5)]
        foreign = await bench.enqueue(space=OTHER_SPACE)
        await bench.lease(limit=4)
        await bench.commit(Finish(done, 1), Drop(cancelled), Fail(dead, 1, "no", None))
        await bench.commit(Drop(foreign), space=OTHER_SPACE)
        bench.clock.advance(days=1)
        later = await bench.enqueue(key="later")
        await bench.commit(Drop(later))
        made = (await bench.chore(later)).created_us
        kept = {chore.id: chore for chore in await bench.store.chores(in_space())}
        changes = await bench.store.changes(in_space())
        assert await bench.store.trim_chores(START_US) == 0
        assert await bench.store.trim_chores(made) == 3
        assert await bench.store.trim_chores(made) == 0
        left = {chore.id: chore for chore in await bench.store.chores(in_space())}
        assert left == {chore: kept[chore] for chore in (dead, leased, queued, later)}
        assert await bench.store.chores(in_space(OTHER_SPACE)) == []
        assert await bench.store.changes(in_space()) == changes
        await bench.refused(ChoreNotFound, Drop(done))

    async def test_trimming_removes_any_number(self, bench: Bench) -> None:
        """A trim removes everything that it should, however much that is."""
        chores = [bench.make.enqueue() for _ in range(2_000)]
        await bench.commit(*chores)
        await bench.commit(*(Drop(chore.draft.id) for chore in chores))
        bench.clock.advance(days=1)
        assert await bench.store.trim_chores(bench.clock.now_us()) == 2_000
        assert await bench.store.chores(in_space()) == []

    async def test_chores_are_listed_by_kind(self, bench: Bench) -> None:
        """Chores are listed of the kinds asked for; no kind given, no chore; the limit counts what is asked for."""
        first = await bench.enqueue("extract")
        digests = [await bench.enqueue("digest") for _ in range(3)]
        store, live = bench.store, (ChoreState.QUEUED,)
        assert [chore.id for chore in await store.chores(in_space(), kinds=("digest",))] == digests
        assert [chore.id for chore in await store.chores(in_key(), kinds=("digest",), limit=2)] == digests[:2]
        assert len(await store.chores(in_space(), kinds=("digest", "extract"), states=live)) == 4
        assert await store.chores(in_space(), kinds=()) == []
        await bench.commit(Drop(digests[0]), Drop(first))
        left = await store.chores(in_space(), kinds=("digest", "extract"), states=live, limit=1)
        assert [chore.id for chore in left] == digests[1:2]

    async def test_a_run_beyond_the_last_is_nothing_that_a_check_minds(self, bench: Bench) -> None:
        """A chore whose last run failed may be made due again all the same; a check takes that as it is."""
        chore = await bench.enqueue(max_attempts=1)
        await bench.lease()
        await bench.commit(Fail(chore, 1, "no", bench.clock.now_us()))
        (again,) = await bench.lease()
        assert again.attempts == 2
        assert (await bench.store.check()).ok

    async def test_none_are_leased_when_none_are_asked_for(self, bench: Bench) -> None:
        """A lease with the limit 0 takes nothing."""
        await bench.enqueue()
        now_us = bench.clock.now_us()
        assert await bench.store.lease(worker="w", now_us=now_us, until_us=now_us + LEASE_US, limit=0) == []

    async def test_chores_are_listed_oldest_first(self, bench: Bench) -> None:
        """Chores are listed oldest first."""
        chores: list[str] = []
        for n in range(4):
            bench.clock.advance(seconds=1)
            chores.append(await bench.enqueue(key=f"k{9 - n}"))
        assert [chore.id for chore in await bench.store.chores(in_space())] == chores
        assert [chore.id for chore in await bench.store.chores(in_space(), limit=2)] == chores[:2]

    async def test_foreign_chores_look_missing(self, bench: Bench) -> None:
        """Another space's chore cannot be finished, failed, dropped or retried: it looks missing."""
        chore = await bench.enqueue()
        await bench.lease()
        dead = await bench.enqueue(key=OTHER_KEY)
        await bench.commit(Drop(dead))
        for operation in (Finish(chore, 1), Fail(chore, 1, "no", None), Drop(chore), Retry(dead, START_US)):
            await bench.refused(ChoreNotFound, operation, space=OTHER_SPACE)
        assert (await bench.chore(chore)).state is ChoreState.LEASED


class LeaseLaws(Ground):
    """Lease, renew and next due."""

    async def test_a_lease_tells_all(self, bench: Bench) -> None:
        """A leased chore has its worker, its end, attempts + 1 and token + 1, in the result and in the list."""
        chore = await bench.enqueue(payload={"a": 1})
        (leased,) = await bench.lease("w7")
        assert (leased.id, leased.state, leased.worker) == (chore, ChoreState.LEASED, "w7")
        assert (leased.attempts, leased.token, leased.lease_until_us) == (1, 1, START_US + LEASE_US)
        assert leased.payload == {"a": 1}
        assert await bench.chore(chore) == leased

    async def test_a_chore_is_due_at_its_time(self, bench: Bench) -> None:
        """A queued chore is due from its due time on, not a microsecond earlier."""
        chore = await bench.enqueue(due_us=START_US + 10)
        bench.clock.set(START_US + 9)
        assert await bench.lease() == []
        bench.clock.set(START_US + 10)
        assert [leased.id for leased in await bench.lease()] == [chore]

    async def test_the_caller_says_what_time_it_is(self, bench: Bench) -> None:
        """A lease goes by the time it is given, not by the store's clock."""
        chore = await bench.enqueue(due_us=START_US + 10)
        lease = bench.store.lease
        assert await lease(worker="w", now_us=START_US + 9, until_us=START_US + 99) == []
        (leased,) = await lease(worker="w", now_us=START_US + 10, until_us=START_US + 99)
        assert (leased.id, leased.lease_until_us) == (chore, START_US + 99)

    async def test_oldest_first(self, bench: Bench) -> None:
        """Chores are leased by due time, then id, up to the limit; nothing is leased twice."""
        ids = sorted(bench.make.id() for _ in range(4))
        due = {ids[3]: START_US - 9, ids[0]: START_US - 5, ids[1]: START_US - 5, ids[2]: START_US - 1}
        for n, chore in enumerate((ids[2], ids[1], ids[3], ids[0])):
            await bench.commit(bench.make.enqueue(key=f"k{n}", id=chore, due_us=due[chore]))
        expected = [ids[3], ids[0], ids[1], ids[2]]
        assert [chore.id for chore in await bench.lease(limit=3)] == expected[:3]
        assert [chore.id for chore in await bench.lease(limit=3)] == expected[3:]
        assert await bench.lease(limit=3) == []

    async def test_oldest_first_among_ended_leases(self, bench: Bench) -> None:
        """Chores whose lease has ended and queued ones are leased in one order, by due time."""
        ids = [await bench.enqueue(key=f"k{n}", due_us=START_US - 10 + n) for n in range(4)]
        await bench.lease(limit=1)
        await bench.lease(limit=1, lease_us=9 * LEASE_US)
        await bench.lease(limit=1)
        bench.clock.advance(microseconds=LEASE_US + 1)
        newest = await bench.enqueue(key="k9", due_us=START_US - 11)
        assert [chore.id for chore in await bench.lease("w2", limit=9)] == [newest, ids[0], ids[2], ids[3]]

    async def test_one_place_one_chore(self, bench: Bench) -> None:
        """A place with a running lease gives nothing, and one call never gives two chores of one place."""
        first = await bench.enqueue()
        second = await bench.enqueue("digest")
        beside = await bench.enqueue(key=OTHER_KEY)
        elsewhere = await bench.enqueue(bank=OTHER_BANK)
        foreign = await bench.enqueue(space=OTHER_SPACE)
        assert {chore.id for chore in await bench.lease(limit=10)} == {first, beside, elsewhere, foreign}
        assert await bench.lease(limit=10) == []
        await bench.commit(Finish(first, 1))
        assert [chore.id for chore in await bench.lease(limit=10)] == [second]

    async def test_a_running_lease_blocks_to_its_last_microsecond(self, bench: Bench) -> None:
        """A lease holds its place up to and with its end; after that the oldest chore of the place is leased."""
        first = await bench.enqueue()
        await bench.enqueue("digest", due_us=START_US + 1)
        await bench.lease(lease_us=100)
        bench.clock.set(START_US + 100)
        assert await bench.lease("w2") == []
        bench.clock.set(START_US + 101)
        (taken,) = await bench.lease("w2", limit=10)
        assert (taken.id, taken.worker, taken.token, taken.attempts) == (first, "w2", 2, 2)

    async def test_kinds_are_chosen(self, bench: Bench) -> None:
        """With kinds only chores of these are leased; no kinds given, no chore."""
        extract = await bench.enqueue("extract")
        digest = await bench.enqueue("digest", key=OTHER_KEY)
        assert await bench.lease(kinds=["prune"], limit=9) == []
        assert await bench.lease(kinds=[], limit=9) == []
        assert [chore.id for chore in await bench.lease(kinds=["digest", "prune"], limit=9)] == [digest]
        assert [chore.id for chore in await bench.lease(limit=9)] == [extract]

    async def test_a_running_lease_blocks_other_kinds(self, bench: Bench) -> None:
        """A place with a running lease gives nothing of another kind either."""
        await bench.enqueue("extract")
        await bench.enqueue("digest")
        await bench.lease(kinds=["extract"])
        assert await bench.lease(kinds=["digest"]) == []

    async def test_used_up_attempts_make_a_chore_dead(self, bench: Bench) -> None:
        """A lease that ended with all attempts used makes the chore dead at the next lease, and frees its place."""
        chore = await bench.enqueue(max_attempts=2)
        for token in (1, 2):
            (leased,) = await bench.lease()
            assert (leased.id, leased.token) == (chore, token)
            bench.clock.advance(microseconds=LEASE_US + 1)
        assert (await bench.chore(chore)).state is ChoreState.LEASED
        assert await bench.lease() == []
        assert (await bench.chore(chore)).state is ChoreState.DEAD
        following = await bench.enqueue()
        assert [leased.id for leased in await bench.lease()] == [following]

    async def test_a_used_up_chore_gives_way_at_once(self, bench: Bench) -> None:
        """The lease that makes a used up chore dead gives the next chore of its place."""
        await bench.enqueue(max_attempts=1)
        following = await bench.enqueue(due_us=START_US + 1)
        await bench.lease()
        bench.clock.advance(microseconds=LEASE_US + 1)
        assert [leased.id for leased in await bench.lease()] == [following]

    async def test_a_failed_chore_keeps_its_attempts(self, bench: Bench) -> None:
        """Attempts count over fails; a queued chore with all attempts used is leased when it is due."""
        chore = await bench.enqueue()
        for attempt in (1, 2, 3):
            (leased,) = await bench.lease()
            assert (leased.attempts, leased.token) == (attempt, attempt)
            await bench.commit(Fail(chore, attempt, "no", START_US))

    async def test_renew_extends_a_lease(self, bench: Bench) -> None:
        """A renewed lease holds to its new end; its token and attempts stay."""
        chore = await bench.enqueue()
        await bench.lease(lease_us=100)
        await bench.store.renew(chore, 1, START_US + 1_000)
        bench.clock.set(START_US + 1_000)
        assert await bench.lease("w2") == []
        found = await bench.chore(chore)
        assert (found.lease_until_us, found.token, found.attempts, found.worker) == (
            START_US + 1_000,
            1,
            1,
            "w1",
        )
        bench.clock.set(START_US + 1_001)
        assert [leased.id for leased in await bench.lease("w2")] == [chore]

    async def test_renew_of_a_lost_lease(self, bench: Bench) -> None:
        """Renew is refused with another token, after a take-over, and for what is not leased."""
        chore = await bench.enqueue()
        with pytest.raises(LeaseLost):
            await bench.store.renew(chore, 0, START_US + 10**9)
        await bench.lease()
        with pytest.raises(LeaseLost):
            await bench.store.renew(chore, 2, START_US + 10**9)
        bench.clock.advance(microseconds=LEASE_US + 1)
        await bench.lease("w2")
        with pytest.raises(LeaseLost):
            await bench.store.renew(chore, 1, START_US + 10**9)
        await bench.commit(Finish(chore, 2))
        with pytest.raises(LeaseLost):
            await bench.store.renew(chore, 2, START_US + 10**9)
        assert (await bench.chore(chore)).state is ChoreState.DONE

    async def test_next_due(self, bench: Bench) -> None:
        """The next due time is the least of queued due times and lease ends in all spaces; None when nothing waits."""
        store = bench.store
        assert await store.next_due_us() is None
        first = await bench.enqueue(due_us=START_US + 50)
        second = await bench.enqueue(due_us=START_US - 20, key=OTHER_KEY, space=OTHER_SPACE)
        assert await store.next_due_us() == START_US - 20
        await bench.lease(lease_us=70)
        assert await store.next_due_us() == START_US + 50
        await bench.commit(Drop(first))
        assert await store.next_due_us() == START_US + 70
        await bench.commit(Finish(second, 1), space=OTHER_SPACE)
        assert await store.next_due_us() is None

    async def test_next_due_of_the_dead(self, bench: Bench) -> None:
        """Dead and cancelled chores are not waited for."""
        chore = await bench.enqueue()
        await bench.lease()
        await bench.commit(Fail(chore, 1, "no", None))
        assert await bench.store.next_due_us() is None
        await bench.commit(Drop(chore))
        assert await bench.store.next_due_us() is None

    async def test_workers_share_without_overlap(self, bench: Bench) -> None:
        """Workers that lease at the same time never get the same chore."""
        chores = [await bench.enqueue(key=f"k{n}") for n in range(12)]
        found = await asyncio.gather(*(bench.lease(f"w{n}", limit=2) for n in range(12)))
        leased = [chore.id for part in found for chore in part]
        assert sorted(leased) == sorted(chores)

    async def test_what_is_released_is_as_it_was(self, bench: Bench) -> None:
        """A released chore is queued as before its lease: with its due time and attempts, and with a grown token."""
        chore = await bench.enqueue(due_us=START_US - 7, dedupe="d")
        before = await bench.chore(chore)
        await bench.lease("w1")
        assert await bench.store.release("w1") == 1
        after = await bench.chore(chore)
        assert (after.state, after.attempts, after.due_us, after.lease_until_us, after.token) == (
            ChoreState.QUEUED, before.attempts, START_US - 7, None, before.token + 1,
        )  # fmt: skip
        commit = await bench.commit(bench.make.enqueue(dedupe="d"))
        assert commit.placed[0].duplicate
        (again,) = await bench.lease("w2")
        assert (again.id, again.attempts, again.token) == (chore, 1, 2)

    async def test_what_is_released_is_not_held(self, bench: Bench) -> None:
        """After a release the result of the lease is refused, and it cannot be renewed."""
        chore = await bench.enqueue()
        await bench.lease("w1")
        await bench.store.release("w1")
        await bench.refused(LeaseLost, bench.make.append("late"), Finish(chore, 1))
        with pytest.raises(LeaseLost):
            await bench.store.renew(chore, 1, START_US + 10**9)

    async def test_only_the_leases_of_a_worker_are_released(self, bench: Bench) -> None:
        """A release reaches every lease of one worker, ended ones too, and nothing that others hold or held."""
        mine = {await bench.enqueue(key=f"k{n}") for n in range(3)}
        await bench.lease("w1", limit=3)
        theirs = await bench.enqueue(key=OTHER_KEY)
        await bench.lease("w2")
        finished = await bench.enqueue(bank=OTHER_BANK)
        await bench.lease("w1")
        await bench.commit(Finish(finished, 1))
        bench.clock.advance(microseconds=LEASE_US + 1)
        assert await bench.store.release("w1") == 3
        assert await bench.store.release("w1") == 0
        states = {chore.id: chore.state for chore in await bench.store.chores(in_space())}
        assert {chore for chore, state in states.items() if state is ChoreState.QUEUED} == mine
        assert (states[theirs], states[finished]) == (ChoreState.LEASED, ChoreState.DONE)

    async def test_leases_are_not_changes(self, bench: Bench) -> None:
        """Leasing, renewing and releasing leave no change in the journal."""
        chore = await bench.enqueue()
        before = await bench.store.changes(in_space())
        await bench.lease()
        await bench.store.renew(chore, 1, START_US + 10**9)
        await bench.store.release("w1")
        assert await bench.store.changes(in_space()) == before
