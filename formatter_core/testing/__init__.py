"""What judges grammar engines: an oracle, random grammars, and a comparison of two engines step by step."""
