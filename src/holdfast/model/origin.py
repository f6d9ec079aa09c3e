"""Origin and trust: where a record came from, and how far to believe it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import lru_cache
from typing import Final, Literal, cast

from holdfast.errors import InvalidInput, LimitExceeded
from holdfast.model.ids import checked_id
from holdfast.model.limits import SOURCES
from holdfast.model.values import JsonValue, checked_micros, checked_text, dump_json, load_json

Channel = Literal["user", "assistant", "tool", "web", "file", "import", "operator"]
Method = Literal["stated", "extracted", "merged", "imported", "manual"]
CHANNELS: Final = frozenset(("user", "assistant", "tool", "web", "file", "import", "operator"))
METHODS: Final = frozenset(("stated", "extracted", "merged", "imported", "manual"))


class Trust(IntEnum):
    """How far to believe a record; ordered, and never raised by repeating or rewording."""

    EXTERNAL = 0
    TOOL = 10
    ASSISTANT = 20
    USER = 30
    OPERATOR = 40


_TRUSTS: Final = frozenset(Trust)
_TRUST_OF_CHANNEL: Final[Mapping[str, Trust]] = {
    "user": Trust.USER,
    "assistant": Trust.ASSISTANT,
    "tool": Trust.TOOL,
    "web": Trust.EXTERNAL,
    "file": Trust.EXTERNAL,
    "import": Trust.EXTERNAL,
    "operator": Trust.OPERATOR,
}


def derived_trust(sources: Iterable[Trust]) -> Trust:
    """The lowest trust among the sources; of no source at all, the lowest there is."""
    return min(sources, default=Trust.EXTERNAL)


@dataclass(frozen=True, slots=True)
class Origin:
    """Who wrote a record, through which channel, from what, and how far it can be believed.

    ``sources`` are ids of entries that the record was made from: forgetting one of them reaches the record.
    """

    author: str | None = None
    channel: Channel = "user"
    trust: Trust | None = None
    method: Method = "stated"
    agent_id: str | None = None
    run_id: str | None = None
    step_id: str | None = None
    model: str | None = None
    sources: tuple[str, ...] = ()
    observed_us: int | None = None

    def __post_init__(self) -> None:
        if self.channel not in CHANNELS:
            raise InvalidInput(f"unknown channel {self.channel!r}", code="origin_invalid")
        if self.method not in METHODS:
            raise InvalidInput(f"unknown method {self.method!r}", code="origin_invalid")
        if len(self.sources) > SOURCES:
            raise LimitExceeded(
                f"an origin names {len(self.sources)} sources, over {SOURCES}", code="origin_invalid"
            )
        if self.trust is not None and self.trust not in _TRUSTS:
            raise InvalidInput(
                f"unknown trust {self.trust!r}", code="origin_invalid", hint="use holdfast.Trust"
            )
        if self.observed_us is not None:
            checked_micros(self.observed_us, what="the time of the observation")
        for source in self.sources:
            checked_id(source, what="a source of the origin")
        for text in (self.author, self.agent_id, self.run_id, self.step_id, self.model):
            if text is not None:
                checked_text(text, what="a field of the origin", code="origin_invalid")

    @property
    def effective_trust(self) -> Trust:
        """The stated trust, else that of the channel."""
        return _TRUST_OF_CHANNEL[self.channel] if self.trust is None else self.trust


UNKNOWN: Final = Origin()
_DEFAULTS: Final = {field.name: field.default for field in fields(Origin)}


@lru_cache(maxsize=1024)
def origin_text(origin: Origin) -> str:
    """The stored form: JSON of what differs from the defaults, sources as a list."""
    found: dict[str, JsonValue] = {}
    for name, default in _DEFAULTS.items():
        value = cast("JsonValue", getattr(origin, name))
        if value != default:
            found[name] = list(origin.sources) if name == "sources" else value
    return dump_json(found)


@lru_cache(maxsize=1024)
def origin_from_text(text: str) -> Origin:
    """The origin that a stored form describes."""
    found = cast("dict[str, JsonValue]", load_json(text))
    return Origin(
        author=cast("str | None", found.get("author")),
        channel=cast("Channel", found.get("channel", "user")),
        trust=None if found.get("trust") is None else Trust(cast("int", found["trust"])),
        method=cast("Method", found.get("method", "stated")),
        agent_id=cast("str | None", found.get("agent_id")),
        run_id=cast("str | None", found.get("run_id")),
        step_id=cast("str | None", found.get("step_id")),
        model=cast("str | None", found.get("model")),
        sources=tuple(cast("list[str]", found.get("sources", []))),
        observed_us=cast("int | None", found.get("observed_us")),
    )
