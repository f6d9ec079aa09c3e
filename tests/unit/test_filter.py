from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from holdfast.errors import FilterError
from holdfast.model.entry import Entry
from holdfast.model.filter import (
    CONDITIONS,
    ENTRY_NAMES,
    LIST_MEMBERS,
    NESTING,
    PATH_CHARACTERS,
    PATH_SEGMENTS,
    All,
    Compare,
    ElemMatch,
    Equals,
    Exists,
    Filter,
    Not,
    OneOf,
    Path,
    accepts,
    compile_filter,
    entry_document,
    matches,
)
from holdfast.model.origin import Origin
from holdfast.model.values import JsonValue

SECOND = 1_000_000
NOON = 1_794_916_800 * SECOND  # 2026-11-17T12:00:00Z
MISSING = object()


def compiled(source: Mapping[str, object]) -> Filter:
    found = compile_filter(source)
    assert found is not None
    return found


def holds(source: Mapping[str, object], document: Mapping[str, JsonValue]) -> bool:
    return matches(compiled(source), document)


def refused(source: object) -> str:
    with pytest.raises(FilterError) as caught:
        compile_filter(source)  # type: ignore[arg-type]  # wrong on purpose
    return caught.value.code


def entry(**changes: object) -> Entry:
    fields: dict[str, object] = {
        "id": "0" * 32,
        "space": "default",
        "bank": "notes",
        "key": "ana",
        "seq": 1,
        "version": 1,
        "kind": "entry",
        "content": "likes tea",
        "title": None,
        "speaker": "user",
        "name": "Ana",
        "thread": "t1",
        "subject": None,
        "metadata": {"topic": "drink", "name": "metadata name", "thread": 5},
        "origin": Origin(agent_id="a1", run_id="r1", step_id="s1"),
        "created_us": NOON,
        "recorded_us": NOON + SECOND,
        "expires_us": None,
        "change": "1" * 32,
    }
    return Entry(**{**fields, **changes})  # type: ignore[arg-type]  # a table of fields


# ------------------------------------------------------------------------------ the truth table of the spec

COLUMNS: tuple[object, ...] = (MISSING, None, 5, "5", True, [5, 9], [])
TABLE: tuple[tuple[dict[str, object], str], ...] = (
    ({"$eq": 5}, "--y--y-"),
    ({"$ne": 5}, "yy-yy-y"),
    ({"$eq": None}, "yy-----"),
    ({"$ne": None}, "--yyyyy"),
    ({"$gt": 4}, "--y--y-"),
    ({"$not": {"$gt": 4}}, "yy-yy-y"),
    ({"$in": [5, None]}, "yyy--y-"),
    ({"$nin": [5]}, "yy-yy-y"),
    ({"$exists": True}, "-yyyyyy"),
    ({"$size": 0}, "------y"),
    ({"$eq": True}, "----y--"),
)
# Rows that follow from the rules but are not printed there.
MORE: tuple[tuple[dict[str, object], str], ...] = (
    ({"$exists": False}, "y------"),
    ({"$in": []}, "-------"),
    ({"$nin": []}, "yyyyyyy"),
    ({"$nin": [5, None]}, "---yy-y"),
    ({"$gte": 5}, "--y--y-"),
    ({"$lt": 5}, "-------"),
    ({"$lte": 5}, "--y--y-"),
    ({"$gt": "4"}, "---y---"),
    ({"$all": [5]}, "--y--y-"),
    ({"$all": [5, 9]}, "-----y-"),
    ({"$all": [None]}, "yy-----"),
    ({"$size": 2}, "-----y-"),
    ({"$contains": "5"}, "---y---"),
    ({"$prefix": "5"}, "---y---"),
    ({"$elemMatch": {"$gt": 5}}, "-----y-"),
    ({"$eq": [5, 9]}, "-----y-"),
    ({"$eq": []}, "------y"),
)


