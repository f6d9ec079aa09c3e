"""Laws of reading entries: windows, cursors, order, the past, expiry."""

from __future__ import annotations

import pytest

from holdfast.errors import ScopeError
from holdfast.model.batch import Restore, Retire
from holdfast.model.entry import Reason
from holdfast.model.filter import compile_filter
from holdfast.model.forget import Selector
from holdfast.model.window import Cursor, KeyInfo, Order, Window
from holdfast.testing.clock import START_US
from holdfast.testing.making import (
    KEY,
    OTHER_BANK,
    OTHER_KEY,
    OTHER_SPACE,
    SPACE,
    in_bank,
    in_key,
    in_space,
)
from holdfast.testing.suite_ground import Bench, Ground

KEYS_BY_CODE_POINT = [
    "!",
    "A",
    "Z",
    "a",
    "a b",
    "a!",
    "a-",
    "aa",
    "z",
    "\xe9",
    "\u4e16",
    "\uff5e",
    "\U0001f600",
]
"""UTF-16 units would put the last two the other way round; a dictionary's order would mix the letters."""


async def paged(bench: Bench, window: Window, *, limit: int) -> list[str]:
    """The contents of all pages of a window, one after the other, for a bank."""
    found: list[str] = []
    after: Cursor | None = None
    while True:
        step = Window(
            order=window.order, by=window.by, limit=limit, after=after, filter=window.filter, hidden=window.hidden,
            as_of_us=window.as_of_us, created_from_us=window.created_from_us,
            created_until_us=window.created_until_us,
        )  # fmt: skip
        page = await bench.store.load(in_bank(), step)
        assert len(page.entries) <= limit
        found += [entry.content for entry in page.entries]
        if page.next is None:
            return found
        after = page.next


