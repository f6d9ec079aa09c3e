"""Laws of forgetting: what is selected, what goes along, what comes back, what is left."""

from __future__ import annotations

import pytest

from holdfast.model.batch import Drop, Finish, Forget, Remove, Retire
from holdfast.model.chore import FORGOTTEN_KEY, ChoreState
from holdfast.model.document import DocumentRef
from holdfast.model.entry import Quantised, Reason
from holdfast.model.forget import OriginMatch, Receipt, Selector
from holdfast.model.origin import Origin
from holdfast.model.scope import Place
from holdfast.model.window import Window
from holdfast.testing.clock import START_US
from holdfast.testing.making import (
    BANK,
    KEY,
    OTHER_BANK,
    OTHER_KEY,
    OTHER_SPACE,
    from_sources,
    in_bank,
    in_key,
    in_space,
    named,
    told_by,
)
from holdfast.testing.suite_ground import Bench, Ground

CANARY = "qanaryzebrafish"


async def everything(bench: Bench, space: str = "acme") -> list[str]:
    """Contents of all entries and names of all documents of the usual places, sorted."""
    scopes = [in_bank(bank, space) for bank in (BANK, OTHER_BANK)]
    found = [entry.content for scope in scopes for entry in await bench.load(Window(hidden=True), scope)]
    places = [in_key(key, bank, space) for bank in (BANK, OTHER_BANK) for key in (KEY, OTHER_KEY)]
    for place in places:
        found += [document.ref.name for document in await bench.store.documents(place, "block")]
    return sorted(found)


async def furnish(bench: Bench) -> None:
    """Entries and documents in two banks with two keys each, and in another space; names say where they stand."""
    for space in ("acme", OTHER_SPACE):
        for bank in (BANK, OTHER_BANK):
            for key in (KEY, OTHER_KEY):
                await bench.add(f"{bank} {key}", key=key, bank=bank, space=space)
                await bench.put(named(f"doc {bank} {key}", key=key, bank=bank), space=space)