@pytest.mark.parametrize(
    ("operators", "value", "expected"),
    [
        pytest.param(operators, value, mark == "y", id=f"{operators}-{'M' if value is MISSING else value}")
        for operators, row in TABLE + MORE
        for value, mark in zip(COLUMNS, row, strict=True)
    ],
)
def test_truth_table(operators: dict[str, object], value: JsonValue, expected: bool) -> None:
    document: dict[str, JsonValue] = {} if value is MISSING else {"x": value}
    assert holds({"x": operators}, document) is expected
    assert accepts(compiled({"x": operators}), entry(metadata=document)) is expected


# ------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("operand", "value", "expected"),
    [
        (1, True, False),
        (True, 1, False),
        (0, False, False),
        (1, 1.0, True),
        (1.0, 1, True),
        (0, -0.0, True),
        (2**53 + 1, float(2**53), False),
        (10**400, 10**400, True),
        (10**400, 10**400 + 1, False),
        ("5", 5, False),
        ("é", "e\u0301", False),
        ("a", "A", False),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {"a": True}, False),
        ([1, 2], [2, 1], False),
        ([1], [True], False),
        (["a", "b"], [["a", "b"], "c"], True),
        ({"a": 1}, [{"a": 1}], True),
        ({}, {}, True),
        ([], {}, False),
        (["bool", True], [["bool", True]], True),
        ("", "", True),
    ],
)
def test_equality(operand: JsonValue, value: JsonValue, expected: bool) -> None:
    assert holds({"x": operand}, {"x": value}) is expected
    assert holds({"x": {"$eq": operand}}, {"x": value}) is expected
    assert holds({"x": {"$in": [operand]}}, {"x": value}) is expected
    assert holds({"x": {"$ne": operand}}, {"x": value}) is not expected


@pytest.mark.parametrize(
    ("operators", "value", "expected"),
    [
        ({"$lt": "9"}, "10", True),
        ({"$gt": "Z"}, "a", True),
        ({"$gt": "\uffff"}, "\U00010000", True),  # by code point, not by UTF-16 unit
        ({"$gt": 0}, True, False),
        ({"$gte": 1}, True, False),
        ({"$gt": 2**53}, 2**53 + 1, True),
        ({"$gt": float(2**53)}, 2**53 + 1, True),
        ({"$lt": 1.5}, 10**400, False),
        ({"$lt": 10**400}, 1.7e308, True),
        ({"$gt": "a"}, {"x": "b"}, False),
        ({"$gt": 1}, [[2]], False),
        ({"$lt": 1}, None, False),
    ],
)
def test_order(operators: dict[str, object], value: JsonValue, expected: bool) -> None:
    assert holds({"x": operators}, {"x": value}) is expected


@pytest.mark.parametrize(
    ("operators", "value", "expected"),
    [
        ({"$contains": "ea"}, "tea", True),
        ({"$contains": "EA"}, "tea", False),
        ({"$contains": ""}, "tea", True),
        ({"$contains": ""}, 5, False),
        ({"$contains": "ea"}, ["milk", "tea"], True),
        ({"$contains": "ea"}, [["tea"]], False),
        ({"$contains": "%"}, "tea", False),
        ({"$prefix": "te"}, "tea", True),
        ({"$prefix": "ea"}, "tea", False),
        ({"$prefix": "te"}, ["milk", "tea"], True),
        ({"$prefix": "t_a"}, "tea", False),
        ({"$size": 1}, "a", False),
        ({"$size": 1}, {"a": 1}, False),
        ({"$all": ["a", "b"]}, ["b", "c", "a"], True),
        ({"$all": ["a", "b"]}, ["a"], False),
        ({"$all": [["a"]]}, ["a"], True),
        ({"$all": [["a"]]}, [["a"]], True),
    ],
)
def test_texts_and_arrays(operators: dict[str, object], value: JsonValue, expected: bool) -> None:
    assert holds({"x": operators}, {"x": value}) is expected


def test_several_conditions_are_joined_by_and() -> None:
    both = {"x": {"$gt": 1, "$lt": 5}, "y": "a"}
    assert holds(both, {"x": 3, "y": "a"})
    assert not holds(both, {"x": 7, "y": "a"})
    assert not holds(both, {"x": 3, "y": "b"})