class LoadLaws(Ground):
    """Windows over a key and over a bank."""

    async def test_an_empty_key_gives_an_empty_page(self, bench: Bench) -> None:
        """A key or bank without entries gives an empty page without a cursor, and no error."""
        for scope in (in_key(), in_bank()):
            page = await bench.store.load(scope, Window())
            assert (page.entries, page.next) == ((), None)

    async def test_a_load_needs_a_bank(self, bench: Bench) -> None:
        """A scope without a bank is refused."""
        with pytest.raises(ScopeError):
            await bench.store.load(in_space(), Window())

    async def test_entries_come_by_seq(self, bench: Bench) -> None:
        """Inside a key entries come by seq, whatever their created times; newest first turns the list around."""
        for n, offset in enumerate((5, 1, 9, 3)):
            await bench.add(f"{n}", created_us=START_US + offset)
        assert await bench.texts() == ["0", "1", "2", "3"]
        assert await bench.texts(Window(order="newest_first")) == ["3", "2", "1", "0"]

    async def test_entries_come_by_created(self, bench: Bench) -> None:
        """By created they come by when they were said, ties by seq; newest first turns the list around."""
        for n, offset in enumerate((5, -1, 9, -1, 5)):
            await bench.add(f"{n}", created_us=START_US + offset)
        assert await bench.texts(Window(by="created")) == ["1", "3", "0", "4", "2"]
        assert await bench.texts(Window(by="created", order="newest_first")) == ["2", "4", "0", "3", "1"]

    @pytest.mark.parametrize("how", ["revised", "restored", "restored over", "both in one batch"])
    async def test_a_new_version_may_have_been_said_at_another_time(self, bench: Bench, how: str) -> None:
        """By created, an entry stands where its visible version was said, not where an earlier version was."""
        append = bench.make.append("moves", created_us=START_US + 9 if "restored" in how else START_US)
        entry = append.draft.id
        later = bench.make.revise(entry, "moves", created_us=START_US + 9)
        await bench.commit(append, *([later] if how == "both in one batch" else []))
        if "restored" in how:
            await bench.commit(bench.make.revise(entry, "moves", created_us=START_US))
        await bench.add("stays", created_us=START_US + 1)
        if how == "restored":
            await bench.commit(Retire(entry, Reason.DELETED))
        if "restored" in how:
            await bench.commit(Restore(entry, 1))
        elif how == "revised":
            await bench.commit(later)
        for scope in (in_key(), in_bank()):
            assert await bench.texts(Window(by="created"), scope) == ["stays", "moves"]
            assert await bench.texts(Window(by="created", order="newest_first"), scope) == ["moves", "stays"]
            assert await bench.texts(scope=scope) == ["moves", "stays"]
        page = await bench.store.load(in_key(), Window(by="created", limit=1))
        assert await bench.texts(Window(by="created", after=page.next)) == ["moves"]

    async def test_created_may_lie_before_the_epoch(self, bench: Bench) -> None:
        """Created times before 1970 sort before later ones."""
        for n, created_us in enumerate((5, -7, 0, -3)):
            await bench.add(f"{n}", created_us=created_us)
        assert await bench.texts(Window(by="created")) == ["1", "3", "2", "0"]
        assert await bench.texts(Window(created_until_us=0)) == ["1", "3"]

    async def test_a_bank_comes_by_key_code_points(self, bench: Bench) -> None:
        """Over a bank entries come by key in code point order, whatever the order of writing."""
        for key in sorted(KEYS_BY_CODE_POINT, key=lambda key: key[::-1]):
            await bench.add(key, key=key)
        assert await bench.texts(scope=in_bank()) == KEYS_BY_CODE_POINT
        assert await bench.texts(Window(order="newest_first"), in_bank()) == KEYS_BY_CODE_POINT[::-1]
        assert [info.key for info in await bench.store.keys(in_bank())] == KEYS_BY_CODE_POINT

    @pytest.mark.parametrize("order", ["oldest_first", "newest_first"])
    async def test_a_bank_comes_as_inside_each_key(self, bench: Bench, order: Order) -> None:
        """Inside each key of a bank the window's order holds; newest first turns the whole list around."""
        for n, (key, offset) in enumerate((("b", 4), ("a", 3), ("b", 2), ("a", 1), ("b", 4))):
            await bench.add(f"{key}{n}", key=key, created_us=START_US + offset)
        by_seq, by_created = ["a1", "a3", "b0", "b2", "b4"], ["a3", "a1", "b2", "b0", "b4"]
        turn = -1 if order == "newest_first" else 1
        assert await bench.texts(Window(order=order), in_bank()) == by_seq[::turn]
        assert await bench.texts(Window(order=order, by="created"), in_bank()) == by_created[::turn]

    async def test_a_limit_cuts_the_page(self, bench: Bench) -> None:
        """A page has at most its limit of entries, the first of the order; the cursor continues after the last."""
        await bench.add_all("one", "two", "three")
        page = await bench.store.load(in_key(), Window(limit=2))
        assert [entry.content for entry in page.entries] == ["one", "two"]
        last = page.entries[-1]
        assert page.next == Cursor(KEY, last.created_us, 2)
        rest = await bench.store.load(in_key(), Window(limit=2, after=page.next))
        assert [entry.content for entry in rest.entries] == ["three"]
        assert rest.next is None
        assert await bench.texts(Window(limit=2, order="newest_first")) == ["three", "two"]

    async def test_the_last_full_page_has_no_cursor(self, bench: Bench) -> None:
        """A page that ends with the last entry says so, also when it is exactly full."""
        await bench.add_all("one", "two")
        assert (await bench.store.load(in_key(), Window(limit=2))).next is None
        assert (await bench.store.load(in_bank(), Window(limit=2))).next is None

    @pytest.mark.parametrize("order", ["oldest_first", "newest_first"])
    @pytest.mark.parametrize("limit", [1, 2, 3, 7])
    async def test_pages_join_to_the_whole(self, bench: Bench, order: Order, limit: int) -> None:
        """The pages of a bank, one after the other, are the whole list, in each order and by each measure."""
        for n, (key, offset) in enumerate(
            (("b", 4), ("a", 3), ("\xe9", 3), ("b", 2), ("a", 3), ("a", 1), ("b", 4))
        ):
            await bench.add(f"{key}{n}", key=key, created_us=START_US + offset)
        for window in (Window(order=order), Window(order=order, by="created")):
            assert await paged(bench, window, limit=limit) == await bench.texts(window, in_bank())

    async def test_pages_hold_while_others_write(self, bench: Bench) -> None:
        """A cursor is stable: entries that are written between two pages shift nothing."""
        await bench.add_all("1", "2", "3", "4")
        page = await bench.store.load(in_key(), Window(limit=2))
        await bench.add("5")
        await bench.add("earlier", created_us=START_US - 9)
        assert await bench.texts(Window(after=page.next)) == ["3", "4", "5", "earlier"]
        back = await bench.store.load(in_key(), Window(limit=2, order="newest_first"))
        await bench.add("6")
        assert await bench.texts(Window(order="newest_first", after=back.next)) == ["4", "3", "2", "1"]

    async def test_pages_by_created_hold_while_others_write(self, bench: Bench) -> None:
        """A cursor by created admits later written entries by when they were said."""
        for offset in (10, 20, 30):
            await bench.add(f"{offset}", created_us=START_US + offset)
        page = await bench.store.load(in_key(), Window(by="created", limit=2))
        for offset in (15, 20, 25):
            await bench.add(f"{offset} late", created_us=START_US + offset)
        assert await bench.texts(Window(by="created", after=page.next)) == ["20 late", "25 late", "30"]

    async def test_a_cursor_outlives_its_entry(self, bench: Bench) -> None:
        """The entry that a cursor names may be retired or forgotten: the next page is the same."""
        entries = await bench.add_all("1", "2", "3", "4")
        page = await bench.store.load(in_key(), Window(limit=2))
        await bench.commit(Retire(entries[1], Reason.DELETED))
        assert await bench.texts(Window(after=page.next)) == ["3", "4"]
        await bench.forget(Selector(ids=(entries[1],)))
        assert await bench.texts(Window(after=page.next)) == ["3", "4"]

    async def test_a_cursor_crosses_keys(self, bench: Bench) -> None:
        """Over a bank a page continues in the next key, in both directions."""
        for key in ("a", "b", "c"):
            await bench.add(key, key=key, created_us=START_US)
        after = Cursor("b", START_US, 1)
        assert await bench.texts(Window(after=after), in_bank()) == ["c"]
        assert await bench.texts(Window(after=after, order="newest_first"), in_bank()) == ["a"]
        assert await bench.texts(Window(after=after, by="created"), in_bank()) == ["c"]

    async def test_created_bounds(self, bench: Bench) -> None:
        """``created_from_us`` is inclusive and ``created_until_us`` exclusive."""
        for offset in (1, 2, 3):
            await bench.add(f"{offset}", created_us=START_US + offset)
        assert await bench.texts(Window(created_from_us=START_US + 2)) == ["2", "3"]
        assert await bench.texts(Window(created_until_us=START_US + 2)) == ["1"]
        both = Window(created_from_us=START_US + 2, created_until_us=START_US + 3)
        assert await bench.texts(both) == ["2"]
        assert await bench.texts(both, in_bank()) == ["2"]

    async def test_a_filter_sees_metadata_and_reserved_names(self, bench: Bench) -> None:
        """A filter chooses by metadata and by reserved names, before the limit counts."""
        await bench.add("one", metadata={"topic": "drink"}, speaker="user")
        await bench.add("two", metadata={"topic": "food"}, speaker="user")
        await bench.add("three", metadata={"topic": "drink"}, speaker="assistant")
        drink = compile_filter({"topic": {"$eq": "drink"}})
        user = compile_filter({"speaker": {"$eq": "user"}})
        assert await bench.texts(Window(filter=drink)) == ["one", "three"]
        assert await bench.texts(Window(filter=user)) == ["one", "two"]
        assert await bench.texts(Window(filter=drink, limit=1, order="newest_first")) == ["three"]
        assert await paged(bench, Window(filter=drink), limit=1) == ["one", "three"]

    async def test_a_filter_that_nothing_meets(self, bench: Bench) -> None:
        """A filter that nothing meets gives an empty page without a cursor."""
        await bench.add_all("one", "two")
        nothing = compile_filter({"topic": {"$eq": "drink"}})
        page = await bench.store.load(in_key(), Window(filter=nothing, limit=1))
        assert (page.entries, page.next) == ((), None)

    async def test_a_key_sees_only_itself(self, bench: Bench) -> None:
        """A key shows its own entries only, a bank those of all its keys, and prefixes do not leak."""
        for key in ("a", "ab", "A"):
            await bench.add(key, key=key)
        await bench.add("other", key="a", bank=OTHER_BANK)
        await bench.add("foreign", key="a", space=OTHER_SPACE)
        assert await bench.texts(scope=in_key("a")) == ["a"]
        assert await bench.texts(scope=in_bank()) == ["A", "a", "ab"]

    async def test_many_entries(self, bench: Bench) -> None:
        """A thousand entries of one batch come back complete, in order and in pages."""
        numbers = [f"{n}" for n in range(1_000)]
        await bench.add_all(*numbers)
        assert await bench.texts(Window(limit=10_000)) == numbers
        assert await paged(bench, Window(order="newest_first"), limit=300) == numbers[::-1]


