"""Compile formats and run sequences, alone or in batches: masks, results, events, explanations, caches."""