def test_and_or_nor() -> None:
    parts = [{"x": 1}, {"y": 2}]
    documents: list[dict[str, JsonValue]] = [{"x": 1, "y": 2}, {"x": 1}, {"y": 2}, {}]
    assert [holds({"$and": parts}, each) for each in documents] == [True, False, False, False]
    assert [holds({"$or": parts}, each) for each in documents] == [True, True, True, False]
    assert [holds({"$nor": parts}, each) for each in documents] == [False, False, False, True]
    assert [holds({"$or": parts, "$nor": [{"y": 2}]}, each) for each in documents] == [
        False,
        True,
        False,
        False,
    ]


def test_an_empty_part_does_not_restrict() -> None:
    empty: dict[str, object] = {}
    assert holds({"$and": [empty]}, {})
    assert holds({"$or": [empty, {"x": 1}]}, {})
    assert not holds({"$nor": [empty]}, {})


# --------------------------------------------------------------------------------------- paths and arrays

DEEP: dict[str, JsonValue] = {
    "a": {"b": {"c": 1}},
    "items": [{"n": 1, "t": "x"}, {"n": 9, "t": "y"}, {"t": None}, 5, [{"n": 77}]],
    "0": {"1": "named"},
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"a.b.c": 1}, True),
        ({"a.b": {"c": 1}}, True),
        ({"a.b.c.d": {"$exists": False}}, True),
        ({"items.n": 9}, True),
        ({"items.n": {"$gt": 5, "$lt": 3}}, True),  # by different elements
        ({"items.n": 77}, False),  # an array inside an array is not entered
        ({"items.n": None}, False),  # some object has it, so it is not missing
        ({"items.t": None}, True),
        ({"items.zzz": None}, True),
        ({"items.n": {"$exists": True}}, True),
        ({"items.0": {"$exists": True}}, False),  # numbers are names, not positions
        ({"items.0.n": {"$exists": True}}, False),
        ({"0.1": "named"}, True),
        ({"items.n": {"$in": [4, 9]}}, True),
        ({"items.n": {"$all": [1, 9]}}, True),
        ({"items": {"$elemMatch": {"n": {"$gt": 5}, "t": "x"}}}, False),
        ({"items": {"$elemMatch": {"n": {"$gt": 5}, "t": "y"}}}, True),
        ({"items": {"$elemMatch": {"$or": [{"n": 1}, {"n": 2}]}}}, True),
        ({"items": {"$elemMatch": {"n": {"$exists": False}}}}, True),
        ({"items": {"$elemMatch": {"n": {"$exists": False}, "t": {"$exists": False}}}}, False),
        ({"items": {"$elemMatch": {"$eq": 5}}}, True),
        ({"items": {"$elemMatch": {"$size": 1}}}, True),
        ({"items": {"$elemMatch": {"$elemMatch": {"n": 77}}}}, True),
        ({"items": {"$elemMatch": {}}}, True),
        ({"a": {"$elemMatch": {}}}, False),
        ({"items": {"$not": {"$elemMatch": {"n": 9}}}}, False),
    ],
)
def test_paths(source: dict[str, object], expected: bool) -> None:
    assert holds(source, DEEP) is expected
    assert accepts(compiled(source), entry(metadata=DEEP)) is expected


def test_two_ranges_may_be_met_by_different_elements_and_elem_match_wants_one() -> None:
    document: dict[str, JsonValue] = {"x": [1, 9]}
    assert holds({"x": {"$gt": 5, "$lt": 5}}, document)
    assert not holds({"x": {"$elemMatch": {"$gt": 5, "$lt": 5}}}, document)
    assert holds({"x": {"$elemMatch": {"$gt": 5, "$lt": 10}}}, document)


def test_reserved_names_inside_an_element_are_plain_fields() -> None:
    document: dict[str, JsonValue] = {"x": [{"created_at": "yesterday", "content": 1, "id": 7}]}
    assert holds({"x": {"$elemMatch": {"created_at": "yesterday", "content": 1, "id": 7}}}, document)
    assert holds({"x.created_at": {"$prefix": "yester"}}, document)


