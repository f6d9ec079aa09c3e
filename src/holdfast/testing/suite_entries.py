"""Laws of writing entries: append, dedupe, revise, retire, restore."""

from __future__ import annotations

import pytest

from holdfast.errors import AlreadyExists, Conflict, EntryNotFound, VersionConflict
from holdfast.model.batch import Placed, Restore, Retire
from holdfast.model.entry import Entry, Reason, Retirement
from holdfast.model.forget import Selector
from holdfast.model.origin import Origin, Trust
from holdfast.model.window import Window
from holdfast.testing.making import KEY, OTHER_BANK, OTHER_KEY, OTHER_SPACE, in_key, in_space
from holdfast.testing.suite_ground import ALL, Bench, Ground


class AppendLaws(Ground):
    """What an append keeps, and when it keeps an equal entry instead."""

    async def test_every_field_comes_back(self, bench: Bench) -> None:
        """An entry comes back with every field of its draft, from every read."""
        now_us = bench.clock.now_us()
        origin = Origin(
            author="ann", channel="tool", trust=Trust.EXTERNAL, method="extracted", agent_id="a", run_id="r",
            step_id="s", model="m", sources=(bench.make.id(),), observed_us=7,
        )  # fmt: skip
        append = bench.make.append(
            "tea", kind="summary", title="Drinks", speaker="user", name="Ann", thread="t1", subject="carol",
            metadata={"a": [1, {"b": None}]}, origin=origin, created_us=now_us - 5, expires_us=now_us + 5,
        )  # fmt: skip
        commit = await bench.commit(append)
        expected = Entry(
            id=append.draft.id, space="acme", bank="notes", key="alice", seq=1, version=1, kind="summary",
            content="tea", title="Drinks", speaker="user", name="Ann", thread="t1", subject="carol",
            metadata={"a": [1, {"b": None}]}, origin=origin, created_us=now_us - 5, recorded_us=commit.at_us,
            expires_us=now_us + 5, change=commit.change, seen=1, retired=None,
        )  # fmt: skip
        rows = await bench.rows_of()
        assert await bench.load() == [expected]
        assert await bench.entry(expected.id) == expected
        assert await bench.versions(expected.id) == [expected]
        assert await bench.store.fetch(in_key(), list(rows.values())) == [expected]

    async def test_a_draft_without_origin_takes_the_batchs(self, bench: Bench) -> None:
        """An entry without an origin of its own carries that of its batch."""
        own, batchs = Origin(author="ann"), Origin(author="ben", channel="web")
        with_own, without = bench.make.append(origin=own), bench.make.append()
        await bench.commit(with_own, without, origin=batchs)
        assert [entry.origin for entry in await bench.load()] == [own, batchs]

    async def test_a_known_id_is_refused(self, bench: Bench) -> None:
        """An append of a known id is refused: in the same place, another one, of a retired and a forgotten entry."""
        entry = await bench.add()
        await bench.refused(AlreadyExists, bench.make.append("again", id=entry))
        await bench.refused(AlreadyExists, bench.make.append("again", id=entry, key=OTHER_KEY))
        await bench.commit(Retire(entry, Reason.DELETED))
        await bench.refused(AlreadyExists, bench.make.append("again", id=entry))
        await bench.forget(Selector(ids=(entry,)))
        await bench.refused(AlreadyExists, bench.make.append("again", id=entry))

    async def test_a_known_id_is_refused_before_a_duplicate_is_found(self, bench: Bench) -> None:
        """An append of a known id is refused even where its digest would find an equal entry."""
        entry = await bench.add(digest=b"d")
        other = await bench.add("other")
        await bench.refused(AlreadyExists, bench.make.append(id=entry, digest=b"d"))
        await bench.refused(AlreadyExists, bench.make.append(id=other, digest=b"d"))

    async def test_an_id_given_twice_in_a_batch_is_refused(self, bench: Bench) -> None:
        """Two appends of one id in one batch are refused."""
        entry = bench.make.id()
        await bench.refused(AlreadyExists, bench.make.append(id=entry), bench.make.append(id=entry))

    async def test_equal_content_without_digest_is_kept_twice(self, bench: Bench) -> None:
        """Without a digest equal entries stand beside each other."""
        await bench.add("tea")
        await bench.add("tea")
        assert [(entry.seq, entry.seen) for entry in await bench.load()] == [(1, 1), (2, 1)]

    async def test_an_equal_entry_is_kept_instead(self, bench: Bench) -> None:
        """An append whose digest a visible entry of the place has gives that entry, seen once more."""
        first = await bench.add("tea", digest=b"d")
        commit = await bench.commit(bench.make.append("tea", digest=b"d"))
        assert commit.placed == (Placed(first, 1, 1, duplicate=True),)
        (entry,) = await bench.load()
        assert (entry.id, entry.version, entry.seen) == (first, 1, 2)
        assert len(await bench.versions(first)) == 1

    async def test_a_duplicate_takes_no_seq(self, bench: Bench) -> None:
        """An append that found an equal entry takes no seq and makes no record."""
        await bench.add("tea", digest=b"d")
        second = bench.make.append("tea", digest=b"d")
        await bench.commit(second)
        assert await bench.store.head(in_key()) == 1
        assert await bench.versions(second.draft.id) == []
        assert (await bench.commit(bench.make.append())).placed[0].seq == 2

    async def test_a_duplicate_inside_a_batch(self, bench: Bench) -> None:
        """An equal entry is found that the same batch has appended before."""
        commit = await bench.commit(*(bench.make.append("tea", digest=b"d") for _ in range(3)))
        assert [placed.duplicate for placed in commit.placed] == [False, True, True]
        assert [entry.seen for entry in await bench.load()] == [3]

    async def test_digests_belong_to_a_place(self, bench: Bench) -> None:
        """The same digest in another key, bank or space, and another digest, find nothing."""
        await bench.add("tea", digest=b"d")
        for commit in (
            await bench.commit(bench.make.append(digest=b"D")),
            await bench.commit(bench.make.append(digest=b"d", key=OTHER_KEY)),
            await bench.commit(bench.make.append(digest=b"d", bank=OTHER_BANK)),
            await bench.commit(bench.make.append(digest=b"d"), space=OTHER_SPACE),
        ):
            assert not commit.placed[0].duplicate

    @pytest.mark.parametrize("how", ["retired", "expired", "forgotten"])
    async def test_only_a_visible_entry_is_found(self, bench: Bench, how: str) -> None:
        """A retired, expired or forgotten entry is not kept instead of a new one."""
        first = await bench.add("tea", digest=b"d", expires_us=bench.clock.now_us() + 10)
        if how == "retired":
            await bench.commit(Retire(first, Reason.DELETED))
        elif how == "forgotten":
            await bench.forget(Selector(ids=(first,)))
        else:
            bench.clock.advance(microseconds=11)
        (placed,) = (await bench.commit(bench.make.append("tea", digest=b"d"))).placed
        assert (placed.duplicate, placed.seq, placed.version) == (False, 2, 1)

    async def test_a_duplicate_adds_lacking_metadata(self, bench: Bench) -> None:
        """A duplicate adds the metadata keys that the entry lacks, as a new version; what is there stays."""
        first = await bench.add(
            "tea", digest=b"d", metadata={"a": 1, "b": {"c": 1}}, title="T", speaker="user"
        )
        again = bench.make.append("tea", digest=b"d", metadata={"a": 2, "b": {"d": 2}, "e": None}, title="U")
        commit = await bench.commit(again)
        assert commit.placed == (Placed(first, 1, 2, duplicate=True),)
        old, new = await bench.versions(first)
        assert new.metadata == {"a": 1, "b": {"c": 1}, "e": None}
        assert (new.content, new.title, new.speaker, new.seen) == ("tea", "T", "user", 2)
        assert (new.recorded_us, new.change, new.created_us) == (commit.at_us, commit.change, old.created_us)
        assert old.metadata == {"a": 1, "b": {"c": 1}}
        assert old.retired is not None
        assert (old.retired.at_us, old.retired.reason) == (commit.at_us, Reason.REVISED)

    async def test_a_duplicate_without_news_makes_no_version(self, bench: Bench) -> None:
        """A duplicate whose metadata keys are all known leaves the version as it is."""
        first = await bench.add("tea", digest=b"d", metadata={"a": 1, "b": 2})
        await bench.commit(bench.make.append("tea", digest=b"d", metadata={"b": 3}))
        await bench.commit(bench.make.append("tea", digest=b"d"))
        (entry,) = await bench.versions(first)
        assert (entry.metadata, entry.version, entry.seen) == ({"a": 1, "b": 2}, 1, 3)

    async def test_a_duplicate_is_found_after_metadata_was_added(self, bench: Bench) -> None:
        """The entry is still found by its digest after a duplicate gave it a new version."""
        await bench.add("tea", digest=b"d")
        await bench.commit(bench.make.append("tea", digest=b"d", metadata={"a": 1}))
        commit = await bench.commit(bench.make.append("tea", digest=b"d", metadata={"b": 2}))
        (entry,) = await bench.load()
        assert commit.placed[0].duplicate
        assert (entry.metadata, entry.version, entry.seen) == ({"a": 1, "b": 2}, 3, 3)

    async def test_a_version_of_added_metadata_is_searched_and_filtered(self, bench: Bench) -> None:
        """The version that a duplicate made is found by its words, once."""
        first = await bench.add("tea", digest=b"d")
        await bench.commit(bench.make.append("tea", digest=b"d", metadata={"a": 1}))
        stats = await bench.store.words(in_key(), ["tea"])
        assert (stats.entries, stats.terms, len(stats.postings["tea"].rows)) == (1, 1, 1)
        assert await bench.holding("tea") == [first]


