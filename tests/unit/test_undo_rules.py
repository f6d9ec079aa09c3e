"""The planner of undo, on changes made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.errors import HistoryUnavailable
from holdfast.model.batch import DocumentVersion, EntryVersion, Put, Remove, Restore, Retire
from holdfast.model.document import Document, DocumentRef
from holdfast.model.entry import Entry, Reason, Retirement
from holdfast.model.journal import Change, Step
from holdfast.model.origin import UNKNOWN
from holdfast.rules.undo import (
    Touch,
    first_touches,
    inverse_of_document,
    inverse_of_entry,
    is_final,
    later_changes,
    standing,
    taken_back,
)

E = "e" * 32
D = "d" * 32
REF = DocumentRef("b", "k", "value", "n")


def change(number: int, *steps: tuple[Any, str, int, int], undoes: tuple[int, ...] = ()) -> Change:
    return Change(
        f"{number:032x}", "s", number, number * 10, UNKNOWN, tuple(Step(*step) for step in steps),
        tuple(f"{one:032x}" for one in undoes),
    )  # fmt: skip


def version(number: int, made: int, ended: int | None = None) -> Entry:
    first = Entry(
        E, "s", "b", "k", 1, number, "entry", f"v{number}", None, None, None, None, None, {}, UNKNOWN, 0,
        made * 10, None, f"{made:032x}",
    )  # fmt: skip
    return first if ended is None else first.end(Retirement(ended * 10, Reason.REVISED, f"{ended:032x}"))


def document(number: int, made: int, ended: int | None = None) -> Document:
    return Document(
        D, "s", REF, number, number, 1, None, UNKNOWN, made * 10, None, f"{made:032x}",
        None if ended is None else ended * 10, None if ended is None else f"{ended:032x}",
    )  # fmt: skip


def touch(before: int, number: int = 1, kind: Any = "entry") -> Touch:
    return Touch(E if kind == "entry" else D, kind, before, number * 10, number)


def test_the_first_step_on_each_record_counts() -> None:
    first = change(1, ("append", E, 0, 1), ("revise", E, 1, 2), ("put", D, 4, 5))
    second = change(2, ("revise", E, 2, 3), ("enqueue", "c", 0, 1), ("finish", "f", 1, 1))
    found = first_touches([second, first])
    assert {ref: (one.kind, one.before, one.cursor) for ref, one in found.items()} == {
        E: ("entry", 0, 1),
        D: ("document", 4, 1),
        "c": ("chore", 0, 2),
    }


def test_steps_that_change_nothing_are_passed_over() -> None:
    seen = change(1, ("merge", E, 1, 1), ("enqueue", "c", 1, 1), ("drop", "d", 1, 1))
    assert first_touches([seen]) == {}
    assert first_touches([seen, change(2, ("revise", E, 1, 2))])[E].before == 1


def test_erasure_is_final() -> None:
    assert is_final(change(1, ("append", E, 0, 1), ("forget", D, 1, 0)))
    assert not is_final(change(1, ("append", E, 0, 1)))


def test_later_changes_make_or_end_versions() -> None:
    assert later_changes(touch(0), [version(1, 1, 2), version(2, 2, 5)]) == {f"{2:032x}", f"{5:032x}"}
    assert later_changes(touch(0), [version(1, 1)]) == set()
    assert later_changes(touch(0, kind="document"), [document(1, 1, 3), document(2, 3)]) == {f"{3:032x}"}


def ids(changes: list[Change]) -> list[int]:
    return [int(one.id, 16) for one in changes]


def stand(*later: Change, undone: tuple[int, ...] = (1,)) -> list[int]:
    return ids(standing({one.id: one for one in later}, frozenset(f"{one:032x}" for one in undone)))


def test_a_change_and_its_undo_cancel_out() -> None:
    assert stand(change(2), change(3, undoes=(2,))) == []
    assert stand(change(2), change(3, undoes=(2,)), change(4, undoes=(3,))) == [2]
    assert stand(change(2), change(3, undoes=(2,)), change(4, undoes=(3,)), change(5, undoes=(4,))) == []
    assert stand(change(2), change(3, undoes=(2,)), change(4)) == [4]


def test_an_undo_of_the_change_itself_stands() -> None:
    assert stand(change(2, undoes=(1,))) == [2]
    assert stand(change(2), change(3, undoes=(1, 2))) == [2, 3]


def test_what_was_taken_back() -> None:
    def gone(*changes: Change) -> list[int]:
        return sorted(int(one, 16) for one in taken_back({one.id: one for one in changes}))

    assert gone(change(3, undoes=(1, 2))) == [1, 2]
    assert gone(change(3, undoes=(1,)), change(4, undoes=(3,))) == [3]
    assert gone(change(3, undoes=(1,)), change(4, undoes=(3,)), change(5, undoes=(4,))) == [1, 4]


def test_inverses_of_entries() -> None:
    current = [version(1, 1, 2), version(2, 2)]
    retired = [version(1, 1, 2)]

    def inverse(before: int, versions: list[Entry], now_us: int = 0) -> tuple[object, object] | None:
        found = inverse_of_entry(touch(before), versions, now_us)
        return None if found is None else (found.operation, found.requires)

    assert inverse(0, current) == (Retire(E, Reason.UNDONE, expected=2), None)
    assert inverse(1, current) == (Restore(E, 1), EntryVersion(E, 2))
    assert inverse(1, retired) == (Restore(E, 1), EntryVersion(E, 0))
    assert inverse(0, retired) is None
    assert inverse(1, []) is None
    expired = [version(1, 1, 2), replace(version(2, 2), expires_us=50)]
    assert inverse(1, expired, 51) == (Restore(E, 1), EntryVersion(E, 0))


def test_inverses_of_documents() -> None:
    current = [document(1, 1, 2), document(2, 2)]
    removed = [document(1, 1, 2)]

    def inverse(before: int, versions: list[Document], now_us: int = 0) -> tuple[object, object] | None:
        found = inverse_of_document(touch(before, kind="document"), versions, now_us)
        return None if found is None else (found.operation, found.requires)

    assert inverse(0, current) == (Remove(REF, 2), DocumentVersion(REF, 2))
    assert inverse(1, current) == (Put(REF, D, 1, expected=2), DocumentVersion(REF, 2))
    assert inverse(1, removed) == (Put(REF, D, 1, expected=0), DocumentVersion(REF, 0))
    assert inverse(0, removed) is None
    assert inverse(0, []) is None
    lapsed = [replace(document(1, 1, 2), expires_us=5), document(2, 2)]
    assert inverse(1, lapsed, 6) == (Remove(REF, 2), DocumentVersion(REF, 2))
    with pytest.raises(HistoryUnavailable, match="not kept"):
        inverse(7, current)
