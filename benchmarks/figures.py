"""Figures beside what was asked of them: a table on the terminal, and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

WORK = Path(__file__).resolve().parent / "work"
"""What is kept between runs; git ignores it."""


@dataclass(frozen=True)
class Figure:
    """One figure: ``ok`` is None where nothing was asked."""

    name: str
    got: float
    unit: str
    asked: str = ""
    ok: bool | None = None


@dataclass
class Section:
    """The figures of one benchmark, and how busy the machine was with other things meanwhile."""

    title: str
    figures: list[Figure] = field(default_factory=list[Figure])
    others_cpu: float = 0.0

    def tell(self, name: str, got: float, unit: str) -> None:
        """A figure of which nothing is asked."""
        self.figures.append(Figure(name, got, unit))

    def at_least(self, name: str, got: float, bound: float, unit: str) -> None:
        """A figure that must reach a bound."""
        self.figures.append(Figure(name, got, unit, f">= {shown(bound)} {unit}".strip(), got >= bound))

    def at_most(self, name: str, got: float, bound: float, unit: str) -> None:
        """A figure that must stay within a bound."""
        self.figures.append(Figure(name, got, unit, f"<= {shown(bound)} {unit}".strip(), got <= bound))


def shown(value: float) -> str:
    """A number with as many digits as say something."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.3f}" if size < 1 else f"{value:.2f}"


def print_section(section: Section) -> None:
    """The table of one section."""
    print(f"\n{section.title}")
    width = max([len(figure.name) for figure in section.figures], default=0)
    print(f"  {'':{width}}  {'got':>16}  {'asked':<16}  ok")
    for figure in section.figures:
        verdict = {None: "", True: "yes", False: "NO"}[figure.ok]
        got = f"{shown(figure.got)} {figure.unit}".strip()
        print(f"  {figure.name:{width}}  {got:>16}  {figure.asked:<16}  {verdict}")
    print(f"  (other processes used up to {section.others_cpu:.0%} of the machine meanwhile)", flush=True)


def write_json(sections: Sequence[Section], name: str) -> Path:
    """All sections as a file below ``work``."""
    WORK.mkdir(exist_ok=True)
    file = WORK / name
    file.write_text(json.dumps([asdict(section) for section in sections], indent=1), encoding="utf-8")
    return file


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return quantile(values, 0.5)
