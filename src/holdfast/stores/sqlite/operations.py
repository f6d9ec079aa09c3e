"""Which module runs which operation."""

from __future__ import annotations

from holdfast.errors import InvalidInput
from holdfast.model.batch import (
    Append,
    Drop,
    Enqueue,
    Fail,
    Finish,
    Forget,
    Operation,
    Put,
    Remove,
    Restore,
    Retire,
    Retry,
    Revise,
)
from holdfast.model.document import DocumentRef
from holdfast.stores.sqlite import chore_rows, document_rows, entry_rows, forgetting
from holdfast.stores.sqlite.ledger import Ledger, Work


class SqliteOperations:
    """The operations of this engine, for its ledger."""

    def run(self, ledger: Ledger, work: Work, index: int, operation: Operation) -> None:
        """Run one operation at once."""
        match operation:
            case Append():
                ledger.append(work, operation, work.bodies[index], [])
            case Revise():
                entry_rows.revise(ledger, work, operation, work.bodies[index])
            case Retire():
                entry_rows.retire(ledger, work, operation)
            case Restore():
                entry_rows.restore(ledger, work, operation)
            case Put():
                document_rows.put(ledger, work, operation)
            case Remove():
                document_rows.remove(ledger, work, operation)
            case Forget():
                forgetting.forget(ledger, work, operation)
            case Enqueue() | Finish() | Fail() | Drop() | Retry():
                chore_rows.run(ledger, work, operation)
            case _:
                raise InvalidInput(f"unknown operation {type(operation).__name__}", code="batch_invalid")

    def merge(self, ledger: Ledger, work: Work, operation: Append, identifier: bytes) -> None:
        """Fold an append into the equal entry that was found."""
        entry_rows.merge(ledger, work, operation, identifier)

    def entry_version(self, ledger: Ledger, space: str, identifier: str) -> int:
        """The version of a visible entry; 0 when there is none."""
        return entry_rows.visible_version(ledger, space, identifier)

    def document_version(self, ledger: Ledger, space: str, ref: DocumentRef) -> int:
        """The version of a visible document; 0 when there is none."""
        return document_rows.visible_version(ledger, space, ref)
