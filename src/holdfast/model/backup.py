"""Backups: copies of a whole memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from holdfast.errors import InvalidInput
from holdfast.model.document import DocumentRef
from holdfast.model.values import moment

CHORE: Final = "backup"
"""The kind of the chore that makes the backups of a schedule."""
SPACE: Final = "~holdfast"
SCHEDULE: Final = DocumentRef("~upkeep", "~backups", "setting", "backups")
"""Where a memory keeps its schedule, in that space."""


def is_usable(name: str) -> bool:
    """Whether the database can be given the name of a file: it takes text only, and that ends at a zero."""
    return "\0" not in name and not any("\ud800" <= sign <= "\udfff" for sign in name)


def checked_file(name: str) -> str:
    """A name of a file that the database can be given."""
    if not is_usable(name):
        raise InvalidInput(
            f"the name {name!a} cannot be used: it is not text that can be written in UTF-8",
            code="url_invalid",
            hint="rename the file or folder, or give another path",
        )
    return name


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy that a memory has made of itself; a ``scheduled`` one goes when enough newer ones are there."""

    path: str
    at_us: int
    bytes: int
    schema: int
    scheduled: bool = False

    @property
    def at(self) -> datetime:
        """When it was begun: what was acknowledged before is in it."""
        return moment(self.at_us)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Into which folder a memory is copied, how often, and how many of these copies stay."""

    folder: str
    every: timedelta
    keep: int


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did, or would do: where to, what was set aside, and how much was erased again."""

    path: str
    backup: str
    kept: str | None
    forgotten: int
    sources: tuple[str, ...]
    schema: int
    done: bool
    damaged: tuple[str, ...] = ()
    """Files that could not be read whole: what they still tell to be forgotten was forgotten again."""
