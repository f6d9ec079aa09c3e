"""Faults that only this engine knows."""

from __future__ import annotations

from holdfast.errors import AlreadyExists


class IdTaken(AlreadyExists):
    """A gathered append met an id that exists: any batch of the transaction may be the one."""
