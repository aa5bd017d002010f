"""Tools that test grammar engines: an oracle, random grammars, and a step-by-step comparison of two engines."""
