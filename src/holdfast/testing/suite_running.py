"""Laws of a store in use: boundaries, values, unusual content, many callers, closing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, InvalidInput, StoreClosed
from holdfast.model.batch import Retire
from holdfast.model.entry import Draft, Quantised, Reason
from holdfast.model.scope import Scope
from holdfast.model.values import JsonValue
from holdfast.model.window import Window
from holdfast.ports.store import Store
from holdfast.testing.clock import START_US
from holdfast.testing.making import KEY, OTHER_BANK, OTHER_KEY, OTHER_SPACE, in_bank, in_key, in_space, named
from holdfast.testing.suite_ground import Bench, Ground

VECTOR = Quantised(b"\x01\x02", 1.0)
OUTSIDE = [
    in_key(space=OTHER_SPACE), in_bank(space=OTHER_SPACE), in_key(bank=OTHER_BANK), in_bank(OTHER_BANK),
    in_key(OTHER_KEY), in_key("ALICE"), in_key("alic"), in_key("alice2"), in_key("alice", "note"),
    in_key("alice", "NOTES"), in_key(space="ACME"), in_key(space="acm"),
]  # fmt: skip
CONTENTS = {
    "empty": "",
    "blank": " \t \n ",
    "emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd",
    "astral": "\U00010348\U0002070e",
    "right to left": "\u05e9\u05dc\u05d5\u05dd \u202e\u0645\u0631\u062d\u0628\u0627\u202c",
    "quotes": 'it\'s "quoted" `so` \u2019 \u201c\u201d',
    "statement": "x'); DROP TABLE entries;-- \"; DELETE FROM entry",
    "wildcards": "% _ * ? [a-z] \\ \\% $1 :name @p ?1 {x} %s",
    "lines": "a\r\nb\rc\nd\u2028e\u2029f\x0bg\x0ch\x85i",
    "controls": "\x01\x02\x1b[31m\x7f\x80\x9f",
    "marks": "\ufeffbom \u00e9 e\u0301 \u200b\u2060",
    "not characters": "\ufffe\uffff\U0010ffff",
    "markup": "<b>&amp;</b><!-- --> ```",
    "json": '{"a": "\\u0000"}',
    "number": "0012.50",
    "null": "NULL",
    "long": "tea " * 262_144,
}
VALUES: dict[str, JsonValue] = {
    "null": None, "true": True, "false": False, "zero": 0, "one": 1, "float one": 1.0, "minus": -1, "big": 2**53 + 1,
    "huge": 2**70, "fraction": 0.1, "tiny": 5e-324, "great": 1.7976931348623157e308, "empty text": "",
    "text": "\u00e9\"'\\\n\U0001f600", "nul in text": "a\x00b", "list": [], "nested": [[1, [2, {"a": [None]}]], {}],
    "object": {"b": 1, "a": {"": [True]}}, "odd keys": {"%": 1, "a.b": 2, "$x": 3, "\u00e9": 4, "'": 5, " ": 6},
    "deep": [[[[[[[[[["down"]]]]]]]]]], "number text": "123", "long text": "x" * 100_000,
}  # fmt: skip
NAMES = [
    "'", '"', "%", "_", "a/b", "..", "a b", "\\", "\U0001f600", "\u0645", "e\u0301", "~x", "x'--", "x" * 512, "0",
]  # fmt: skip


class BoundaryLaws(Ground):
    """Scope is a boundary: what lies outside looks missing."""

    @pytest.mark.parametrize("scope", OUTSIDE, ids=lambda scope: f"{scope.space}/{scope.bank}/{scope.key}")
    async def test_reads_see_nothing_outside(self, bench: Bench, scope: Scope) -> None:
        """Every read in another space, bank or key gives what it gives when there is nothing, ids known or not."""
        entry = await bench.add("tea", vectors=(VECTOR,))
        old = await bench.add("tea")
        await bench.commit(Retire(old, Reason.HIDDEN))
        document = (await bench.put("note")).id
        await bench.enqueue()
        rows = list((await bench.rows_of(Window(hidden=True))).values())
        past_us = (await bench.entry(entry)).recorded_us + 1
        store = bench.store
        for as_of_us in (None, past_us):
            window = Window(as_of_us=as_of_us, hidden=True)
            assert (await store.load(scope, window)).entries == ()
            assert list(await store.eligible(scope, window)) == []
            assert await store.find(scope, [entry, old], as_of_us=as_of_us) == []
            assert await store.nearest(scope, VECTOR, 9, as_of_us=as_of_us) == []
            assert await store.nearest(scope, VECTOR, 9, rows=rows, as_of_us=as_of_us) == []
            stats = await store.words(scope, ["tea"], as_of_us=as_of_us)
            assert (stats.entries, stats.terms, list(stats.postings["tea"].rows)) == (0, 0, [])
        assert await store.fetch(scope, rows) == [None] * len(rows)
        assert await store.versions(scope, entry) == []
        assert await store.document_versions(scope, document) == []
        assert await store.chores(scope) == []
        if scope.key is not None:
            assert await store.head(scope) == 0
            assert await store.documents(scope, "block") == []
            ref = named("note", key=scope.key, bank=scope.bank or "")
            assert await store.document(scope, ref) is None

    async def test_keys_see_nothing_outside(self, bench: Bench) -> None:
        """Keys of another bank or space are not listed."""
        await bench.add("tea")
        for scope in (in_bank(OTHER_BANK), in_bank(space=OTHER_SPACE), in_bank("note"), in_bank("NOTES")):
            assert await bench.store.keys(scope) == []

    async def test_spaces_hold_the_same_names(self, bench: Bench) -> None:
        """Two spaces hold the same banks, keys, names, digests and dedupe keys without touching each other."""
        for space in ("acme", OTHER_SPACE):
            await bench.add(space, space=space, digest=b"d")
            await bench.put("note", space, space=space, expected=0)
            await bench.enqueue(space=space, dedupe="d", payload=space)
        for space in ("acme", OTHER_SPACE):
            assert await bench.texts(scope=in_key(space=space)) == [space]
            document = await bench.document("note", space=space)
            assert document is not None
            assert document.value == space
            assert [chore.payload for chore in await bench.store.chores(in_space(space))] == [space]


class ValueLaws(Ground):
    """Values that come back are exact, and nobody else's."""

    @pytest.mark.parametrize("name", CONTENTS)
    async def test_content_comes_back_exactly(self, bench: Bench, name: str) -> None:
        """Content of any kind comes back character for character, and is found by its words."""
        content = CONTENTS[name]
        entry = await bench.add(content, title=content[:900])
        await bench.add("neighbour")
        found = await bench.entry(entry)
        assert found.content == content
        assert found.title == content[:900]
        assert (await bench.load())[0] == found
        assert (await bench.versions(entry))[0].content == content

    @pytest.mark.parametrize("name", VALUES)
    async def test_values_come_back_exactly(self, bench: Bench, name: str) -> None:
        """A JSON value of any kind comes back equal and of the same types, in documents, payloads and metadata."""
        value = VALUES[name]
        await bench.put("note", value)
        chore = await bench.enqueue(payload=value)
        document = await bench.document("note")
        assert document is not None
        assert repr(document.value) == repr(value)
        assert repr((await bench.chore(chore)).payload) == repr(value)
        if name not in ("long text", "deep"):
            entry = await bench.add(metadata={"m": value})
            assert repr((await bench.entry(entry)).metadata) == repr({"m": value})

    @pytest.mark.parametrize("name", NAMES)
    async def test_names_of_any_kind(self, bench: Bench, name: str) -> None:
        """Keys, banks, spaces, names, threads and subjects of any characters hold what is put there."""
        entry = await bench.add(
            key=name, bank=name, space=name, thread=name, name=name, subject=name, speaker="user"
        )
        ref = named(name, key=name, bank=name)
        await bench.put(ref, name, space=name)
        (found,) = await bench.load(scope=in_key(name, name, name))
        assert (found.id, found.key, found.bank, found.space, found.subject) == (
            entry,
            name,
            name,
            name,
            name,
        )
        document = await bench.document(ref, space=name)
        assert document is not None
        assert document.ref == ref
        assert [info.key for info in await bench.store.keys(in_bank(name, name))] == [name]

    def test_nul_is_refused_by_the_model(self) -> None:
        """U+0000 and lone surrogates never reach a store: the model refuses them."""
        for content in ("a\x00b", "\ud800"):
            with pytest.raises(InvalidInput):
                Draft(id="0" * 32, content=content, created_us=0)

    @pytest.mark.parametrize("created_us", [-(2**53), -1, 0, 1, 253_402_300_799_999_999])
    async def test_times_come_back_exactly(self, bench: Bench, created_us: int) -> None:
        """Times long ago and far ahead come back to the microsecond."""
        entry = await bench.add(created_us=created_us, expires_us=253_402_300_799_999_999)
        found = await bench.entry(entry)
        assert (found.created_us, found.expires_us) == (created_us, 253_402_300_799_999_999)

    async def test_later_changes_to_what_was_given_do_not_count(self, bench: Bench) -> None:
        """What a caller does to its dictionaries after a commit changes nothing that is stored."""
        inner: list[JsonValue] = [1]
        metadata: dict[str, JsonValue] = {"a": inner}
        value: dict[str, JsonValue] = {"a": [1]}
        payload: list[JsonValue] = [1]
        entry = await bench.add(metadata=metadata)
        await bench.put("note", value)
        chore = await bench.enqueue(payload=payload)
        inner.append(2)
        metadata["b"] = 2
        value["a"] = None
        payload.clear()
        document = await bench.document("note")
        assert document is not None
        assert (await bench.entry(entry)).metadata == {"a": [1]}
        assert document.value == {"a": [1]}
        assert (await bench.chore(chore)).payload == [1]

    async def test_changes_to_what_was_read_do_not_count(self, bench: Bench) -> None:
        """What a caller does to a value that it read changes nothing that another read gives."""
        entry = await bench.add(metadata={"a": [1], "b": {}})
        await bench.put("note", {"a": [1]})
        chore = await bench.enqueue(payload={"a": [1]})
        for read_metadata in entry_reads(bench, entry):
            found = await read_metadata()
            found["a"] = "broken"
            found["b"] = None
            del found["b"]
        assert [await read() for read in entry_reads(bench, entry)] == [{"a": [1], "b": {}}] * 5
        for read_value in value_reads(bench, chore):
            value = await read_value()
            assert isinstance(value, dict)
            value["a"] = "broken"
        assert [await read() for read in value_reads(bench, chore)] == [{"a": [1]}] * 3

    async def test_nested_changes_to_what_was_read_do_not_count(self, bench: Bench) -> None:
        """Nested lists of what was read are the caller's own as well."""
        entry = await bench.add(metadata={"a": [1]})
        nested = (await bench.entry(entry)).metadata["a"]
        assert isinstance(nested, list)
        nested.append(2)
        assert (await bench.entry(entry)).metadata == {"a": [1]}

    async def test_a_page_stands_still(self, bench: Bench) -> None:
        """Entries, documents and statistics that were read do not change when others write."""
        entry = await bench.add("tea", metadata={"a": 1}, digest=b"d")
        await bench.put("note", {"a": 1})
        page = await bench.load()
        document = await bench.document("note")
        stats = await bench.store.words(in_key(), ["tea"])
        rows = list(stats.postings["tea"].rows)
        await bench.add("tea", metadata={"b": 1}, digest=b"d")
        await bench.commit(Retire(entry, Reason.DELETED), bench.make.put("note", 2))
        await bench.add("tea tea")
        assert (page[0].metadata, page[0].seen, page[0].retired) == ({"a": 1}, 1, None)
        assert document is not None
        assert (document.value, document.ended_us) == ({"a": 1}, None)
        assert (stats.entries, list(stats.postings["tea"].rows)) == (1, rows)

    async def test_changes_to_statistics_do_not_count(self, bench: Bench) -> None:
        """Arrays of postings belong to the caller."""
        await bench.add("tea")
        stats = await bench.store.words(in_key(), ["tea"])
        stats.postings["tea"].rows.append(99)
        stats.postings["tea"].frequencies[0] = 99
        again = await bench.store.words(in_key(), ["tea"])
        assert (len(again.postings["tea"].rows), list(again.postings["tea"].frequencies)) == (1, [1])


