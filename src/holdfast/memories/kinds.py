"""The kinds of background work of a memory. A new kind joins with one line."""

from __future__ import annotations

from functools import partial

from holdfast.chores.kinds import Kinds
from holdfast.memories.backups import StoredBackups
from holdfast.memories.core import Core
from holdfast.memories.erasing import ERASE_BANK, BankEraser
from holdfast.memories.rebuilding import REBUILD, rebuild
from holdfast.memories.retention import HOUR, Retention
from holdfast.memories.settling import Settling


def known_kinds(core: Core) -> Kinds:
    """What the worker of a memory can do."""
    kinds = Kinds()
    Settling(core).join(kinds)
    kinds.add(REBUILD, partial(rebuild, core.store), seconds=HOUR)
    kinds.add(ERASE_BANK, BankEraser(core))
    Retention(core).join(kinds)
    StoredBackups(core).join(kinds)
    return kinds
