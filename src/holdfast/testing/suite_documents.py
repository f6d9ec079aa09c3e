"""Laws of documents: put, remove, positions, kept versions, the past."""

from __future__ import annotations

from itertools import pairwise

import pytest

from holdfast.errors import HistoryUnavailable, VersionConflict
from holdfast.model.batch import Placed, Remove
from holdfast.model.document import KEEP, Document
from holdfast.model.origin import Origin
from holdfast.model.values import JsonValue
from holdfast.testing.clock import START_US
from holdfast.testing.making import (
    KEY,
    OTHER_BANK,
    OTHER_KEY,
    OTHER_SPACE,
    in_bank,
    in_key,
    in_space,
    named,
)
from holdfast.testing.suite_ground import Bench, Ground

KEPT = ["block", "value", "digest", "bank", "a_kind_nobody_named"]
UNKEPT = ["working", "cache", "bank_name"]


async def value_of(bench: Bench, name: str, kind: str = "block") -> JsonValue:
    """The value of a visible document."""
    document = await bench.document(named(name, kind))
    assert document is not None
    return document.value


async def values_kept(bench: Bench, document_id: str) -> list[JsonValue]:
    """The values of all kept versions of a document."""
    return [document.value for document in await bench.store.document_versions(in_space(), document_id)]