def entry_reads(bench: Bench, entry: str) -> list[Callable[[], Awaitable[dict[str, JsonValue]]]]:
    """All ways to read the metadata of the one entry."""
    store = bench.store

    async def loaded() -> dict[str, JsonValue]:
        return (await store.load(in_key(), Window())).entries[0].metadata

    async def banked() -> dict[str, JsonValue]:
        return (await store.load(in_bank(), Window())).entries[0].metadata

    async def found() -> dict[str, JsonValue]:
        return (await store.find(in_space(), [entry]))[0].metadata

    async def kept() -> dict[str, JsonValue]:
        return (await store.versions(in_space(), entry))[-1].metadata

    async def fetched() -> dict[str, JsonValue]:
        (read,) = await store.fetch(in_key(), await store.eligible(in_key(), Window()))
        assert read is not None
        return read.metadata

    return [loaded, banked, found, kept, fetched]


def value_reads(bench: Bench, chore: str) -> list[Callable[[], Awaitable[JsonValue]]]:
    """All ways to read the values of the one document and the one chore."""
    store = bench.store

    async def listed() -> JsonValue:
        return (await store.documents(in_key(), "block"))[0].value

    async def kept() -> JsonValue:
        return (await store.document_versions(in_space(), (await store.documents(in_key(), "block"))[0].id))[
            0
        ].value

    async def payload() -> JsonValue:
        return (await bench.chore(chore)).payload

    return [listed, kept, payload]


