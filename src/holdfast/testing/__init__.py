"""Shipped for tests: the suite that every engine passes, a store machine, a clock to set, a store that fails on order.

The suite and the machine need pytest and hypothesis; they are loaded when they are asked for.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from holdfast.testing.clock import ManualClock
from holdfast.testing.faulty import FaultyStore
from holdfast.testing.making import Maker

if TYPE_CHECKING:
    from holdfast.testing.machine import machine_for
    from holdfast.testing.suite import StoreSuite

__all__ = ["FaultyStore", "Maker", "ManualClock", "StoreSuite", "machine_for"]

_PARTS = (
    "chores", "commit", "documents", "entries", "forget", "ground", "journal", "keeping", "load", "running", "search",
)  # fmt: skip
_LATE = {"StoreSuite": "holdfast.testing.suite", "machine_for": "holdfast.testing.machine"}

if "pytest" in sys.modules:
    # Before any part is imported: pytest then explains a failing assert of the suite like one of a test file.
    importlib.import_module("pytest").register_assert_rewrite(
        *(f"holdfast.testing.suite_{part}" for part in _PARTS)
    )


def __getattr__(name: str) -> object:
    """Load the parts that need pytest or hypothesis when they are asked for."""
    if name in _LATE:
        found: object = getattr(importlib.import_module(_LATE[name]), name)
        return found
    raise AttributeError(name)
