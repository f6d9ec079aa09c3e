"""The banks of a space: made, found, listed, erased."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from holdfast.errors import AlreadyExists, VersionConflict
from holdfast.memories.bank import StoredBank
from holdfast.memories.checking import check_limit, check_prefix
from holdfast.memories.core import Core, following
from holdfast.memories.erasing import erase_later, erasing
from holdfast.memories.receipts import completed, settle_later
from holdfast.memories.settings import (
    ADMINISTRATION,
    BANK,
    BANKS,
    BANKS_KEY,
    BankSettings,
    bank_ref,
    banks_partition,
    id_behind,
    name_ref,
    new_name,
    no_bank,
    refuse_id_of_another,
)
from holdfast.model.bank import (
    LOAD_LIMIT,
    BankInfo,
    BankKind,
    bank_of,
    bank_value,
    checked_kind,
    folded_name,
    new_bank,
)
from holdfast.model.batch import DocumentVersion, Forget, Put, Remove
from holdfast.model.forget import Receipt, Selector
from holdfast.model.ids import is_id
from holdfast.model.limits import PAGE_LIMIT
from holdfast.model.scope import Scope, checked_name

PAGE: Final = LOAD_LIMIT


class StoredBanks:
    """The banks of one space of a store."""

    __slots__ = ("_core", "_space")

    def __init__(self, core: Core, space: str) -> None:
        self._core = core
        self._space = space

    async def create(self, name: str, *, kind: BankKind = "conversation", **settings: object) -> StoredBank:
        core, where = self._core, banks_partition(self._space)
        identifier = core.make_id(where.bucket)
        info = new_bank(identifier, name, kind, settings, core.clock.now_us())
        await refuse_id_of_another(core, self._space, info.name)
        put = Put(bank_ref(identifier), identifier, bank_value(info), expected=0)
        try:
            await core.write(
                where, (put, new_name(core, info.name, info.id, self._space)), origin=ADMINISTRATION
            )
        except VersionConflict:
            raise AlreadyExists(
                f"there is a bank {info.name!r} already", hint="banks.get(), or banks.ensure()"
            ) from None
        return await self._open(identifier, name)

    async def get(self, name: str) -> StoredBank:
        return await self._open(await self.id_of(name), name)

    async def ensure(self, name: str, *, kind: BankKind | None = None, **settings: object) -> StoredBank:
        made_as: BankKind = "conversation" if kind is None else kind
        # Checked first, so that a wrong setting is refused whether or not the bank is there.
        asked = new_bank("", name, made_as, settings, self._core.clock.now_us())
        found = await id_behind(self._core, self._space, asked.name)
        if found is None:
            try:
                return await self.create(name, kind=made_as, **settings)
            except AlreadyExists:
                found = await self.id_of(asked.name)
        bank = await self._open(found, name)
        if kind is not None and bank.info.kind != kind:
            raise AlreadyExists(
                f"the bank {bank.name!r} is a {bank.info.kind} bank, not a {kind} one",
                code="bank_kind_differs",
                hint="leave kind= out, or choose another name",
            )
        return bank

    async def list(
        self, *, kind: BankKind | None = None, prefix: str = "", limit: int = 100
    ) -> list[BankInfo]:
        check_limit(limit, PAGE_LIMIT)
        check_prefix(prefix)
        if kind is not None:
            checked_kind(kind)
        wanted = folded_name(prefix)
        found: list[BankInfo] = []
        async for info in self.every():
            if len(found) >= limit:
                break
            if (kind is None or info.kind == kind) and folded_name(info.name).startswith(wanted):
                found.append(info)
        return found

    async def delete(self, name: str) -> Receipt:
        identifier = await self.id_of(name)
        return await following(lambda: self._delete(identifier, name))

    async def id_of(self, name: str) -> str:
        """The id of the bank with this id or name."""
        checked_name(name, what="the bank name", code="bank_name_invalid")
        if is_id(name) and await self._core.store.document(Scope(self._space), bank_ref(name)) is not None:
            return name
        found = await id_behind(self._core, self._space, name.strip())
        if found is None:
            raise no_bank(name)
        return found

    async def _open(self, identifier: str, name: str) -> StoredBank:
        info, now_us = await self._read(identifier, name)
        return StoredBank(BankSettings(self._core, self._space, info, now_us))

    async def _read(self, identifier: str, name: str) -> tuple[BankInfo, int]:
        now_us = self._core.clock.now_us()
        document = await self._core.store.document(Scope(self._space), bank_ref(identifier))
        if document is None:
            raise no_bank(name)
        return bank_of(document), now_us

    async def every(self) -> AsyncIterator[BankInfo]:
        """The settings of all banks, oldest first."""
        scope = Scope(self._space, BANKS, BANKS_KEY)
        after = 0
        while True:
            page = await self._core.store.documents(scope, BANK, after=after, limit=PAGE)
            for document in page:
                yield bank_of(document)
            if len(page) < PAGE:
                return
            after = page[-1].position

    async def _delete(self, identifier: str, name: str) -> Receipt:
        info, _ = await self._read(identifier, name)
        core, where = self._core, banks_partition(self._space)
        operations = (
            Forget(Selector(bank=identifier)),
            Remove(bank_ref(identifier)),
            Remove(name_ref(folded_name(info.name))),
            settle_later(core, self._space),
            erase_later(core, self._space, identifier),
        )
        version = DocumentVersion(bank_ref(identifier), info.version)
        commit = await core.write(where, operations, origin=ADMINISTRATION, requires=(version,))
        # The settings are versioned: their name and description are erased by a forget of their own, which cancels the
        # chore that would do it if this process were killed now.
        await core.write(where, (erasing(identifier),), origin=ADMINISTRATION)
        return await completed(core, commit)