class SelectLaws(Ground):
    """What each part of a selector selects."""

    @pytest.mark.parametrize(
        ("selector", "gone"),
        [
            (Selector(bank=BANK), {"notes alice", "notes bob", "doc notes alice", "doc notes bob"}),
            (Selector(key=KEY), {"notes alice", "letters alice", "doc notes alice", "doc letters alice"}),
            (Selector(bank=BANK, key=KEY), {"notes alice", "doc notes alice"}),
            (Selector(subject=OTHER_KEY), {"notes bob", "letters bob", "doc notes bob", "doc letters bob"}),
            (Selector(subject=KEY, bank=OTHER_BANK), {"letters alice", "doc letters alice"}),
            (Selector(subject=KEY, key=OTHER_KEY), set[str]()),
            (Selector(bank="nothing here"), set[str]()),
            (Selector(key="ali"), set[str]()),
        ],
    )
    async def test_parts_select(self, bench: Bench, selector: Selector, gone: set[str]) -> None:
        """Bank, key and subject select exactly what they name, in the space only; all that are given must hold."""
        await furnish(bench)
        before = await everything(bench)
        await bench.forget(selector)
        assert await everything(bench) == sorted(set(before) - gone)
        assert await everything(bench, OTHER_SPACE) == before

    async def test_a_subject_is_the_entrys_own(self, bench: Bench) -> None:
        """A subject selects what carries it, and what carries none and stands under a key of that name."""
        await bench.add("about bob", subject=OTHER_KEY)
        await bench.add("by key", key=OTHER_KEY)
        await bench.add("bob about alice", key=OTHER_KEY, subject=KEY)
        await bench.put("doc about bob", subject=OTHER_KEY)
        await bench.put(named("doc by key", key=OTHER_KEY))
        await bench.put(named("doc bob about alice", key=OTHER_KEY), subject=KEY)
        await bench.forget(Selector(subject=OTHER_KEY))
        assert await everything(bench) == ["bob about alice", "doc bob about alice"]

    async def test_ids_select(self, bench: Bench) -> None:
        """Ids select entries and documents; unknown and foreign ids select nothing."""
        one, _ = await bench.add_all("one", "two")
        document = (await bench.put("note")).id
        await bench.put("stays")
        foreign = await bench.add("foreign", space=OTHER_SPACE)
        receipt = await bench.forget(Selector(ids=(one, document, foreign, bench.make.id())))
        assert await everything(bench) == ["stays", "two"]
        assert (receipt.counts["entries"], receipt.counts["documents"]) == (1, 1)
        assert await bench.texts(scope=in_key(space=OTHER_SPACE)) == ["foreign"]

    async def test_ids_and_other_parts_must_all_hold(self, bench: Bench) -> None:
        """Ids with another part select only what meets both."""
        one = await bench.add("one")
        two = await bench.add("two", key=OTHER_KEY)
        await bench.forget(Selector(ids=(one, two), key=OTHER_KEY))
        assert await everything(bench) == ["one"]

    async def test_an_origin_selects(self, bench: Bench) -> None:
        """An origin selects entries and documents whose origin has every given field."""
        for author, run in (("ann", "r1"), ("ann", "r2"), ("ben", "r1")):
            origin = Origin(author=author, run_id=run)
            put = bench.make.put(f"doc {author} {run}")
            await bench.commit(bench.make.append(f"{author} {run}"), put, origin=origin)
        await bench.add("own", origin=told_by("ann"))
        await bench.forget(Selector(origin=OriginMatch(author="ann", run_id="r1")))
        assert await everything(bench) == ["ann r2", "ben r1", "doc ann r2", "doc ben r1", "own"]
        await bench.forget(Selector(origin=OriginMatch(author="ann")))
        assert await everything(bench) == ["ben r1", "doc ben r1"]

    async def test_created_before_selects_entries_only(self, bench: Bench) -> None:
        """``created_before_us`` selects entries said before that time, and no document."""
        for offset in (1, 2, 3):
            await bench.add(f"{offset}", created_us=START_US + offset)
        await bench.put("note")
        receipt = await bench.forget(Selector(key=KEY, created_before_us=START_US + 2))
        assert await everything(bench) == ["2", "3", "note"]
        assert (receipt.counts["entries"], receipt.counts["documents"]) == (1, 0)

    async def test_any_version_selects_the_whole_entry(self, bench: Bench) -> None:
        """A selector that one version meets, current or not, takes all versions of the entry."""
        first = await bench.add("one", subject="carol")
        await bench.commit(bench.make.revise(first, "two"))
        second = await bench.add("three", origin=told_by("ann"))
        await bench.commit(Retire(second, Reason.DELETED))
        third = await bench.add("four", created_us=START_US - 100)
        await bench.commit(bench.make.revise(third, "five", created_us=START_US))
        await bench.forget(Selector(subject="carol"))
        await bench.forget(Selector(origin=OriginMatch(author="ann")))
        await bench.forget(Selector(bank=BANK, created_before_us=START_US - 99))
        for entry in (first, second, third):
            assert await bench.versions(entry) == []

    async def test_one_version_must_meet_all_parts(self, bench: Bench) -> None:
        """Parts that hold for two different versions only do not select the entry."""
        entry = await bench.add("one", subject="carol")
        await bench.commit(bench.make.revise(entry, "two", subject="dave", origin=told_by("ann")))
        await bench.forget(Selector(subject="carol", origin=OriginMatch(author="ann")))
        assert await bench.texts() == ["two"]
        await bench.forget(Selector(subject="dave", origin=OriginMatch(author="ann")))
        assert await bench.texts() == []

    async def test_settings_are_left_alone(self, bench: Bench) -> None:
        """Settings of banks are selected by id or bank only, never by key, subject or origin."""
        settings, name = named("one", "bank"), named("two", "bank_name")
        origin = Origin(author="ann")
        await bench.commit(
            bench.make.put(settings), bench.make.put(name), bench.make.put("block"), origin=origin
        )
        for selector in (
            Selector(key=KEY), Selector(subject=KEY), Selector(origin=OriginMatch(author="ann")),
        ):  # fmt: skip
            await bench.forget(selector)
            assert await bench.store.document(in_space(), settings) is not None
            assert await bench.store.document(in_space(), name) is not None
        assert await bench.store.document(in_space(), named("block")) is None
        await bench.forget(Selector(bank=BANK))
        assert await bench.store.document(in_space(), settings) is None

    async def test_retired_and_expired_are_selected(self, bench: Bench) -> None:
        """What is retired, hidden, expired or removed is forgotten as well."""
        retired, hidden = await bench.add_all("one", "two")
        expired = await bench.add("three", expires_us=START_US)
        removed = (await bench.put("gone")).id
        await bench.commit(
            Retire(retired, Reason.DELETED), Retire(hidden, Reason.HIDDEN), Remove(named("gone"))
        )
        bench.clock.advance(seconds=1)
        receipt = await bench.forget(Selector(key=KEY))
        assert (receipt.counts["entries"], receipt.counts["documents"]) == (3, 1)
        for entry in (retired, hidden, expired):
            assert await bench.versions(entry) == []
        assert await bench.store.document_versions(in_space(), removed) == []


