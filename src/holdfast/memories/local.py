"""An open memory over a store."""

from __future__ import annotations

from typing import Self

from holdfast.memories.banks import StoredBanks
from holdfast.memories.core import Core
from holdfast.memories.spaces import StoredSpace
from holdfast.memories.values import StoredValues
from holdfast.ports.clock import Clock
from holdfast.ports.store import Store


class LocalHoldfast:
    """A memory over a store in this process. What a space offers is offered for the default space as well."""

    __slots__ = ("_core", "_default")

    def __init__(self, core: Core, space: str = "default") -> None:
        self._core = core
        self._default = StoredSpace(core, space)

    @property
    def store(self) -> Store:
        """The store underneath: checks, backups and the search for residue."""
        return self._core.store

    @property
    def clock(self) -> Clock:
        """The clock of this memory."""
        return self._core.clock

    @property
    def banks(self) -> StoredBanks:
        return self._default.banks

    @property
    def values(self) -> StoredValues:
        return self._default.values

    def space(self, name: str | None = None) -> StoredSpace:
        return self._default if name is None else StoredSpace(self._core, name)

    async def aclose(self) -> None:
        await self._core.store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
