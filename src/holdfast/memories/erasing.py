"""Erasing the settings of a bank that was deleted, also when the process that deleted it was killed in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from holdfast.memories.receipts import LATER_US, UPKEEP, settle_later
from holdfast.memories.settings import BANKS, bank_ref
from holdfast.model.batch import Enqueue, Forget, Operation
from holdfast.model.chore import Chore, ChoreDraft
from holdfast.model.forget import Selector
from holdfast.model.ids import bucket_of
from holdfast.model.scope import Scope

if TYPE_CHECKING:  # Protocols are needed by type checkers only
    from holdfast.memories.core import Core

ERASE_BANK: Final = "erase-bank"


def erasing(bank_id: str) -> Forget:
    """Erases the settings of a bank with their versions."""
    return Forget(Selector(bank=BANKS, ids=(bank_id,)))


def erase_later(core: Core, space: str, bank_id: str) -> Enqueue:
    """The chore that erases the settings of a bank, for the batch that deletes the bank.

    It names the bank, so the forget that whoever deletes it makes right afterwards cancels it.
    """
    return Enqueue(
        ChoreDraft(
            id=core.make_id(bucket_of(space, UPKEEP.bank, UPKEEP.key)),
            kind=ERASE_BANK,
            place=UPKEEP,
            due_us=core.clock.now_us() + LATER_US,
            payload={"bank": bank_id},
        )
    )


class BankEraser:
    """Runs such chores."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    async def __call__(self, chore: Chore, /) -> Sequence[Operation]:
        """Erase what is left of the settings."""
        bank_id = cast("dict[str, str]", chore.payload)["bank"]
        if not await self._core.store.document_versions(Scope(chore.space), bank_ref(bank_id).name):
            return ()
        return erasing(bank_id), settle_later(self._core, chore.space)
