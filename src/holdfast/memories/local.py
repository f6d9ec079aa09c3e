"""An open memory over a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from holdfast.memories.banks import StoredBanks
from holdfast.memories.chores import StoredChores
from holdfast.memories.core import Core
from holdfast.memories.duties import Duties
from holdfast.memories.spaces import StoredSpace
from holdfast.memories.values import StoredValues
from holdfast.model.forget import OriginMatch, Receipt
from holdfast.model.journal import Change
from holdfast.model.usage import Usage

if TYPE_CHECKING:  # needed by type checkers only
    from holdfast.memories.backups import StoredBackups
    from holdfast.ports.clock import Clock
    from holdfast.ports.store import Store


class LocalHoldfast:
    """A memory over a store in this process. What a space offers is offered for the default space as well."""

    __slots__ = ("_core", "_default", "_duties")

    def __init__(self, core: Core, duties: Duties, space: str = "default") -> None:
        self._core = core
        self._duties = duties
        self._default = StoredSpace(core, space, duties)

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

    @property
    def chores(self) -> StoredChores:
        return self._default.chores

    @property
    def backups(self) -> StoredBackups:
        # Deferred: it loads what few programs use, and opening stays light.
        from holdfast.memories.backups import StoredBackups

        return StoredBackups(self._core)

    async def limit(self, bytes: int | None) -> None:
        await self._default.limit(bytes)

    async def usage(self) -> Usage:
        return await self._default.usage()

    def space(self, name: str | None = None) -> StoredSpace:
        return self._default if name is None else StoredSpace(self._core, name, self._duties)

    async def history(self, record_id: str) -> list[Change]:
        return await self._default.history(record_id)

    async def changes(
        self, *, after: int = 0, limit: int = 100, origin: OriginMatch | None = None
    ) -> list[Change]:
        return await self._default.changes(after=after, limit=limit, origin=origin)

    async def undo(
        self, *change_ids: str, origin: OriginMatch | None = None, cascade: bool = False
    ) -> Change:
        return await self._default.undo(*change_ids, origin=origin, cascade=cascade)

    async def forget(
        self,
        *,
        subject: str | None = None,
        bank: str | None = None,
        key: str | None = None,
        ids: Sequence[str] = (),
        origin: OriginMatch | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Receipt:
        return await self._default.forget(
            subject=subject, bank=bank, key=key, ids=ids, origin=origin, by=by, reason=reason
        )

    async def receipt(self, receipt_id: str) -> Receipt:
        return await self._default.receipt(receipt_id)

    async def aclose(self) -> None:
        await self._duties.aclose()
        await self._core.store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
