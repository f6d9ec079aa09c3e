"""Laws of words, vectors and row handles."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import pytest

from holdfast.errors import EmbedderMismatch
from holdfast.model.batch import Restore, Retire
from holdfast.model.entry import Quantised, Reason
from holdfast.model.filter import compile_filter
from holdfast.model.forget import Selector
from holdfast.model.scope import Scope
from holdfast.model.window import Window
from holdfast.rules.words import index_terms
from holdfast.testing.clock import START_US
from holdfast.testing.making import KEY, OTHER_BANK, OTHER_KEY, OTHER_SPACE, in_bank, in_key
from holdfast.testing.suite_ground import ALL, Bench, Ground

SCRIPTS = [
    "Straße STRASSE", "naïve café CAFÉ cafe", "Ελλάδα ΕΛΛΆΔΑ", "тест Тест", "日本語を話す", "日", "สวัสดีครับ",
    "नमस्ते दुनिया", "مرحبا بالعالم", "don't dont DON\u2019T", "\U0001f469\u200d\U0001f467 family", "x_y x-y 3.14 a1b2",
    "ﬁle ﬀ ½", "\u00e9 e\u0301", "", "!!! ???", "the of and", "a" * 200, "tea " * 300,
]  # fmt: skip


def stored(*components: int, scale: float = 1.0) -> Quantised:
    """A vector in its stored form."""
    return Quantised(array("b", components).tobytes(), scale)


def similarity(one: Quantised, other: Quantised) -> float:
    """The law's own formula."""
    pairs = zip(memoryview(one.data).cast("b"), memoryview(other.data).cast("b"), strict=True)
    return one.scale * other.scale * sum(a * b for a, b in pairs)


async def counted(
    bench: Bench, scope: Scope, terms: Sequence[str]
) -> Mapping[str, list[tuple[str, int, int]]]:
    """For each term the entries that hold it, with frequency and length, sorted by content."""
    stats = await bench.store.words(scope, terms)
    found: dict[str, list[tuple[str, int, int]]] = {}
    for term, postings in stats.postings.items():
        entries = await bench.store.fetch(scope, list(postings.rows))
        contents = [entry.content for entry in entries if entry is not None]
        found[term] = sorted(zip(contents, postings.frequencies, postings.lengths, strict=True))
    return found


