"""Scope: the boundary that every read and write happens inside."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import InvalidInput, LimitExceeded, ScopeError
from holdfast.model.limits import KEY_CHARACTERS, NAME_CHARACTERS
from holdfast.model.values import checked_text

SYSTEM = "~"
"""Banks whose id starts with this are holdfast's own (settings, values, facts …); users cannot name one."""


def checked_key(key: object) -> str:
    """The key itself: 1 to 512 characters, no control characters, no white space at the ends."""
    text = checked_text(key, what="the key", code="key_invalid")
    if not text:
        raise InvalidInput("the key is empty", code="key_empty", hint="name the user, project or thread")
    if len(text) > KEY_CHARACTERS:
        raise LimitExceeded(f"the key has {len(text)} characters, over {KEY_CHARACTERS}", code="key_invalid")
    if text != text.strip():
        raise InvalidInput("the key starts or ends with white space", code="key_invalid")
    if not text.isprintable() and any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text):
        raise InvalidInput("the key contains a control character", code="key_invalid")
    return text


def checked_name(name: object, *, what: str, code: str = "name_invalid") -> str:
    """A space, bank, document or label name: 1 to 512 characters that every engine can hold."""
    text = checked_text(name, what=what, code=code)
    if not text:
        raise InvalidInput(f"{what} is empty", code=code)
    if len(text) > NAME_CHARACTERS:
        raise LimitExceeded(f"{what} has {len(text)} characters, over {NAME_CHARACTERS}", code=code)
    return text


@dataclass(frozen=True, slots=True)
class Place:
    """A partition inside a space: one bank and one key; one contiguous, ordered range in every engine."""

    bank: str
    key: str

    def __post_init__(self) -> None:
        checked_name(self.bank, what="the bank", code="bank_invalid")
        checked_key(self.key)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a call may see: a space; narrowed to a bank; narrowed to a key; or to a subject or an organisation."""

    space: str
    bank: str | None = None
    key: str | None = None
    subject: str | None = None
    org: str | None = None

    def __post_init__(self) -> None:
        checked_name(self.space, what="the space", code="space_invalid")
        if self.bank is not None:
            checked_name(self.bank, what="the bank", code="bank_invalid")
        if self.key is not None:
            checked_key(self.key)
            if self.bank is None:
                raise ScopeError("a key without a bank names nothing", hint="give the bank as well")
        if self.subject is not None:
            checked_name(self.subject, what="the subject", code="subject_invalid")
        if self.org is not None:
            checked_name(self.org, what="the org", code="org_invalid")

    def at(self, bank: str, key: str | None = None) -> Scope:
        """The same space, narrowed to a bank and, if given, a key."""
        return Scope(self.space, bank, key, self.subject, self.org)

    @property
    def place(self) -> Place:
        """The partition, when the scope names one."""
        if self.bank is None or self.key is None:
            raise ScopeError("this call needs one bank and one key", code="key_required")
        return Place(self.bank, self.key)
