"""From a row of logits to a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import InvalidFormat

__all__ = ["Sampler", "Sampling"]


class Sampler(Protocol):
    """Chooses one token after the other for one sequence."""

    def __call__(self, logits: NDArray[np.single]) -> int:
        """The chosen id.

        Args:
            logits: float32 (width,), -inf where the format allows no token; at least one is finite. It may be kept no
                longer than the call.
        """
        ...


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen: candidates are cut by `top_k`, `top_p` and `min_p`, in this order, then one is drawn.

    Attributes:
        temperature: 0 always takes the best token, of several the one with the lowest id.
        top_k: keep this many of the best; 0 keeps all.
        top_p: keep the best whose probabilities reach this sum.
        min_p: keep those at least this fraction as probable as the best.
        seed: makes the draws repeatable, whatever other sequences run; None draws anew each time.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.temperature >= 0 or self.top_k < 0 or not 0 < self.top_p <= 1 or not 0 <= self.min_p <= 1:
            raise InvalidFormat(
                f"{self} cannot be drawn from; give a temperature and top_k from 0, top_p above 0 up to 1, min_p 0 to 1"
            )

    def sampler(self, stream: int = 0) -> Sampler:
        """A sampler for one sequence; each `stream` of one seed has draws of its own."""
        return _Drawer(self, None if self.seed is None else [self.seed, stream])


class _Drawer:
    def __init__(self, how: Sampling, seed: list[int] | None) -> None:
        self._how = how
        self._random = np.random.default_rng(seed)

    def __call__(self, logits: NDArray[np.single]) -> int:
        how = self._how
        if how.temperature == 0:
            return int(logits.argmax())
        least = -np.inf
        if 0 < how.top_k < len(logits):
            # Sorting all of a large vocabulary costs more than the decode of a small model.
            least = float(np.partition(logits, len(logits) - how.top_k)[len(logits) - how.top_k])
        ids = np.flatnonzero((logits >= least) & (logits > -np.inf))
        values = logits[ids].astype(np.float64)
        if how.top_k or how.top_p < 1:
            order = np.argsort(-values, kind="stable")[: how.top_k or None]
            ids, values = ids[order], values[order]
        if how.top_p < 1:
            reached = np.cumsum(_softmax(values))
            count = int(np.searchsorted(reached, how.top_p)) + 1
            ids, values = ids[:count], values[:count]
        if how.min_p > 0:
            kept = values >= values.max() + np.log(how.min_p)
            ids, values = ids[kept], values[kept]
        weights = np.cumsum(_softmax(values / how.temperature))
        place = int(np.searchsorted(weights, self._random.random() * weights[-1], side="right"))
        return int(ids[min(place, len(ids) - 1)])


def _softmax(values: NDArray[np.float64]) -> NDArray[Any]:
    weights = np.exp(values - values.max())
    return np.asarray(weights / weights.sum())
