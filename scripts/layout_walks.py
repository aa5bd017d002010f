"""Random outputs of layouts as tokens: of bytes, with markers as text or as special tokens, and of Llama 3."""

from __future__ import annotations

import random
from functools import cache

import numpy as np

from benchmarks.data import Encode, llama3, shared
from formatter_core import Compiler, Formatter, Layout, Vocabulary, bitmask

__all__ = ["Walker", "closings", "walkers"]

_COMMON = frozenset(b'abcdefgh <>/{}[]":,\n=_0123456789.-')
#: Layouts whose tokenizer is known.
_LLAMA = frozenset({"llama3-json", "llama4-pythonic"})


class Walker:
    """Random walks through the masks of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary, encode: Encode | None = None) -> None:
        self.compiler = Compiler(vocabulary, cache_bytes=0)
        self._vocabulary = vocabulary
        self._encode = encode or (lambda text: list(text.encode()))
        self._common = np.array([bool(token) and _COMMON.issuperset(token or b"") for token in vocabulary.tokens])
        self._row = bitmask.allocate(1, len(vocabulary))[0]

    def tokens(self, text: str) -> list[int]:
        """A text as tokens, special ones included."""
        for name, token_id in self._vocabulary.special_tokens.items():
            before, found, after = text.partition(name)
            if found:
                return [*self.tokens(before), token_id, *self.tokens(after)]
        return self._encode(text)

    def text(self, tokens: list[int]) -> str:
        """What tokens spell, special tokens by their names."""
        return b"".join(map(self._vocabulary.spelled, tokens)).decode()

    def walk(self, formatter: Formatter, rng: random.Random, hints: list[list[int]]) -> list[int] | None:
        """A random output; None where it grows long."""
        (end,) = self._vocabulary.end_ids
        for _ in range(600):
            if rng.random() < 0.2 and formatter.count_valid(hint := rng.choice(hints)) == len(hint):
                formatter.accept_tokens(hint)
                continue
            formatter.fill_bitmask(self._row)
            bits = np.unpackbits(self._row.view(np.uint8), bitorder="little")[: len(self._common)].astype(bool)
            can_end, bits[end] = bits[end], False
            if can_end and (not bits.any() or rng.random() < 0.1):
                tokens = list(formatter.tokens)
                formatter.accept_token(end)
                return tokens
            common = bits & self._common
            chosen = np.flatnonzero(common if common.any() and rng.random() < 0.98 else bits)
            formatter.accept_token(int(rng.choice(chosen)))
        return None


@cache
def walkers(layout: Layout) -> list[Walker]:
    """Over bytes, and over bytes with the markers as special tokens; for Llama over its tokens if they are there."""
    if layout.name in _LLAMA and (shared() / "tokenizers" / "llama3.tiktoken").is_file():
        vocabulary, encode = llama3()
        return [Walker(Vocabulary(vocabulary.tokens, vocabulary.end_ids, {"<|python_tag|>": 128_010}), encode)]
    plain = Vocabulary.of_bytes()
    special = {marker: len(plain) + index for index, marker in enumerate(layout.markers)}
    return [Walker(plain), Walker(Vocabulary([*plain.tokens, *(None for _ in special)], plain.end_ids, special))]


def closings(layout: Layout) -> list[str]:
    """What ends a region or a value: without a hint, a random walk hardly ever writes it."""
    calls = layout.calls
    texts = ['"', '"}', "]", "}"]
    if layout.reasoning is not None:
        texts.append(layout.reasoning.close)
    if calls is not None:
        texts += [calls.before + calls.open, calls.close, calls.separator]
        for template in (*calls.templates, calls.text_parameter):
            texts += [piece for piece in template if isinstance(piece, str)]
    return [text for text in texts if text]
