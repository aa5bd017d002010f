"""What runs: compiling once, one sequence and batches of them, masks, results, events, explanations, caches."""
