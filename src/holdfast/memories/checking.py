"""What the calls of banks and spaces check of their arguments before anything is read or written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from holdfast.errors import InvalidInput, LimitExceeded
from holdfast.model.forget import OriginMatch
from holdfast.model.origin import Origin
from holdfast.model.values import checked_text
from holdfast.model.window import ORDERS, Cursor


def check_limit(limit: object, most: int) -> None:
    """A whole number from 1 up to what the call gives at once."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= most:
        raise LimitExceeded(
            f"the limit must be 1 to {most}, not {limit!r}",
            code="limit_invalid",
            hint="read page by page for more",
        )


def check_order(order: object) -> None:
    """One of the two orders; what cannot even be looked up among them is told as well."""
    if not isinstance(order, str) or order not in ORDERS:
        raise InvalidInput(f"unknown order {order!r}", code="order_invalid", hint=" or ".join(sorted(ORDERS)))


def check_cursor(after: object) -> None:
    """None, or what a page gave as its ``next``."""
    if after is None:
        return
    if isinstance(after, Cursor):
        parts: tuple[object, ...] = (after.key, after.created_us, after.seq)
        if (
            isinstance(parts[0], str)
            and _encodable(parts[0])
            and all(isinstance(part, int) and abs(part) < 2**63 for part in parts[1:])
        ):
            return
    raise InvalidInput(
        f"after must be a Cursor, not {after!r}", code="cursor_invalid", hint="the next of the page before"
    )


def _encodable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def check_feed_cursor(after: object) -> None:
    """Where a feed goes on: the number of a change."""
    if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after < 2**63:
        raise InvalidInput(
            f"after must be a whole number from 0 up, not {after!r}",
            code="cursor_invalid",
            hint="the cursor of the last change that was read",
        )


def check_prefix(prefix: object) -> None:
    """Text to begin with."""
    if not isinstance(prefix, str):
        raise InvalidInput(
            f"the prefix must be a str, not {type(prefix).__name__}",
            code="prefix_invalid",
            hint="leave it out for everything",
        )
    checked_text(prefix, what="the prefix", code="prefix_invalid")


def check_origin(origin: object) -> None:
    """None, or an origin: a mapping or text is not taken for one."""
    if origin is not None and not isinstance(origin, Origin):
        raise InvalidInput(
            f"origin must be an Origin, not {type(origin).__name__}",
            code="origin_invalid",
            hint="origin=holdfast.Origin(…)",
        )


def check_match(origin: object) -> None:
    """None, or what selects by origin."""
    if origin is not None and not isinstance(origin, OriginMatch):
        raise InvalidInput(
            f"origin must be an OriginMatch, not {type(origin).__name__}",
            code="origin_invalid",
            hint="origin=holdfast.OriginMatch(run_id=…)",
        )


def checked_items(items: object, *, what: str, hint: str) -> tuple[object, ...]:
    """What a list holds; a single text is not taken for a list of its letters."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise InvalidInput(
            f"{what} takes a list, not {type(items).__name__}", code=f"{what}_invalid", hint=hint
        )
    return tuple(cast("Iterable[object]", items))