class DocumentLaws(Ground):
    """Put and remove, expected versions, order."""

    async def test_every_field_comes_back(self, bench: Bench) -> None:
        """A document comes back with every field of its put, from every read."""
        put = bench.make.put("note", {"a": [1, None]}, subject="carol", expires_us=START_US + 9)
        commit = await bench.commit(put, origin=Origin(author="ann", run_id="r"))
        found = await bench.document("note")
        assert found is not None
        assert found == Document(
            id=put.id, space="acme", ref=put.ref, value={"a": [1, None]}, version=1, position=found.position,
            subject="carol", origin=Origin(author="ann", run_id="r"), recorded_us=commit.at_us,
            expires_us=START_US + 9, change=commit.change, ended_us=None, ended_change=None,
        )  # fmt: skip
        assert commit.placed == (Placed(put.id, 0, 1),)
        assert await bench.store.documents(in_key(), "block") == [found]
        assert await bench.store.document_versions(in_space(), put.id) == [found]

    async def test_a_missing_document_is_none(self, bench: Bench) -> None:
        """A document that is not there is None; a list of none is empty."""
        assert await bench.document("note") is None
        assert await bench.names() == []
        assert await bench.store.document_versions(in_space(), bench.make.id()) == []

    async def test_a_put_replaces(self, bench: Bench) -> None:
        """A put over a document replaces value, expiry and subject, keeps the id, and takes the next version."""
        first = await bench.put("note", 1, subject="carol", expires_us=START_US + 99)
        second = await bench.put("note", 2)
        found = await bench.document("note")
        assert found is not None
        assert (second.id, second.version) == (first.id, 2)
        assert (found.value, found.subject, found.expires_us, found.version) == (2, None, None, 2)

    async def test_names_are_told_apart(self, bench: Bench) -> None:
        """Space, bank, key, kind and name all belong to a document's name; case and accents count."""
        refs = [
            named("note"), named("Note"), named("not\xe9"), named("note", "value"), named("note", key=OTHER_KEY),
            named("note", bank=OTHER_BANK),
        ]  # fmt: skip
        for n, ref in enumerate(refs):
            await bench.put(ref, n)
        await bench.put("note", "foreign", space=OTHER_SPACE)
        found = [await bench.document(ref) for ref in refs]
        assert [document.value for document in found if document is not None] == list(range(len(refs)))

    async def test_expected_versions(self, bench: Bench) -> None:
        """``expected`` 0 needs a missing document, n that version, None takes any."""
        await bench.put("note", 1, expected=0)
        await bench.refused(VersionConflict, bench.make.put("note", 2, expected=0))
        await bench.put("note", 2, expected=1)
        await bench.refused(VersionConflict, bench.make.put("note", 3, expected=1))
        await bench.put("note", 3)
        assert await value_of(bench, "note") == 3

    @pytest.mark.parametrize("kind", ["block", "working"])
    async def test_expected_versions_after_expiry(self, bench: Bench, kind: str) -> None:
        """An expired document counts as missing for a put: ``expected`` 0 passes, its old version does not."""
        await bench.put(named("note", kind), 1, expires_us=START_US)
        bench.clock.advance(seconds=1)
        await bench.refused(VersionConflict, bench.make.put(named("note", kind), 2, expected=1))
        await bench.put(named("note", kind), 2, expected=0)
        assert await value_of(bench, "note", kind) == 2

    async def test_a_remove_takes_away(self, bench: Bench) -> None:
        """A removed document is in no read of the present."""
        await bench.put("note")
        await bench.put("stays")
        await bench.commit(Remove(named("note")))
        assert await bench.document("note") is None
        assert await bench.names() == ["stays"]

    async def test_a_remove_of_nothing_is_no_error(self, bench: Bench) -> None:
        """A remove of a missing, removed or expired document does nothing."""
        await bench.put("note", expires_us=START_US)
        bench.clock.advance(seconds=1)
        for name in ("missing", "note"):
            commit = await bench.commit(Remove(named(name)))
            assert len(commit.placed) == 1
            assert await bench.steps(commit.change) == ()

    async def test_a_remove_may_expect_a_version(self, bench: Bench) -> None:
        """A remove that expects another version, or any version of nothing, is a version conflict."""
        await bench.put("note")
        await bench.put("note")
        await bench.refused(VersionConflict, Remove(named("note"), expected=1))
        await bench.refused(VersionConflict, Remove(named("missing"), expected=1))
        await bench.commit(Remove(named("note"), expected=2))
        await bench.refused(VersionConflict, Remove(named("note"), expected=2))

    async def test_documents_come_in_order_of_insertion(self, bench: Bench) -> None:
        """Documents come by first insertion; an overwrite keeps the position, whatever the name."""
        for name in ("b", "c", "a"):
            await bench.put(name)
        await bench.put("b", "again")
        assert await bench.names() == ["b", "c", "a"]
        found = await bench.store.documents(in_key(), "block")
        positions = [document.position for document in found]
        assert positions == sorted(set(positions))

    async def test_a_removed_document_goes_to_the_end(self, bench: Bench) -> None:
        """A document that was removed and put again stands at the end."""
        for name in ("a", "b", "c"):
            await bench.put(name)
        await bench.commit(Remove(named("a")))
        await bench.put("a")
        await bench.put("b", "again")
        assert await bench.names() == ["b", "c", "a"]

    @pytest.mark.parametrize("kind", ["block", "working"])
    async def test_an_expired_document_goes_to_the_end(self, bench: Bench, kind: str) -> None:
        """A document that is put again after it expired stands at the end; before that it keeps its position."""
        for name in ("a", "b", "c"):
            await bench.put(named(name, kind), expires_us=START_US + 10 if name == "a" else None)
        bench.clock.set(START_US + 10)
        await bench.put(named("a", kind), expires_us=START_US + 20)
        assert await bench.names(kind) == ["a", "b", "c"]
        bench.clock.set(START_US + 21)
        assert await bench.names(kind) == ["b", "c"]
        await bench.put(named("a", kind))
        assert await bench.names(kind) == ["b", "c", "a"]

    async def test_pages_of_documents(self, bench: Bench) -> None:
        """Documents come in pages, after a position and up to a limit."""
        for name in ("a", "b", "c", "d"):
            await bench.put(name)
        first = await bench.store.documents(in_key(), "block", limit=2)
        assert [document.ref.name for document in first] == ["a", "b"]
        assert await bench.names(after=first[0].position, limit=2) == ["b", "c"]
        await bench.commit(Remove(named("b")))
        await bench.put("b")
        assert await bench.names(after=first[-1].position) == ["c", "d", "b"]
        assert await bench.names(after=first[-1].position, limit=1) == ["c"]

    async def test_prefixes_are_plain_text(self, bench: Bench) -> None:
        """A prefix is a plain start: ``%``, ``_``, ``*``, ``?`` and ``[`` match only themselves, and case counts."""
        names = [
            "a%b",
            "a_b",
            "a*b",
            "a?b",
            "[a]b",
            "axb",
            "A%b",
            "\xe9t\xe9",
            "e\u0301t",
            "\U0001f600a",
            "\\x",
        ]
        for name in names:
            await bench.put(name)
        for prefix in (
            "",
            "a",
            "a%",
            "a_",
            "a*",
            "a?",
            "[a]",
            "[",
            "A",
            "%",
            "\xe9",
            "e",
            "\U0001f600",
            "\\",
            "b",
        ):
            assert await bench.names(prefix=prefix) == [name for name in names if name.startswith(prefix)], (
                prefix
            )

    async def test_a_list_shows_one_kind_of_one_place(self, bench: Bench) -> None:
        """A list holds the documents of its kind, key, bank and space only."""
        for ref in (named("a"), named("b", "value"), named("c", key=OTHER_KEY), named("d", bank=OTHER_BANK)):
            await bench.put(ref)
        await bench.put("e", space=OTHER_SPACE)
        assert await bench.names() == ["a"]
        assert await bench.names("value") == ["b"]

    async def test_documents_expire_at_the_exact_microsecond(self, bench: Bench) -> None:
        """A document is visible up to the microsecond of its expiry and not after it."""
        await bench.put("note", expires_us=START_US + 1_000)
        for offset, shown in ((1_000, True), (1_001, False), (1_000, True)):
            bench.clock.set(START_US + offset)
            assert (await bench.document("note") is not None) is shown
            assert bool(await bench.names()) is shown

    @pytest.mark.parametrize("kind", KEPT)
    async def test_versions_go_on_after_a_removal(self, bench: Bench, kind: str) -> None:
        """A kind that keeps versions goes on counting, with the same id, after a removal."""
        first = await bench.put(named("note", kind), 1)
        await bench.commit(Remove(named("note", kind)))
        second = await bench.put(named("note", kind), 2)
        assert (second.id, second.version) == (first.id, 2)
        assert await values_kept(bench, first.id) == [1, 2]

    async def test_versions_go_on_after_expiry(self, bench: Bench) -> None:
        """A kind that keeps versions goes on counting, with the same id, after an expiry."""
        first = await bench.put("note", 1, expires_us=START_US)
        bench.clock.advance(seconds=1)
        second = await bench.put("note", 2)
        assert (second.id, second.version) == (first.id, 2)
        assert await values_kept(bench, first.id) == [1, 2]

    @pytest.mark.parametrize("kind", UNKEPT)
    async def test_versions_start_again_where_none_are_kept(self, bench: Bench, kind: str) -> None:
        """A kind that keeps no versions counts while it is overwritten, and starts at 1 with a new id after that."""
        ref = named("note", kind)
        first = await bench.put(ref, 1)
        second = await bench.put(ref, 2)
        assert (second.id, second.version) == (first.id, 2)
        assert await values_kept(bench, first.id) == [2]
        await bench.commit(Remove(ref))
        assert await values_kept(bench, first.id) == []
        third = await bench.put(ref, 3, expires_us=START_US)
        bench.clock.advance(seconds=1)
        fourth = await bench.put(ref, 4)
        assert (third.version, fourth.version) == (1, 1)
        assert len({first.id, third.id, fourth.id}) == 3
        assert await values_kept(bench, third.id) == []

    async def test_all_versions_are_kept(self, bench: Bench) -> None:
        """A kind that keeps all versions gives them oldest first, the current one last, each with its end."""
        placed = [await bench.put("note", n) for n in range(30)]
        found = await bench.store.document_versions(in_space(), placed[0].id)
        assert [document.version for document in found] == list(range(1, 31))
        assert [document.value for document in found] == list(range(30))
        for older, newer in pairwise(found):
            assert (older.ended_us, older.ended_change) == (newer.recorded_us, newer.change)
        assert found[-1].ended_us is None

    @pytest.mark.parametrize("kind", [kind for kind, kept in KEEP.items() if kept > 0])
    async def test_the_newest_ended_versions_are_kept(self, bench: Bench, kind: str) -> None:
        """A kind keeps as many of the newest ended versions as it states, beside the current one."""
        placed = [await bench.put(named("note", kind), n) for n in range(KEEP[kind] + 4)]
        found = await bench.store.document_versions(in_space(), placed[0].id)
        assert [document.version for document in found] == list(range(4, KEEP[kind] + 5))
        await bench.commit(Remove(named("note", kind)))
        found = await bench.store.document_versions(in_space(), placed[0].id)
        assert [document.version for document in found] == list(range(5, KEEP[kind] + 5))

    async def test_versions_after_a_removal(self, bench: Bench) -> None:
        """A removed version is kept with its end: when, and by which change."""
        placed = await bench.put("note", 1)
        commit = await bench.commit(Remove(named("note")))
        (version,) = await bench.store.document_versions(in_space(), placed.id)
        assert (version.ended_us, version.ended_change, version.value) == (commit.at_us, commit.change, 1)

    async def test_the_past_of_a_document(self, bench: Bench) -> None:
        """As of a time a document shows the version of then: before it was put, and after it was removed, none."""
        one = (await bench.commit(bench.make.put("note", 1))).at_us
        two = (await bench.commit(bench.make.put("note", 2))).at_us
        gone = (await bench.commit(Remove(named("note")))).at_us
        back = (await bench.commit(bench.make.put("note", 3))).at_us
        for as_of_us, value in (
            (one - 1, None), (one, 1), (two - 1, 1), (two, 2), (gone - 1, 2), (gone, None), (back - 1, None), (back, 3),
        ):  # fmt: skip
            found = await bench.document("note", as_of_us=as_of_us)
            assert (None if found is None else found.value) == value

    async def test_the_past_of_an_expired_document(self, bench: Bench) -> None:
        """As of a time a document shows when it had not expired by then, though it has by now."""
        await bench.put("note", 1, expires_us=START_US + 100)
        bench.clock.advance(seconds=1)
        await bench.put("note", 2)
        then, later = START_US + 100, START_US + 101
        found = await bench.document("note", as_of_us=then)
        assert found is not None
        assert found.value == 1
        assert await bench.document("note", as_of_us=later) is None

    @pytest.mark.parametrize("kind", UNKEPT)
    async def test_no_past_without_versions(self, bench: Bench, kind: str) -> None:
        """The past of a kind that keeps no versions is not available, whether the document exists or not."""
        for _ in range(2):
            with pytest.raises(HistoryUnavailable):
                await bench.document(named("note", kind), as_of_us=START_US)
            await bench.put(named("note", kind))

    @pytest.mark.parametrize("kind", [kind for kind, kept in KEEP.items() if kept > 0])
    async def test_no_past_beyond_the_kept_versions(self, bench: Bench, kind: str) -> None:
        """The past is not available where the versions of that time have been dropped; after that it is."""
        times = [
            (await bench.commit(bench.make.put(named("note", kind), n))).at_us for n in range(KEEP[kind] + 3)
        ]  # fmt: skip
        for as_of_us in (times[0], times[1], times[2] - 1):
            with pytest.raises(HistoryUnavailable):
                await bench.document(named("note", kind), as_of_us=as_of_us)
        found = await bench.document(named("note", kind), as_of_us=times[2])
        assert found is not None
        assert found.value == 2

    async def test_foreign_documents_look_missing(self, bench: Bench) -> None:
        """A document is found in its own space, bank and key only, by name and by id."""
        placed = await bench.put("note")
        ref = named("note")
        assert await bench.document(ref, space=OTHER_SPACE) is None
        assert await bench.store.documents(in_key(space=OTHER_SPACE), "block") == []
        for scope in (in_space(OTHER_SPACE), in_bank(OTHER_BANK), in_key(OTHER_KEY)):
            assert await bench.store.document_versions(scope, placed.id) == []
        for scope in (in_space(), in_bank(), in_key(KEY)):
            assert len(await bench.store.document_versions(scope, placed.id)) == 1

    async def test_many_documents(self, bench: Bench) -> None:
        """Hundreds of documents of one place come back in their order."""
        names = [f"n{n}" for n in range(500)]
        await bench.commit(*(bench.make.put(name, name) for name in names))
        assert await bench.names() == names
