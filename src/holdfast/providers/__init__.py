"""Adapters to what is outside: the machine's clock, embedders and models."""