@pytest.mark.parametrize(
    "name", ['"', "]", "'", "[0]", "a]b", 'a"b', "ключ", "\U0001f511", " ", "x;--", "a$b", "\x00", "\\"]
)
def test_hostile_names_are_only_names(name: str) -> None:
    assert holds({name: 1}, {name: 1})
    assert not holds({name: 1}, {name: 2, "x": 1})
    assert holds({f"a.{name}": 1}, {"a": {name: 1}})


def test_a_dotted_path_never_means_a_dotted_key() -> None:
    assert not holds({"a.b": 1}, {"a.b": 1})
    assert holds({"a.b": 1}, {"a": {"b": 1}})


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "a.", ".a", "a..b", "a.$b", "a.$where", "content", "content.x", "bank_id", "tenant",
        "ordinal", "key.x", "created_at.x", "$name.x", "a\ud800", 5, None, ("a",),
    ],
)  # fmt: skip
def test_names_that_no_field_can_have(name: object) -> None:
    assert refused({name: 1}) == "filter_path"


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "source",
    [
        {"x": {"$regex": "a"}},
        {"x": {"$where": "1"}},
        {"x": {"$expr": 1}},
        {"x": {"$text": "a"}},
        {"x": {"$": 1}},
        {"x": {"$EQ": 1}},
        {"x": {"$name": 1}},
        {"x": {"$eq.a": 1}},
        {"x": {"$eq": 1, "$near": 2}},
        {"x": {"$not": {"$regex": "a"}}},
        {"x": {"$elemMatch": {"$regex": "a"}}},
        {"x": {"$elemMatch": {"$name": "a"}}},
        {"$where": "1"},
        {"$where": "1", "x": 1},
        {"$and": [{"$text": 1}]},
        {"$names": 1},
    ],
)
def test_unknown_operators_are_refused(source: dict[str, object]) -> None:
    assert refused(source) == "filter_operator"


@pytest.mark.parametrize(
    "source",
    [
        {"x": {"$gt": 1, "y": 2}},
        {"x": {"$and": [{"$gt": 1}]}},
        {"x": {"$not": {"$or": [{"x": 1}]}}},
        {"x": {"$not": {"$gt": 1, "y": 1}}},
        {"x": {"$elemMatch": {"$gt": 1, "y": 1}}},
        {"x": {"$elemMatch": {"$gt": 1, "$and": [{"x": 1}]}}},
        {"x": {"$elemMatch": {"$and": [{"x": 1}], "y": 1}}},
        {"x": {"y": {"$gt": 1}}},
        {"x": [{"$gt": 1}]},
        {"$not": {"x": 1}},
        {"$eq": 1},
        {"$and": [{"x": 1}], "y": 2},
        {"$and": [{"x": 1}], "$name": "Ana"},
    ],
)
def test_operators_in_the_wrong_place_are_refused(source: dict[str, object]) -> None:
    assert refused(source) == "filter_mixed"


def test_eq_takes_any_value_even_one_that_looks_like_an_operator() -> None:
    assert holds({"x": {"$eq": {"$gt": 1}}}, {"x": {"$gt": 1}})


WRONG_OPERANDS: tuple[tuple[str, tuple[object, ...]], ...] = (
    ("$gt", (None, True, [1], {}, float("nan"))),
    ("$gte", (None, False, [], {"a": 1})),
    ("$lt", (None, True, [1], {})),
    ("$lte", (None, True, [1], b"1")),
    ("$in", (None, "abc", 1, {}, {1}, [object()])),
    ("$nin", (None, "abc", 1, {})),
    ("$all", (None, "abc", [], {})),
    ("$exists", (None, 1, 0, "true", [], {})),
    ("$size", (None, -1, 1.0, True, "1", [1])),
    ("$contains", (None, 1, True, ["a"], {}, "\ud800")),
    ("$prefix", (None, 1, True, ["a"], {})),
    ("$not", (None, 1, [], {}, {"a": 1}, [{"$gt": 1}])),
    ("$elemMatch", (None, 1, [], [{"a": 1}], "a")),
    ("$eq", (float("inf"), float("nan"), {1: 2}, {"a": b""}, "\udc00", {"\ud800": 1}, {1, 2}, object())),
)


