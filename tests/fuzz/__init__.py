"""Fuzzing by coverage: what is fed with arbitrary bytes, and what must hold whatever they are (docs/trust.md)."""
