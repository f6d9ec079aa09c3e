"""How hard a file is kept and how long others are waited for. The defaults are the promises; tests turn them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Synchronous: TypeAlias = Literal["full", "normal", "off"]

SYNCHRONOUS: Final[Mapping[Synchronous, str]] = {
    "full": "pragma synchronous=full",
    "normal": "pragma synchronous=normal",
    "off": "pragma synchronous=off",
}


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of an open file that stand behind what the store promises.

    With less than ``synchronous="full"`` an acknowledged write may be lost with the power: the power-cut test proves
    by it that it can see a loss. ``checkpoint_pages`` is how long the log may grow before it is moved into the file,
    ``busy_ms`` how long a writer waits for the lock of another process.
    """

    synchronous: Synchronous = "full"
    checkpoint_pages: int = 2_000
    busy_ms: int = 10_000


PROMISED: Final = Tuning()
