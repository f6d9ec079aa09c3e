"""The settings of a bank as a handle keeps them: read again when they may be out of date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from holdfast.errors import AlreadyExists, BankNotFound, HoldfastError, VersionConflict
from holdfast.memories.core import Core, Partition, partition
from holdfast.model.bank import BankInfo, bank_of, bank_value, changed_bank, folded_name
from holdfast.model.batch import DocumentVersion, Operation, Put, Remove
from holdfast.model.document import DocumentRef
from holdfast.model.ids import is_id
from holdfast.model.origin import Origin
from holdfast.model.scope import Scope
from holdfast.model.values import JsonValue

BANKS: Final = "~banks"
BANKS_KEY: Final = "banks"
BANK: Final = "bank"
BANK_NAME: Final = "bank_name"
ADMINISTRATION: Final = Origin(channel="operator", method="manual")
"""Settings come from whoever runs the memory: undoing or forgetting what users said never reaches them."""
FRESH_US: Final = 1_000_000


def bank_ref(identifier: str) -> DocumentRef:
    """Where the settings of a bank are kept."""
    return DocumentRef(BANKS, BANKS_KEY, BANK, identifier)


def name_ref(folded: str) -> DocumentRef:
    """Where the id behind a bank name is kept."""
    return DocumentRef(BANKS, BANKS_KEY, BANK_NAME, folded)


def banks_partition(space: str) -> Partition:
    """Where the settings of all banks of a space are kept."""
    return partition(space, BANKS, BANKS_KEY)


def no_bank(name: str) -> BankNotFound:
    """The error for a bank that is not there."""
    return BankNotFound(
        f"no bank {name!r} in this space", hint="space.banks.list() shows those that there are"
    )


def new_name(core: Core, name: str, bank_id: str, space: str) -> Put:
    """Take a name for a bank; the batch fails when it is taken."""
    identifier = core.make_id(banks_partition(space).bucket)
    return Put(name_ref(folded_name(name)), identifier, {"id": bank_id}, expected=0)


async def refuse_id_of_another(core: Core, space: str, name: str) -> None:
    """Raise when a name is the id of a bank: by that name the other one would be found."""
    if is_id(name) and await core.store.document(Scope(space), bank_ref(name)) is not None:
        raise AlreadyExists(f"{name!r} is the id of a bank", hint="give another name")


def bank_name(settings: JsonValue) -> str:
    """The name in the document of a bank."""
    return cast("dict[str, str]", settings)["name"]


async def id_behind(core: Core, space: str, name: str) -> str | None:
    """The id of the bank with a name."""
    document = await core.store.document(Scope(space), name_ref(folded_name(name)))
    return None if document is None else cast("dict[str, str]", document.value)["id"]


class BankSettings:
    """The settings of one bank; changes made elsewhere take hold within a second of the memory's clock."""

    __slots__ = ("_read_us", "core", "info", "ref", "requires", "space", "whole")

    def __init__(self, core: Core, space: str, info: BankInfo, read_us: int) -> None:
        self.core = core
        self.space = space
        self.info = info
        self.ref = bank_ref(info.id)
        self.requires = (DocumentVersion(self.ref, None),)
        self.whole = Scope(space, info.id)
        self._read_us = read_us

    def recent(self, now_us: int) -> BankInfo | None:
        """The settings, if they are at most a second old."""
        return self.info if 0 <= now_us - self._read_us < FRESH_US else None

    async def fresh(self, now_us: int) -> BankInfo:
        """The settings, at most a second old; ``BankNotFound`` once the bank is gone."""
        return self.recent(now_us) or await self.read(now_us)

    async def read(self, now_us: int) -> BankInfo:
        """The settings as they are now."""
        document = await self.core.store.document(Scope(self.space), self.ref)
        if document is None:
            raise no_bank(self.info.name)
        self.keep(bank_of(document), now_us)
        return self.info

    def keep(self, info: BankInfo, now_us: int) -> None:
        """Take settings over that were just read or written."""
        self.info, self._read_us = info, now_us

    async def explain(self, error: VersionConflict) -> HoldfastError:
        """What to raise when a batch that requires the bank was refused: the bank is gone, or the conflict itself."""
        gone = await self.core.store.document(Scope(self.space), self.ref) is None
        return no_bank(self.info.name) if gone else error


async def change_settings(
    kept: BankSettings, changes: Mapping[str, object], expected_version: int | None
) -> BankInfo:
    """Write a new version of the settings; a new name is taken, and the old one given free, in the same batch."""
    core, space = kept.core, kept.space
    now_us = core.clock.now_us()
    old = await kept.read(now_us)
    if expected_version is not None and expected_version != old.version:
        raise VersionConflict(f"the bank has version {old.version}, not {expected_version}")
    new = changed_bank(old, changes)
    operations: list[Operation] = [Put(kept.ref, old.id, bank_value(new), expected=old.version)]
    if folded_name(new.name) != folded_name(old.name):
        if await id_behind(core, space, new.name) is not None:
            raise AlreadyExists(f"there is a bank {new.name!r} already")
        await refuse_id_of_another(core, space, new.name)
        operations += [new_name(core, new.name, new.id, space), Remove(name_ref(folded_name(old.name)))]
    await core.write(banks_partition(space), operations, origin=ADMINISTRATION)
    return await kept.read(now_us)
