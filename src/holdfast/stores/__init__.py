"""Engines: what implements ``holdfast.ports.store.Store``."""