class WordLaws(Ground):
    """The word index."""

    @pytest.mark.parametrize("times", [1, 2, 3, 5, 17])
    async def test_a_posting_counts_the_term(self, bench: Bench, times: int) -> None:
        """A posting holds how often its entry has the term, and how many terms the entry has in all."""
        content = "tea " * times + "milk"
        await bench.add(content)
        assert await counted(bench, in_key(), ["tea", "milk"]) == {
            "tea": [(content, times, times + 1)], "milk": [(content, 1, times + 1)],
        }  # fmt: skip

    async def test_stats_count_the_scope(self, bench: Bench) -> None:
        """``entries`` counts the visible entries of the scope and ``terms`` all their terms."""
        await bench.add_all("tea and milk", "tea", "")
        await bench.add("coffee with milk", key=OTHER_KEY)
        here = await bench.store.words(in_key(), ["tea"])
        both = await bench.store.words(in_bank(), ["tea", "milk"])
        assert (here.entries, here.terms, len(here.postings["tea"].rows)) == (3, 4, 2)
        assert (both.entries, both.terms, len(both.postings["milk"].rows)) == (4, 7, 2)

    async def test_each_asked_term_once(self, bench: Bench) -> None:
        """Each asked term has postings once, empty ones when nothing holds it, and no other term has any."""
        await bench.add("tea")
        stats = await bench.store.words(in_key(), ["tea", "gin", "tea", ""])
        assert set(stats.postings) == {"tea", "gin", ""}
        assert [list(part) for part in (stats.postings["gin"].rows, stats.postings["gin"].lengths)] == [
            [],
            [],
        ]
        nothing = await bench.store.words(in_key(), [])
        assert (nothing.entries, nothing.terms, dict(nothing.postings)) == (1, 1, {})

    async def test_terms_are_exact(self, bench: Bench) -> None:
        """A term is looked up as it is: not as a prefix, not in another case, not stemmed again."""
        await bench.add("Teas teapot")
        found = await counted(bench, in_key(), ["tea", "teas", "Tea", "te", "teapot", "tea*"])
        assert [term for term, postings in found.items() if postings] == ["tea", "teapot"]

    async def test_words_of_an_empty_scope(self, bench: Bench) -> None:
        """A scope without entries has zeros and empty postings."""
        stats = await bench.store.words(in_bank(), ["tea"])
        assert (stats.entries, stats.terms, list(stats.postings["tea"].rows)) == (0, 0, [])

    async def test_rows_ascend(self, bench: Bench) -> None:
        """Rows of postings ascend, over keys and batches, with frequencies and lengths beside them."""
        for n, key in enumerate(("b", "a", "c", "a", "b", "a")):
            await bench.add("tea " * (n + 1), key=key)
        postings = (await bench.store.words(in_bank(), ["tea"])).postings["tea"]
        assert list(postings.rows) == sorted(set(postings.rows))
        assert len(postings.rows) == 6
        found = await bench.store.fetch(in_bank(), list(postings.rows))
        assert [entry.content.count("tea") for entry in found if entry is not None] == list(
            postings.frequencies
        )
        assert list(postings.lengths) == list(postings.frequencies)

    async def test_title_and_name_count(self, bench: Bench) -> None:
        """Title and speaker's name are searched and counted with the content."""
        await bench.add("tea", title="Green tea", name="Theodora")
        assert await counted(bench, in_key(), ["tea", "green", "theodora"]) == {
            "tea": [("tea", 2, 4)], "green": [("tea", 1, 4)], "theodora": [("tea", 1, 4)],
        }  # fmt: skip

    @pytest.mark.parametrize("content", SCRIPTS)
    async def test_terms_of_any_script(self, bench: Bench, content: str) -> None:
        """The terms of an entry, in any script, are those of the one analyser, stop words too."""
        await bench.add(content)
        await bench.add("neighbour")
        terms = index_terms(content)
        length = sum(terms.values())
        assert await counted(bench, in_key(), list(terms)) == {
            term: [(content, frequency, length)] for term, frequency in terms.items()
        }
        assert (await bench.store.words(in_key(), [])).terms == length + 1

    async def test_a_revision_changes_the_words(self, bench: Bench) -> None:
        """A revision takes the old words out of the statistics and puts the new ones in."""
        entry = await bench.add("tea with milk")
        await bench.commit(bench.make.revise(entry, "coffee"))
        stats = await bench.store.words(in_key(), ["tea", "milk", "coffee"])
        assert (stats.entries, stats.terms) == (1, 1)
        assert [len(stats.postings[term].rows) for term in ("tea", "milk", "coffee")] == [0, 0, 1]
        assert await bench.holding("coffee") == [entry]

    async def test_retire_and_restore_change_the_words(self, bench: Bench) -> None:
        """A retired entry's words do not count; a restored one's do again."""
        entry = await bench.add("tea")
        await bench.add("tea time")
        await bench.commit(Retire(entry, Reason.HIDDEN))
        stats = await bench.store.words(in_key(), ["tea"])
        assert (stats.entries, stats.terms, len(stats.postings["tea"].rows)) == (1, 2, 1)
        await bench.commit(Restore(entry))
        stats = await bench.store.words(in_key(), ["tea"])
        assert (stats.entries, stats.terms, len(stats.postings["tea"].rows)) == (2, 3, 2)

    async def test_a_forget_changes_the_words(self, bench: Bench) -> None:
        """A forgotten entry's words count neither now nor in the past."""
        entry = await bench.add("tea")
        then_us = (await bench.entry(entry)).recorded_us
        await bench.add("milk", key=OTHER_KEY)
        await bench.forget(Selector(key=KEY))
        stats = await bench.store.words(in_bank(), ["tea"])
        assert (stats.entries, stats.terms, len(stats.postings["tea"].rows)) == (1, 1, 0)
        assert await bench.holding("tea", as_of_us=then_us) == []

    async def test_a_scope_is_a_key_or_a_bank(self, bench: Bench) -> None:
        """A key counts its own entries and a bank those of all its keys; other banks and spaces do not leak in."""
        one = await bench.add("tea")
        two = await bench.add("tea", key=OTHER_KEY)
        await bench.add("tea", bank=OTHER_BANK)
        await bench.add("tea", space=OTHER_SPACE)
        for scope, ids in ((in_key(), [one]), (in_key(OTHER_KEY), [two]), (in_bank(), sorted([one, two]))):
            stats = await bench.store.words(scope, ["tea"])
            assert (stats.entries, stats.terms) == (len(ids), len(ids))
            assert await bench.holding("tea", scope) == ids

    async def test_words_in_the_past(self, bench: Bench) -> None:
        """As of a time postings are those of the versions known then; the counts stay those of the present."""
        entry = await bench.add("tea with milk")
        then_us = (await bench.entry(entry)).recorded_us
        await bench.commit(bench.make.revise(entry, "coffee"))
        await bench.add("tea")
        stats = await bench.store.words(in_key(), ["tea", "coffee"], as_of_us=then_us)
        assert (stats.entries, stats.terms) == (2, 2)
        assert (list(stats.postings["tea"].frequencies), list(stats.postings["tea"].lengths)) == ([1], [3])
        assert list(stats.postings["coffee"].rows) == []
        (past,) = await bench.store.fetch(in_key(), list(stats.postings["tea"].rows))
        assert past is not None
        assert (past.content, past.version) == ("tea with milk", 1)

    async def test_words_of_retired_and_expired_in_the_past(self, bench: Bench) -> None:
        """As of a time words of entries count that were retired or have expired since."""
        retired = await bench.add("tea")
        expired = await bench.add("tea", expires_us=START_US + 100)
        then_us = (await bench.entry(expired)).recorded_us
        gone_us = (await bench.commit(Retire(retired, Reason.DELETED))).at_us
        bench.clock.advance(seconds=1)
        assert await bench.holding("tea") == []
        assert await bench.holding("tea", as_of_us=then_us - 1) == [retired]
        assert await bench.holding("tea", as_of_us=then_us) == sorted([retired, expired])
        assert await bench.holding("tea", as_of_us=gone_us) == [expired]
        assert await bench.holding("tea", as_of_us=START_US + 101) == []

    async def test_many_terms_and_rows(self, bench: Bench) -> None:
        """Hundreds of entries and asked terms are counted exactly."""
        await bench.add_all(*(f"w{n} w{n % 7} tea" for n in range(400)))
        stats = await bench.store.words(in_bank(), [f"w{n}" for n in range(500)])
        frequencies = {f"w{n}": len(stats.postings[f"w{n}"].rows) for n in (0, 3, 7, 399, 450)}
        assert frequencies == {"w0": 58, "w3": 57, "w7": 1, "w399": 1, "w450": 0}
        assert (stats.entries, stats.terms) == (400, 1_200)


