"""What a self-test writes: a few lanes, each a fixed sequence of steps, and what has to be there after each step.

A lane writes to a key and a value of its own, one step after the other. So whatever happens to the process or to the
disk, a lane has to stand exactly after its last acknowledged step, or one step further: nothing else is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, TypeAlias

SEEDED: Final = "selftest"
WORDS: Final = (
    "tea coffee harbour lantern meadow copper violin ladder winter orchard pepper granite saddle thimble walnut "
    "compass feather mustard anchor barley cinder dolphin ember falcon garnet hazel island juniper kettle linen"
).split()
FIGURES: Final = "zero one two three four five six seven eight nine".split()
DIMENSIONS: Final = 8
KINDS: Final = ("add many update value add forget many add add update many value").split()


@dataclass(frozen=True, slots=True)
class Add:
    """Append one entry, or several in one batch."""

    contents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """Write a new version of an entry."""

    seq: int
    content: str


@dataclass(frozen=True, slots=True)
class SetValue:
    """Write the lane's value."""

    value: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Erase an entry."""

    seq: int


Step: TypeAlias = Add | Update | SetValue | Forget


@dataclass(frozen=True, slots=True)
class State:
    """What a lane holds: its entries as seq, version and content, its value, and the last seq that was given."""

    entries: tuple[tuple[int, int, str], ...] = ()
    value: int | None = None
    head: int = 0


class Lane:
    """One sequence of steps; the same for the same seed and number."""

    __slots__ = ("_kinds", "_seed", "_states", "_steps", "number")

    def __init__(self, seed: int, number: int) -> None:
        self.number = number
        self._seed = seed
        self._kinds = Random(f"{SEEDED}/{seed}/{number}").sample(KINDS, len(KINDS))
        self._steps: list[Step] = []
        self._states = [State()]

    @property
    def key(self) -> str:
        """The key of its entries, and the name of its value."""
        return f"lane-{self.number}"

    def step(self, number: int) -> Step:
        """The step with this number, from 1."""
        self._extend(number)
        return self._steps[number - 1]

    def after(self, number: int) -> State:
        """What is there after that many steps."""
        self._extend(number)
        return self._states[number]

    def _extend(self, number: int) -> None:
        while len(self._steps) < number:
            state = self._states[-1]
            step = self._choose(len(self._steps) + 1, state)
            self._steps.append(step)
            self._states.append(applied(state, step))

    def _choose(self, number: int, state: State) -> Step:
        chance = Random(f"{SEEDED}/{self._seed}/{self.number}/{number}")
        kind = self._kinds[number % len(self._kinds)]
        if kind in ("update", "forget") and state.entries:
            seq = chance.choice(state.entries)[0]
            return Forget(seq) if kind == "forget" else Update(seq, self._content(chance, number, 0))
        if kind == "value":
            return SetValue(number)
        count = chance.randrange(2, 9) if kind == "many" else 1
        return Add(tuple(self._content(chance, number, part) for part in range(count)))

    def _content(self, chance: Random, number: int, part: int) -> str:
        told = " ".join(FIGURES[int(figure)] for figure in f"{number}{part}")
        return f"{self.key} {' '.join(chance.choices(WORDS, k=chance.randrange(3, 60)))}: {told}"


def applied(state: State, step: Step) -> State:
    """The state after a step."""
    match step:
        case Add(contents=contents):
            added = tuple((state.head + place, 1, content) for place, content in enumerate(contents, 1))
            return replace(state, entries=state.entries + added, head=state.head + len(added))
        case Update(seq=seq, content=content):
            entries = ((seq, each[1] + 1, content) if each[0] == seq else each for each in state.entries)
            return replace(state, entries=tuple(entries))
        case SetValue(value=value):
            return replace(state, value=value)
        case Forget(seq=seq):
            return replace(state, entries=tuple(each for each in state.entries if each[0] != seq))


def lanes_of(seed: int, count: int) -> list[Lane]:
    """The lanes of a seed."""
    return [Lane(seed, number) for number in range(count)]


def vector_of(content: str) -> Sequence[float]:
    """The vector that is handed in beside a text."""
    chance = Random(content)
    return [chance.uniform(-1.0, 1.0) for _ in range(DIMENSIONS)]
