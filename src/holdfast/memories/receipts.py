"""Receipts: completing them, finishing them later, and reading them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from holdfast.errors import DocumentNotFound, StoreBusy
from holdfast.model.batch import Commit, Enqueue
from holdfast.model.chore import ChoreDraft
from holdfast.model.document import Document, DocumentRef
from holdfast.model.forget import OWN_STORE, Receipt
from holdfast.model.ids import bucket_of
from holdfast.model.scope import Place, Scope

if TYPE_CHECKING:  # Protocols are needed by type checkers only
    from holdfast.memories.core import Core

SETTLE: Final = "settle"
UPKEEP: Final = Place("~upkeep", "~settle")
LATER_US: Final = 10_000_000
"""A chore that finishes a forget waits so long for whoever forgot to have done it."""
ATTEMPTS: Final = 10_000
"""Finishing a forget is never given up: a reader that holds old pages goes away at last."""


def settle_later(core: Core, space: str) -> Enqueue:
    """The chore that finishes a forget, for the batch of the forget itself: a process killed half-way leaves it due."""
    return Enqueue(
        ChoreDraft(
            id=core.make_id(bucket_of(space, UPKEEP.bank, UPKEEP.key)),
            kind=SETTLE,
            place=UPKEEP,
            due_us=core.clock.now_us() + LATER_US,
            dedupe=SETTLE,
            max_attempts=ATTEMPTS,
        )
    )


async def completed(core: Core, commit: Commit) -> Receipt:
    """The receipt of a forget, waiting until no byte of what went is left; pending when others still read it."""
    receipt = _with_backups(commit.receipts[0])
    if receipt.complete:
        return receipt
    try:
        await core.store.settle()
    except StoreBusy:
        return _now(receipt, await core.store.unsettled())
    return _now(receipt, {})


async def read_receipt(core: Core, space: str, identifier: str) -> Receipt:
    """A receipt as it stands now."""
    ref = DocumentRef("~receipts", "receipts", "receipt", identifier)
    document = await core.store.document(Scope(space), ref)
    if document is None:
        raise DocumentNotFound(
            f"there is no receipt {identifier!r} in this space",
            code="receipt_not_found",
            hint="use receipt.id",
        )
    return _now(_with_backups(_receipt_of(document)), await core.store.unsettled())


def _receipt_of(document: Document) -> Receipt:
    value = cast("dict[str, object]", document.value)
    return Receipt(
        id=document.ref.name,
        space=document.space,
        at_us=cast("int", value["at_us"]),
        by=cast("str | None", value["by"]),
        reason=cast("str | None", value["reason"]),
        selector=cast("str", value["selector"]),
        counts=MappingProxyType(cast("dict[str, int]", value["counts"])),
        stores=MappingProxyType({OWN_STORE: "pending"}),
        backups=tuple(cast("list[str]", value.get("backups", []))),
    )


def _now(receipt: Receipt, unsettled: Mapping[str, tuple[str, ...]]) -> Receipt:
    waiting = unsettled.get(receipt.id, ())
    stores = MappingProxyType(dict.fromkeys(receipt.stores, "pending" if waiting else "done"))
    return replace(receipt, complete=not waiting, waiting_for=waiting, stores=stores)


def _with_backups(receipt: Receipt) -> Receipt:
    """Copies that are gone hold nothing any more; one that is being made does."""
    there = tuple(path for path in receipt.backups if Path(path).exists() or Path(f"{path}.part").exists())
    return receipt if there == receipt.backups else replace(receipt, backups=there)
