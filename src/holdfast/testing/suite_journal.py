"""Laws of the journal: which steps each operation leaves, and how they are read."""

from __future__ import annotations

from itertools import pairwise

from holdfast.model.batch import Drop, Fail, Finish, Forget, Remove, Restore, Retire, Retry
from holdfast.model.entry import Reason
from holdfast.model.forget import OriginMatch, Selector
from holdfast.model.journal import Change, Step
from holdfast.model.origin import Origin
from holdfast.testing.clock import START_US
from holdfast.testing.making import KEY, OTHER_BANK, OTHER_SPACE, from_sources, in_space, named
from holdfast.testing.suite_ground import Bench, Ground


class StepLaws(Ground):
    """The exact steps of each verb."""

    async def test_a_change_tells_all_about_a_commit(self, bench: Bench) -> None:
        """A change holds the batch's id, space, origin and undone changes, the recorded time and the steps."""
        origin = Origin(author="ann", channel="tool", agent_id="a", run_id="r", step_id="s", model="m")
        first = await bench.commit(bench.make.append())
        append, put = bench.make.append(), bench.make.put("note")
        commit = await bench.commit(append, put, origin=origin, undoes=(first.change,))
        change = await bench.store.change(in_space(), commit.change)
        assert change is not None
        steps = (Step("append", append.draft.id, 0, 1), Step("put", put.id, 0, 1))
        expected = Change(commit.change, "acme", change.cursor, commit.at_us, origin, steps, (first.change,))
        assert change == expected
        assert (await bench.store.changes(in_space()))[-1] == expected

    async def test_steps_come_in_order_of_operations(self, bench: Bench) -> None:
        """A change has its steps in the order of its operations."""
        entry = await bench.add()
        operations = (
            bench.make.put("a"), bench.make.append(), bench.make.enqueue(), bench.make.revise(entry),
            Remove(named("a")), Retire(entry, Reason.DELETED), bench.make.put("b"),
        )  # fmt: skip
        steps = await bench.steps((await bench.commit(*operations)).change)
        assert [step.verb for step in steps] == [
            "put",
            "append",
            "enqueue",
            "revise",
            "remove",
            "retire",
            "put",
        ]

    async def test_step_of_a_merge(self, bench: Bench) -> None:
        """An append that found an equal entry: merge, v → v, or v → v + 1 when metadata was added."""
        entry = await bench.add(digest=b"d")
        plain = await bench.commit(bench.make.append(digest=b"d"))
        news = await bench.commit(bench.make.append(digest=b"d", metadata={"a": 1}))
        assert await bench.steps(plain.change) == (Step("merge", entry, 1, 1),)
        assert await bench.steps(news.change) == (Step("merge", entry, 1, 2),)

    async def test_steps_of_an_entry(self, bench: Bench) -> None:
        """Append 0 → 1, revise v → v + 1, retire v → 0, restore 0 → new, restore over a current version v → new."""
        append = bench.make.append()
        entry = append.draft.id
        operations = (
            append, bench.make.revise(entry), bench.make.revise(entry), Retire(entry, Reason.DELETED), Restore(entry),
            Restore(entry, 2),
        )  # fmt: skip
        found = [await bench.steps((await bench.commit(operation)).change) for operation in operations]
        assert found == [
            (Step("append", entry, 0, 1),), (Step("revise", entry, 1, 2),), (Step("revise", entry, 2, 3),),
            (Step("retire", entry, 3, 0),), (Step("restore", entry, 0, 4),), (Step("restore", entry, 4, 5),),
        ]  # fmt: skip

    async def test_steps_of_a_document(self, bench: Bench) -> None:
        """Put 0 → new or v → new, remove v → 0, put after a removal 0 → new, remove of nothing: no step."""
        put = bench.make.put("note")
        operations = (put, bench.make.put("note"), Remove(put.ref), Remove(put.ref), bench.make.put("note"))
        found = [await bench.steps((await bench.commit(operation)).change) for operation in operations]
        assert found == [
            (Step("put", put.id, 0, 1),), (Step("put", put.id, 1, 2),), (Step("remove", put.id, 2, 0),), (),
            (Step("put", put.id, 0, 3),),
        ]  # fmt: skip

    async def test_step_of_a_put_after_expiry(self, bench: Bench) -> None:
        """A put over an expired document starts from 0."""
        placed = await bench.put("note", expires_us=START_US)
        bench.clock.advance(seconds=1)
        commit = await bench.commit(bench.make.put("note"))
        assert await bench.steps(commit.change) == (Step("put", placed.id, 0, 2),)

    async def test_steps_of_a_chore(self, bench: Bench) -> None:
        """Enqueue 0 → 1, a live one found 1 → 1; finish, fail, drop and retry token → token."""
        enqueue = bench.make.enqueue(dedupe="d")
        chore = enqueue.draft.id
        made = await bench.commit(enqueue)
        found = await bench.commit(bench.make.enqueue(dedupe="d"))
        await bench.lease()
        failed = await bench.commit(Fail(chore, 1, "no", START_US))
        await bench.lease()
        dropped = await bench.commit(Drop(chore))
        retried = await bench.commit(Retry(chore, START_US))
        await bench.lease()
        finished = await bench.commit(Finish(chore, 3))
        steps = [(await bench.steps(c.change)) for c in (made, found, failed, dropped, retried, finished)]
        assert steps == [
            (Step("enqueue", chore, 0, 1),), (Step("enqueue", chore, 1, 1),), (Step("fail", chore, 1, 1),),
            (Step("drop", chore, 2, 2),), (Step("retry", chore, 2, 2),), (Step("finish", chore, 3, 3),),
        ]  # fmt: skip

    async def test_steps_of_a_forget(self, bench: Bench) -> None:
        """A forget has a step for each erased entry and document by ascending id, last version → 0."""
        entries = await bench.add_all("one", "two", "three")
        document = (await bench.put("note", 1)).id
        await bench.put("note", 2)
        await bench.commit(bench.make.revise(entries[1]))
        await bench.commit(Retire(entries[1], Reason.DELETED), Retire(entries[2], Reason.DELETED))
        await bench.enqueue()
        commit = await bench.commit(Forget(Selector(key=KEY)))
        versions = {entries[0]: 1, entries[1]: 2, entries[2]: 1, document: 2}
        assert await bench.steps(commit.change) == tuple(
            Step("forget", ref, versions[ref], 0) for ref in sorted(versions)
        )

    async def test_steps_of_a_forget_that_gives_back(self, bench: Bench) -> None:
        """Hidden entries that an erased summary gives back follow as restores, by ascending id, 0 → new version."""
        entries = await bench.add_all("one", "two")
        await bench.commit(bench.make.revise(entries[1]))
        summary = await bench.add("sum", kind="summary", origin=from_sources(*entries))
        await bench.commit(*(Retire(entry, Reason.HIDDEN, by=summary) for entry in reversed(entries)))
        commit = await bench.commit(Forget(Selector(ids=(summary,))))
        versions = {entries[0]: 2, entries[1]: 3}
        restores = [Step("restore", ref, 0, versions[ref]) for ref in sorted(versions)]
        assert list(await bench.steps(commit.change)) == [Step("forget", summary, 1, 0), *restores]

    async def test_steps_around_a_forget(self, bench: Bench) -> None:
        """The steps of a forget stand where it stands among the operations of its batch."""
        entry = await bench.add()
        put, append = bench.make.put(named("note", bank=OTHER_BANK)), bench.make.append(key="carol")
        commit = await bench.commit(put, Forget(Selector(ids=(entry,))), append)
        assert await bench.steps(commit.change) == (
            Step("put", put.id, 0, 1), Step("forget", entry, 1, 0), Step("append", append.draft.id, 0, 1),
        )  # fmt: skip

    async def test_a_forget_of_nothing_has_no_steps(self, bench: Bench) -> None:
        """A forget that found nothing is a change without steps."""
        commit = await bench.commit(Forget(Selector(key=KEY)))
        assert await bench.steps(commit.change) == ()


