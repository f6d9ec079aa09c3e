"""Laws of looking after a store: what is overdue, what is trimmed, what it all takes."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import AlreadyExists, QuotaExceeded
from holdfast.model.batch import Drop, Finish, Forget, Remove, Restore, Retire
from holdfast.model.entry import Quantised, Reason
from holdfast.model.forget import Selector
from holdfast.model.usage import Usage
from holdfast.ports.store import Overdue
from holdfast.testing.making import KEY, OTHER_SPACE, in_space, named, repeatable
from holdfast.testing.suite_ground import Bench, Ground


class KeepingLaws(Ground):
    """What whoever runs a store asks of it, over all spaces."""

    async def test_spaces_are_those_that_hold_anything(self, bench: Bench) -> None:
        """The spaces come by code points, whatever they hold; an empty store has none."""
        assert await bench.store.spaces() == []
        await bench.put("note", space="b")
        await bench.add(space="c")
        await bench.enqueue(space="a")
        assert await bench.store.spaces() == ["a", "b", "c"]

    async def test_what_expired_is_overdue(self, bench: Bench) -> None:
        """Entries and documents are overdue once the time is past their expiry, by space, and not before."""
        now_us = bench.clock.now_us()
        entry = await bench.add(expires_us=now_us + 5)
        await bench.add(expires_us=now_us + 50)
        await bench.add()
        note = await bench.put("note", space=OTHER_SPACE, expires_us=now_us + 5)
        await bench.put("other", space=OTHER_SPACE)
        assert await self.overdue(bench, expired=now_us + 5) == []
        assert await self.overdue(bench, expired=now_us + 6) == sorted(
            [Overdue("acme", (entry,)), Overdue(OTHER_SPACE, (note.id,))], key=lambda one: one.space
        )

    async def test_what_was_deleted_is_overdue(self, bench: Bench) -> None:
        """Entries that were deleted before the time, and not restored or retired for another reason, are overdue."""
        gone, restored, hidden, kept = await bench.add_all("gone", "restored", "hidden", "kept")
        await bench.commit(
            Retire(gone, Reason.DELETED), Retire(restored, Reason.DELETED), Retire(hidden, Reason.HIDDEN)
        )
        await bench.commit(Restore(restored))
        commit = await bench.commit(bench.make.revise(kept))
        assert await self.overdue(bench, deleted=commit.at_us + 1) == [Overdue("acme", (gone,))]
        (version,) = await bench.store.versions(in_space(), gone)
        assert version.retired is not None
        assert await self.overdue(bench, deleted=version.retired.at_us) == []

    async def test_what_is_forgotten_is_overdue_no_more(self, bench: Bench) -> None:
        """Erasing what comes first lets the next ones come, to the end."""
        now_us = bench.clock.now_us()
        ids = [await bench.add(f"{n}", expires_us=now_us + n) for n in range(5)]
        found: list[str] = []
        while listed := await bench.store.overdue(
            expired_before_us=now_us + 100, deleted_before_us=0, limit=2
        ):
            assert sum(len(one.ids) for one in listed) <= 2
            for one in listed:
                found.extend(one.ids)
                await bench.commit(Forget(Selector(ids=one.ids)), space=one.space)
        assert sorted(found) == sorted(ids)

    async def test_trimming_the_journal_keeps_its_records(self, bench: Bench) -> None:
        """Old changes go, what they wrote stays, and each space keeps its newest change."""
        old = [await bench.commit(bench.make.append(f"{n}")) for n in range(3)]
        await bench.commit(bench.make.append(), space=OTHER_SPACE)
        bench.clock.advance(days=1)
        new = await bench.commit(bench.make.append("new"))
        cursor = (await bench.store.changes(in_space()))[1].cursor
        assert await bench.store.trim_journal(new.at_us) == 3
        assert [change.id for change in await bench.store.changes(in_space())] == [new.change]
        assert [change.id for change in await bench.store.changes(in_space(), after=cursor)] == [new.change]
        assert await bench.store.change(in_space(), old[0].change) is None
        assert len(await bench.store.changes(in_space(OTHER_SPACE))) == 1
        assert [entry.content for entry in await bench.load()] == ["0", "1", "2", "new"]
        assert await bench.store.trim_journal(new.at_us + 1) == 0
        later = await bench.commit(bench.make.append("later"))
        assert later.at_us > new.at_us

    async def test_trimming_chores_keeps_what_is_not_ended_well(self, bench: Bench) -> None:
        """Done and cancelled chores of before go; queued, leased and dead ones stay."""
        done = await bench.enqueue(key="done")
        (leased,) = await bench.lease()
        await bench.commit(Finish(leased.id, leased.token))
        dropped = await bench.enqueue(key="dropped")
        await bench.commit(Drop(dropped))
        queued = await bench.enqueue(key="queued")
        until_us = bench.clock.now_us() + 1
        assert leased.id == done
        assert await bench.store.trim_chores(leased.created_us) == 0
        assert await bench.store.trim_chores(until_us + 1_000) == 2
        assert [chore.id for chore in await bench.store.chores(in_space())] == [queued]

    async def test_stats_count_what_is_there(self, bench: Bench) -> None:
        """Counts are exact over all spaces, and bytes grow with what is kept, by what it is."""
        before = await bench.store.stats()
        entry = await bench.add("tea " * 1_000)
        await bench.commit(bench.make.revise(entry, "coffee " * 1_000))
        await bench.add(space=OTHER_SPACE)
        await bench.put("note", "x" * 5_000)
        await bench.enqueue()
        await bench.store.settle()
        after = await bench.store.stats()
        grown = {name: after.counts[name] - before.counts[name] for name in after.counts}
        assert grown == {
            "entries": 2, "versions": 3, "documents": 1, "chores": 1, "changes": 5, "tombstones": 0,
        }  # fmt: skip
        assert after.bytes["entries"] + after.bytes.get("past", 0) - before.bytes["entries"] >= 10_000
        assert after.bytes["documents"] - before.bytes["documents"] >= 5_000

    async def test_compacting_changes_nothing(self, bench: Bench) -> None:
        """Giving space back changes nothing that a read tells."""
        await bench.add_all("tea", "coffee")
        await bench.put("note")
        before = await bench.picture()
        await bench.store.compact()
        assert await bench.picture() == before

    async def test_usage_counts_what_is_kept(self, bench: Bench) -> None:
        """Content, title, metadata and vectors of all versions of entries count, and values of documents; no more."""
        assert await bench.store.usage("acme") == Usage(0, None)
        entry = await bench.add(
            "t\u00e9", title="ab", metadata={"a": 1}, vectors=(Quantised(b"\x01\x02", 1.0),)
        )
        size = 3 + 2 + len('{"a":1}') + 2
        assert (await bench.store.usage("acme")).bytes == size
        await bench.commit(bench.make.revise(entry, "tea"))
        assert (await bench.store.usage("acme")).bytes == size + 3
        await bench.commit(Retire(entry, Reason.DELETED))
        await bench.enqueue(payload="not counted")
        await bench.add("elsewhere", space=OTHER_SPACE)
        assert (await bench.store.usage("acme")).bytes == size + 3
        await bench.put("note", "abc")
        await bench.put("note", "abcd")
        assert (await bench.store.usage("acme")).bytes == size + 3 + 5 + 6
        await bench.put(named("w", "working"), "abc")
        await bench.put(named("w", "working"), "a")
        assert (await bench.store.usage("acme")).bytes == size + 3 + 5 + 6 + 3
        await bench.forget(Selector(key=KEY))
        assert (await bench.store.usage("acme")).bytes == 0

    async def test_what_would_go_over_the_limit_is_refused(self, bench: Bench) -> None:
        """A batch that makes a space larger than its limit is refused as a whole; other spaces do not notice."""
        entry = await bench.add("12345")
        await bench.store.limit("acme", 10)
        await bench.refused(QuotaExceeded, bench.make.append("123456"))
        await bench.refused(QuotaExceeded, bench.make.append("123"), bench.make.append("456"))
        await bench.refused(QuotaExceeded, bench.make.put("note", "12345"))
        await bench.refused(QuotaExceeded, bench.make.revise(entry, "123456"))
        await bench.add("1234567890123", space=OTHER_SPACE)
        await bench.add("12345")
        assert await bench.store.usage("acme") == Usage(10, 10)
        with pytest.raises(QuotaExceeded) as caught:
            await bench.add("1")
        assert (caught.value.used, caught.value.limit, caught.value.code) == (10, 10, "quota_exceeded")
        await bench.store.limit("acme", None)
        await bench.add("1")
        assert await bench.store.usage("acme") == Usage(11, None)

    async def test_what_is_wrong_besides_is_told_before_the_limit(self, bench: Bench) -> None:
        """A batch with an id that is known is refused for that, also when it would go over the limit."""
        known = bench.make.append("12345")
        await bench.commit(known)
        await bench.store.limit("acme", 7)
        await bench.refused(AlreadyExists, known)
        await bench.refused(QuotaExceeded, bench.make.append("12345"))

    async def test_over_the_limit_everything_else_works(self, bench: Bench) -> None:
        """In a space that is over its limit, reading, deleting, removing, forgetting and chores go on."""
        one, two = await bench.add_all("12345", "67890")
        await bench.put("note", "1")
        chore = await bench.enqueue()
        await bench.store.limit("acme", 3)
        await bench.refused(QuotaExceeded, bench.make.append("1"))
        assert len(await bench.load()) == 2
        await bench.commit(Retire(one, Reason.DELETED))
        await bench.commit(Remove(named("note")))
        (leased,) = await bench.lease()
        await bench.commit(Finish(chore, leased.token))
        await bench.forget(Selector(ids=(one, two)))
        assert (await bench.store.usage("acme")).bytes == 3
        await bench.forget(Selector(key=KEY))
        await bench.add("abc")
        assert await bench.store.usage("acme") == Usage(3, 3)

    async def test_batches_at_once_stay_under_the_limit(self, bench: Bench) -> None:
        """Of batches that come together, as many succeed as fit."""
        await bench.store.limit("acme", 10)
        adding = (bench.add("123", key=f"k{number}") for number in range(8))
        results = await asyncio.gather(*adding, return_exceptions=True)
        assert sum(isinstance(result, QuotaExceeded) for result in results) == 5
        assert await bench.store.usage("acme") == Usage(9, 10)

    async def test_a_repeated_batch_is_not_counted_again(self, bench: Bench) -> None:
        """An idempotency key that was used gives its first result, whatever the limit is by then."""
        batch = bench.make.batch(bench.make.append("12345"), idempotency=repeatable("once"))
        first = await bench.store.commit(batch)
        await bench.store.limit("acme", 5)
        again = await bench.store.commit(batch)
        assert (again.duplicate, again.change) == (True, first.change)
        assert (await bench.store.usage("acme")).bytes == 5

    async def test_settling_leaves_nothing_unsettled(self, bench: Bench) -> None:
        """A receipt that is not complete is listed with what it waits for, until the store is settled."""
        entry = await bench.add()
        receipt = await bench.forget(Selector(ids=(entry,)))
        listed = await bench.store.unsettled()
        assert (receipt.id in listed) is not receipt.complete
        await bench.store.settle()
        assert await bench.store.unsettled() == {}

    async def overdue(self, bench: Bench, *, expired: int = 0, deleted: int = 0) -> list[Overdue]:
        """What is overdue before these times."""
        return await bench.store.overdue(expired_before_us=expired, deleted_before_us=deleted)
