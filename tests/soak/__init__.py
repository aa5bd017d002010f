"""A sample of the soak of memory; see docs/trust.md."""