class RunningLaws(Ground):
    """Many callers, and the end."""

    async def test_many_commits_at_once(self, bench: Bench) -> None:
        """Commits from one loop at once all succeed, with seqs without gaps and strictly increasing times."""
        commits = await asyncio.gather(*(bench.commit(bench.make.append(f"{n}")) for n in range(32)))
        assert sorted(commit.placed[0].seq for commit in commits) == list(range(1, 33))
        by_seq = sorted(commits, key=lambda commit: commit.placed[0].seq)
        times = [commit.at_us for commit in by_seq]
        assert times == sorted(set(times))
        assert [change.id for change in await bench.store.changes(in_space())] == [c.change for c in by_seq]
        assert len(await bench.load()) == 32

    async def test_a_commit_is_visible_at_once(self, bench: Bench) -> None:
        """Each commit is visible to every read that starts after it returned, while others write."""

        async def write(n: int) -> None:
            entry = await bench.add(f"w{n}", key=f"k{n % 4}")
            assert (await bench.entry(entry)).content == f"w{n}"
            assert await bench.holding(f"w{n}") == [entry]
            assert f"w{n}" in await bench.texts(scope=in_bank())

        await asyncio.gather(*(write(n) for n in range(24)))

    async def test_readers_see_whole_batches(self, bench: Bench) -> None:
        """A read never sees a part of a batch, while batches are written."""
        pairs = [bench.commit(bench.make.append(f"{n}"), bench.make.append(f"{n}")) for n in range(12)]

        async def read() -> None:
            for _ in range(12):
                texts = await bench.texts()
                assert texts[::2] == texts[1::2]
                await asyncio.sleep(0)

        await asyncio.gather(read(), *pairs, read())
        assert len(await bench.load()) == 24

    async def test_threads_with_loops_of_their_own(self, bench: Bench) -> None:
        """Threads with loops of their own write and read one store at once; nothing is lost or mixed."""
        batches = [[bench.make.batch(bench.make.append(f"{t} {n}")) for n in range(8)] for t in range(4)]

        async def work(thread: int) -> None:
            for batch in batches[thread]:
                commit = await bench.store.commit(batch)
                (found,) = await bench.store.find(in_space(), [commit.placed[0].id])
                assert found.content.startswith(f"{thread} ")

        await asyncio.gather(*(asyncio.to_thread(asyncio.run, work(thread)) for thread in range(4)))
        entries = await bench.load()
        assert [entry.seq for entry in entries] == list(range(1, 33))
        for thread in range(4):
            own = [entry.content for entry in entries if entry.content.startswith(f"{thread} ")]
            assert own == [f"{thread} {n}" for n in range(8)]

    async def test_a_batch_of_many_operations(self, bench: Bench) -> None:
        """A batch of thousands of operations is one change."""
        operations = [bench.make.append(f"{n}", key=f"k{n % 7}") for n in range(2_000)]
        commit = await bench.commit(*operations)
        assert len(commit.placed) == 2_000
        assert len(await bench.steps(commit.change)) == 2_000
        assert [info.entries for info in await bench.store.keys(in_bank())] == [286] * 5 + [285] * 2

    async def test_a_worked_store_passes_its_check(self, bench: Bench) -> None:
        """After work of every kind the store finds nothing wrong with itself, and says what it looked at."""
        entries = await bench.add_all("tea", "coffee", "milk")
        await bench.add("near", vectors=(VECTOR, VECTOR), digest=b"d")
        await bench.add("near", metadata={"a": 1}, digest=b"d")
        await bench.commit(bench.make.revise(entries[0], "cocoa"), Retire(entries[1], Reason.HIDDEN))
        await bench.put("note", 1)
        await bench.put("note", 2)
        await bench.enqueue(payload=[1])
        await bench.lease()
        await bench.store.settle()
        report = await bench.store.check()
        assert report.ok, report.findings
        assert sum(report.examined.values()) > 0

    async def test_settle_changes_nothing(self, bench: Bench) -> None:
        """Settling changes nothing that a read tells."""
        await bench.add_all("tea", "coffee")
        await bench.put("note")
        before = await bench.picture()
        await bench.store.settle()
        await bench.store.settle()
        assert await bench.picture() == before

    async def test_rebuilding_changes_nothing(self, bench: Bench) -> None:
        """Making anew what is derived leaves everything as it is, and writes go on behind it."""
        ids = await bench.add_all("tea one", "tea two", "tea three", "tea four")
        await bench.commit(bench.make.revise(ids[1], "coffee"), bench.make.put("note"))
        before = await bench.store.words(in_key(KEY), ["tea", "coffee"])
        await bench.store.rebuild()
        assert await bench.store.words(in_key(KEY), ["tea", "coffee"]) == before
        await bench.add("tea again")
        assert list((await bench.store.words(in_key(KEY), ["tea"])).postings["tea"].frequencies) == [
            1,
            1,
            1,
            1,
        ]
        assert (await bench.store.check()).findings == ()

    async def test_a_backup_overwrites_nothing(self, bench: Bench, tmp_path: Path) -> None:
        """A backup to a file that exists is refused with a typed error and leaves the file as it was."""
        await bench.add()
        target = tmp_path / "kept"
        target.write_bytes(b"precious")
        with pytest.raises(HoldfastError):
            await bench.store.backup(str(target))
        assert target.read_bytes() == b"precious"

    async def test_closing_finishes_what_was_accepted(self, bench: Bench) -> None:
        """A commit that was started before the close either succeeds or says that the store was closed."""
        tasks = [asyncio.ensure_future(bench.commit(bench.make.append())) for _ in range(8)]
        await asyncio.sleep(0)
        await bench.store.aclose()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(
            isinstance(result, StoreClosed) or not isinstance(result, BaseException) for result in results
        )

    async def test_a_closed_store_refuses(self, bench: Bench) -> None:
        """After it was closed every call of a store says so; closing twice does nothing."""
        await bench.add()
        batch = bench.make.batch(bench.make.append())
        await bench.store.aclose()
        await bench.store.aclose()
        for call in all_calls(bench.store):
            with pytest.raises(StoreClosed):
                await call()
        with pytest.raises(StoreClosed):
            await bench.store.commit(batch)


