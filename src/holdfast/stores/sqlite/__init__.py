"""SQLite: one file, one machine, several processes."""

from __future__ import annotations

from holdfast.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