class CascadeLaws(Ground):
    """What goes along, and what an erased summary gives back."""

    async def test_a_summary_goes_with_any_source(self, bench: Bench) -> None:
        """A summary goes with any of its sources."""
        one, two = await bench.add_all("one", "two")
        await bench.add("sum", kind="summary", key=OTHER_KEY, origin=from_sources(one, two))
        await bench.forget(Selector(ids=(one,)))
        assert await everything(bench) == ["two"]

    async def test_a_merged_entry_goes_with_any_source(self, bench: Bench) -> None:
        """An entry whose method is merged goes with any of its sources."""
        one, two = await bench.add_all("one", "two")
        await bench.add("both", key=OTHER_KEY, origin=from_sources(one, two, merged=True))
        await bench.forget(Selector(ids=(two,)))
        assert await everything(bench) == ["one"]

    async def test_another_entry_loses_the_source_only(self, bench: Bench) -> None:
        """An entry with a source left loses the erased one and stays; without one left it goes."""
        one, two, three = await bench.add_all("one", "two", "three")
        derived = await bench.add("derived", origin=from_sources(one, two, three))
        await bench.forget(Selector(ids=(two,)))
        assert (await bench.entry(derived)).origin == from_sources(one, three)
        await bench.forget(Selector(ids=(one,)))
        assert (await bench.entry(derived)).origin.sources == (three,)
        await bench.forget(Selector(ids=(three,)))
        assert await everything(bench) == []

    async def test_every_version_loses_the_source(self, bench: Bench) -> None:
        """An entry that loses a source loses it in all its versions."""
        one, two, three = await bench.add_all("one", "two", "three")
        derived = await bench.add("derived", origin=from_sources(one, two))
        await bench.commit(bench.make.revise(derived, "again", origin=from_sources(three, one)))
        await bench.commit(Retire(derived, Reason.DELETED))
        await bench.forget(Selector(ids=(one,)))
        assert [version.origin.sources for version in await bench.versions(derived)] == [(two,), (three,)]

    async def test_all_sources_at_once(self, bench: Bench) -> None:
        """An entry all of whose sources go in one forget goes, whatever their number."""
        sources = await bench.add_all("one", "two")
        await bench.add("derived", key=OTHER_KEY, origin=from_sources(*sources))
        receipt = await bench.forget(Selector(key=KEY))
        assert receipt.counts["entries"] == 3

    async def test_losing_a_source_keeps_the_entry_as_it_is(self, bench: Bench) -> None:
        """An entry that only loses a source gets no version and no step for it."""
        one, two = await bench.add_all("one", "two")
        derived = await bench.add("derived", origin=from_sources(one, two))
        commit = await bench.commit(Forget(Selector(ids=(one,))))
        (version,) = await bench.versions(derived)
        assert (version.version, version.content, version.retired) == (1, "derived", None)
        assert [step.ref for step in await bench.steps(commit.change)] == [one]
        assert await bench.holding("derived") == [derived]

    async def test_derivations_are_followed(self, bench: Bench) -> None:
        """What was made from what was made from an erased entry goes too, over keys and banks."""
        one = await bench.add("one")
        two = await bench.add("two", key=OTHER_KEY, origin=from_sources(one))
        three = await bench.add("three", bank=OTHER_BANK, origin=from_sources(two))
        other = await bench.add("other", key=OTHER_KEY)
        await bench.add("mixed", key=OTHER_KEY, origin=from_sources(three, other))
        receipt = await bench.forget(Selector(ids=(one,)))
        assert await everything(bench) == ["mixed", "other"]
        assert receipt.counts["entries"] == 3

    async def test_derivations_in_a_circle(self, bench: Bench) -> None:
        """Entries that name each other as sources do not keep a forget from ending."""
        one, two = bench.make.id(), bench.make.id()
        await bench.commit(
            bench.make.append("one", id=one, origin=from_sources(two)),
            bench.make.append("two", id=two, origin=from_sources(one)),
            bench.make.append("self", id=(own := bench.make.id()), origin=from_sources(own)),
        )
        await bench.forget(Selector(ids=(one,)))
        assert await everything(bench) == ["self"]

    async def test_sources_of_old_versions_count(self, bench: Bench) -> None:
        """An entry goes when any of its versions was made from an erased entry alone."""
        one = await bench.add("one")
        derived = await bench.add("derived", key=OTHER_KEY, origin=from_sources(one))
        await bench.commit(bench.make.revise(derived, "revised", origin=told_by("ann")))
        await bench.forget(Selector(ids=(one,)))
        assert await bench.versions(derived) == []

    async def test_a_derived_document_goes(self, bench: Bench) -> None:
        """A document with an erased source goes, even when sources are left; so does what was made from it."""
        one, two = await bench.add_all("one", "two")
        put = bench.make.put("digest of both")
        await bench.commit(put, origin=from_sources(one, two))
        await bench.commit(bench.make.put("stays"), origin=from_sources(two))
        await bench.add("from the digest", origin=from_sources(put.id))
        await bench.forget(Selector(ids=(one,)))
        assert await everything(bench) == ["stays", "two"]

    async def test_other_spaces_do_not_derive(self, bench: Bench) -> None:
        """A record of another space that names the id stays as it is."""
        one = await bench.add("one")
        await bench.add("foreign", space=OTHER_SPACE, origin=from_sources(one))
        await bench.forget(Selector(ids=(one,)))
        (entry,) = await bench.load(scope=in_key(space=OTHER_SPACE))
        assert entry.origin.sources == (one,)

    async def test_an_erased_summary_gives_back(self, bench: Bench) -> None:
        """Entries hidden by an erased summary become visible again as a new version, in order and in search."""
        entries = await bench.add_all("tea one", "tea two")
        summary = await bench.add("sum", kind="summary", origin=from_sources(*entries))
        await bench.commit(*(Retire(entry, Reason.HIDDEN, by=summary) for entry in entries))
        commit = await bench.commit(Forget(Selector(ids=(summary,))))
        assert await bench.texts() == ["tea one", "tea two"]
        assert await bench.holding("tea") == sorted(entries)
        for entry in entries:
            old, new = await bench.versions(entry)
            assert old.retired is not None
            assert (new.version, new.recorded_us, new.change) == (2, commit.at_us, commit.change)

    async def test_only_what_the_summary_hid_comes_back(self, bench: Bench) -> None:
        """Entries that were retired otherwise, or hidden by another summary, stay out of sight."""
        entries = await bench.add_all("one", "two", "three", "four")
        summary, other = [await bench.add(name, kind="summary") for name in ("sum", "other sum")]
        await bench.commit(
            Retire(entries[0], Reason.HIDDEN, by=summary),
            Retire(entries[1], Reason.DELETED, by=summary),
            Retire(entries[2], Reason.HIDDEN, by=other),
            Retire(entries[3], Reason.HIDDEN),
        )
        await bench.forget(Selector(ids=(summary,)))
        assert await bench.texts() == ["one", "other sum"]

    async def test_an_erased_source_gives_back_its_neighbours(self, bench: Bench) -> None:
        """Forgetting one of a summary's sources erases the summary and gives back the others, not the erased one."""
        entries = await bench.add_all("one", "two", "three")
        summary = await bench.add("sum", kind="summary", origin=from_sources(*entries))
        await bench.commit(*(Retire(entry, Reason.HIDDEN, by=summary) for entry in entries))
        await bench.forget(Selector(ids=(entries[1],)))
        assert await bench.texts() == ["one", "three"]
        assert await bench.texts(Window(hidden=True)) == ["one", "three"]
        assert await bench.versions(entries[1]) == []


