"""One memory for agents: kept in one place, in order, searchable, attributed, undoable and erasable.

``async with holdfast.open("memory.db") as hf:`` is where everything begins.
"""

from typing import TYPE_CHECKING

from holdfast.app import Opening, open, restore
from holdfast.errors import (
    AlreadyExists,
    BankNotFound,
    CapacityExceeded,
    ChangeNotFound,
    ChoreNotFound,
    Conflict,
    DocumentNotFound,
    EmbedderMismatch,
    EntryNotFound,
    FilterError,
    HistoryUnavailable,
    HoldfastError,
    IdempotencyConflict,
    InvalidInput,
    LeaseLost,
    LimitExceeded,
    NotFound,
    QuotaExceeded,
    ScopeError,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreFailed,
    StoreForked,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnsupported,
    UndoConflict,
    VersionConflict,
)
from holdfast.memories.local import LocalHoldfast
from holdfast.model.backup import Backup, Restored, Schedule
from holdfast.model.bank import BankInfo, NewEntry
from holdfast.model.chore import Chore, ChoreState
from holdfast.model.entry import Entry
from holdfast.model.forget import OriginMatch, Receipt
from holdfast.model.journal import Change
from holdfast.model.origin import Origin, Trust
from holdfast.model.recall import AddResult, Hit, Hits, Message, Page, Why
from holdfast.model.usage import Usage
from holdfast.model.window import Cursor, KeyInfo
from holdfast.ports.current import default, use

if TYPE_CHECKING:  # loaded when they are asked for: importing holdfast stays light
    from holdfast.model.filter import compile_filter, matches
    from holdfast.ports.clock import Clock
    from holdfast.ports.embedder import Embedder
    from holdfast.ports.face import Backups, Bank, Banks, Chores, Holdfast, Space, Values

__all__ = [
    "AddResult",
    "AlreadyExists",
    "Backup",
    "Backups",
    "Bank",
    "BankInfo",
    "BankNotFound",
    "Banks",
    "CapacityExceeded",
    "Change",
    "ChangeNotFound",
    "Chore",
    "ChoreNotFound",
    "ChoreState",
    "Chores",
    "Clock",
    "Conflict",
    "Cursor",
    "DocumentNotFound",
    "Embedder",
    "EmbedderMismatch",
    "Entry",
    "EntryNotFound",
    "FilterError",
    "HistoryUnavailable",
    "Hit",
    "Hits",
    "Holdfast",
    "HoldfastError",
    "IdempotencyConflict",
    "InvalidInput",
    "KeyInfo",
    "LeaseLost",
    "LimitExceeded",
    "LocalHoldfast",
    "Message",
    "NewEntry",
    "NotFound",
    "Opening",
    "Origin",
    "OriginMatch",
    "Page",
    "QuotaExceeded",
    "Receipt",
    "Restored",
    "Schedule",
    "ScopeError",
    "Space",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreFailed",
    "StoreForked",
    "StoreReadOnly",
    "StoreUnavailable",
    "StoreUnsupported",
    "Trust",
    "UndoConflict",
    "Usage",
    "Values",
    "VersionConflict",
    "Why",
    "compile_filter",
    "default",
    "matches",
    "open",
    "restore",
    "use",
]

_LATE = {
    "Backups": "holdfast.ports.face",
    "Bank": "holdfast.ports.face",
    "Banks": "holdfast.ports.face",
    "Chores": "holdfast.ports.face",
    "Clock": "holdfast.ports.clock",
    "Embedder": "holdfast.ports.embedder",
    "Holdfast": "holdfast.ports.face",
    "Space": "holdfast.ports.face",
    "Values": "holdfast.ports.face",
    "compile_filter": "holdfast.model.filter",
    "matches": "holdfast.model.filter",
}


def __getattr__(name: str) -> object:
    """Load what only some programs name."""
    if name not in _LATE:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    import importlib

    found: object = getattr(importlib.import_module(_LATE[name]), name)
    globals()[name] = found
    return found
