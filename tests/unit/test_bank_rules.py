"""Rules of banks: settings, equal texts, quotations, and the stable window."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.model.bank import BankInfo, bank_of, bank_value, changed_bank, folded_name, new_bank
from holdfast.model.document import Document, DocumentRef
from holdfast.model.entry import Draft, Entry
from holdfast.model.origin import UNKNOWN
from holdfast.model.recall import AddResult, Page, message_of
from holdfast.model.values import DAY_US
from holdfast.rules.dedupe import request_digest, requests_digest, same_text_digest
from holdfast.rules.quotes import may_quote, without_quotes
from holdfast.rules.window import stable_window

ID = "0" * 32


def entry(seq: int, speaker: str | None = "user", kind: Any = "entry") -> Entry:
    return Entry(
        f"{seq:032x}", "s", "b", "k", seq, 1, kind, f"turn {seq}", None, speaker, None, None, None, {}, UNKNOWN,
        seq, seq, None, ID,
    )  # fmt: skip


def test_settings_survive_their_document() -> None:
    info = new_bank(ID, "Notes", "conversation", {"retention_days": 7, "strip_quoted_reply_chains": True}, 5)
    document = Document(
        ID,
        "s",
        DocumentRef("~banks", "banks", "bank", ID),
        bank_value(info),
        3,
        1,
        None,
        UNKNOWN,
        9,
        None,
        ID,
    )
    assert bank_of(document) == replace(info, version=3, updated_us=9)


def test_settings_of_a_later_version_are_read_as_far_as_they_are_known() -> None:
    info = new_bank(ID, "Notes", "general", {}, 5)
    value = bank_value(info) | {"colour": "red"}
    value.pop("history_window")
    document = Document(
        ID, "s", DocumentRef("~banks", "banks", "bank", ID), value, 1, 1, None, UNKNOWN, 9, None, ID
    )
    assert bank_of(document) == info


def test_retention_counts_back_from_now() -> None:
    info = new_bank(ID, "Notes", "general", {"retention_days": 1}, 0)
    assert info.kept_from_us(5 * DAY_US) == 4 * DAY_US
    assert changed_bank(info, {"retention_days": None}).kept_from_us(5) is None


def test_a_chunk_too_wide_for_a_narrowed_window_is_refused() -> None:
    with pytest.raises(InvalidInput, match="over half"):
        changed_bank(new_bank(ID, "Notes", "conversation", {}, 0), {"history_window": 20, "window_chunk": 11})


def test_a_window_brings_its_chunk_along() -> None:
    info = changed_bank(new_bank(ID, "Notes", "conversation", {}, 0), {"history_window": 20})
    assert (info.history_window, info.window_chunk) == (20, 10)


@pytest.mark.parametrize(("one", "other"), [("Straße", "STRASSE"), ("Cafe\u0301", "CAFÉ"), ("ΣΑΣ", "σας")])
def test_names_without_case(one: str, other: str) -> None:
    assert folded_name(one) == folded_name(other)


@given(st.text(min_size=1, max_size=255))
def test_folded_names_fit_into_a_document_name(name: str) -> None:
    assert 1 <= len(folded_name(name)) <= 512


def test_equal_texts() -> None:
    assert same_text_digest(" Cafe\u0301\n au  lait") == same_text_digest("Café au lait")
    assert same_text_digest("tea") != same_text_digest("Tea")
    assert same_text_digest("te a") != same_text_digest("tea")


def draft(content: str = "tea", speaker: Any = "user", **metadata: Any) -> Draft:
    return Draft(id=ID, content=content, speaker=speaker, metadata=metadata, created_us=0)


def test_equal_requests() -> None:
    assert request_digest(draft(a=1, b=2)) == request_digest(draft(b=2, a=1))
    assert request_digest(replace(draft(), title="x", created_us=9)) == request_digest(draft())
    others = [draft("coffee"), draft(speaker="assistant"), draft(a=1), draft(a=True), draft(a="1")]
    assert len({request_digest(one) for one in [draft(), *others]}) == 6
    assert requests_digest([("a", draft())]) != requests_digest([("b", draft())])


WORDS = [f"word{number}" for number in range(60)]
FORTY = " ".join(WORDS[:40])


def test_forty_words_are_a_quotation_and_thirty_nine_are_not() -> None:
    assert without_quotes(f"hello {FORTY} bye", [FORTY]) == "hello\nbye"
    short = " ".join(WORDS[:39])
    assert without_quotes(f"hello {short} bye", [short]) == f"hello {short} bye"
    assert may_quote(FORTY)
    assert not may_quote(short)


def test_marks_and_punctuation_do_not_hide_a_quotation() -> None:
    lines = "\n".join(f"> {word}," for word in WORDS[:40])
    assert without_quotes(f"Yes!\n{lines}\nThanks", [FORTY]) == "Yes!\nThanks"
    glued = "\n".join(f">>{word}" for word in WORDS[:40])
    assert without_quotes(f"Yes!\n{glued}", [FORTY]) == "Yes!"


def test_a_quotation_must_be_word_for_word_and_in_order() -> None:
    swapped = [*WORDS[:40]]
    swapped[3], swapped[4] = swapped[4], swapped[3]
    for other in (swapped, [word.upper() for word in WORDS[:40]], [*WORDS[:20], "new", *WORDS[20:40]]):
        content = f"hello {' '.join(other)}"
        assert without_quotes(content, [FORTY]) == content


def test_a_longer_run_goes_as_a_whole() -> None:
    assert without_quotes(f"a {' '.join(WORDS)} b", ["x " + " ".join(WORDS) + " y"]) == "a\nb"
    assert without_quotes(f"a {' '.join(WORDS)} b", [FORTY, " ".join(WORDS[15:])]) == "a\nb"


@pytest.mark.parametrize("content", [FORTY, f"> {FORTY}", f"  {FORTY}\n", f"-- {FORTY} !"])
def test_stripping_never_empties(content: str) -> None:
    assert without_quotes(content, [FORTY]) == content


@given(st.text(), st.lists(st.text(), max_size=3))
def test_text_that_quotes_nothing_is_untouched(content: str, earlier: list[str]) -> None:
    assert without_quotes(content, earlier) == content


def window(entries: list[Entry], size: int, chunk: int) -> list[int]:
    return [one.seq for one in stable_window(entries[-size - 1 :], size, chunk).entries]


def test_where_the_window_starts() -> None:
    turns = [entry(seq) for seq in range(1, 200)]
    assert window(turns[:100], 100, 50) == list(range(1, 101))
    assert window(turns[:101], 100, 50) == list(range(51, 102))
    assert window(turns[:151], 100, 50) == list(range(101, 152))


def test_gaps_do_not_lengthen_the_window() -> None:
    turns = [entry(seq) for seq in (1, 2, 3, 100, 101, 102)]
    assert window(turns, 4, 2) == [3, 100, 101, 102]
    assert [one.seq for one in stable_window(turns[-5:], 4, 50).entries] == [100, 101, 102]
    assert window([entry(seq) for seq in (1, 2, 7)], 2, 1) == [2, 7]
    assert window([entry(seq) for seq in (7, 8, 9)], 2, 50) == [9]


def test_a_summary_comes_first_and_counts() -> None:
    turns = [entry(1, None, "summary"), *(entry(seq) for seq in range(2, 12))]
    shown = stable_window(turns, 4, 2)
    assert [one.seq for one in shown.entries] == [1, 9, 10, 11]
    assert shown.omitted == 7
    assert message_of(shown.entries[0], "system").role == "system"
    kept = stable_window([entry(1, None, "summary"), entry(2, "assistant"), entry(3)], 100, 50)
    assert [one.seq for one in kept.entries] == [1, 2, 3]


def test_the_window_starts_with_the_user() -> None:
    turns = [entry(1, "assistant"), entry(2, "assistant"), entry(3), entry(4, "assistant")]
    assert window(turns, 10, 5) == [3, 4]
    assert window(turns[:3], 10, 5) == [1, 2, 3]
    assert window(turns[:2], 10, 5) == [1, 2]


@given(
    st.lists(st.sampled_from(["user", "assistant"]), min_size=1, max_size=80),
    st.integers(2, 20).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size // 2))),
)
def test_the_prefix_holds_still_within_a_chunk(speakers: list[str], shape: tuple[int, int]) -> None:
    turns = [entry(seq, speaker) for seq, speaker in enumerate(["user", *speakers], 1)]
    size, chunk = shape
    shown = [window(turns[:count], size, chunk) for count in range(1, len(turns) + 1)]
    assert all(len(one) <= size for one in shown)
    moves = sum(after[: len(before)] != before for before, after in pairwise(shown))
    # One move a chunk, and one more while a chunk begins with the assistant and no user has spoken in it.
    assert moves <= 2 * (max(0, len(turns) - size) // chunk + 1)


def test_results_pass_the_entry_on() -> None:
    result = AddResult(entry(3))
    for name in (
        "id", "key", "seq", "version", "change", "kind", "content", "title", "speaker", "name", "thread", "subject",
        "metadata", "origin", "seen", "created_at", "updated_at", "expires_at",
    ):  # fmt: skip
        assert getattr(result, name) == getattr(result.entry, name)


def test_messages_are_chronological_either_way() -> None:
    turns = (entry(3), replace(entry(1), created_us=9), entry(2))
    assert [message.content for message in Page(turns).messages()] == ["turn 1", "turn 2", "turn 3"]
    assert [message.content for message in Page(turns, by_seq=False).messages()] == [
        "turn 2",
        "turn 3",
        "turn 1",
    ]


def test_bank_info_is_a_value() -> None:
    assert isinstance(hash(new_bank(ID, "Notes", "general", {}, 0)), int)
    assert BankInfo.__slots__
