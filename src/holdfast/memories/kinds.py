"""The kinds of background work of a memory. A new kind joins with one line."""

from __future__ import annotations

from holdfast.chores.kinds import Kinds


def known_kinds() -> Kinds:
    """What the worker of a memory can do."""
    return Kinds()
