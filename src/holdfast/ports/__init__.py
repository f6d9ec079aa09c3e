"""Protocols: what the rest of holdfast asks of an engine, an embedder, a clock, and what users may hold."""
