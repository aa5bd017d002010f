"""Choose a token from a row of logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import real_number, whole_number

__all__ = ["Sampler", "Sampling", "SamplingRows", "greedy", "multinomial"]


@dataclass(frozen=True)
class SamplingRows:
    """The sequences that a sampler chooses tokens for, one per row.

    Attributes:
        uniforms: float64 (rows,), a number in [0, 1) for each row. It depends only on the seed, the prompt, the sample
            and the position in the output, so a sampler that draws with it gives the same output whatever else is in
            the batch.
        prompts: the index of each row's prompt in the call.
        samples: the index of each row's sample among those of its prompt.
        tokens: the tokens that each row has generated so far.
    """

    uniforms: NDArray[np.float64]
    prompts: Sequence[int]
    samples: Sequence[int]
    tokens: Sequence[Sequence[int]]

    def part(self, places: Sequence[int]) -> SamplingRows:
        """Return the rows at these places."""
        return SamplingRows(
            self.uniforms[list(places)],
            [self.prompts[place] for place in places],
            [self.samples[place] for place in places],
            [self.tokens[place] for place in places],
        )


class Sampler(Protocol):
    """A callable that chooses the tokens of one sequence, one after the other."""

    def __call__(self, logits: NDArray[np.single]) -> int:
        """Return the chosen id.

        Args:
            logits: float32 (width,), -inf where the format allows no token; at least one is finite. Do not keep a
                reference to it after the call.
        """
        ...


@dataclass(frozen=True)
class Sampling:
    """The settings for choosing tokens, in the order and with the meanings of transformers: logits are divided by the
    temperature; candidates are cut by `top_k`, `top_p`, `min_p` and `typical_p`, in this order; then one is drawn.

    Attributes:
        temperature: 0 always takes the best token; of several best tokens, the one with the lowest id.
        top_k: keep this many of the best tokens, and those that tie with the last of them; 0 keeps all.
        top_p: keep the best tokens until their probabilities reach this sum.
        min_p: keep the tokens at least this fraction as probable as the best.
        typical_p: keep the tokens whose surprise is nearest to the expected one (Meister et al. 2022, locally typical
            sampling), until their probabilities reach this sum.
        seed: makes the draws repeatable, whatever other sequences run; None draws anew each time.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p", "typical_p"):
            real_number(getattr(self, name), name)
        whole_number(self.top_k, "top_k")
        if self.seed is not None:
            whole_number(self.seed, "seed")
        is_share = 0 < self.top_p <= 1 and 0 < self.typical_p <= 1 and 0 <= self.min_p <= 1
        if self.temperature < 0 or not is_share:
            raise InvalidArgument(
                f"invalid sampling parameters: {self}; give a temperature from 0, top_p and typical_p above "
                "0 and at most 1, min_p from 0 to 1"
            )

    def sampler(self, stream: int = 0) -> Sampler:
        """Return a sampler for one sequence; each `stream` of one seed has its own draws."""
        random = np.random.default_rng(None if self.seed is None else [self.seed, stream])
        return partial(self.draw, uniform=random.random)

    def __call__(self, logits: NDArray[np.single], rows: SamplingRows) -> NDArray[np.int64]:
        """Return a token for each row of numpy logits, int64 (rows,); `rows.uniforms` gives the draws, and `seed` is
        ignored.

        Args:
            logits: float32 (rows, width), -inf where no token is allowed.
            rows: the sequences that the rows belong to.
        """
        pairs = zip(logits, rows.uniforms.tolist(), strict=True)
        return np.array([self.draw(row, repeat(number).__next__) for row, number in pairs], dtype=np.int64)

    def draw(self, logits: NDArray[np.single], uniform: Callable[[], float]) -> int:
        """Return a token for one row.

        Args:
            logits: float32 (width,), -inf where no token is allowed; at least one is finite.
            uniform: returns a number in [0, 1); called at most once.
        """
        if self.temperature == 0:
            return int(logits.argmax())
        ids, shares = self.candidates(logits)
        weights = np.cumsum(shares)
        place = int(np.searchsorted(weights, uniform() * weights[-1], side="right"))
        return int(ids[min(place, len(ids) - 1)])

    @property
    def is_plain(self) -> bool:
        """Return whether the distribution is the model's own: temperature 1, and nothing is cut."""
        return self == Sampling(1.0, seed=self.seed)

    def candidates(self, logits: NDArray[np.single]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the ids that may be drawn from one row, and the probability of each.

        Args:
            logits: float32 (width,), -inf where no token is allowed; at least one is finite.
        """
        if self.temperature == 0:
            return np.array([logits.argmax()], dtype=np.int64), np.ones(1)
        ids = self._best(logits)
        values = logits[ids].astype(np.float64)
        values = (values - values.max()) / self.temperature
        if self.top_p < 1:
            reached = np.cumsum(_softmax(values))
            count = int(np.searchsorted(reached, self.top_p)) + 1
            ids, values = ids[:count], values[:count]
        if self.min_p > 0:
            kept = values >= values.max() + np.log(self.min_p)
            ids, values = ids[kept], values[kept]
        if self.typical_p < 1:
            kept = _typical(values, self.typical_p)
            ids, values = ids[kept], values[kept]
        return ids, _softmax(values)

    def _best(self, logits: NDArray[np.single]) -> NDArray[np.int64]:
        """Return the tokens that `top_k` keeps, best first if a later cut needs an order."""
        least = -np.inf
        if 0 < self.top_k < len(logits):
            # Sorting all of a large vocabulary costs more than one decode step of a small model.
            least = float(np.partition(logits, len(logits) - self.top_k)[len(logits) - self.top_k])
        ids = np.flatnonzero((logits >= least) & (logits > -np.inf))
        if least > -np.inf or self.top_p < 1:
            ids = ids[np.argsort(-logits[ids], kind="stable")]
        return ids


def greedy() -> Sampling:
    """Always choose the most probable token."""
    return Sampling()


def multinomial(
    temperature: float = 1.0, *, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, typical_p: float = 1.0
) -> Sampling:
    """Draw from the distribution of the model, or from a part of it; see `Sampling`."""
    return Sampling(temperature, top_k, top_p, min_p, typical_p)


def _typical(values: NDArray[np.float64], mass: float) -> NDArray[np.int64]:
    """Return the indices of the candidates nearest to the expected surprise, in order, until they reach the mass."""
    shares = _softmax(values)
    with np.errstate(divide="ignore"):
        surprise = -np.log(shares)
    expected = float(np.sum(shares * np.where(shares > 0, surprise, 0.0)))
    order = np.argsort(np.abs(surprise - expected), kind="stable")
    count = int(np.searchsorted(np.cumsum(shares[order]), mass)) + 1
    return np.sort(order[:count])


def _softmax(values: NDArray[np.float64]) -> NDArray[Any]:
    weights = np.exp(values - values.max())
    return np.asarray(weights / weights.sum())
