"""Every error that holdfast raises.

One root, drawn as a tree; the string beside each class is its stable code, the same in Python, REST and on the
command line::

    HoldfastError                   holdfast_error
    ├─ InvalidInput                 invalid_input         (also ValueError; most cases carry a code of their own)
    │  ├─ LimitExceeded             limit_exceeded
    │  ├─ FilterError               filter_operand
    │  └─ ScopeError                scope_empty
    ├─ NotFound                     not_found             (also LookupError)
    │  ├─ BankNotFound              bank_not_found
    │  ├─ EntryNotFound             entry_not_found
    │  ├─ DocumentNotFound          document_not_found
    │  ├─ ChangeNotFound            change_not_found
    │  └─ ChoreNotFound             chore_not_found
    ├─ Conflict                     conflict
    │  ├─ AlreadyExists             already_exists
    │  ├─ VersionConflict           version_conflict
    │  ├─ IdempotencyConflict       idempotency_conflict
    │  ├─ UndoConflict              undo_conflict
    │  └─ LeaseLost                 lease_lost
    ├─ HistoryUnavailable           history_unavailable
    ├─ CapacityExceeded             capacity_exceeded
    │  └─ QuotaExceeded             quota_exceeded
    ├─ EmbedderMismatch             embedder_mismatch
    └─ StoreUnavailable             store_unavailable
       ├─ StoreClosed               store_closed
       ├─ StoreForked               store_forked
       ├─ StoreBusy                 store_busy
       ├─ StoreReadOnly             store_read_only
       ├─ StoreUnsupported          store_unsupported
       ├─ StoreDamaged              store_damaged
       └─ StoreFailed               store_failed
"""

from __future__ import annotations

from typing import ClassVar


class HoldfastError(Exception):
    """The root: catch this to catch everything that holdfast raises on purpose.

    ``code`` is stable and safe to branch on; ``hint`` names the next step where there is one.
    """

    default_code: ClassVar[str] = "holdfast_error"

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.hint = hint

    def __str__(self) -> str:
        """Cause first, then the next step."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InvalidInput(HoldfastError, ValueError):
    """A value that was handed in breaks a rule; nothing was written."""

    default_code = "invalid_input"


class LimitExceeded(InvalidInput):
    """A value is larger than a stated limit."""

    default_code = "limit_exceeded"


class FilterError(InvalidInput):
    """A filter cannot be understood; it is never silently ignored."""

    default_code = "filter_operand"


class ScopeError(InvalidInput):
    """A scope is missing or too wide for the call."""

    default_code = "scope_empty"


class NotFound(HoldfastError, LookupError):
    """Nothing by that name in this scope; what belongs to others looks the same."""

    default_code = "not_found"


class BankNotFound(NotFound):
    """No such bank in this space."""

    default_code = "bank_not_found"


class EntryNotFound(NotFound):
    """No such entry in this scope."""

    default_code = "entry_not_found"


class DocumentNotFound(NotFound):
    """No such document in this scope."""

    default_code = "document_not_found"


class ChangeNotFound(NotFound):
    """No such change in this space."""

    default_code = "change_not_found"


class ChoreNotFound(NotFound):
    """No such chore in this space."""

    default_code = "chore_not_found"


class Conflict(HoldfastError):
    """The stored state does not allow the write; nothing of the batch was written."""

    default_code = "conflict"


class AlreadyExists(Conflict):
    """The name is taken."""

    default_code = "already_exists"


class VersionConflict(Conflict):
    """The record has another version than the caller expected."""

    default_code = "version_conflict"


class IdempotencyConflict(Conflict):
    """The idempotency key was used before with other content."""

    default_code = "idempotency_conflict"


class UndoConflict(Conflict):
    """Later changes build on the one to be undone; ``dependents`` lists them."""

    default_code = "undo_conflict"

    def __init__(self, message: str, *, dependents: tuple[str, ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.dependents = dependents


class LeaseLost(Conflict):
    """Another worker has taken the chore over; the result was not written."""

    default_code = "lease_lost"


class HistoryUnavailable(HoldfastError):
    """The past that was asked for is not kept."""

    default_code = "history_unavailable"


class CapacityExceeded(HoldfastError):
    """A numbered room of the store is full."""

    default_code = "capacity_exceeded"


class QuotaExceeded(CapacityExceeded):
    """The batch would take the space over its limit; nothing of it was written. ``used`` and ``limit`` are bytes."""

    default_code = "quota_exceeded"

    def __init__(self, message: str, *, used: int = 0, limit: int = 0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.used = used
        self.limit = limit


def quota_exceeded(space: str, used: int, after: int, limit: int) -> QuotaExceeded:
    """The error for a batch that would take a space from ``used`` to ``after`` bytes."""
    return QuotaExceeded(
        f"the space {space!r} holds {used} bytes, may hold {limit}, and would hold {after}",
        used=used,
        limit=limit,
        hint="forget something, shorten the retention of its banks, or raise the limit with space.limit()",
    )


class EmbedderMismatch(HoldfastError):
    """The store holds vectors of another embedder or size; they are never mixed."""

    default_code = "embedder_mismatch"


class StoreUnavailable(HoldfastError):
    """The store cannot serve the call now."""

    default_code = "store_unavailable"


class StoreClosed(StoreUnavailable):
    """The store was closed."""

    default_code = "store_closed"


class StoreForked(StoreUnavailable):
    """The store was opened before a fork; the child must open its own."""

    default_code = "store_forked"


class StoreBusy(StoreUnavailable):
    """Another process held the write lock for too long."""

    default_code = "store_busy"


class StoreReadOnly(StoreUnavailable):
    """The store was opened read-only."""

    default_code = "store_read_only"


class StoreUnsupported(StoreUnavailable):
    """The place or the file cannot be used by this version."""

    default_code = "store_unsupported"


class StoreDamaged(StoreUnavailable):
    """Stored bytes are not what was written."""

    default_code = "store_damaged"


class StoreFailed(StoreUnavailable):
    """The disk or server refused; what was not acknowledged was not written."""

    default_code = "store_failed"
