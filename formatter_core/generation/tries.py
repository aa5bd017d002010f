"""Put options that share their first tokens into a trie, so that each shared token is computed once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from formatter_core.errors import InvalidArgument

__all__ = ["Branches", "OptionScore", "OptionTrie", "TrieNode", "option_scores"]


@dataclass(frozen=True)
class OptionScore:
    """An option and its probability as the continuation.

    Attributes:
        logprob: the sum of the log-probabilities of its tokens: the raw score, for comparing whole options.
        conditional_logprob: the log-probability of the option, given that the text is one of the options.
        value: the option as it was given: a text, a number, a member of an `Enum`.
    """

    text: str
    tokens: tuple[int, ...]
    logprob: float
    conditional_logprob: float = 0.0
    value: Any = None

    @property
    def mean_logprob(self) -> float:
        """Return the log-probability per token, which does not penalise long options."""
        return self.logprob / len(self.tokens)

    @property
    def probability(self) -> float:
        """Return the share of this option; the shares of all options add up to 1."""
        return math.exp(self.conditional_logprob)

    @property
    def masked_logprob(self) -> float:
        """Return the logarithm of the probability that the model gives to all options together.

        If one option begins another, this counts the longer one twice, unless the end is counted (`choose(...,
        with_end=True)`).
        """
        return self.logprob - self.conditional_logprob


@dataclass(frozen=True)
class Branches:
    """A `choice` hole of an output, with the probability of each of its options at that position.

    Attributes:
        name: the name of the hole.
        start: the byte offset in the output at which the hole begins.
        taken: the option that the output has.
        scores: the scores of all options, in their order; compare them by `OptionScore.conditional_logprob` or
            `probability`.
    """

    name: str
    start: int
    taken: str
    scores: tuple[OptionScore, ...]


def option_scores(
    texts: Sequence[str],
    tokens: Sequence[Sequence[int]],
    logprobs: Sequence[float],
    values: Sequence[Any] | None = None,
) -> list[OptionScore]:
    """Return the scores of options from the sum of log-probabilities of each; `values` defaults to their texts."""
    total = float(np.logaddexp.reduce(logprobs))
    return [
        OptionScore(text, tuple(ids), logprob, logprob - total if total > -np.inf else -math.log(len(texts)), value)
        for text, ids, logprob, value in zip(texts, tokens, logprobs, values or texts, strict=True)
    ]


class TrieNode(NamedTuple):
    """A token at its position. `parent` is the index of the node before it, -1 for the end of the prompt."""

    token_id: int
    parent: int


class OptionTrie:
    """A trie of sequences of tokens, its nodes level by level, so that a parent comes before its children.

    Raises:
        InvalidArgument: there is no option, or an option has no tokens.
    """

    def __init__(self, options: Sequence[Sequence[int]]) -> None:
        if not options or not all(options):
            raise InvalidArgument("there must be at least one option, and each of them must have at least one token")
        index: dict[TrieNode, int] = {}
        places = [-1] * len(options)
        for depth in range(max(map(len, options))):
            for number, option in enumerate(options):
                if depth < len(option):
                    node = TrieNode(option[depth], places[number])
                    places[number] = index.setdefault(node, len(index))
        self.nodes = list(index)
        self._last = places

    def inner(self) -> list[int]:
        """Return the nodes that have children: only these must be computed, because a leaf needs no logits after it."""
        return sorted({node.parent for node in self.nodes} - {-1})

    def sums(self, taken: Sequence[float]) -> list[float]:
        """Return the sum of log-probabilities of each option, given that of each node's token after its parent."""
        sums = [0.0] * len(self.nodes)
        for index, node in enumerate(self.nodes):
            sums[index] = (sums[node.parent] if node.parent >= 0 else 0.0) + taken[index]
        return [sums[last] for last in self._last]
