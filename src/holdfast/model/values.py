"""JSON values: what may be stored, how it is written, and how times are counted."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, cast

from holdfast.errors import InvalidInput, LimitExceeded

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DAY_US = 86_400_000_000
MAX_DEPTH = 64
MAX_MICROS = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""
MAX_INTEGER_BITS = 4096


def micros(moment: datetime) -> int:
    """Microseconds since the epoch; a time without a zone is refused, since it could mean anything."""
    if moment.tzinfo is None:
        raise InvalidInput(
            f"the time {moment.isoformat()} has no time zone",
            code="time_invalid",
            hint="use an aware datetime, for example datetime.now(timezone.utc)",
        )
    return (moment - EPOCH) // MICROSECOND


def checked_micros(value: int, *, what: str) -> int:
    """The time itself, when every engine can hold it."""
    if not -MAX_MICROS <= value <= MAX_MICROS:
        raise InvalidInput(f"{what} is out of range: {value} microseconds", code="time_invalid")
    return value


def moment(micros_since_epoch: int) -> datetime:
    """The aware UTC time of a count of microseconds."""
    return EPOCH + timedelta(microseconds=micros_since_epoch)


def dump_json(value: object) -> str:
    """Compact JSON text, keys in the order given, non-ASCII kept."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical_json(value: object) -> str:
    """Compact JSON text with sorted keys, for digests."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True)


def load_json(text: str) -> JsonValue:
    """Parse JSON text that holdfast wrote itself."""
    return cast("JsonValue", json.loads(text))


def checked_json(value: object, *, what: str, max_depth: int = MAX_DEPTH) -> JsonValue:
    """The value itself, after checking that it is plain JSON: finite numbers, str keys, no lone surrogates."""
    _check(value, what, max_depth)
    return cast("JsonValue", value)


def checked_text(text: object, *, what: str, code: str) -> str:
    """The text itself, after checking that it is a str that every engine and file can hold."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be a str, not {type(text).__name__}", code=code)
    if "\x00" in text:
        raise InvalidInput(f"{what} contains U+0000", code=code, hint="remove the character")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{what} contains a lone surrogate at {error.start}",
                code=code,
                hint="decode the text properly first",
            ) from None
    return text


def _check(value: object, what: str, depth: int) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise LimitExceeded(
                f"{what} contains an integer of {value.bit_length()} bits", code="value_invalid"
            )
        return
    if isinstance(value, str):
        _check_string(value, what)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{what} contains {value}, which JSON cannot hold", code="value_invalid")
    elif depth <= 0:
        raise LimitExceeded(f"{what} is nested too deeply", code="value_too_deep")
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                raise InvalidInput(f"{what} has a key that is not a str: {key!r}", code="value_invalid")
            _check_string(key, what)
            _check(item, what, depth - 1)
    elif isinstance(value, list | tuple):
        for item in cast("list[object]", value):
            _check(item, what, depth - 1)
    else:
        raise InvalidInput(
            f"{what} contains a {type(value).__name__}, which is not JSON", code="value_invalid"
        )


def _check_string(text: str, what: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} contains a lone surrogate", code="value_invalid") from None
