"""The kinds that users hold, over a store."""