class JournalLaws(Ground):
    """Reading changes."""

    async def test_changes_come_in_commit_order(self, bench: Bench) -> None:
        """Changes come in commit order, with growing cursors and times, whatever the caller's ids."""
        ids = [bench.make.id() for _ in range(6)]
        for identifier in reversed(ids):
            await bench.store.commit(bench.make.batch(bench.make.append(), id=identifier))
        changes = await bench.store.changes(in_space())
        assert [change.id for change in changes] == ids[::-1]
        for older, newer in pairwise(changes):
            assert older.cursor < newer.cursor
            assert older.at_us < newer.at_us
        assert changes[0].cursor > 0

    async def test_changes_in_pages(self, bench: Bench) -> None:
        """Changes come after a cursor, up to a limit; following the cursor gives each change once."""
        ids = [(await bench.commit(bench.make.append())).change for _ in range(5)]
        found: list[str] = []
        after = 0
        while page := await bench.store.changes(in_space(), after=after, limit=2):
            assert len(page) <= 2
            found += [change.id for change in page]
            after = page[-1].cursor
        assert found == ids
        ids.append((await bench.commit(bench.make.append())).change)
        assert [change.id for change in await bench.store.changes(in_space(), after=after)] == ids[-1:]

    async def test_changes_of_an_origin(self, bench: Bench) -> None:
        """Changes of an origin: every field that is given must be equal; the limit counts what matches."""
        origins = [
            Origin(author="ann", run_id="r1", model="m"), Origin(author="ben", run_id="r1", channel="tool"),
            Origin(author="ann", run_id="r2", agent_id="a"), Origin(),
        ]  # fmt: skip
        for origin in origins * 2:
            await bench.commit(bench.make.append(), origin=origin)
        for match, expected in (
            (OriginMatch(author="ann"), [0, 2, 0, 2]), (OriginMatch(run_id="r1"), [0, 1, 0, 1]),
            (OriginMatch(author="ann", run_id="r1"), [0, 0]), (OriginMatch(channel="tool"), [1, 1]),
            (OriginMatch(agent_id="a", model="m"), []), (OriginMatch(model="m"), [0, 0]),
            (OriginMatch(channel="user", agent_id="a"), [2, 2]),
        ):  # fmt: skip
            found = await bench.store.changes(in_space(), origin=match)
            assert [origins.index(change.origin) for change in found] == expected
            first = await bench.store.changes(in_space(), origin=match, limit=1)
            assert first == found[:1]
            for change in first:
                assert await bench.store.changes(in_space(), origin=match, after=change.cursor) == found[1:]

    async def test_the_origin_is_the_batchs(self, bench: Bench) -> None:
        """A change is found by the origin of its batch, not by that of an entry in it."""
        await bench.add(origin=Origin(author="ann"))
        assert await bench.store.changes(in_space(), origin=OriginMatch(author="ann")) == []

    async def test_changes_belong_to_a_space(self, bench: Bench) -> None:
        """A space sees its own changes only, as a list and by id."""
        mine = (await bench.commit(bench.make.append())).change
        theirs = (await bench.commit(bench.make.append(), space=OTHER_SPACE)).change
        assert [change.id for change in await bench.store.changes(in_space())] == [mine]
        assert [change.id for change in await bench.store.changes(in_space(OTHER_SPACE))] == [theirs]
        assert await bench.store.change(in_space(), theirs) is None
        assert await bench.store.change(in_space(), bench.make.id()) is None

    async def test_cursors_grow_in_a_space(self, bench: Bench) -> None:
        """The cursor grows with every commit of a space, whatever other spaces do."""
        cursors: list[int] = []
        for space in ("acme", OTHER_SPACE, "acme"):
            commit = await bench.commit(bench.make.append(), space=space)
            change = await bench.store.change(in_space(space), commit.change)
            assert change is not None
            if space == "acme":
                cursors.append(change.cursor)
        assert cursors == sorted(set(cursors))

    async def test_changes_outlive_a_forget(self, bench: Bench) -> None:
        """The journal keeps the changes of what was forgotten: references, never content."""
        append = bench.make.append("canary")
        commit = await bench.commit(append)
        await bench.forget(Selector(key=KEY))
        assert await bench.steps(commit.change) == (Step("append", append.draft.id, 0, 1),)