@pytest.mark.parametrize(
    ("operator", "operand"), [(operator, each) for operator, wrong in WRONG_OPERANDS for each in wrong]
)
def test_wrong_operands_are_refused(operator: str, operand: object) -> None:
    assert refused({"x": {operator: operand}}) == "filter_operand"


@pytest.mark.parametrize("operator", ["$and", "$or", "$nor"])
@pytest.mark.parametrize("operand", [[], None, {}, {"x": 1}, "x", [1], [None], [[{"x": 1}]]])
def test_joining_operators_take_filters(operator: str, operand: object) -> None:
    assert refused({operator: operand}) == "filter_operand"


@pytest.mark.parametrize("source", [[], [{}], "x", 1, True, b""])
def test_a_filter_is_an_object(source: object) -> None:
    assert refused(source) == "filter_operand"


def test_an_error_says_what_to_do_and_survives_what_it_quotes() -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter({"x": {"$regex": "a"}})
    assert "$regex" in caught.value.message
    assert "$contains" in (caught.value.hint or "")
    assert refused({"x": {"$in": 10**5000}}) == "filter_operand"
    assert refused({"x": {"$size": -(10**5000)}}) == "filter_operand"
    with pytest.raises(FilterError) as long:
        compile_filter({"$" + "y" * 10_000: 1})
    assert len(str(long.value)) < 400


# ------------------------------------------------------------------------------------------------ limits


def nested(depth: int, *, operator: str) -> dict[str, object]:
    if operator == "$not":
        tests: dict[str, object] = {"$gt": 1}
        for _ in range(depth):
            tests = {"$not": tests}
        return {"x": tests}
    found: dict[str, object] = {"x": 1}
    for _ in range(depth):
        found = {"x": {"$elemMatch": found}} if operator == "$elemMatch" else {operator: [found]}
    return found


