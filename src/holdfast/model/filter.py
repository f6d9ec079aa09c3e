"""Filters: a condition on an entry's metadata and own names, read once, answered alike by every engine.

A path *reaches* values: its segments descend into objects, and into each object of an array (not of an
array inside that), so it can reach none, one or several. It is *missing* when it reaches none. A condition on
values looks at the *candidates*: the values reached, and the elements of those that are arrays.

``matches`` is the law; an engine that compiles a ``Filter`` must agree with it. Paths and operands are bound,
never spliced into SQL; integers among them can have any size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, TypeGuard, cast

from holdfast.errors import FilterError
from holdfast.model.entry import RESERVED_METADATA, Entry
from holdfast.model.values import JsonValue, micros, moment

PATH_SEGMENTS: Final = 8
PATH_CHARACTERS: Final = 256
CONDITIONS: Final = 256
NESTING: Final = 16
LIST_MEMBERS: Final = 1000
TIMES: Final = frozenset(("created_at", "updated_at"))

Comparison = Literal["lt", "lte", "gt", "gte"]


@dataclass(frozen=True, slots=True)
class Path:
    """Where to look: ``parts`` from the metadata inwards; without parts, the array element in hand itself.

    ``reserved`` marks one of the ``ENTRY_NAMES``: ``parts`` is then that one name, and the entry always has
    it, null when unset. Inside an ``ElemMatch`` paths start at the element and are never reserved.
    """

    parts: tuple[str, ...]
    reserved: bool = False

    @property
    def is_time(self) -> bool:
        """Whether values and operands here are instants, in microseconds since the epoch."""
        return self.reserved and self.name in TIMES

    @property
    def name(self) -> str:
        """The first part; empty for the element in hand."""
        return next(iter(self.parts), "")


@dataclass(frozen=True, slots=True)
class Equals:
    """A candidate equals the operand; an operand of null also holds for a missing path.

    Type classes are kept apart: true is not 1, "5" is not 5, but 1 is 1.0. Objects ignore the order of keys.
    """

    path: Path
    operand: JsonValue


@dataclass(frozen=True, slots=True)
class OneOf:
    """``Equals`` holds for at least one of the operands; of no operands, never."""

    path: Path
    operands: tuple[JsonValue, ...]
    wanted: frozenset[Hashable] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "wanted", frozenset(map(_identity, self.operands)))


@dataclass(frozen=True, slots=True)
class HasAll:
    """``Equals`` holds for every one of the operands, which are never empty."""

    path: Path
    operands: tuple[JsonValue, ...]
    wanted: frozenset[Hashable] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "wanted", frozenset(map(_identity, self.operands)))


@dataclass(frozen=True, slots=True)
class Compare:
    """A candidate of the operand's type class compares so: numbers exactly, strings by code point."""

    path: Path
    op: Comparison
    operand: int | float | str


@dataclass(frozen=True, slots=True)
class Exists:
    """The path is not missing; null exists."""

    path: Path


@dataclass(frozen=True, slots=True)
class Size:
    """A value reached is an array of that length."""

    path: Path
    length: int


@dataclass(frozen=True, slots=True)
class Contains:
    """A candidate is a string that contains the text; case counts, the empty text is in every string."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """A candidate is a string that starts with the text; case counts."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class ElemMatch:
    """A value reached is an array with one element for which ``inner`` holds.

    With ``objects`` only elements that are objects are tried, and the paths inside are those of their fields.
    Without, every element is tried, and the paths inside have no parts; an element that is itself an array
    has its own elements as candidates too.
    """

    path: Path
    inner: Node
    objects: bool


@dataclass(frozen=True, slots=True)
class All:
    """Every node holds; of none, always."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one node holds; there is at least one."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Exactly when the node does not hold: two-valued, so missing and null are answers like any other."""

    node: Node


Leaf: TypeAlias = Equals | OneOf | HasAll | Compare | Exists | Size | Contains | Prefix | ElemMatch
Node: TypeAlias = Leaf | All | Some | Not


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """A filter that was read and found valid; make one with ``compile_filter``.

    Filters compare by identity: by value, Python would take the operands 1 and True for the same.
    """

    root: Node


