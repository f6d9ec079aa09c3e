"""The laws that hold for every filter and every document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import FilterError
from holdfast.model.entry import RESERVED_METADATA, Entry
from holdfast.model.filter import accepts, compile_filter, entry_document, matches
from holdfast.model.origin import Origin
from holdfast.model.values import JsonObject, JsonValue

Strategy = st.SearchStrategy
Parts = dict[str, object]
TESTING = "$eq $ne $gt $gte $lt $lte $in $nin $all $exists $size $contains $prefix $not $elemMatch".split()
JOINING = ["$and", "$or", "$nor"]
OPERATORS = TESTING + JOINING
NAMES = st.sampled_from(("x", "y", "a", "b"))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from((0.0, 1.0, 2.5, 2**53, 2**53 + 1, float(2**53), 10**30)),
    st.sampled_from(("", "a", "A", "ab", "1", "é", "\uffff", "\U00010000")),
)
VALUES = cast(
    "st.SearchStrategy[JsonValue]",
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=6,
    ),
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
ORDERED = st.integers(-2, 3) | st.sampled_from((1.0, 2.5, 2**53, "", "a", "ab", "\uffff"))


def single(name: str, value: object) -> Parts:
    return {name: value}


def merged(one: Parts, other: Parts) -> Parts:
    return {**one, **other}


def one_of_these(names: str, values: Strategy[object]) -> Strategy[Parts]:
    return st.builds(single, st.sampled_from(names.split()), values)


def more_tests(inner: Strategy[Parts]) -> Strategy[Parts]:
    return st.one_of(
        one_of_these("$not $elemMatch", inner),
        one_of_these("$elemMatch", st.builds(single, PATHS, inner)),
        st.builds(merged, inner, inner),
    )


def joined(inner: Strategy[Parts]) -> Strategy[Parts]:
    return one_of_these(" ".join(JOINING), st.lists(inner, min_size=1, max_size=3))


TESTS: Strategy[Parts] = st.recursive(
    st.one_of(
        one_of_these("$eq $ne", VALUES),
        one_of_these("$gt $gte $lt $lte", ORDERED),
        one_of_these("$in $nin", st.lists(VALUES, max_size=3)),
        one_of_these("$all", st.lists(VALUES, min_size=1, max_size=3)),
        one_of_these("$exists", st.booleans()),
        one_of_these("$size", st.integers(0, 3)),
        one_of_these("$contains $prefix", st.just("a")),
    ),
    more_tests,
    max_leaves=4,
)
FILTERS: Strategy[Parts] = st.recursive(st.dictionaries(PATHS, TESTS, max_size=3), joined, max_leaves=4)
WORDS = st.sampled_from(
    (*OPERATORS, *sorted(RESERVED_METADATA), "$name", "$where", "", ".", "a.b", '"', "]")
) | st.text(max_size=4)
ANYTHING = cast(
    "st.SearchStrategy[JsonValue]",
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.just("2026-11-18"),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
        max_leaves=20,
    ),
)


def holds(source: Mapping[str, object], document: Mapping[str, JsonValue]) -> bool:
    found = compile_filter(source)
    return found is None or matches(found, document)


def entry(metadata: JsonObject) -> Entry:
    return Entry(
        id="0" * 32, space="s", bank="b", key="k", seq=1, version=1, kind="entry", content="c", title=None,
        speaker="user", name=None, thread="a", subject=None, metadata=metadata, origin=Origin(run_id="r"),
        created_us=1_000_001, recorded_us=2_000_000, expires_us=None, change="1" * 32,
    )  # fmt: skip


def turned(value: object) -> object:
    """The same JSON with every object's keys in the opposite order."""
    if isinstance(value, dict):
        items = cast("Parts", value).items()
        return {key: turned(item) for key, item in reversed(items)}
    return [turned(item) for item in cast("list[object]", value)] if isinstance(value, list) else value


@given(PATHS, VALUES, DOCUMENTS)
def test_ne_is_exactly_not_eq(path: str, operand: JsonValue, document: JsonObject) -> None:
    assert holds({path: {"$ne": operand}}, document) is not holds({path: {"$eq": operand}}, document)