def boxed(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


SMALL_ENOUGH: tuple[dict[str, object], ...] = (
    {".".join("a" * PATH_SEGMENTS): 1},
    {"a" * PATH_CHARACTERS: 1},
    {f"f{n}": n for n in range(CONDITIONS)},
    {"$or": [{"x": n} for n in range(CONDITIONS)]},
    {"x": {"$in": list(range(LIST_MEMBERS))}},
    {"x": list(range(LIST_MEMBERS))},
    {"x": boxed(NESTING)},
    *(nested(NESTING, operator=each) for each in ("$and", "$or", "$nor", "$not", "$elemMatch")),
)
TOO_LARGE: tuple[dict[str, object], ...] = (
    {".".join("a" * (PATH_SEGMENTS + 1)): 1},
    {"a" * (PATH_CHARACTERS + 1): 1},
    {f"f{n}": n for n in range(CONDITIONS + 1)},
    {"$or": [{"x": n} for n in range(CONDITIONS + 1)]},
    {"$or": [{} for _ in range(CONDITIONS + 1)]},
    {"x": {"$elemMatch": {"$or": [{"x": n} for n in range(CONDITIONS + 1)]}}},
    {"$or": [{"x": 1}] * (LIST_MEMBERS + 1)},
    {"x": {"$in": list(range(LIST_MEMBERS + 1))}},
    {"x": {"$nin": list(range(LIST_MEMBERS + 1))}},
    {"x": {"$all": list(range(LIST_MEMBERS + 1))}},
    {"x": list(range(LIST_MEMBERS + 1))},
    {"x": {"$eq": {"a": list(range(LIST_MEMBERS + 1))}}},
    {"x": boxed(NESTING + 1)},
    {"x": {"$eq": boxed(5_000)}},
    *(nested(NESTING + 1, operator=each) for each in ("$and", "$or", "$nor", "$not", "$elemMatch")),
    nested(5_000, operator="$and"),
)


@pytest.mark.parametrize("source", SMALL_ENOUGH, ids=range(len(SMALL_ENOUGH)))
def test_at_the_limit(source: dict[str, object]) -> None:
    assert isinstance(holds(source, {"x": [[1]]}), bool)


@pytest.mark.parametrize("source", TOO_LARGE, ids=range(len(TOO_LARGE)))
def test_over_the_limit(source: dict[str, object]) -> None:
    assert refused(source) == "filter_too_large"


def test_the_limits_are_those_of_the_spec() -> None:
    assert (PATH_SEGMENTS, PATH_CHARACTERS, CONDITIONS, NESTING, LIST_MEMBERS) == (8, 256, 256, 16, 1000)


# ------------------------------------------------------------------------------------------------- times

DAY = "2026-11-17"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"created_at": "2026-11-17T12:00:00Z"}, True),
        ({"created_at": "2026-11-17t12:00:00z"}, True),
        ({"created_at": "2026-11-17 12:00"}, True),
        ({"created_at": "2026-11-17T12:00:00.000000"}, True),
        ({"created_at": "2026-11-17T13:00:00+01:00"}, True),
        ({"created_at": "2026-11-17T17:30:00+0530"}, True),
        ({"created_at": "2026-11-17T07:00:00,0-05"}, True),
        ({"created_at": "2026-11-17T12:00:00.000001Z"}, False),
        ({"created_at": {"$gte": DAY, "$lt": "2026-11-18"}}, True),
        ({"created_at": {"$gt": "2026-11-17T12:00:00Z"}}, False),
        ({"created_at": {"$gte": "2026-11-17T12:00:00Z"}}, True),
        ({"created_at": {"$lt": "2026-11-17T23:00:00+12:00"}}, False),
        ({"created_at": {"$ne": DAY}}, True),
        ({"created_at": {"$in": [DAY, "2026-11-17T12:00Z"]}}, True),
        ({"created_at": {"$nin": [DAY, None]}}, True),
        ({"created_at": {"$all": ["2026-11-17T12:00Z", "2026-11-17T13:00+01:00"]}}, True),
        ({"created_at": {"$not": {"$lt": DAY}}}, True),
        ({"created_at": None}, False),
        ({"created_at": {"$exists": True}}, True),
        ({"updated_at": "2026-11-17T12:00:01Z"}, True),
        ({"updated_at": {"$lte": "2026-11-17T12:00:00.999999Z"}}, False),
        ({"updated_at": {"$gt": "0001-01-01T00:00+14:00", "$lt": "9999-12-31T23:59-14:00"}}, True),
    ],
)
def test_times_are_compared_as_instants(source: dict[str, object], expected: bool) -> None:
    assert accepts(compiled(source), entry()) is expected
    assert holds(source, entry_document(entry())) is expected


@pytest.mark.parametrize(
    "text",
    [
        "", "yesterday", "2026-13-01", "2026-02-30", "2026-11-17T24:00", "2026-11-17T12", "20261117", "now",
        "2026-W47-2", "2026-11-17T12:00+24:00", "2026-11-17T12:00Zx", " 2026-11-17", "2026-11-17\n",
        "٢٠٢٦-11-17", "1794916800",
    ],
)  # fmt: skip
@pytest.mark.parametrize("operator", ["$eq", "$gt", "$in"])
def test_unreadable_times_are_refused(text: str, operator: str) -> None:
    operand = [text] if operator == "$in" else text
    assert refused({"created_at": {operator: operand}}) == "time_invalid"


@pytest.mark.parametrize(
    "operators",
    [
        5, True, [DAY], {"a": 1}, {"$gt": 5}, {"$in": [5]}, {"$contains": "2026"}, {"$prefix": "2026"},
        {"$size": 1}, {"$elemMatch": {"$gt": DAY}},
    ],
)  # fmt: skip
def test_a_time_is_compared_with_times_only(operators: object) -> None:
    assert refused({"created_at": operators}) == "filter_operand"


def test_other_times_are_plain_strings() -> None:
    assert not holds({"due": "2026-11-17T12:00Z"}, {"due": "2026-11-17T13:00+01:00"})
    assert holds({"due": "soon", "at.created_at": "soon"}, {"due": "soon", "at": {"created_at": "soon"}})


