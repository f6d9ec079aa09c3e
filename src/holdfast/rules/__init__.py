"""Pure decisions: no clock, no store, no randomness of their own."""
