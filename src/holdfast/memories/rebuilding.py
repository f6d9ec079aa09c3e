"""Making what is derived anew, as background work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from holdfast.memories.receipts import UPKEEP
from holdfast.model.batch import Enqueue, Operation
from holdfast.model.chore import Chore, ChoreDraft
from holdfast.model.ids import bucket_of

if TYPE_CHECKING:  # Protocols are needed by type checkers only
    from holdfast.memories.core import Core
    from holdfast.ports.store import Store

REBUILD: Final = "rebuild"


def rebuild_soon(core: Core, space: str) -> Enqueue:
    """The chore that makes words and other derived data of the whole store anew."""
    return Enqueue(
        ChoreDraft(
            id=core.make_id(bucket_of(space, UPKEEP.bank, UPKEEP.key)),
            kind=REBUILD,
            place=UPKEEP,
            due_us=core.clock.now_us(),
            dedupe=REBUILD,
        )
    )


async def rebuild(store: Store, _chore: Chore) -> Sequence[Operation]:
    """Run the chore."""
    await store.rebuild()
    return ()