class FindLaws(Ground):
    """Find, versions and keys."""

    async def test_find_keeps_the_order_asked_for(self, bench: Bench) -> None:
        """Find gives the entries in the order asked for, each once, and leaves missing ones out."""
        one, two, three = await bench.add_all("one", "two", "three")
        asked = [three, bench.make.id(), one, three, two, one]
        assert [entry.id for entry in await bench.store.find(in_space(), asked)] == [three, one, two]
        assert await bench.store.find(in_space(), []) == []

    async def test_find_sees_what_its_scope_holds(self, bench: Bench) -> None:
        """Find by space, bank and key finds what lies inside, over several banks and keys."""
        here = await bench.add("here")
        beside = await bench.add("beside", key=OTHER_KEY)
        elsewhere = await bench.add("elsewhere", bank=OTHER_BANK)
        asked = [elsewhere, beside, here]
        for scope, ids in (
            (in_space(), asked),
            (in_bank(), [beside, here]),
            (in_bank(OTHER_BANK), [elsewhere]),
            (in_key(), [here]),
            (in_key(OTHER_KEY), [beside]),
        ):
            assert [entry.id for entry in await bench.store.find(scope, asked)] == ids

    async def test_find_in_the_past(self, bench: Bench) -> None:
        """Find as of a time gives the versions that were known then."""
        entry = await bench.add("one")
        first_us = (await bench.entry(entry)).recorded_us
        revise = await bench.commit(bench.make.revise(entry, "two"))
        retire = await bench.commit(Retire(entry, Reason.DELETED))
        found = [
            [version.content for version in await bench.store.find(in_space(), [entry], as_of_us=as_of_us)]
            for as_of_us in (first_us - 1, first_us, revise.at_us - 1, revise.at_us, retire.at_us)
        ]
        assert found == [[], ["one"], ["one"], ["two"], []]

    async def test_find_many(self, bench: Bench) -> None:
        """Find takes more ids than an engine's statement has parameters."""
        ids = await bench.add_all(*(f"{n}" for n in range(600)))
        missing = [bench.make.id() for _ in range(1_000)]
        found = await bench.store.find(in_bank(), [*ids[::-1], *missing])
        assert [entry.id for entry in found] == ids[::-1]

    async def test_versions_of_nothing(self, bench: Bench) -> None:
        """An unknown entry has no versions."""
        assert await bench.versions(bench.make.id()) == []

    async def test_keys_tell_what_they_hold(self, bench: Bench) -> None:
        """Keys tell how many visible entries they hold and when the one with the highest seq was said."""
        await bench.add("one", created_us=START_US + 9)
        await bench.add("two", created_us=START_US + 1)
        last = await bench.add("three", created_us=START_US + 5)
        await bench.add("other", key=OTHER_KEY, created_us=START_US + 3)
        assert await bench.store.keys(in_bank()) == [
            KeyInfo(KEY, 3, START_US + 5),
            KeyInfo(OTHER_KEY, 1, START_US + 3),
        ]
        await bench.commit(Retire(last, Reason.DELETED))
        assert (await bench.store.keys(in_bank()))[0] == KeyInfo(KEY, 2, START_US + 1)

    async def test_keys_hold_visible_entries_only(self, bench: Bench) -> None:
        """A key whose entries are all retired, expired or forgotten is not listed; a restored one is again."""
        retired = await bench.add(key="retired")
        forgotten = await bench.add(key="forgotten")
        await bench.add(key="expired", expires_us=bench.clock.now_us() + 9)
        await bench.add(key="stays")
        await bench.commit(Retire(retired, Reason.DELETED))
        await bench.forget(Selector(ids=(forgotten,)))
        assert [info.key for info in await bench.store.keys(in_bank())] == ["expired", "stays"]
        bench.clock.advance(microseconds=10)
        assert [info.key for info in await bench.store.keys(in_bank())] == ["stays"]
        await bench.commit(Restore(retired))
        assert [info.key for info in await bench.store.keys(in_bank())] == ["retired", "stays"]

    async def test_keys_with_documents_only_are_not_listed(self, bench: Bench) -> None:
        """A key that holds documents but no entries is not listed."""
        await bench.put("note")
        await bench.enqueue()
        assert await bench.store.keys(in_bank()) == []

    async def test_keys_by_prefix(self, bench: Bench) -> None:
        """A prefix is plain text: ``%``, ``_`` and ``*`` match only themselves, and case counts."""
        for key in ("a%b", "a_b", "a*b", "axb", "A%b", "a%c", "\U0001f600x", "\U0001f600y", "\uffff"):
            await bench.add(key=key)
        for prefix, keys in (
            ("a%", ["a%b", "a%c"]), ("a_", ["a_b"]), ("a*", ["a*b"]), ("a", ["a%b", "a%c", "a*b", "a_b", "axb"]),
            ("\U0001f600", ["\U0001f600x", "\U0001f600y"]), ("\uffff", ["\uffff"]), ("%", []),
        ):  # fmt: skip
            assert [info.key for info in await bench.store.keys(in_bank(), prefix=prefix)] == keys

    async def test_keys_in_pages(self, bench: Bench) -> None:
        """Keys come in pages: at most a limit, starting after a key that need not exist."""
        for key in ("a", "b", "ba", "c"):
            await bench.add(key=key)
        store = bench.store
        assert [info.key for info in await store.keys(in_bank(), limit=2)] == ["a", "b"]
        assert [info.key for info in await store.keys(in_bank(), after="b", limit=2)] == ["ba", "c"]
        assert [info.key for info in await store.keys(in_bank(), after="bb")] == ["c"]
        assert [info.key for info in await store.keys(in_bank(), prefix="b", after="b")] == ["ba"]
        assert await store.keys(in_bank(), after="c") == []