class ErasureLaws(Ground):
    """Chores, receipts, tombstones, and that no byte is left."""

    async def test_chores_of_a_place_lose_their_payload(self, bench: Bench) -> None:
        """Chores of a selected place lose their payload and the name of their key, and live ones are cancelled."""
        chores = {
            (bank, key): await bench.enqueue(bank=bank, key=key, payload={"p": bank})
            for bank in (BANK, OTHER_BANK)
            for key in (KEY, OTHER_KEY)
        }
        receipt = await bench.forget(Selector(bank=BANK, key=KEY))
        for place, chore in chores.items():
            found = await bench.chore(chore)
            gone = place == (BANK, KEY)
            assert (found.payload is None, found.state is ChoreState.CANCELLED) == (gone, gone)
            assert found.place == Place(place[0], FORGOTTEN_KEY if gone else place[1])
        assert receipt.counts["chores"] == 1
        assert (await bench.forget(Selector(subject=OTHER_KEY))).counts["chores"] == 2

    async def test_leased_and_done_chores_lose_their_payload(self, bench: Bench) -> None:
        """A leased chore is cancelled, a done one stays done; both lose their payload."""
        done = await bench.enqueue(payload="p")
        await bench.lease()
        await bench.commit(Finish(done, 1))
        leased = await bench.enqueue(payload="p")
        await bench.lease()
        await bench.forget(Selector(key=KEY))
        found = [await bench.chore(chore) for chore in (done, leased)]
        assert [chore.state for chore in found] == [ChoreState.DONE, ChoreState.CANCELLED]
        assert [chore.payload for chore in found] == [None, None]
        assert await bench.store.next_due_us() is None

    async def test_chores_that_name_an_erased_id(self, bench: Bench) -> None:
        """A chore whose payload names an erased id at any depth loses it and is cancelled, wherever it stands."""
        entry, stays = await bench.add_all("one", "two")
        derived = await bench.add("derived", origin=from_sources(entry))
        naming = [
            await bench.enqueue(key=OTHER_KEY, payload={"a": [{"b": entry}]}),
            await bench.enqueue(key=OTHER_KEY, bank=OTHER_BANK, payload=[derived]),
        ]
        silent = await bench.enqueue(key=OTHER_KEY, payload={"a": stays, "b": f"{entry} and more"})
        receipt = await bench.forget(Selector(ids=(entry,)))
        for chore in naming:
            found = await bench.chore(chore)
            assert (found.payload, found.state) == (None, ChoreState.CANCELLED)
        assert (await bench.chore(silent)).state is ChoreState.QUEUED
        assert receipt.counts["chores"] == 2

    async def test_the_id_of_a_chore_clears_it(self, bench: Bench) -> None:
        """A selector with the id of a chore clears that chore, and ``erased`` knows every chore that was cleared."""
        one, other = await bench.enqueue(payload="p"), await bench.enqueue(payload="p")
        receipt = await bench.forget(Selector(ids=(one,)))
        found = await bench.chore(one)
        assert (found.payload, found.state, found.place.key) == (None, ChoreState.CANCELLED, FORGOTTEN_KEY)
        assert (await bench.chore(other)).state is ChoreState.QUEUED
        assert receipt.counts["chores"] == 1
        assert await bench.store.erased(in_space(), [one, other]) == {one}
        await bench.forget(Selector(key=KEY))
        assert await bench.store.erased(in_space(), [one, other]) == {one, other}

    async def test_a_selector_with_ids_takes_no_place(self, bench: Bench) -> None:
        """A selector with ids or an origin does not select chores by their place."""
        entry = await bench.add(origin=told_by("ann"))
        chore = await bench.enqueue(payload="p")
        await bench.forget(Selector(key=KEY, ids=(entry,)))
        await bench.forget(Selector(key=KEY, origin=OriginMatch(author="ann")))
        found = await bench.chore(chore)
        assert (found.payload, found.state) == ("p", ChoreState.QUEUED)

    async def test_other_spaces_keep_their_chores(self, bench: Bench) -> None:
        """Chores of another space at a place of the same name, or naming the id, stay as they are."""
        entry = await bench.add()
        chore = await bench.enqueue(space=OTHER_SPACE, payload=entry)
        await bench.forget(Selector(key=KEY))
        assert (await bench.chore(chore, OTHER_SPACE)).payload == entry

    async def test_a_receipt_tells_what_went(self, bench: Bench) -> None:
        """A receipt has the change's id and time, who, why, the selector's digest and exact counts."""
        entries = await bench.add_all("one", "two")
        await bench.commit(bench.make.revise(entries[0]), Retire(entries[1], Reason.DELETED))
        await bench.put("note", 1)
        await bench.put("note", 2)
        await bench.enqueue(payload="p")
        selector = Selector(key=KEY)
        commit = await bench.commit(Forget(selector, by="ann", reason="asked"))
        (receipt,) = commit.receipts
        assert isinstance(receipt, Receipt)
        assert (receipt.id, receipt.space, receipt.at_us) == (commit.change, "acme", commit.at_us)
        assert (receipt.by, receipt.reason, receipt.selector) == ("ann", "asked", selector.digest())
        assert dict(receipt.counts) == {"entries": 2, "versions": 3, "documents": 1, "chores": 1}

    async def test_a_forget_of_nothing_gives_zeros(self, bench: Bench) -> None:
        """A forget that finds nothing is no error: its receipt counts zeros."""
        receipt = await bench.forget(Selector(key="nobody"))
        assert dict(receipt.counts) == {"entries": 0, "versions": 0, "documents": 0, "chores": 0}
        assert receipt.total == 0

    async def test_a_receipt_is_kept_as_a_document(self, bench: Bench) -> None:
        """A receipt is also a document of kind ``receipt`` in bank ``~receipts`` under key ``receipts``."""
        await bench.add()
        selector = Selector(key=KEY)
        commit = await bench.commit(Forget(selector, by="ann", reason="asked"))
        ref = DocumentRef("~receipts", "receipts", "receipt", commit.change)
        document = await bench.document(ref)
        assert document is not None
        assert (document.id, document.version, document.change) == (commit.change, 1, commit.change)
        assert document.value == {
            "selector": selector.digest(), "by": "ann", "reason": "asked", "at_us": commit.at_us,
            "counts": {"entries": 1, "versions": 1, "documents": 0, "chores": 0},
            "backups": [],
        }  # fmt: skip

    async def test_receipts_are_never_forgotten(self, bench: Bench) -> None:
        """No selector takes a document of kind ``receipt``: not its bank, key, id, subject or origin."""
        first = await bench.commit(Forget(Selector(key=KEY)), origin=told_by("ann"))
        for selector in (
            Selector(bank="~receipts"), Selector(key="receipts"), Selector(ids=(first.change,)),
            Selector(subject="receipts"), Selector(origin=OriginMatch(author="ann")),
        ):  # fmt: skip
            assert (await bench.forget(selector)).counts["documents"] == 0
        assert len(await bench.store.documents(in_key("receipts", "~receipts"), "receipt")) == 6

    async def test_receipts_are_not_derived(self, bench: Bench) -> None:
        """A receipt stays when what its change was made from is forgotten."""
        one, two = await bench.add_all("one", "two")
        commit = await bench.commit(Forget(Selector(ids=(one,))), origin=from_sources(two))
        await bench.forget(Selector(ids=(two,)))
        ref = DocumentRef("~receipts", "receipts", "receipt", commit.change)
        assert await bench.document(ref) is not None

    async def test_tombstones(self, bench: Bench) -> None:
        """``erased`` knows every erased entry and document, also those that went along, and nothing that stays."""
        entry, stays = await bench.add_all("one", "two")
        derived = await bench.add("derived", origin=from_sources(entry))
        document = (await bench.put("note")).id
        await bench.commit(Retire(stays, Reason.DELETED))
        await bench.forget(Selector(ids=(entry, document)))
        asked = [entry, stays, derived, document, bench.make.id()]
        assert await bench.store.erased(in_space(), asked) == {entry, derived, document}
        assert await bench.store.erased(in_space(OTHER_SPACE), asked) == set()
        assert await bench.store.erased(in_space(), []) == set()

    async def test_a_forgotten_record_is_in_no_read(self, bench: Bench) -> None:
        """What was forgotten is in no read of the present or the past, by any way."""
        vector = Quantised(b"\x01\x02", 1.0)
        entry = await bench.add("tea", vectors=(vector,))
        document = (await bench.put("note", 1)).id
        await bench.put("note", 2)
        then_us = (await bench.entry(entry)).recorded_us + 2
        rows = list((await bench.rows_of()).values())
        await bench.forget(Selector(key=KEY))
        store = bench.store
        for as_of_us in (None, then_us):
            window = Window(as_of_us=as_of_us, hidden=True)
            assert await bench.texts(window) == []
            assert list(await store.eligible(in_bank(), window)) == []
            assert await store.find(in_space(), [entry], as_of_us=as_of_us) == []
            assert await bench.holding("tea", as_of_us=as_of_us) == []
            assert await bench.near(vector, as_of_us=as_of_us) == []
            assert await bench.document("note", as_of_us=as_of_us) is None
        assert await store.fetch(in_bank(), rows) == [None]
        assert await bench.versions(entry) == []
        assert await store.document_versions(in_space(), document) == []
        assert await store.keys(in_bank()) == []

    async def test_a_forgotten_document_can_be_put_anew(self, bench: Bench) -> None:
        """A document that is put after its name was forgotten starts at version 1 with a new id."""
        old = await bench.put("note", 1)
        await bench.put("note", 2)
        await bench.forget(Selector(key=KEY))
        new = await bench.put("note", 3, expected=0)
        assert (new.version, new.id != old.id) == (1, True)

    @pytest.mark.parametrize("how", ["key", "subject", "ids", "origin"])
    async def test_no_byte_is_left(self, bench: Bench, how: str) -> None:
        """After ``settle`` no copy of what was forgotten is left in the raw files, whatever way it was selected."""
        ann = told_by("ann")
        vector = Quantised(b"VECTORCANARYBYTES" * 4, 1.0)
        entry = await bench.add(
            f"{CANARY} tea", title=CANARY, name=CANARY, thread=CANARY, metadata={CANARY: CANARY}, subject=CANARY,
            origin=ann, vectors=(vector,), key=CANARY,
        )  # fmt: skip
        await bench.commit(bench.make.revise(entry, f"{CANARY} coffee", subject=CANARY, origin=ann))
        await bench.commit(Retire(entry, Reason.DELETED))
        ref = DocumentRef(BANK, CANARY, "block", "note")
        document = bench.make.put(ref, {CANARY: [CANARY]}, subject=CANARY)
        await bench.commit(document, origin=ann)
        await bench.commit(bench.make.put(ref, CANARY, subject=CANARY), origin=ann)
        chore = await bench.enqueue(payload={"entry": entry, "text": CANARY}, key=CANARY)
        await bench.store.settle()
        await bench.forget(
            {
                "key": Selector(key=CANARY), "subject": Selector(subject=CANARY),
                "ids": Selector(ids=(entry, document.id)), "origin": Selector(origin=OriginMatch(author="ann")),
            }[how]
        )  # fmt: skip
        await bench.store.settle()
        contents = [f"{CANARY} tea", f"{CANARY} coffee", f'"{CANARY}"', f'"text":"{CANARY}']
        needles = [text.encode() for text in contents] + [b"VECTORCANARYBYTES"]
        found = await bench.store.residue(needles)
        assert sum(found.values()) == 0, found
        assert (await bench.chore(chore)).payload is None

    async def test_residue_finds_what_is_there(self, bench: Bench) -> None:
        """``residue`` counts nothing for bytes that were never written."""
        await bench.add("tea")
        await bench.store.settle()
        found = await bench.store.residue([b"never written anywhere"])
        assert sum(found.values()) == 0

    async def test_neighbours_of_the_forgotten_stay(self, bench: Bench) -> None:
        """Everything beside what was forgotten is as it was: texts, versions, words, vectors, documents, chores."""
        vector = Quantised(b"\x01\x02", 1.0)
        stays = await bench.add("tea stays", key=OTHER_KEY, vectors=(vector,))
        await bench.commit(bench.make.revise(stays, "tea stays put", vectors=(vector,)))
        await bench.put(named("note", key=OTHER_KEY))
        chore = await bench.enqueue(key=OTHER_KEY, payload="p")
        await bench.add("tea goes", vectors=(vector,))
        before = await bench.store.load(in_key(OTHER_KEY), Window())
        await bench.forget(Selector(key=KEY))
        await bench.store.settle()
        assert await bench.store.load(in_key(OTHER_KEY), Window()) == before
        assert await bench.holding("tea") == [stays]
        assert [entry for entry, _ in await bench.near(vector)] == [stays]
        assert (await bench.chore(chore)).payload == "p"
        assert (await bench.store.check()).ok

    async def test_a_store_that_was_read_passes_its_check(self, bench: Bench) -> None:
        """A forget leaves a store whole for those who have read from it before: its check finds nothing."""
        goes, stays = await bench.add_all("tea", "tea")
        then_us = (await bench.entry(stays)).recorded_us
        await bench.commit(bench.make.revise(goes, "tea again"))
        assert await bench.holding("tea", as_of_us=then_us) == sorted([goes, stays])
        await bench.forget(Selector(ids=(goes,)))
        report = await bench.store.check()
        assert report.ok, report.findings
        assert await bench.holding("tea", as_of_us=then_us) == [stays]

    async def test_a_forgotten_chore_can_be_dropped_no_more(self, bench: Bench) -> None:
        """A chore that a forget cancelled keeps its record, without payload, and is not leased."""
        chore = await bench.enqueue(payload="p", dedupe="d")
        await bench.forget(Selector(key=KEY))
        assert await bench.lease() == []
        commit = await bench.commit(bench.make.enqueue(dedupe="d"))
        assert not commit.placed[0].duplicate
        await bench.commit(Drop(commit.placed[0].id))
        assert (await bench.chore(chore)).state is ChoreState.CANCELLED

    async def test_what_another_space_hid_is_no_hindrance(self, bench: Bench) -> None:
        """An entry of another space that names an id of this one as its cover neither stops a forget nor comes back."""
        mine = await bench.add("mine")
        theirs = await bench.add("theirs", space=OTHER_SPACE)
        await bench.commit(Retire(theirs, Reason.HIDDEN, by=mine), space=OTHER_SPACE)
        receipt = await bench.forget(Selector(ids=(mine,)))
        assert receipt.counts["entries"] == 1
        assert await bench.texts(scope=in_key(space=OTHER_SPACE)) == []

    @pytest.mark.parametrize("kind", ["working", "cache", "value"])
    async def test_a_document_is_no_longer_made_from_what_its_kept_versions_do_not_name(
        self, bench: Bench, kind: str
    ) -> None:
        """A document whose kept versions name no erased source stays, whatever its earlier ones named."""
        source = await bench.add("source")
        ref = named("doc", kind)
        await bench.commit(bench.make.put(ref, "made from it"), origin=from_sources(source))
        for number in range(25):
            await bench.put(ref, f"written by hand {number}")
        await bench.forget(Selector(ids=(source,)))
        document = await bench.document(ref)
        assert document is not None
        assert document.value == "written by hand 24"

    async def test_a_source_that_another_space_erased_is_nothing_that_a_check_minds(
        self, bench: Bench
    ) -> None:
        """An entry may name an id of another space as its source; when that is erased there, this one is whole."""
        theirs = await bench.add("theirs", space=OTHER_SPACE)
        mine = await bench.add("mine", origin=from_sources(theirs))
        await bench.forget(Selector(ids=(theirs,)), space=OTHER_SPACE)
        assert (await bench.entry(mine)).origin.sources == (theirs,)
        assert (await bench.store.check()).ok

    async def test_a_key_that_has_counted_far_is_whole(self, bench: Bench) -> None:
        """A key of which some entries are forgotten passes its check, however many ranges it fills."""
        added = [await bench.add(f"text {number}") for number in range(8)]
        await bench.forget(Selector(ids=tuple(added[1:7])))
        report = await bench.store.check()
        assert report.ok, report.findings
