"""An embedder without a model: hashed words and parts of words. For tests, and where no model may run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from holdfast.errors import InvalidInput
from holdfast.rules.words import STOP_WORDS, search_form, tokens

WORD_WEIGHT = 1.0
PART_WEIGHT = 0.35
PART = 3


class HashEmbedder:
    """Texts that share words, or parts of words, get similar vectors; the same text always gets the same one."""

    __slots__ = ("_dimensions",)

    def __init__(self, dimensions: int = 256) -> None:
        if dimensions < 1:
            raise InvalidInput(f"an embedder cannot have {dimensions} dimensions", code="embedder_invalid")
        self._dimensions = dimensions

    @property
    def name(self) -> str:
        """Names the rule and its size."""
        return f"hashing-1-{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """Components of each vector."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector of length 1 a text; a text without words gives the zero vector."""
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> list[float]:
        vector = [0.0] * self._dimensions
        for feature, weight in _features(text):
            digest = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest(), "big")
            vector[(digest >> 1) % self._dimensions] += weight if digest & 1 else -weight
        length = math.sqrt(sum(component * component for component in vector))
        return [component / length for component in vector] if length else vector


def _features(text: str) -> Iterator[tuple[str, float]]:
    for token in tokens(text):
        if token in STOP_WORDS:
            continue
        word = search_form(token)
        yield word, WORD_WEIGHT
        framed = f"<{word}>"
        for at in range(len(framed) - PART + 1):
            yield framed[at : at + PART], PART_WEIGHT
