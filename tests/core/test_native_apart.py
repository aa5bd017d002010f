"""Grammars with automata of their own make the same masks, in one batch with those that share theirs."""

from __future__ import annotations

import random

import numpy as np

from formatter_core import Compiler, Vocabulary, bitmask, formats
from formatter_core.engine.native import NativeEngine

WANTED = [
    formats.regex("(ab|a)*(c|d{2,5})"),
    formats.json_schema({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
    formats.choice(["one", "only", "two"]),
]


def test_masks_are_the_same() -> None:
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), b"ab", b'{"', b"on", None], [259])
    shared = Compiler(vocabulary, engine=NativeEngine())
    apart = Compiler(vocabulary, engine=NativeEngine(shares_automata=False))
    rng = random.Random(0)
    for format in WANTED:
        stored = shared.compile(format).to_bytes()
        pair = [shared.compile(format).formatter(), apart.from_bytes(stored).formatter()]
        for _ in range(20):
            rows = bitmask.allocate(2, len(vocabulary))
            bitmask.fill_batch(pair, rows)
            assert np.array_equal(rows[0], rows[1])
            token_id = rng.choice(pair[0].allowed_tokens())
            for formatter in pair:
                formatter.accept_token(token_id)