class PastLaws(Ground):
    """What was known at a time, what is hidden, what has expired."""

    async def test_the_past_shows_versions_of_then(self, bench: Bench) -> None:
        """As of a time each entry shows the version known then; written later, nothing; retired then, nothing."""
        one = (await bench.commit(bench.make.append("one"))).at_us
        entry = (await bench.load())[0].id
        two = (await bench.commit(bench.make.revise(entry, "two"), bench.make.append("other"))).at_us
        gone = (await bench.commit(Retire(entry, Reason.DELETED))).at_us
        back = (await bench.commit(Restore(entry, 1))).at_us
        for as_of_us, texts in (
            (one - 1, []), (one, ["one"]), (two - 1, ["one"]), (two, ["two", "other"]), (gone - 1, ["two", "other"]),
            (gone, ["other"]), (back - 1, ["other"]), (back, ["one", "other"]),
        ):  # fmt: skip
            assert await bench.texts(Window(as_of_us=as_of_us)) == texts
            assert await bench.texts(Window(as_of_us=as_of_us), in_bank()) == texts

    async def test_the_past_keeps_order_pages_and_filters(self, bench: Bench) -> None:
        """As of a time the window's order, limit, cursor, bounds and filter hold for the versions of then."""
        entries = await bench.add_all("1", "2", "3")
        then_us = (await bench.entry(entries[2])).recorded_us
        await bench.commit(
            bench.make.revise(entries[0], "new", metadata={"a": 1}), Retire(entries[1], Reason.DELETED)
        )
        await bench.add("4")
        assert await paged(bench, Window(as_of_us=then_us, order="newest_first"), limit=2) == ["3", "2", "1"]
        has_a = compile_filter({"a": {"$eq": 1}})
        assert await bench.texts(Window(as_of_us=then_us, filter=has_a)) == []
        assert await bench.texts(Window(filter=has_a)) == ["new"]

    async def test_the_past_forgets_what_is_forgotten(self, bench: Bench) -> None:
        """What was forgotten is gone from the past as well."""
        entry, _ = await bench.add_all("one", "two")
        then_us = (await bench.entry(entry)).recorded_us
        await bench.forget(Selector(ids=(entry,)))
        assert await bench.texts(Window(as_of_us=then_us)) == ["two"]
        assert await bench.store.find(in_space(), [entry], as_of_us=then_us) == []

    async def test_the_past_knows_expiry(self, bench: Bench) -> None:
        """As of a time an entry shows when it had not expired by then, though it has by now."""
        await bench.add("short", expires_us=START_US + 100)
        await bench.add("long")
        bench.clock.advance(seconds=1)
        assert await bench.texts() == ["long"]
        assert await bench.texts(Window(as_of_us=START_US + 100)) == ["short", "long"]
        assert await bench.texts(Window(as_of_us=START_US + 101)) == ["long"]

    async def test_a_merge_is_seen_in_the_past(self, bench: Bench) -> None:
        """Before a duplicate added metadata, the past shows the entry without it."""
        entry = await bench.add("tea", digest=b"d", metadata={"a": 1})
        then_us = (await bench.entry(entry)).recorded_us
        await bench.add("tea", digest=b"d", metadata={"b": 2})
        (past,) = await bench.load(Window(as_of_us=then_us))
        assert (past.metadata, past.version) == ({"a": 1}, 1)

    async def test_hidden_entries_show_when_asked(self, bench: Bench) -> None:
        """With ``hidden``, entries whose newest version was retired as hidden are shown at their place."""
        one, two, three = await bench.add_all("one", "two", "three")
        summary = await bench.add("sum", kind="summary")
        await bench.commit(*(Retire(entry, Reason.HIDDEN, by=summary) for entry in (one, two)))
        await bench.commit(Retire(three, Reason.DELETED))
        assert await bench.texts() == ["sum"]
        assert await bench.texts(Window(hidden=True)) == ["one", "two", "sum"]
        assert await bench.texts(Window(hidden=True, order="newest_first"), in_bank()) == [
            "sum",
            "two",
            "one",
        ]
        shown = (await bench.load(Window(hidden=True)))[0]
        assert shown.retired is not None
        assert (shown.retired.reason, shown.retired.by) == (Reason.HIDDEN, summary)

    async def test_an_entry_hidden_and_brought_back(self, bench: Bench) -> None:
        """An entry that was hidden once and restored is shown once."""
        entry = await bench.add("one")
        await bench.commit(Retire(entry, Reason.HIDDEN))
        await bench.commit(Restore(entry))
        assert await bench.texts(Window(hidden=True)) == ["one"]
        await bench.commit(Retire(entry, Reason.DELETED))
        assert await bench.texts(Window(hidden=True)) == []

    async def test_a_revised_entry_shows_once_when_hidden(self, bench: Bench) -> None:
        """Of a hidden entry only the newest version is shown."""
        entry = await bench.add("one")
        await bench.commit(bench.make.revise(entry, "two"))
        await bench.commit(Retire(entry, Reason.HIDDEN))
        assert await bench.texts(Window(hidden=True)) == ["two"]

    async def test_hidden_in_the_past(self, bench: Bench) -> None:
        """As of a time, hidden means hidden by then."""
        entry = await bench.add("one")
        shown_us = (await bench.entry(entry)).recorded_us
        hidden_us = (await bench.commit(Retire(entry, Reason.HIDDEN))).at_us
        back_us = (await bench.commit(Restore(entry))).at_us
        await bench.commit(Retire(entry, Reason.DELETED))
        for as_of_us, plain, with_hidden in (
            (shown_us, ["one"], ["one"]), (hidden_us, [], ["one"]), (back_us, ["one"], ["one"]),
            (back_us + 1, [], []),
        ):  # fmt: skip
            assert await bench.texts(Window(as_of_us=as_of_us)) == plain
            assert await bench.texts(Window(as_of_us=as_of_us, hidden=True)) == with_hidden

    async def test_expiry_at_the_exact_microsecond(self, bench: Bench) -> None:
        """An entry counts in every read up to the microsecond of its expiry and in none after it."""
        entry = await bench.add("tea", expires_us=START_US + 1_000)
        (row,) = await bench.store.eligible(in_key(), Window())
        for offset, shown in ((999, True), (1_000, True), (1_001, False), (1_000, True)):
            bench.clock.set(START_US + offset)
            assert bool(await bench.texts()) is shown
            assert bool(await bench.texts(scope=in_bank())) is shown
            assert bool(await bench.store.find(in_space(), [entry])) is shown
            assert bool(await bench.store.keys(in_bank())) is shown
            assert bool(await bench.store.eligible(in_key(), Window())) is shown
            stats = await bench.store.words(in_key(), ["tea"])
            assert (stats.entries, stats.terms, list(stats.postings["tea"].rows)) == (
                (1, 1, [row]) if shown else (0, 0, [])
            )
            assert len(await bench.versions(entry)) == 1

    async def test_expiry_by_revision(self, bench: Bench) -> None:
        """A revision may give, move or take an expiry."""
        entry = await bench.add("one", expires_us=START_US + 10)
        await bench.commit(bench.make.revise(entry, "two", expires_us=START_US + 20))
        bench.clock.set(START_US + 20)
        assert await bench.texts() == ["two"]
        await bench.commit(bench.make.revise(entry, "three"))
        bench.clock.set(START_US + 1_000)
        assert await bench.texts() == ["three"]

    async def test_an_entry_born_expired(self, bench: Bench) -> None:
        """An entry that had expired before it was appended is kept but never visible."""
        entry = await bench.add("late", expires_us=START_US - 1)
        assert await bench.texts() == []
        assert len(await bench.versions(entry, SPACE)) == 1
        assert await bench.store.head(in_key()) == 1
