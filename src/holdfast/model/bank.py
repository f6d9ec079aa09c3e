"""Banks: named collections of entries and their policies."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Literal, TypedDict, cast

from holdfast.errors import InvalidInput, LimitExceeded
from holdfast.model.document import Document
from holdfast.model.limits import NAME_CHARACTERS
from holdfast.model.origin import Origin
from holdfast.model.scope import SYSTEM
from holdfast.model.values import DAY_US, JsonObject, JsonValue, checked_text, moment

BankKind = Literal["general", "conversation"]
Dedupe = Literal["off", "exact"]
SummaryRole = Literal["user", "assistant", "system"]
BANK_CONTENT_BYTES: Final = 1024 * 1024
LOAD_LIMIT: Final = 1_000
SEARCH_LIMIT: Final = 100
QUERY_CHARACTERS: Final = 8_192
BANK_NAME: Final = 255
DESCRIPTION: Final = 1_000
RETENTION: Final = 36_500
WINDOW: Final = 100
CHUNK: Final = 50

_NOT_YET: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("max_turns", "max_size_tokens", "compaction_prompt"), "banks are not compacted yet"),
        **dict.fromkeys(
            ("mode", "embedding_model", "dimensions", "chunk_size", "chunk_overlap"),
            "the embedder is chosen by holdfast.open(embedder=…)",
        ),
    }
)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to add: the options of ``bank.add`` as a value. They are checked when it is added."""

    content: str
    key: str
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    speaker: str | None = None
    name: str | None = None
    thread: str | None = None
    title: str | None = None
    subject: str | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    origin: Origin | None = None
    vector: Sequence[float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BankInfo:
    """The settings of a bank, as one version of them.

    ``retention_days`` None keeps entries for good. ``history_window`` and ``window_chunk`` shape the ``messages`` that
    adding to a conversation bank returns.
    """

    id: str
    name: str
    kind: BankKind
    description: str | None
    retention_days: int | None
    dedupe: Dedupe
    history_window: int
    window_chunk: int
    summary_role: SummaryRole
    allow_cross_key_search: bool
    strip_quoted_reply_chains: bool
    created_us: int
    updated_us: int
    version: int

    def __post_init__(self) -> None:
        if self.strip_quoted_reply_chains and self.kind != "conversation":
            raise InvalidInput(
                "strip_quoted_reply_chains is for conversation banks",
                code="conversation_only_field",
                hint="leave it out, or make the bank with kind='conversation'",
            )
        if self.window_chunk * 2 > self.history_window:
            raise InvalidInput(
                f"window_chunk {self.window_chunk} is over half of history_window {self.history_window}",
                code="window_chunk_invalid",
            )

    @property
    def created_at(self) -> datetime:
        """When the bank was made."""
        return moment(self.created_us)

    @property
    def updated_at(self) -> datetime:
        """When the settings were last changed."""
        return moment(self.updated_us)

    def kept_from_us(self, now_us: int) -> int | None:
        """Entries said before this have expired; None when the bank keeps everything."""
        return None if self.retention_days is None else now_us - self.retention_days * DAY_US


class _Settings(TypedDict, total=False):
    name: str
    description: str | None
    retention_days: int | None
    dedupe: Dedupe
    history_window: int
    window_chunk: int
    summary_role: SummaryRole
    allow_cross_key_search: bool
    strip_quoted_reply_chains: bool


def new_bank(
    identifier: str, name: object, kind: object, settings: Mapping[str, object], now_us: int
) -> BankInfo:
    """The first settings of a bank: the defaults of its kind, changed by what was given."""
    known = checked_kind(kind)
    given = _with_chunk(_checked({"name": name, **settings}))
    conversation = known == "conversation"
    first = BankInfo(
        id=identifier,
        name="",
        kind=known,
        description=None,
        retention_days=90 if conversation else None,
        dedupe="off" if conversation else "exact",
        history_window=WINDOW,
        window_chunk=CHUNK,
        summary_role="user",
        allow_cross_key_search=True,
        strip_quoted_reply_chains=False,
        created_us=now_us,
        updated_us=now_us,
        version=1,
    )
    return replace(first, **given)


def checked_kind(kind: object) -> BankKind:
    """The kind itself."""
    if kind == "conversation":
        return "conversation"
    if kind == "general":
        return "general"
    raise InvalidInput(f"unknown bank kind {kind!r}", code="kind_invalid", hint="conversation or general")


def changed_bank(info: BankInfo, settings: Mapping[str, object]) -> BankInfo:
    """The settings with some of them changed; what is not named stays."""
    if not settings:
        raise InvalidInput("no setting was given", code="update_empty", hint="name what is to change")
    return replace(info, **_with_chunk(_checked(settings)))


def bank_value(info: BankInfo) -> JsonObject:
    """The settings as the document that keeps them."""
    stored: JsonObject = {"name": info.name, "kind": info.kind, "created_us": info.created_us}
    return stored | {name: cast("JsonValue", getattr(info, name)) for name in _CHECKS if name != "name"}


def bank_of(document: Document) -> BankInfo:
    """The settings that a document keeps."""
    found = cast("dict[str, object]", document.value)
    kept = {name: found[name] for name in _CHECKS if name in found}
    first = new_bank(
        document.ref.name, kept.pop("name"), found["kind"], kept, cast("int", found["created_us"])
    )
    changed_us = document.recorded_us if document.version > 1 else first.created_us
    return replace(first, updated_us=changed_us, version=document.version)


def folded_name(name: str) -> str:
    """The name under which a bank name is unique in its space: letter case does not count."""
    folded = unicodedata.normalize("NFC", name).casefold()
    # Folding can lengthen a name threefold, past what a document name may hold.
    return folded if len(folded) <= NAME_CHARACTERS else sha256(folded.encode()).hexdigest()


def _checked(settings: Mapping[str, object]) -> _Settings:
    """The settings that were given, each checked and in its stored form."""
    found: dict[str, object] = {}
    for name, value in settings.items():
        if name in _CHECKS:
            found[name] = _CHECKS[name](name, value)
        elif name == "max_age_days":
            if value not in (0, None):
                raise InvalidInput(
                    "max_age_days is gone", code="max_age_days_removed", hint="set retention_days instead"
                )
        elif name in ("kind", "type"):
            raise InvalidInput(
                "the kind of a bank never changes", code="bank_type_fixed", hint="make another bank"
            )
        else:
            hint = _NOT_YET.get(name, f"settings are {', '.join(_CHECKS)}")
            raise InvalidInput(f"unknown bank setting {name!r}", code="unknown_field", hint=hint)
    return cast("_Settings", found)


def _with_chunk(given: _Settings) -> _Settings:
    """A window brings its own chunk where none is named, so that one setting is enough."""
    if "history_window" in given and "window_chunk" not in given:
        given["window_chunk"] = min(CHUNK, given["history_window"] // 2)
    return given


def _bank_name(_: str, value: object) -> str:
    name = checked_text(value, what="the bank name", code="bank_name_invalid").strip()
    if not 1 <= len(name) <= BANK_NAME:
        raise LimitExceeded(f"a bank name has 1 to {BANK_NAME} characters", code="bank_name_invalid")
    if name.startswith(SYSTEM):
        raise InvalidInput(f"bank names do not start with {SYSTEM}", code="bank_name_invalid")
    return name


def _description(_: str, value: object) -> str | None:
    if value is None or value == "":
        return None
    text = checked_text(value, what="the description", code="description_invalid")
    if len(text) > DESCRIPTION:
        raise LimitExceeded(f"a description has at most {DESCRIPTION} characters", code="description_invalid")
    return text


def _retention(name: str, value: object) -> int | None:
    if value is None or (value == 0 and not isinstance(value, bool)):
        return None
    return _number(1, RETENTION)(name, value)


def _number(low: int, high: int) -> Callable[[str, object], int]:
    def check(name: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise LimitExceeded(f"{name} must be a whole number from {low} to {high}", code=f"{name}_invalid")
        return value

    return check


def _one_of(*allowed: str) -> Callable[[str, object], str]:
    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise InvalidInput(
                f"{name} cannot be {value!r}", code=f"{name}_invalid", hint=" or ".join(allowed)
            )
        return value

    return check


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False", code=f"{name}_invalid")
    return value


_CHECKS: Final[Mapping[str, Callable[[str, object], object]]] = MappingProxyType(
    {
        "name": _bank_name,
        "description": _description,
        "retention_days": _retention,
        "dedupe": _one_of("off", "exact"),
        "history_window": _number(2, WINDOW),
        "window_chunk": _number(1, CHUNK),
        "summary_role": _one_of("user", "assistant", "system"),
        "allow_cross_key_search": _flag,
        "strip_quoted_reply_chains": _flag,
    }
)
