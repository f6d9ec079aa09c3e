"""What is added: texts of Zipf words, random unit vectors, keys. The same seed gives the same material."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

import holdfast

DIMENSIONS = 384
VOCABULARY = 50_000
FEWEST_WORDS, MOST_WORDS = 12, 40
CLASSES = ((20, 10_000), (300, 1_000), (5_000, 100))
"""How many keys of how many entries each: 1,000,000 entries in 5,320 keys."""

_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
_VECTORS = 2_000
Floats = np.ndarray[tuple[int, ...], np.dtype[Any]]


def word(rank: int) -> str:
    """A word that can be spoken: frequent ones are short."""
    parts = [_SYLLABLES[rank % len(_SYLLABLES)]]
    while rank >= len(_SYLLABLES):
        rank = rank // len(_SYLLABLES) - 1
        parts.append(_SYLLABLES[rank % len(_SYLLABLES)])
    return "".join(parts) + "n"


class Material:
    """Texts and vectors without end."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._words = [word(rank) for rank in range(VOCABULARY)]
        weights = np.arange(1, VOCABULARY + 1) ** -1.05
        self._until = np.cumsum(weights / weights.sum())

    def texts(self, count: int) -> list[str]:
        """Texts of 12 to 40 words."""
        lengths = self._random.integers(FEWEST_WORDS, MOST_WORDS + 1, count)
        drawn = np.searchsorted(self._until, self._random.random(int(lengths.sum())))
        ranks: list[int] = np.minimum(drawn, VOCABULARY - 1).tolist()
        found = [self._words[rank] for rank in ranks]
        ends = np.cumsum(lengths).tolist()
        return [
            " ".join(found[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)
        ]

    def vectors(self, count: int) -> Floats:
        """Unit vectors, one a row."""
        rows = self._random.standard_normal((count, DIMENSIONS), dtype=np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    def entries(self, keys: Sequence[str]) -> list[holdfast.NewEntry]:
        """An entry for each of these keys, with its vector as a row of an array, as embedders give them."""
        vectors = cast("list[Sequence[float]]", list(self.vectors(min(len(keys), _VECTORS))))
        return [
            holdfast.NewEntry(text, key, vector=vectors[index % len(vectors)])
            for index, (text, key) in enumerate(zip(self.texts(len(keys)), keys, strict=True))
        ]

    def light_entries(self, keys: Sequence[str]) -> Iterator[holdfast.NewEntry]:
        """The same with each vector as a row of an array: for building large files."""
        vectors = self.vectors(len(keys))
        for text, key, vector in zip(self.texts(len(keys)), keys, vectors, strict=True):
            yield holdfast.NewEntry(text, key, vector=cast("Sequence[float]", vector))

    def drawn(self, keys: Sequence[str], count: int) -> list[str]:
        """Keys at random, each as likely as any other."""
        chosen: list[int] = self._random.integers(0, len(keys), count).tolist()
        return [keys[index] for index in chosen]


def class_keys() -> list[list[str]]:
    """The keys of each class."""
    return [[f"key-{size}-{number}" for number in range(count)] for count, size in CLASSES]


def arrival(seed: int) -> list[str]:
    """The keys of all 1,000,000 entries in the order of their arrival: interleaved at random."""
    names = [name for keys in class_keys() for name in keys]
    sizes = [size for count, size in CLASSES for _ in range(count)]
    order: list[int] = (
        np.random.default_rng(seed).permutation(np.repeat(np.arange(len(names)), sizes)).tolist()
    )
    return [names[number] for number in order]
