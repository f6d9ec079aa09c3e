"""The store in memory: plain Python, the reference that other engines are compared with."""

from holdfast.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