def compile_filter(filter: Mapping[str, object] | Filter | None) -> Filter | None:
    """Read a filter; None when there is no restriction.

    Whatever is not understood raises ``FilterError``: ``filter_operator`` (no such operator),
    ``filter_operand`` (not for this operator), ``filter_mixed`` (an operator in the wrong place, or beside
    plain names), ``filter_path`` (not a filterable name), ``filter_too_large`` (over a limit),
    ``time_invalid`` (an unreadable time).
    The filter is copied: what the caller changes later changes nothing here.
    """
    if filter is None or isinstance(filter, Filter):
        return filter
    if not isinstance(filter, Mapping):
        raise FilterError(
            f"a filter is an object, not {_type(filter)}", hint='for example {"topic": "drink"}'
        )
    return Filter(_Reader().filter(filter, at_root=True, depth=0)) if filter else None


def matches(filter: Filter, document: Mapping[str, JsonValue]) -> bool:
    """Whether a document meets the filter.

    The document has the metadata at its top level, beside the ``ENTRY_NAMES`` (times as ISO 8601 strings).
    """

    def reach(path: Path) -> list[JsonValue]:
        if path.name not in document:
            return []
        value = document[path.name]
        return [_stored_instant(value)] if path.is_time else _reached(value, path.parts[1:])

    return _holds(filter.root, reach)


def accepts(filter: Filter, entry: Entry) -> bool:
    """Whether an entry meets the filter: ``matches`` on its ``entry_document``, without making one."""

    def reach(path: Path) -> list[JsonValue]:
        return [ENTRY_NAMES[path.name](entry)] if path.reserved else _reached(entry.metadata, path.parts)

    return _holds(filter.root, reach)


def entry_document(entry: Entry) -> dict[str, JsonValue]:
    """The document that a filter sees of an entry; nested metadata is shared, not copied."""
    own = {name: read(entry) for name, read in ENTRY_NAMES.items() if name not in TIMES}
    created, updated = moment(entry.created_us), moment(entry.recorded_us)
    return {**entry.metadata, **own, "created_at": created.isoformat(), "updated_at": updated.isoformat()}


ENTRY_NAMES: Final[Mapping[str, Callable[[Entry], JsonValue]]] = MappingProxyType(
    {
        "id": lambda entry: entry.id,
        "key": lambda entry: entry.key,
        "kind": lambda entry: entry.kind,
        "speaker": lambda entry: entry.speaker,
        "title": lambda entry: entry.title,
        "agent_id": lambda entry: entry.origin.agent_id,
        "run_id": lambda entry: entry.origin.run_id,
        "step_id": lambda entry: entry.origin.step_id,
        "created_at": lambda entry: entry.created_us,
        "updated_at": lambda entry: entry.recorded_us,
        "$name": lambda entry: entry.name,
        "$thread": lambda entry: entry.thread,
    }
)
"""The reserved names that a filter can use, and what each reads; the two times in microseconds."""

# ------------------------------------------------------------------------------------------- answering

_Reach: TypeAlias = Callable[[Path], list[JsonValue]]


def _holds(node: Node, reach: _Reach) -> bool:
    match node:
        case All(nodes):
            return all(_holds(each, reach) for each in nodes)
        case Some(nodes):
            return any(_holds(each, reach) for each in nodes)
        case Not(inner):
            return not _holds(inner, reach)
        case _:
            return _meet(node, reach(node.path))


def _meet(leaf: Leaf, values: list[JsonValue]) -> bool:
    match leaf:
        case Equals(_, operand):
            return _identity(operand) in _identities(values)
        case OneOf():
            return not leaf.wanted.isdisjoint(_identities(values))
        case HasAll():
            return leaf.wanted <= _identities(values)
        case Compare(_, op, operand):
            return any(_compares(op, value, operand) for value in _candidates(values))
        case Exists():
            return bool(values)
        case Size(_, length):
            return any(isinstance(value, list) and len(value) == length for value in values)
        case Contains(_, text):
            return any(isinstance(value, str) and text in value for value in _candidates(values))
        case Prefix(_, text):
            return any(isinstance(value, str) and value.startswith(text) for value in _candidates(values))
        case ElemMatch():
            return any(isinstance(value, list) and _has_element(leaf, value) for value in values)


def _has_element(leaf: ElemMatch, array: list[JsonValue]) -> bool:
    elements = (each for each in array if isinstance(each, dict) or not leaf.objects)
    return any(_holds(leaf.inner, _inside(each)) for each in elements)


def _inside(element: JsonValue) -> _Reach:
    return lambda path: _reached(element, path.parts)


def _reached(value: JsonValue, parts: tuple[str, ...]) -> list[JsonValue]:
    values = [value]
    for part in parts:
        values = [
            each[part]
            for found in values
            for each in (found if isinstance(found, list) else (found,))
            if isinstance(each, dict) and part in each
        ]
    return values


