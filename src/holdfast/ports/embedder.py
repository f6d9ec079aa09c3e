"""Embedders: text to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors of one fixed size.

    ``name`` identifies the model and its version: a store keeps the name and refuses to mix vectors of another.
    """

    @property
    def name(self) -> str:
        """Identifies model, version and quantisation."""
        ...

    @property
    def dimensions(self) -> int:
        """Components of each vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector a text, in order; they need not be normalised."""
        ...
