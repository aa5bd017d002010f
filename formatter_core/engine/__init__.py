"""Grammar engines: what computes masks."""