def _candidates(values: list[JsonValue]) -> Iterable[JsonValue]:
    for value in values:
        yield value
        if isinstance(value, list):
            yield from value


def _identities(values: list[JsonValue]) -> set[Hashable]:
    """What the candidates are equal to; missing counts as null here."""
    return set(map(_identity, _candidates(values))) if values else {None}


def _identity(value: JsonValue) -> Hashable:
    """Equal exactly when the JSON values are: Python's equality, with true and false made unlike 1 and 0."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("array", tuple(map(_identity, value)))
    if isinstance(value, dict):
        return ("object", frozenset((key, _identity(item)) for key, item in value.items()))
    return value


def _compares(op: Comparison, value: JsonValue, operand: float | str) -> bool:
    if isinstance(value, str) and isinstance(operand, str):
        return _ordered(op, (value > operand) - (value < operand))
    if _is_number(value) and _is_number(operand):
        return _ordered(op, (value > operand) - (value < operand))
    return False


def _ordered(op: Comparison, sign: int) -> bool:
    match op:
        case "lt":
            return sign < 0
        case "lte":
            return sign <= 0
        case "gt":
            return sign > 0
        case "gte":
            return sign >= 0


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --------------------------------------------------------------------------------------------- reading

_COMPARISONS: Final[Mapping[str, Comparison]] = MappingProxyType(
    {"$lt": "lt", "$lte": "lte", "$gt": "gt", "$gte": "gte"}
)
_JOINING: Final = frozenset(("$and", "$or", "$nor"))
_TESTING: Final = frozenset(
    "$eq $ne $in $nin $all $exists $size $contains $prefix $not $elemMatch".split() + list(_COMPARISONS)
)
_NOT_ON_TIMES: Final = frozenset(("$size", "$contains", "$prefix", "$elemMatch"))
_SHOWN: Final = 60


class _Reader:
    """Reads one filter; counts its conditions on the way."""

    __slots__ = ("_conditions",)

    def __init__(self) -> None:
        self._conditions = 0

    def filter(self, found: Mapping[str, object], *, at_root: bool, depth: int) -> Node:
        """A filter object: fields, or ``$and``, ``$or`` and ``$nor``."""
        _check_names(found, own=_JOINING, fields=ENTRY_NAMES if at_root else ())
        if not found:
            self._count()
        nodes: list[Node] = []
        for name, value in found.items():
            if name in _JOINING:
                nodes.append(self._joined(name, value, at_root=at_root, depth=depth))
            else:
                nodes.append(self._field(_path(name, at_root=at_root), value, depth))
        return _all(nodes)

    def _joined(self, name: str, operand: object, *, at_root: bool, depth: int) -> Node:
        inner = _deeper(depth)
        nodes: list[Node] = []
        for each in _list(name, operand, empty=False):
            if not isinstance(each, Mapping):
                raise FilterError(f"{name} takes a list of filters, and one is {_type(each)}")
            part = cast("Mapping[str, object]", each)
            nodes.append(self.filter(part, at_root=at_root, depth=inner))
        if name == "$and":
            return _all(nodes)
        some = nodes[0] if len(nodes) == 1 else Some(tuple(nodes))
        return some if name == "$or" else Not(some)

    def _field(self, path: Path, found: object, depth: int) -> Node:
        operators = _operator_object(found)
        if operators is not None:
            return self._operators(path, operators, depth)
        self._count()
        operand = _plain(found)
        if _has_operator(operand):
            raise FilterError(
                f"the value of {_shown('.'.join(path.parts))} has an operator inside",
                code="filter_mixed",
                hint="use a dotted path for a field inside, or $eq for such a value itself",
            )
        return Equals(path, _operand(path, operand))

    def _operators(self, path: Path, found: Mapping[str, object], depth: int) -> Node:
        _check_names(found, own=_TESTING, fields=())
        return _all([self._operator(path, name, operand, depth) for name, operand in found.items()])

    def _operator(self, path: Path, name: str, operand: object, depth: int) -> Node:
        if path.is_time and name in _NOT_ON_TIMES:
            raise FilterError(f"{name} does not work on {path.name}, a time", hint="use $gte and $lt")
        if name == "$not":
            return self._negated(path, operand, _deeper(depth))
        if name == "$elemMatch":
            return self._elements(path, operand, _deeper(depth))
        self._count()
        if name in _COMPARISONS:
            return Compare(path, _COMPARISONS[name], _comparable(path, name, operand))
        return _equality(path, name, operand) or _shape(path, name, operand)

    def _negated(self, path: Path, operand: object, depth: int) -> Node:
        operators = _operator_object(operand)
        if operators is None:
            raise FilterError(
                "$not takes an object of operators", hint='as in {"$not": {"$gt": 5}}; for a value use $ne'
            )
        return Not(self._operators(path, operators, depth))

    def _elements(self, path: Path, operand: object, depth: int) -> ElemMatch:
        if not isinstance(operand, Mapping):
            raise FilterError(f"$elemMatch takes a filter or operators, not {_type(operand)}")
        found = cast("Mapping[str, object]", operand)
        if any(name in _TESTING for name in found):
            return ElemMatch(path, self._operators(Path(()), found, depth), objects=False)
        return ElemMatch(path, self.filter(found, at_root=False, depth=depth), objects=True)

    def _count(self) -> None:
        self._conditions += 1
        if self._conditions > CONDITIONS:
            raise _too_large(
                f"a filter has more than {CONDITIONS} conditions", hint="use $in for many values"
            )


def _equality(path: Path, name: str, operand: object) -> Node | None:
    match name:
        case "$eq":
            return Equals(path, _operand(path, _plain(operand)))
        case "$ne":
            return Not(Equals(path, _operand(path, _plain(operand))))
        case "$in":
            return OneOf(path, _operands(path, name, operand, empty=True))
        case "$nin":
            return Not(OneOf(path, _operands(path, name, operand, empty=True)))
        case "$all":
            return HasAll(path, _operands(path, name, operand, empty=False))
        case _:
            return None


def _shape(path: Path, name: str, operand: object) -> Node:
    if name == "$exists":
        if not isinstance(operand, bool):
            raise FilterError(f"$exists takes true or false, not {_type(operand)}")
        return Exists(path) if operand else Not(Exists(path))
    if name == "$size":
        if not isinstance(operand, int) or isinstance(operand, bool) or operand < 0:
            raise FilterError(
                "$size takes an integer from 0 on", hint="for a range of lengths join several with $or"
            )
        return Size(path, operand)
    text = _plain(operand)
    if not isinstance(text, str):
        raise FilterError(f"{name} takes a string, not {_type(operand)}")
    return Contains(path, text) if name == "$contains" else Prefix(path, text)


def _check_names(found: Mapping[str, object], *, own: frozenset[str], fields: Container[str]) -> None:
    """Refuse unknown operators, operators that belong elsewhere, and operators beside plain names."""
    plain = False
    operators: list[str] = []
    for name in found:
        if _is_operator(name) and name.partition(".")[0] not in fields:
            operators.append(name)
        else:
            plain = True
    for name in operators:
        if name not in _JOINING and name not in _TESTING:
            raise FilterError(
                f"there is no operator {_shown(name)}",
                code="filter_operator",
                hint=f"there are {', '.join(sorted(own))}",
            )
    for name in operators:
        if name not in own:
            hint = (
                "write it around fields"
                if name in _JOINING
                else 'write it on a field: {"field": {"$not": …}}'
            )
            raise FilterError(f"{name} has no meaning here", code="filter_mixed", hint=hint)
    if operators and plain:
        raise FilterError(
            f"{operators[0]} stands beside plain names",
            code="filter_mixed",
            hint="put both into a list under $and",
        )


def _path(name: object, *, at_root: bool) -> Path:
    if not isinstance(name, str):
        raise FilterError(f"a path is a string, not {_type(name)}", code="filter_path")
    if len(name) > PATH_CHARACTERS:
        raise _too_large(f"a path has {len(name)} characters, over {PATH_CHARACTERS}")
    parts = name.split(".")
    if len(parts) > PATH_SEGMENTS:
        raise _too_large(f"a path has {len(parts)} segments, over {PATH_SEGMENTS}")
    reserved = at_root and parts[0] in ENTRY_NAMES
    if reserved and len(parts) > 1:
        raise _no_path(f"{parts[0]} has no fields inside", hint=f"use {parts[0]} itself")
    if at_root and not reserved and parts[0] in RESERVED_METADATA:
        raise _no_path(f"{parts[0]} cannot be filtered on", hint=f"use {', '.join(ENTRY_NAMES)}")
    if not all(parts):
        raise _no_path(f"the path {_shown(name)} has an empty segment", hint="join names with single dots")
    if not reserved and any(map(_is_operator, parts)):
        raise _no_path(f"a segment of {_shown(name)} starts with $", hint="no field is named so")
    if _has_surrogate(name):
        raise _no_path(f"the path {_shown(name)} has a lone surrogate", hint="decode the text properly first")
    return Path(tuple(parts), reserved)


def _operand(path: Path, value: JsonValue) -> JsonValue:
    """The operand as it is compared: on a time, the instant."""
    if not path.is_time or value is None:
        return value
    if not isinstance(value, str):
        raise FilterError(f"{path.name} is compared with a time, not {_type(value)}", hint=_TIME_HINT)
    instant = _instant(value)
    if instant is None:
        raise FilterError(f"{_shown(value)} is not an ISO 8601 time", code="time_invalid", hint=_TIME_HINT)
    return instant


def _operands(path: Path, name: str, operand: object, *, empty: bool) -> tuple[JsonValue, ...]:
    return tuple(_operand(path, _plain(each)) for each in _list(name, operand, empty=empty))


def _comparable(path: Path, name: str, operand: object) -> int | float | str:
    value = _plain(operand)
    if not isinstance(value, str) and not _is_number(value):
        raise FilterError(f"{name} takes a number or a string, not {_type(operand)}")
    return cast("int | float | str", _operand(path, value))


def _operator_object(found: object) -> Mapping[str, object] | None:
    """The object itself when it holds an operator; else it is a value."""
    if not isinstance(found, Mapping):
        return None
    names = cast("Mapping[str, object]", found)
    return names if any(map(_is_operator, names)) else None


def _list(name: str, operand: object, *, empty: bool) -> list[object]:
    if not isinstance(operand, list | tuple):
        raise FilterError(f"{name} takes a list, not {_type(operand)}")
    members = list(cast("list[object]", operand))
    if not members and not empty:
        raise FilterError(f"{name} takes a list that is not empty", hint=f"leave {name} out")
    _check_length(members)
    return members


def _plain(value: object, depth: int = NESTING) -> JsonValue:
    """A copy of a JSON value, after checking that it is one."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return _sound(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise FilterError(f"{value} is not a JSON number")
        return value
    if not isinstance(value, Mapping | list | tuple):
        raise FilterError(f"{_type(value)} is not a JSON value", hint="write a time as an ISO 8601 string")
    if depth <= 0:
        raise _too_large(f"a value is nested more than {NESTING} deep")
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {_key(key): _plain(item, depth - 1) for key, item in items}
    members = list(cast("list[object]", value))
    _check_length(members)
    return [_plain(item, depth - 1) for item in members]


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise FilterError(f"a key of an object is a string, not {_type(key)}")
    return _sound(key)


