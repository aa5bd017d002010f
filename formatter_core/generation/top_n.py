"""The best tokens of a row of logits, ties included."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import LimitExceeded
from formatter_core.generation.results import TokenScore
from formatter_core.limits import DEFAULT_LIMITS, Limits

__all__ = ["log_softmax", "top_n"]


def log_softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Log-probabilities of a row of logits, float64 (width,); -inf stays -inf, and at least one must be finite."""
    row = logits.astype(np.float64)
    row -= row.max()
    row -= np.log(np.exp(row).sum())
    return row


def top_n(logprobs: NDArray[np.float64], n: int, limits: Limits = DEFAULT_LIMITS) -> tuple[TokenScore, ...]:
    """The `n` best tokens, the best first, and those that are exactly as good as the last of them.

    Equally good tokens come in the order of their ids. Tokens of -inf are never among them, and never more than
    `Limits.max_top_n` tokens, of which ties with the last one are dropped first.

    Args:
        logprobs: float (width,).
        n: how many; 0 gives none.
        limits: bounds what may be asked for.

    Raises:
        LimitExceeded: `n` is greater than `Limits.max_top_n`.
    """
    if n > limits.max_top_n:
        raise LimitExceeded("max_top_n", limits.max_top_n, f"top-{n}")
    if n <= 0:
        return ()
    width = len(logprobs)
    threshold = np.partition(logprobs, width - n)[width - n] if n < width else -np.inf
    ids = np.flatnonzero((logprobs >= threshold) & (logprobs > -np.inf))
    ids = ids[np.lexsort((ids, -logprobs[ids]))][: limits.max_top_n]
    ranks = 1 + np.searchsorted(-logprobs[ids], -logprobs[ids], side="left")
    return tuple(map(TokenScore, ids.tolist(), logprobs[ids].tolist(), ranks.tolist()))
