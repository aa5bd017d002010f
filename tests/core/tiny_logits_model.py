"""Models made up for tests: the logits after some tokens are whatever a function of these tokens says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from formatter_core import Compiler, FormatterBuilder, Vocabulary
from formatter_core.generation import NumpyLogits, log_softmax

WORDS = [b"ab", b"cat", b"the ", b"na", b"name", b'": ', b'", "', b"\xc3", b"\xa9"]
END, STOP = 256 + len(WORDS), 257 + len(WORDS)
WIDTH = 258 + len(WORDS)

Logits = Callable[[tuple[int, ...]], np.ndarray]


def card() -> FormatterBuilder:
    """Return a text with two holes, a name and an age, that reads as JSON."""
    b = FormatterBuilder()
    b.append(
        '{"name": "', b.regex("[a-z]{1,6}", name="name"), '", "age": ', b.integer(name="age", minimum=0, maximum=99)
    )
    return b.append("}")


def by_tokens(seed: int = 0, spread: float = 2.0) -> Logits:
    """Logits that depend on all tokens so far."""

    def logits(tokens: tuple[int, ...]) -> np.ndarray:
        random = np.random.default_rng([seed, len(tokens), *tokens])
        return (random.standard_normal(WIDTH) * spread).astype(np.single)

    return logits


def writes(text: bytes, prompt: int, end: int = END) -> Logits:
    """A model that wants nothing but this text, byte by byte, behind a prompt of so many tokens."""

    def logits(tokens: tuple[int, ...]) -> np.ndarray:
        row = np.zeros(WIDTH, dtype=np.single)
        at = len(tokens) - prompt
        row[text[at] if 0 <= at < len(text) else end] = 50
        return row

    return logits


def following(format: Any, function: Logits, weight: float, prompt: int = 1) -> Logits:
    """A model that mostly follows a format behind a prompt of so many tokens: `weight` is added to what it allows."""
    compiled = TinyModel(function).compiler.compile(format)

    def logits(tokens: tuple[int, ...]) -> np.ndarray:
        row = function(tokens)
        formatter = compiled.formatter()
        written = tokens[prompt:]
        if formatter.accept_tokens(written) == len(written):
            row[formatter.allowed_tokens()] += weight
        return row

    return logits


class TinyModel(NumpyLogits):
    """A `LogitsModel` of a function, with every byte and a few words as tokens; it counts what it is asked to do."""

    def __init__(self, logits: Logits, max_length: int = 10_000, holes: Sequence[int] = ()) -> None:
        self.function = logits
        letters = [None if byte in holes else bytes([byte]) for byte in range(256)]
        self.vocabulary = Vocabulary([*letters, *WORDS, None, None], [END])
        self.compiler = Compiler(self.vocabulary)
        self.max_length = max_length
        self.passes = 0
        self.computed: list[tuple[int, ...]] = []
        """Every beginning after which logits were computed."""
        self.remembered: list[tuple[int, ...]] = []

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_continuation(self, text: bytes) -> list[int] | None:
        tokens, at = [], 0
        while at < len(text):
            word = max((word for word in WORDS if text.startswith(word, at)), key=len, default=None)
            tokens.append(text[at] if word is None else 256 + WORDS.index(word))
            at += 1 if word is None else len(word)
        return tokens

    def start(self, prompts: Sequence[Sequence[int]], *, room: int = 0) -> TinyBatch:
        batch = TinyBatch(self, [[] for _ in prompts])
        batch.forward(prompts)
        return batch


class TinyBatch:
    def __init__(self, model: TinyModel, tokens: list[list[int]]) -> None:
        self._model = model
        self.tokens = tokens
        self.logits = np.zeros((len(tokens), WIDTH), dtype=np.single)

    def __len__(self) -> int:
        return len(self.tokens)

    def forward(self, tokens: Sequence[Sequence[int]], *, keep: int = 1) -> np.ndarray:
        self._model.passes += 1
        kept = np.full((len(tokens), keep, WIDTH), np.nan, dtype=np.single)
        for row, new in enumerate(tokens):
            for place, token in enumerate(new):
                self.tokens[row].append(token)
                self.logits[row] = self._logits(row)
                if len(new) - place <= keep:
                    kept[row, place - len(new)] = self.logits[row]
        return kept

    def forward_scored(self, tokens: Sequence[Sequence[int]]) -> np.ndarray:
        longest = max(map(len, tokens))
        scores = np.full((len(tokens), longest), np.nan, dtype=np.single)
        before = self.logits.copy()
        after = self.forward(tokens, keep=longest)
        for row, new in enumerate(tokens):
            for place, token in enumerate(new):
                logits = before[row] if not place else after[row, place - 1 - len(new)]
                scores[row, place - len(new)] = log_softmax(logits)[token]
        return scores

    def select(self, rows: Sequence[int]) -> None:
        self.tokens = [list(self.tokens[row]) for row in rows]
        self.logits = self.logits[list(rows)]

    def crop(self, lengths: Sequence[int]) -> None:
        self.tokens = [tokens[:length] for tokens, length in zip(self.tokens, lengths, strict=True)]

    def remember(self, row: int) -> None:
        self._model.remembered.append(tuple(self.tokens[row]))

    def forward_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> np.ndarray:
        paths: dict[int, tuple[int, ...]] = {-1: tuple(self.tokens[0])}
        for node, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
            paths[node] = (*paths[parent], token)
        return np.stack([self._model.function(paths[node]) for node in range(len(tokens))])

    def _logits(self, row: int) -> np.ndarray:
        whole = tuple(self.tokens[row])
        self._model.computed.append(whole)
        return self._model.function(whole)
