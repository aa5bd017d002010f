"""Options that share their first tokens, as a trie: each shared token is computed once."""

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
    """An option and how probable it is as the continuation.

    Attributes:
        logprob: the sum of the log-probabilities of its tokens: the raw score, which compares whole options.
        conditional_logprob: the log-probability of it, given that it is one of the options.
        value: the option as it was given: a text, a number, a member of an `Enum`.
    """

    text: str
    tokens: tuple[int, ...]
    logprob: float
    conditional_logprob: float = 0.0
    value: Any = None

    @property
    def mean_logprob(self) -> float:
        """The log-probability a token, which does not punish length."""
        return self.logprob / len(self.tokens)

    @property
    def probability(self) -> float:
        """The share of this option; those of all options add up to 1."""
        return math.exp(self.conditional_logprob)

    @property
    def masked_logprob(self) -> float:
        """The logarithm of the probability that the model gives to all options together.

        Of options of which one begins another, this counts the longer one twice, unless the end is counted
        (`choose(..., with_end=True)`).
        """
        return self.logprob - self.conditional_logprob


@dataclass(frozen=True)
class Branches:
    """A `choice` hole as it was met, and how probable each of its options was there.

    Attributes:
        name: of the hole.
        start: the byte of the output at which it begins.
        taken: the option that the output has.
        scores: of all options, in their order; `OptionScore.conditional_logprob` and `probability` compare them.
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
    """The scores of options, given the sum of log-probabilities of each; `values` are by default their texts."""
    total = float(np.logaddexp.reduce(logprobs))
    return [
        OptionScore(text, tuple(ids), logprob, logprob - total if total > -np.inf else -math.log(len(texts)), value)
        for text, ids, logprob, value in zip(texts, tokens, logprobs, values or texts, strict=True)
    ]


class TrieNode(NamedTuple):
    """A token at its place. `parent` is the index of the node before it, -1 for the end of the prompt."""

    token_id: int
    parent: int


class OptionTrie:
    """Sequences of tokens as a trie, its nodes level by level, so that a parent stands before its children.

    Raises:
        InvalidArgument: there is no option, or one of them has no tokens.
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
        """The nodes that others follow: only these must be computed, for a leaf is just looked up."""
        return sorted({node.parent for node in self.nodes} - {-1})

    def sums(self, taken: Sequence[float]) -> list[float]:
        """The sum of log-probabilities of each option, given that of each node's token after its parent."""
        sums = [0.0] * len(self.nodes)
        for index, node in enumerate(self.nodes):
            sums[index] = (sums[node.parent] if node.parent >= 0 else 0.0) + taken[index]
        return [sums[last] for last in self._last]