def _sound(text: str) -> str:
    if _has_surrogate(text):
        raise FilterError(f"{_shown(text)} has a lone surrogate", hint="decode the text properly first")
    return text


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


def _has_operator(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(_is_operator(key) or _has_operator(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_has_operator, value))


def _is_operator(name: object) -> bool:
    return isinstance(name, str) and name.startswith("$")


def _all(nodes: list[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else All(tuple(nodes))


def _deeper(depth: int) -> int:
    if depth >= NESTING:
        raise _too_large(f"a filter is nested more than {NESTING} deep")
    return depth + 1


def _check_length(members: list[object]) -> None:
    if len(members) > LIST_MEMBERS:
        raise _too_large(f"a list has {len(members)} members, over {LIST_MEMBERS}", hint="split it with $or")


def _too_large(message: str, *, hint: str | None = None) -> FilterError:
    return FilterError(message, code="filter_too_large", hint=hint)


def _no_path(message: str, *, hint: str) -> FilterError:
    return FilterError(message, code="filter_path", hint=hint)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}…"


def _type(value: object) -> str:
    return "null" if value is None else type(value).__name__


# ----------------------------------------------------------------------------------------------- times

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?:[Tt ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?(?:[Zz]|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
_TIME_HINT: Final = "for example 2026-11-18 or 2026-11-18T20:01:00Z"


def _instant(text: str) -> int | None:
    """Microseconds of an ISO 8601 time, None if unreadable; without offset UTC, a date its start."""
    if _TIME.fullmatch(text) is None:
        return None
    try:
        read = datetime.fromisoformat(text.upper())
    except ValueError:  # a form that is right with a day or an offset that does not exist
        return None
    return micros(read if read.tzinfo is not None else read.replace(tzinfo=UTC))


def _stored_instant(value: JsonValue) -> JsonValue:
    """The instant of a time in a document; what is no time stays as it is and compares with none."""
    instant = _instant(value) if isinstance(value, str) else None
    return value if instant is None else instant
