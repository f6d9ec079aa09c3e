"""What a self-test hands back, and how it tells of its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done and how much there is to do."""

FINDINGS: Final = 20


def quiet(done: int, total: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a self-test did: ``line`` says it in one sentence, ``findings`` what went wrong, ``figures`` the rest."""

    name: str
    line: str
    figures: Mapping[str, float]
    findings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing went wrong."""
        return not self.findings


@dataclass(slots=True)
class Tally:
    """What a running self-test counts."""

    acknowledged: int = 0
    lost: int = 0
    partial: int = 0
    undecided: int = 0
    findings: list[str] = field(default_factory=list[str])

    def find(self, what: str) -> None:
        """Note something wrong; after the first few only that there is more."""
        if len(self.findings) < FINDINGS:
            self.findings.append(what)
        elif len(self.findings) == FINDINGS:
            self.findings.append("and more")
