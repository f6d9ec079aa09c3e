"""The kinds of background work of a memory. A new kind joins with one line."""

from __future__ import annotations

from holdfast.chores.kinds import Kinds
from holdfast.memories.core import Core
from holdfast.memories.retention import Retention


def known_kinds(core: Core) -> Kinds:
    """What the worker of a memory can do."""
    kinds = Kinds()
    Retention(core).join(kinds)
    return kinds