class VectorLaws(Ground):
    """The vector index."""

    async def test_nearest_is_exact(self, bench: Bench) -> None:
        """Similarities are the law's formula over the stored forms, best first, negative ones last."""
        vectors = {
            "up": stored(127, 0, 0, scale=0.0078), "half": stored(64, 100, -3, scale=0.0081),
            "down": stored(-127, 5, 0, scale=0.0077), "zero": stored(0, 0, 0, scale=0.0),
            "extreme": stored(-128, 127, -128, scale=0.005),
        }  # fmt: skip
        ids = {name: await bench.add(name, vectors=(vector,)) for name, vector in vectors.items()}
        query = stored(100, -128, 127, scale=0.0069)
        expected = {ids[name]: similarity(vector, query) for name, vector in vectors.items()}
        found = await bench.near(query)
        assert [entry for entry, _ in found] == sorted(expected, key=lambda entry: -expected[entry])
        assert all(abs(score - expected[entry]) < 1e-9 for entry, score in found)

    async def test_long_vectors_are_exact(self, bench: Bench) -> None:
        """Sums over thousands of components are exact; nothing is rounded or saturated on the way."""
        size = 8_192
        vectors = [stored(*([127] * size)), stored(*([-128] * size)), stored(*([1, -1] * (size // 2)))]
        ids = [await bench.add(vectors=(vector,)) for vector in vectors]
        found = dict(await bench.near(vectors[1]))
        assert found == {ids[n]: similarity(vector, vectors[1]) for n, vector in enumerate(vectors)}

    async def test_the_best_vector_counts(self, bench: Bench) -> None:
        """An entry with several vectors counts once, with its best one."""
        several = await bench.add(vectors=(stored(1, 0), stored(0, 9), stored(-5, 0)))
        one = await bench.add(vectors=(stored(0, 5),))
        assert await bench.near(stored(0, 1)) == [(several, 9.0), (one, 5.0)]
        assert await bench.near(stored(1, 0), limit=1) == [(several, 1.0)]
        assert await bench.near(stored(-1, 0)) == [(several, 5.0), (one, 0.0)]

    async def test_entries_without_vectors_are_left_out(self, bench: Bench) -> None:
        """An entry without a vector is never near to anything."""
        await bench.add("plain")
        entry = await bench.add(vectors=(stored(1, 0),))
        assert await bench.near(stored(-1, 0)) == [(entry, -1.0)]

    async def test_ties_come_by_handle(self, bench: Bench) -> None:
        """Equal similarities come by ascending handle, and a limit keeps the first of them."""
        for n in range(6):
            await bench.add(f"{n}", vectors=(stored(3, n),), key="ab"[n % 2])
        found = await bench.store.nearest(in_bank(), stored(1, 0), 100)
        rows = [row for row, _ in found]
        assert rows == sorted(rows)
        assert await bench.store.nearest(in_bank(), stored(1, 0), 4) == found[:4]

    async def test_a_limit_keeps_the_best(self, bench: Bench) -> None:
        """A limit keeps the best, over keys and in any order of writing."""
        for n, component in enumerate((3, 9, 1, 7, 5, 8)):
            await bench.add(f"{component}", vectors=(stored(component, 0),), key="abc"[n % 3])
        found = await bench.near(stored(1, 0), limit=3)
        assert [score for _, score in found] == [9.0, 8.0, 7.0]

    async def test_a_search_stays_in_its_scope(self, bench: Bench) -> None:
        """A key searches its own entries, a bank those of all its keys, and nothing leaks from elsewhere."""
        here = await bench.add(vectors=(stored(1, 0),))
        beside = await bench.add(vectors=(stored(9, 0),), key=OTHER_KEY)
        await bench.add(vectors=(stored(99, 0),), bank=OTHER_BANK)
        await bench.add(vectors=(stored(99, 0),), space=OTHER_SPACE)
        assert await bench.near(stored(1, 0), in_key()) == [(here, 1.0)]
        assert await bench.near(stored(1, 0), in_bank()) == [(beside, 9.0), (here, 1.0)]

    async def test_rows_restrict_a_search(self, bench: Bench) -> None:
        """A search over rows looks at those only; none means none; foreign and unknown ones give nothing."""
        ids = [await bench.add(f"{n}", vectors=(stored(n, 0),)) for n in range(5)]
        foreign = await bench.add(vectors=(stored(9, 0),), key=OTHER_KEY)
        rows = await bench.rows_of()
        chosen = [rows[ids[3]], rows[ids[1]]]
        assert await bench.near(stored(1, 0), in_key(), rows=chosen) == [(ids[3], 3.0), (ids[1], 1.0)]
        assert await bench.near(stored(1, 0), in_key(), rows=chosen, limit=1) == [(ids[3], 3.0)]
        assert await bench.near(stored(1, 0), in_key(), rows=[]) == []
        assert await bench.near(stored(1, 0), in_key(), rows=[rows[foreign]]) == []

    async def test_another_size_is_refused(self, bench: Bench) -> None:
        """After the first vector of the store, another size in a batch or a query is refused, in every space."""
        await bench.add(vectors=(stored(1, 0),))
        odd = stored(1, 0, 0)
        await bench.refused(EmbedderMismatch, bench.make.append(vectors=(odd,)))
        await bench.refused(
            EmbedderMismatch, bench.make.append(vectors=(odd,), bank=OTHER_BANK), space=OTHER_SPACE
        )
        await bench.add(digest=b"d")
        await bench.refused(EmbedderMismatch, bench.make.append(digest=b"d", vectors=(odd,)))
        for scope in (in_key(), in_bank(OTHER_BANK)):
            with pytest.raises(EmbedderMismatch):
                await bench.store.nearest(scope, odd, 1)

    async def test_sizes_are_not_mixed_in_a_batch(self, bench: Bench) -> None:
        """Vectors of two sizes in the first batch, or in one entry, are refused, and fix nothing."""
        await bench.refused(EmbedderMismatch, bench.make.append(vectors=(stored(1, 0), stored(1, 0, 0))))
        await bench.refused(
            EmbedderMismatch,
            bench.make.append(vectors=(stored(1, 0),)),
            bench.make.append(vectors=(stored(1),)),
        )
        entry = await bench.add(vectors=(stored(1, 0, 0),))
        assert await bench.near(stored(1, 0, 0)) == [(entry, 1.0)]

    async def test_a_store_without_vectors_is_near_to_nothing(self, bench: Bench) -> None:
        """A store without vectors answers a query of any size with nothing."""
        await bench.add("plain")
        assert await bench.near(stored(1, 2, 3)) == []

    async def test_a_revision_changes_the_vectors(self, bench: Bench) -> None:
        """A revision replaces the vectors; a revision without any takes them away."""
        entry = await bench.add(vectors=(stored(1, 0), stored(0, 50)))
        await bench.commit(bench.make.revise(entry, vectors=(stored(5, 0),)))
        assert await bench.near(stored(1, 0)) == [(entry, 5.0)]
        assert await bench.near(stored(0, 1)) == [(entry, 0.0)]
        await bench.commit(bench.make.revise(entry))
        assert await bench.near(stored(1, 0)) == []

    async def test_retire_and_restore_change_the_vectors(self, bench: Bench) -> None:
        """A retired entry is not near to anything; a restored one is again, with the vectors of its version."""
        entry = await bench.add(vectors=(stored(2, 0),))
        await bench.commit(bench.make.revise(entry, vectors=(stored(3, 0),)))
        await bench.commit(Retire(entry, Reason.DELETED))
        assert await bench.near(stored(1, 0)) == []
        await bench.commit(Restore(entry))
        assert await bench.near(stored(1, 0)) == [(entry, 3.0)]
        await bench.commit(Restore(entry, 1))
        assert await bench.near(stored(1, 0)) == [(entry, 2.0)]

    async def test_a_forget_changes_the_vectors(self, bench: Bench) -> None:
        """A forgotten entry is near to nothing, neither now nor in the past."""
        entry = await bench.add(vectors=(stored(2, 0),))
        stays = await bench.add(vectors=(stored(1, 0),))
        then_us = (await bench.entry(stays)).recorded_us
        await bench.forget(Selector(ids=(entry,)))
        assert await bench.near(stored(1, 0)) == [(stays, 1.0)]
        assert await bench.near(stored(1, 0), as_of_us=then_us) == [(stays, 1.0)]

    async def test_an_expired_entry_is_not_near(self, bench: Bench) -> None:
        """An expired entry is near to nothing after the microsecond of its expiry."""
        entry = await bench.add(vectors=(stored(2, 0),), expires_us=START_US + 10)
        bench.clock.set(START_US + 10)
        assert await bench.near(stored(1, 0)) == [(entry, 2.0)]
        bench.clock.set(START_US + 11)
        assert await bench.near(stored(1, 0)) == []

    async def test_a_merge_keeps_the_vectors(self, bench: Bench) -> None:
        """The version that a duplicate's metadata made has the vectors of the entry."""
        entry = await bench.add(digest=b"d", vectors=(stored(2, 0),))
        await bench.add(digest=b"d", vectors=(stored(9, 0),), metadata={"a": 1})
        assert await bench.near(stored(1, 0)) == [(entry, 2.0)]

    async def test_vectors_in_the_past(self, bench: Bench) -> None:
        """As of a time a search looks at the vectors of the versions known then."""
        entry = await bench.add(vectors=(stored(2, 0),))
        then_us = (await bench.entry(entry)).recorded_us
        revise = await bench.commit(bench.make.revise(entry, vectors=(stored(3, 0),)))
        later = await bench.add(vectors=(stored(9, 0),))
        gone_us = (await bench.commit(Retire(entry, Reason.DELETED))).at_us
        query = stored(1, 0)
        assert await bench.near(query, as_of_us=then_us - 1) == []
        assert await bench.near(query, as_of_us=then_us) == [(entry, 2.0)]
        assert await bench.near(query, as_of_us=revise.at_us) == [(entry, 3.0)]
        assert await bench.near(query, as_of_us=gone_us - 1, limit=1) == [(later, 9.0)]
        assert await bench.near(query, as_of_us=gone_us) == [(later, 9.0)]

    async def test_many_vectors(self, bench: Bench) -> None:
        """Hundreds of vectors over many batches, with gaps in between, are ranked exactly."""
        components = [(n * 37 % 255 - 127, n * 91 % 255 - 127, n * 53 % 255 - 127) for n in range(600)]
        ids: list[str] = []
        for start in range(0, 600, 100):
            drafts = [bench.make.append(vectors=(stored(*c),)) for c in components[start : start + 100]]
            ids += [placed.id for placed in (await bench.commit(*drafts)).placed]
        await bench.commit(*(Retire(entry, Reason.DELETED) for entry in ids[::3]))
        query = stored(11, -7, 5)
        kept = {entry: similarity(stored(*c), query) for n, (entry, c) in enumerate(zip(ids, components, strict=True))
                if n % 3}  # fmt: skip
        found = await bench.near(query, in_key(), limit=50)
        assert [score for _, score in found] == sorted(kept.values(), reverse=True)[:50]
        assert all(kept[entry] == score for entry, score in found)


class RowLaws(Ground):
    """Row handles."""

    async def test_eligible_is_what_a_window_admits(self, bench: Bench) -> None:
        """Eligible gives ascending handles of all that the window admits, for a key and for a bank."""
        for n in range(4):
            await bench.add(f"{n}", key="ab"[n % 2], metadata={"n": n}, created_us=START_US + n)
        for scope, texts in ((in_key("a"), ["0", "2"]), (in_bank(), ["0", "1", "2", "3"])):
            rows = await bench.store.eligible(scope, Window())
            assert list(rows) == sorted(set(rows))
            found = await bench.store.fetch(scope, rows)
            assert sorted(entry.content for entry in found if entry is not None) == texts

    async def test_limit_cursor_and_order_do_not_count(self, bench: Bench) -> None:
        """The limit, cursor and order of a window do not change what is eligible."""
        await bench.add_all("one", "two", "three")
        page = await bench.store.load(in_key(), Window(limit=1))
        window = Window(limit=1, after=page.next, order="newest_first", by="created")
        assert list(await bench.store.eligible(in_key(), window)) == list(
            await bench.store.eligible(in_key(), ALL)
        )
        assert len(await bench.store.eligible(in_key(), window)) == 3

    async def test_eligible_by_filter_and_created(self, bench: Bench) -> None:
        """The filter and the created bounds of a window choose what is eligible."""
        for n in range(5):
            await bench.add(f"{n}", metadata={"even": n % 2 == 0}, created_us=START_US + n)
        even = compile_filter({"even": {"$eq": True}})
        window = Window(filter=even, created_from_us=START_US + 1, created_until_us=START_US + 4)
        rows = await bench.store.eligible(in_bank(), window)
        found = await bench.store.fetch(in_bank(), rows)
        assert [entry.content for entry in found if entry is not None] == ["2"]

    async def test_eligible_in_the_past_and_hidden(self, bench: Bench) -> None:
        """Handles of an ``as_of`` or ``hidden`` window give the versions that it showed."""
        entry = await bench.add("one")
        then_us = (await bench.entry(entry)).recorded_us
        await bench.commit(bench.make.revise(entry, "two"))
        await bench.commit(Retire(entry, Reason.HIDDEN))
        assert list(await bench.store.eligible(in_key(), Window())) == []
        for window, text in ((Window(as_of_us=then_us), "one"), (Window(hidden=True), "two")):
            rows = await bench.store.eligible(in_key(), window)
            found = await bench.store.fetch(in_key(), rows)
            assert [version.content for version in found if version is not None] == [text]
            assert len(rows) == 1

    async def test_fetch_keeps_the_order(self, bench: Bench) -> None:
        """Fetch gives an item for each handle in the order asked for."""
        one, two = await bench.add_all("one", "two")
        rows = await bench.rows_of()
        asked = [rows[two], rows[one], rows[two]]
        assert [entry.id if entry else None for entry in await bench.store.fetch(in_key(), asked)] == [
            two,
            one,
            two,
        ]
        assert await bench.store.fetch(in_key(), []) == []

    async def test_a_handle_never_gives_what_was_revised(self, bench: Bench) -> None:
        """A handle of the present gives the present version once its own was revised, or None; never the old one."""
        entry = await bench.add("one")
        (old,) = (await bench.rows_of()).values()
        await bench.commit(bench.make.revise(entry, "two"))
        (new,) = (await bench.rows_of()).values()
        found = await bench.store.fetch(in_key(), [old, new])
        assert [version.content if version else None for version in found] in ([None, "two"], ["two", "two"])

    async def test_a_handle_of_what_is_gone(self, bench: Bench) -> None:
        """A handle of the present gives None once its entry is retired, expired or forgotten."""
        retired, forgotten, stays = await bench.add_all("one", "two", "three")
        expired = await bench.add("four", expires_us=START_US + 10)
        rows = await bench.rows_of()
        bench.clock.set(START_US + 11)
        await bench.commit(Retire(retired, Reason.DELETED))
        await bench.forget(Selector(ids=(forgotten,)))
        asked = [rows[entry] for entry in (retired, forgotten, expired, stays)]
        found = await bench.store.fetch(in_key(), asked)
        assert [entry.content if entry else None for entry in found] == [None, None, None, "three"]

    async def test_a_handle_of_the_past_names_a_version(self, bench: Bench) -> None:
        """A handle of a version that was past when it was read gives that very version for as long as it is kept."""
        revised, retired, forgotten, expired = await bench.add_all("one", "two", "three", "four")
        await bench.commit(bench.make.revise(expired, "five", expires_us=START_US + 10))
        then_us = (await bench.entry(expired)).recorded_us
        for entry in (revised, forgotten, expired):
            await bench.commit(bench.make.revise(entry, "new"))
        await bench.commit(Retire(retired, Reason.DELETED))
        rows = await bench.rows_of(Window(as_of_us=then_us))
        await bench.commit(bench.make.revise(revised, "newer"), Restore(retired))
        await bench.forget(Selector(ids=(forgotten,)))
        bench.clock.set(START_US + 11)
        asked = [rows[entry] for entry in (revised, retired, forgotten, expired)]
        found = await bench.store.fetch(in_key(), asked)
        assert [entry.content if entry else None for entry in found] == ["one", "two", None, "five"]
        assert await bench.store.fetch(in_key(OTHER_KEY), asked) == [None] * 4

    async def test_a_handle_of_what_was_hidden(self, bench: Bench) -> None:
        """A handle from a ``hidden`` read gives the hidden version, also once it was given back."""
        (entry,) = await bench.add_all("one")
        await bench.commit(Retire(entry, Reason.HIDDEN))
        rows = await bench.rows_of(Window(hidden=True))
        await bench.commit(Restore(entry))
        (found,) = await bench.store.fetch(in_key(), [rows[entry]])
        assert found is not None
        assert (found.content, found.version) == ("one", 1)

    async def test_handles_of_a_restored_entry(self, bench: Bench) -> None:
        """A handle from before a retire gives what was restored, or None; never the retired version."""
        entry = await bench.add("one")
        (old,) = (await bench.rows_of()).values()
        await bench.commit(Retire(entry, Reason.DELETED))
        await bench.commit(Restore(entry))
        (new,) = (await bench.rows_of()).values()
        found = await bench.store.fetch(in_key(), [old, new])
        assert [version.version if version else None for version in found] in ([None, 2], [2, 2])

    async def test_foreign_handles_give_nothing(self, bench: Bench) -> None:
        """A handle gives None in another space, bank or key, and an unknown one gives None everywhere."""
        await bench.add("one")
        (row,) = (await bench.rows_of()).values()
        for scope in (
            in_key(OTHER_KEY),
            in_bank(OTHER_BANK),
            in_key(space=OTHER_SPACE),
            in_bank(space=OTHER_SPACE),
        ):
            assert await bench.store.fetch(scope, [row]) == [None]
        unknown = [row + 1, row - 1, 0, -1, 2**62, -(2**62)]
        assert await bench.store.fetch(in_key(), unknown) == [None] * len(unknown)

    async def test_reads_share_their_handles(self, bench: Bench) -> None:
        """Words, vectors and eligible name the same version by the same handle."""
        await bench.add("tea", vectors=(stored(1, 0),))
        rows = list(await bench.store.eligible(in_key(), Window()))
        assert list((await bench.store.words(in_bank(), ["tea"])).postings["tea"].rows) == rows
        assert [row for row, _ in await bench.store.nearest(in_key(), stored(1, 0), 9)] == rows