class VersionLaws(Ground):
    """Revise, retire and restore."""

    async def test_a_revision_is_a_new_version(self, bench: Bench) -> None:
        """A revision has the same id, place and seq, the next version, and everything else from its draft."""
        entry = await bench.add("one", title="T", metadata={"a": 1}, thread="t")
        await bench.add("other")
        bench.clock.advance(seconds=1)
        commit = await bench.commit(
            bench.make.revise(entry, "two", metadata={"b": 2}, speaker="user", created_us=5)
        )
        assert commit.placed == (Placed(entry, 1, 2),)
        found = await bench.entry(entry)
        assert (found.bank, found.key, found.seq, found.version) == ("notes", "alice", 1, 2)
        assert (found.content, found.title, found.metadata, found.thread) == ("two", None, {"b": 2}, None)
        assert (found.speaker, found.created_us, found.recorded_us) == ("user", 5, commit.at_us)
        assert (found.change, found.retired) == (commit.change, None)

    async def test_a_revision_retires_the_version_before(self, bench: Bench) -> None:
        """The version before a revision is retired as revised, by its change and at its time, and keeps its text."""
        entry = await bench.add("one")
        commit = await bench.commit(bench.make.revise(entry, "two"))
        old, new = await bench.versions(entry)
        assert (old.content, old.version, new.content, new.version) == ("one", 1, "two", 2)
        assert old.retired is not None
        assert (old.retired.at_us, old.retired.reason, old.retired.change) == (
            commit.at_us, Reason.REVISED, commit.change,
        )  # fmt: skip
        assert new.retired is None

    async def test_a_revision_carries_seen_over(self, bench: Bench) -> None:
        """How often an entry was seen goes on over a revision."""
        entry = await bench.add("tea", digest=b"d")
        await bench.add("tea", digest=b"d")
        await bench.commit(bench.make.revise(entry))
        assert (await bench.entry(entry)).seen == 2

    async def test_a_revision_keeps_the_place_in_order(self, bench: Bench) -> None:
        """A revised entry stays where it stood in its key."""
        first, _ = await bench.add_all("one", "two")
        await bench.commit(bench.make.revise(first, "one again"))
        assert await bench.texts() == ["one again", "two"]

    @pytest.mark.parametrize("how", ["missing", "retired", "expired", "forgotten"])
    async def test_only_a_visible_entry_is_revised(self, bench: Bench, how: str) -> None:
        """A missing, retired, expired or forgotten entry cannot be revised."""
        entry = await bench.add(expires_us=bench.clock.now_us() + 10)
        if how == "missing":
            entry = bench.make.id()
        elif how == "retired":
            await bench.commit(Retire(entry, Reason.DELETED))
        elif how == "forgotten":
            await bench.forget(Selector(ids=(entry,)))
        else:
            bench.clock.advance(microseconds=11)
        await bench.refused(EntryNotFound, bench.make.revise(entry))

    async def test_a_revision_may_expect_a_version(self, bench: Bench) -> None:
        """A revision that expects the current version passes, any other is a version conflict."""
        entry = await bench.add()
        await bench.commit(bench.make.revise(entry, expected=1))
        await bench.refused(VersionConflict, bench.make.revise(entry, expected=1))
        await bench.refused(VersionConflict, bench.make.revise(entry, expected=3))
        assert (await bench.commit(bench.make.revise(entry, expected=2))).placed[0].version == 3

    @pytest.mark.parametrize("reason", list(Reason))
    async def test_a_retired_entry_is_out_of_sight(self, bench: Bench, reason: Reason) -> None:
        """A retired entry is in no read of the present; its version keeps when, why, by which change and entry."""
        entry, other = await bench.add_all("tea", "coffee")
        rows = await bench.rows_of()
        commit = await bench.commit(Retire(entry, reason, by=other))
        assert await bench.texts() == ["coffee"]
        assert await bench.store.find(in_space(), [entry]) == []
        assert await bench.holding("tea") == []
        assert await bench.store.fetch(in_key(), [rows[entry]]) == [None]
        (version,) = await bench.versions(entry)
        assert version.retired == Retirement(commit.at_us, reason, commit.change, other)
        assert (version.version, version.content) == (1, "tea")

    async def test_only_a_current_entry_is_retired(self, bench: Bench) -> None:
        """A missing, retired or forgotten entry cannot be retired."""
        retired, forgotten = await bench.add_all("one", "two")
        await bench.commit(Retire(retired, Reason.DELETED))
        await bench.forget(Selector(ids=(forgotten,)))
        for entry in (bench.make.id(), retired, forgotten):
            await bench.refused(EntryNotFound, Retire(entry, Reason.DELETED))

    async def test_an_expired_entry_is_retired(self, bench: Bench) -> None:
        """An expired entry still counts as current for a retire."""
        entry = await bench.add(expires_us=bench.clock.now_us())
        bench.clock.advance(seconds=1)
        await bench.commit(Retire(entry, Reason.DELETED, expected=1))
        (version,) = await bench.versions(entry)
        assert version.retired is not None

    async def test_a_retire_may_expect_a_version(self, bench: Bench) -> None:
        """A retire that expects another version is a version conflict."""
        entry = await bench.add()
        await bench.commit(bench.make.revise(entry))
        await bench.refused(VersionConflict, Retire(entry, Reason.DELETED, expected=1))
        await bench.commit(Retire(entry, Reason.DELETED, expected=2))

    async def test_a_restore_copies_the_newest_version(self, bench: Bench) -> None:
        """A restore makes the newest kept version current again, as the next version, recorded now."""
        entry = await bench.add("one", metadata={"a": 1}, title="T", created_us=5)
        await bench.commit(bench.make.revise(entry, "two", metadata={"b": 2}, created_us=6))
        retire = await bench.commit(Retire(entry, Reason.DELETED))
        bench.clock.advance(seconds=1)
        commit = await bench.commit(Restore(entry))
        assert commit.placed == (Placed(entry, 1, 3),)
        _, second, third = await bench.versions(entry)
        assert second.retired is not None
        assert (second.retired.at_us, second.retired.reason) == (retire.at_us, Reason.DELETED)
        assert (third.content, third.metadata, third.created_us, third.seq) == ("two", {"b": 2}, 6, 1)
        assert (third.recorded_us, third.change, third.retired) == (commit.at_us, commit.change, None)
        assert await bench.holding("two") == [entry]

    async def test_a_restore_copies_a_named_version(self, bench: Bench) -> None:
        """A restore of a named version copies that one, with all its fields."""
        entry = await bench.add("one", metadata={"a": 1}, title="T", speaker="user")
        await bench.commit(bench.make.revise(entry, "two"))
        await bench.commit(Retire(entry, Reason.DELETED))
        await bench.commit(Restore(entry, 1))
        found = await bench.entry(entry)
        assert (found.version, found.content, found.metadata) == (3, "one", {"a": 1})
        assert (found.title, found.speaker) == ("T", "user")

    async def test_a_restore_over_a_current_version(self, bench: Bench) -> None:
        """A restore of a named version retires the current one as revised first."""
        entry = await bench.add("one")
        await bench.commit(bench.make.revise(entry, "two"))
        commit = await bench.commit(Restore(entry, 1))
        _, second, third = await bench.versions(entry)
        assert second.retired is not None
        assert (second.retired.reason, second.retired.at_us) == (Reason.REVISED, commit.at_us)
        assert (third.version, third.content) == (3, "one")
        assert await bench.texts() == ["one"]

    async def test_a_restore_of_what_is_current_is_a_conflict(self, bench: Bench) -> None:
        """A restore without a version of an entry that is current is a conflict."""
        entry = await bench.add()
        await bench.refused(Conflict, Restore(entry))

    async def test_a_restore_needs_a_kept_version(self, bench: Bench) -> None:
        """A missing entry, a forgotten one and a version that never was cannot be restored."""
        entry, forgotten = await bench.add_all("one", "two")
        await bench.commit(Retire(entry, Reason.DELETED))
        await bench.forget(Selector(ids=(forgotten,)))
        for operation in (
            Restore(bench.make.id()),
            Restore(forgotten),
            Restore(forgotten, 1),
            Restore(entry, 2),
        ):
            await bench.refused(EntryNotFound, operation)

    async def test_a_restore_carries_seen_over(self, bench: Bench) -> None:
        """How often an entry was seen goes on over a retire and a restore."""
        entry = await bench.add("tea", digest=b"d")
        await bench.add("tea", digest=b"d")
        await bench.commit(Retire(entry, Reason.DELETED))
        await bench.commit(Restore(entry))
        assert (await bench.entry(entry)).seen == 2

    async def test_versions_grow_over_retire_and_restore(self, bench: Bench) -> None:
        """Version numbers go on after each restore, and all versions are kept, oldest first."""
        entry = await bench.add("one")
        for _ in range(3):
            await bench.commit(Retire(entry, Reason.UNDONE))
            await bench.commit(Restore(entry))
        assert [version.version for version in await bench.versions(entry)] == [1, 2, 3, 4]
        assert [version.retired is None for version in await bench.versions(entry)] == [
            False,
            False,
            False,
            True,
        ]

    async def test_a_restored_entry_can_be_revised(self, bench: Bench) -> None:
        """A restored version is current in every way: it can be required, revised and retired."""
        entry = await bench.add("one")
        await bench.commit(Retire(entry, Reason.DELETED))
        await bench.commit(Restore(entry))
        await bench.commit(bench.make.revise(entry, "two", expected=2))
        await bench.commit(Retire(entry, Reason.DELETED, expected=3))
        assert await bench.texts() == []

    async def test_a_retired_entry_keeps_its_place_for_a_restore(self, bench: Bench) -> None:
        """A restored entry stands where it stood, at its own seq."""
        entries = await bench.add_all("one", "two", "three")
        await bench.commit(Retire(entries[1], Reason.DELETED))
        await bench.commit(Restore(entries[1]))
        assert await bench.texts() == ["one", "two", "three"]
        assert await bench.texts(Window(order="newest_first")) == ["three", "two", "one"]

    async def test_foreign_entries_look_missing_to_writes(self, bench: Bench) -> None:
        """Another space's entry cannot be revised, retired or restored: it looks missing."""
        entry = await bench.add()
        retired = await bench.add()
        await bench.commit(Retire(retired, Reason.DELETED))
        before = await bench.picture()
        for operation in (
            bench.make.revise(entry),
            Retire(entry, Reason.DELETED),
            Restore(entry, 1),
            Restore(retired),
        ):
            await bench.refused(EntryNotFound, operation, space=OTHER_SPACE)
        assert await bench.picture() == before

    async def test_kinds_of_versions_stay_apart(self, bench: Bench) -> None:
        """A revision of one entry leaves the versions of its neighbours alone."""
        first, second = await bench.add_all("one", "two")
        await bench.commit(bench.make.revise(first, "three"))
        assert [version.content for version in await bench.versions(second)] == ["two"]
        assert len(await bench.load(ALL, in_key(KEY))) == 2