def test_a_document_may_hold_what_is_no_time() -> None:
    values: list[JsonValue] = [None, 5, "soon", [DAY]]
    for value in values:
        assert not holds({"created_at": {"$gte": DAY}}, {"created_at": value})
        assert holds({"created_at": {"$ne": DAY}}, {"created_at": value})
    assert not holds({"created_at": DAY}, {})


# ----------------------------------------------------------------------------------------------- entries


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", "0" * 32),
        ("key", "ana"),
        ("kind", "entry"),
        ("speaker", "user"),
        ("title", None),
        ("agent_id", "a1"),
        ("run_id", "r1"),
        ("step_id", "s1"),
        ("$name", "Ana"),
        ("$thread", "t1"),
        ("name", "metadata name"),
        ("thread", 5),
        ("topic", "drink"),
    ],
)
def test_what_a_filter_sees_of_an_entry(name: str, value: JsonValue) -> None:
    same = compiled({name: {"$eq": value, "$exists": True}})
    other = compiled({name: "other"})
    assert accepts(same, entry())
    assert matches(same, entry_document(entry()))
    assert not accepts(other, entry())
    assert not matches(other, entry_document(entry()))


def test_an_entry_document_has_the_names_and_the_metadata() -> None:
    document = entry_document(entry())
    assert document.keys() == {*ENTRY_NAMES, "topic", "name", "thread"}
    assert document["created_at"] == "2026-11-17T12:00:00+00:00"


def test_plain_fields_stand_beside_the_dollar_names() -> None:
    assert accepts(compiled({"$name": {"$prefix": "A"}, "topic": "drink"}), entry())
    assert accepts(compiled({"$or": [{"$thread": "t1"}, {"x": 1}]}), entry())
    assert accepts(compiled({"$name": None}), entry(name=None))


# ----------------------------------------------------------------------------------------- the tree itself


def test_no_restriction_is_none_and_a_filter_passes_through() -> None:
    assert compile_filter(None) is None
    assert compile_filter({}) is None
    found = compiled({"x": 1})
    assert compile_filter(found) is found


def test_the_tree() -> None:
    x = Path(("x",))
    assert compiled({"x": 1}).root == Equals(x, 1)
    assert compiled({"x": {"$ne": 1}}).root == Not(Equals(x, 1))
    assert compiled({"x": {"$nin": [1]}}).root == Not(OneOf(x, (1,)))
    assert compiled({"x": {"$exists": False}}).root == Not(Exists(x))
    assert compiled({"x": {"$gt": 1}, "y.z": 2}).root == All(
        (Compare(x, "gt", 1), Equals(Path(("y", "z")), 2))
    )
    assert compiled({"x": {"$elemMatch": {"$lt": 1}}}).root == ElemMatch(
        x, Compare(Path(()), "lt", 1), objects=False
    )
    assert compiled({"x": {"$elemMatch": {"id": 1}}}).root == ElemMatch(
        x, Equals(Path(("id",)), 1), objects=True
    )
    assert compiled({"created_at": {"$gt": "1970-01-02"}}).root == Compare(
        Path(("created_at",), reserved=True), "gt", 86_400 * SECOND
    )


def test_filters_are_told_apart_by_identity() -> None:
    assert compiled({"x": 1}) != compiled({"x": True})
    assert len({compiled({"x": 1}), compiled({"x": True}), compiled({"x": [1]})}) == 3


def test_a_filter_keeps_its_own_copy() -> None:
    members: list[JsonValue] = [1]
    found = compiled({"x": {"$eq": members}, "y": {"$in": members}})
    members.append(2)
    assert matches(found, {"x": [1], "y": 1})
    assert not matches(found, {"x": [1], "y": 2})


def test_any_mapping_and_tuples_will_do() -> None:
    source = MappingProxyType({"x": MappingProxyType({"$in": (1, 2)}), "y": (MappingProxyType({"a": 1}),)})
    assert holds(source, {"x": 2, "y": [{"a": 1}]})
