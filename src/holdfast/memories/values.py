"""Values: named JSON with optional expiry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.errors import InvalidInput
from holdfast.memories.checking import check_prefix, checked_items
from holdfast.memories.core import Core, partition
from holdfast.model.batch import Put, Remove
from holdfast.model.document import Document, DocumentRef
from holdfast.model.scope import Scope, checked_name
from holdfast.model.values import JsonValue, checked_json, dump_json, load_json

VALUES: Final = "~values"
VALUES_KEY: Final = "values"
VALUE: Final = "value"
PAGE: Final = 1000
END_OF_TIME_MS: Final = 253_402_300_799_000


class StoredValues:
    """The values of one space of a store."""

    __slots__ = ("_core", "_scope", "_space")

    def __init__(self, core: Core, space: str) -> None:
        self._core = core
        self._space = space
        self._scope = Scope(space)

    async def get(self, key: str) -> JsonValue:
        now_us = self._core.latest_us()
        document = await self._core.store.document(self._scope, _ref(key))
        return document.value if document is not None and _live(document, now_us) else None

    async def get_many(self, keys: Sequence[str]) -> dict[str, JsonValue]:
        named = [
            _ref(key).name for key in checked_items(keys, what="keys", hint="get(key) reads a single one")
        ]
        found = {key: await self.get(key) for key in dict.fromkeys(named)}
        return {key: value for key, value in found.items() if value is not None}

    async def set(self, key: str, value: JsonValue, ttl_ms: int | None = None) -> None:
        ref = _ref(key)
        own = _copied(value)
        where = partition(self._space, VALUES, VALUES_KEY)
        expires_us = None if ttl_ms is None else _expiry_us(self._core.latest_us(), ttl_ms)
        await self._core.write(where, (Put(ref, self._core.make_id(where.bucket), own, expires_us),))

    async def list(self, prefix: str | None = None) -> list[str]:
        if prefix is not None:
            check_prefix(prefix)
        scope = partition(self._space, VALUES, VALUES_KEY).scope
        now_us = self._core.latest_us()
        names: list[str] = []
        after = 0
        while True:
            page = await self._core.store.documents(
                scope, VALUE, prefix=prefix or "", after=after, limit=PAGE
            )
            names += [document.ref.name for document in page if _live(document, now_us)]
            if len(page) < PAGE:
                return names
            after = page[-1].position

    async def delete(self, key: str) -> None:
        where = partition(self._space, VALUES, VALUES_KEY)
        await self._core.write(where, (Remove(_ref(key)),))


def _live(document: Document, now_us: int) -> bool:
    """Expired once is expired for good, even when the clock is put back."""
    return document.expires_us is None or now_us <= document.expires_us


def _ref(key: object) -> DocumentRef:
    return DocumentRef(VALUES, VALUES_KEY, VALUE, checked_name(key, what="the key", code="key_invalid"))


def _copied(value: JsonValue) -> JsonValue:
    """A copy of a value that is exactly what will be read back."""
    if value is None:
        raise InvalidInput(
            "None cannot be told apart from a missing value", code="value_none", hint="use delete()"
        )
    checked_json(value, what="the value")
    try:
        copy = load_json(dump_json(value))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the value cannot be written as JSON: {error}", code="value_invalid") from None
    if copy != value:
        raise InvalidInput(
            "the value does not come back from JSON as it is",
            code="value_invalid",
            hint="use lists, not tuples",
        )
    return copy


def _expiry_us(now_us: int, ttl_ms: object) -> int:
    """The last microsecond of the last millisecond in which the value can be read."""
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int) or ttl_ms < 0:
        raise InvalidInput(f"ttl_ms must be a whole number from 0 up, not {ttl_ms!r}", code="ttl_invalid")
    return min(now_us // 1000 + ttl_ms, END_OF_TIME_MS) * 1000 + 999