@given(PATHS, st.lists(VALUES, max_size=4), DOCUMENTS)
def test_nin_is_exactly_not_in(path: str, operands: list[JsonValue], document: JsonObject) -> None:
    assert holds({path: {"$nin": operands}}, document) is not holds({path: {"$in": operands}}, document)


@given(PATHS, st.lists(VALUES, min_size=1, max_size=4), DOCUMENTS)
def test_in_is_any_eq_and_all_is_every_eq(path: str, operands: list[JsonValue], document: JsonObject) -> None:
    equal = [holds({path: {"$eq": each}}, document) for each in operands]
    assert holds({path: {"$in": operands}}, document) is any(equal)
    assert holds({path: {"$all": operands}}, document) is all(equal)


@given(PATHS, VALUES, DOCUMENTS)
def test_a_value_is_short_for_eq(path: str, operand: JsonValue, document: JsonObject) -> None:
    assert holds({path: operand}, document) is holds({path: {"$eq": operand}}, document)


@given(PATHS, TESTS, DOCUMENTS)
def test_not_is_the_complement(path: str, tests: Parts, document: JsonObject) -> None:
    assert holds({path: {"$not": tests}}, document) is not holds({path: tests}, document)


@given(PATHS, DOCUMENTS)
def test_exists_false_is_not_exists_true(path: str, document: JsonObject) -> None:
    assert holds({path: {"$exists": False}}, document) is not holds({path: {"$exists": True}}, document)


@given(st.lists(FILTERS, min_size=1, max_size=3), DOCUMENTS)
def test_de_morgan(parts: list[Parts], document: JsonObject) -> None:
    negated = [{"$nor": [part]} for part in parts]
    assert holds({"$nor": parts}, document) is not holds({"$or": parts}, document)
    assert holds({"$and": negated}, document) is holds({"$nor": parts}, document)
    assert holds({"$or": negated}, document) is holds({"$nor": [{"$and": parts}]}, document)


@given(st.lists(FILTERS, min_size=1, max_size=3), DOCUMENTS)
def test_and_or_are_all_and_any_in_any_order(parts: list[Parts], document: JsonObject) -> None:
    each = [holds(part, document) for part in parts]
    for order in (parts, parts[::-1]):
        assert holds({"$and": order}, document) is all(each)
        assert holds({"$or": order}, document) is any(each)


@given(FILTERS, DOCUMENTS)
def test_key_order_never_matters(source: Parts, document: JsonObject) -> None:
    expected = holds(source, document)
    assert holds(cast("Parts", turned(source)), document) is expected
    assert holds(source, cast("JsonObject", turned(document))) is expected


@given(st.lists(VALUES, max_size=4), TESTS)
def test_elem_match_is_one_element_that_meets_it_all(elements: list[JsonValue], tests: Parts) -> None:
    document: JsonObject = {"x": elements}
    assert holds({"x": {"$elemMatch": tests}}, document) is any(
        holds({"y": tests}, {"y": each}) for each in elements
    )


@given(FILTERS, DOCUMENTS)
def test_an_entry_is_judged_as_its_document(source: Parts, metadata: JsonObject) -> None:
    found = compile_filter(source)
    if found is not None:
        assert accepts(found, entry(metadata)) is matches(found, entry_document(entry(metadata)))


def check_refused_or_works(source: object, metadata: JsonObject) -> None:
    try:
        found = compile_filter(cast("Parts | None", source))
    except FilterError:
        return
    if found is not None:
        assert accepts(found, entry(metadata)) is matches(found, entry_document(entry(metadata)))


@given(ANYTHING, DOCUMENTS)
def test_any_filter_is_refused_or_works(source: JsonValue, metadata: JsonObject) -> None:
    check_refused_or_works(source, metadata)


@given(WORDS, ANYTHING, DOCUMENTS)
def test_any_condition_is_refused_or_works(name: str, condition: JsonValue, metadata: JsonObject) -> None:
    check_refused_or_works({name: condition}, metadata)


@given(PATHS, st.sampled_from(OPERATORS), ANYTHING, DOCUMENTS)
def test_any_operand_is_refused_or_works(
    path: str, operator: str, operand: JsonValue, metadata: JsonObject
) -> None:
    for source in ({path: {operator: operand}}, {operator: operand}, {"created_at": {operator: operand}}):
        check_refused_or_works(source, metadata)