def all_calls(store: Store) -> list[Callable[[], Awaitable[object]]]:
    """Every call of a store except commit, backup and close."""
    key, space, some_id = in_key(KEY), in_space(), "0" * 32
    return [
        lambda: store.load(key, Window()),
        lambda: store.find(space, [some_id]),
        lambda: store.versions(space, some_id),
        lambda: store.keys(in_bank()),
        lambda: store.head(key),
        lambda: store.document(key, named("note")),
        lambda: store.documents(key, "block"),
        lambda: store.document_versions(space, some_id),
        lambda: store.words(key, ["tea"]),
        lambda: store.nearest(key, VECTOR, 1),
        lambda: store.eligible(key, Window()),
        lambda: store.fetch(key, [1]),
        lambda: store.changes(space),
        lambda: store.change(space, some_id),
        lambda: store.lease(worker="w", now_us=START_US, until_us=START_US + 1),
        lambda: store.renew(some_id, 1, START_US),
        lambda: store.chores(space),
        store.next_due_us,
        store.check,
        lambda: store.residue([b"x"]),
        store.settle,
        store.unsettled,
        lambda: store.erased(space, [some_id]),
        store.spaces,
        lambda: store.overdue(expired_before_us=0, deleted_before_us=0),
        lambda: store.trim_journal(0),
        lambda: store.trim_chores(0),
        store.stats,
        store.compact,
        store.backups,
        lambda: store.drop_backup("x"),
        lambda: store.limit("s", 1),
        lambda: store.usage("s"),
        store.rebuild,
    ]
