"""Provide the methods of a `LogitsModel` whose logits are numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown
from formatter_core.generation.candidates import ScoreSettings, chosen_token, measured_tokens
from formatter_core.generation.models import NO_SCORES, BatchSampler, Picked, SequenceBatch, Weighed
from formatter_core.generation.results import ChosenToken
from formatter_core.generation.sampling import Sampling, SamplingRows
from formatter_core.runtime import bitmask

__all__ = ["NumpyBatch", "NumpyLogits", "log_softmax"]

_NOT_CHOSEN = ChosenToken(-1, None, None)


def log_softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Return the log-probabilities of a row of logits, float64 (width,); -inf stays -inf; at least
    one must be finite.
    """
    row = logits.astype(np.float64)
    row -= row.max()
    row -= np.log(np.exp(row).sum())
    return row


class NumpyBatch:
    """A base class for a `SequenceBatch` whose logits are float32 numpy arrays."""

    def forward_scored(self: SequenceBatch, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Compute more tokens with their log-probabilities; see `SequenceBatch.forward_scored`."""
        longest = max(map(len, tokens))
        before = self.logits.copy()
        after = self.forward(tokens, keep=longest)
        scores = np.full((len(tokens), longest), np.nan, dtype=np.float32)
        for row, new in enumerate(tokens):
            for at, token in zip(range(-len(new), 0), new, strict=True):
                logits = before[row] if at == -len(new) else after[row, at - 1]
                scores[row, at] = log_softmax(logits)[token]
        return scores

    def remember(self, row: int) -> None:
        """Do nothing: there is no prefix cache, and computed keys and values are discarded with the batch."""


class NumpyLogits:
    """A base class for a `LogitsModel` whose batches have float32 numpy arrays as logits."""

    @staticmethod
    def pick(
        logits: NDArray[Any],
        allowed: NDArray[np.int32] | None,
        sampler: BatchSampler,
        rows: SamplingRows,
        *,
        scores: ScoreSettings = NO_SCORES,
        scored: NDArray[np.float32] | None = None,
    ) -> Picked:
        """Mask the logits and choose a token for each row; see `LogitsModel.pick`."""
        masked = logits.astype(np.single)
        if allowed is not None:
            bitmask.apply_inplace(masked, allowed)
        is_sound = np.isfinite(masked.max(axis=1))
        # A row whose logits are not numbers ends only its own sequence; it must not disturb the samplers of other rows.
        given = sampler(np.where(is_sound[:, None], masked, np.single(0)), rows)
        try:
            taken = np.asarray(given)
        except ValueError:  # the lists differ in length
            taken = masked
        if taken.shape != (len(masked),) or taken.dtype.kind not in "iu":
            raise InvalidArgument(f"the sampler gave {shown(given)}; give a token id for each of {len(masked)} rows")
        is_sound &= (taken >= 0) & (taken < masked.shape[1])
        tokens = np.where(is_sound, taken, 0).astype(np.int64)
        is_sound &= np.isfinite(masked[np.arange(len(tokens)), tokens])
        chosen: list[ChosenToken] = []
        if scores:
            sound = np.flatnonzero(is_sound)
            measured = partial(measured_tokens, n=scores.top, chosen=tokens[sound], how=scores)
            chosen = [_NOT_CHOSEN] * len(tokens)
            before = measured(logits[sound]) if scores.unmasked else [None] * len(sound)
            for row, after, unmasked in zip(sound.tolist(), measured(masked[sound]), before, strict=True):
                chosen[row] = chosen_token(after, unmasked)
        return Picked(tokens, is_sound, chosen, scored)

    @staticmethod
    def best(logits: Sequence[NDArray[Any]], allowed: NDArray[np.int32], count: int) -> list[list[tuple[int, float]]]:
        """Return the best allowed tokens of each row; see `LogitsModel.best`."""
        found = []
        for row, mask in zip(logits, allowed, strict=True):
            scores = log_softmax(row)
            bitmask.apply_inplace(scores, mask)
            ids = np.argpartition(-scores, min(count, len(scores)) - 1)[:count]
            found.append(list(zip(ids.tolist(), scores[ids].tolist(), strict=True)))
        return found

    @staticmethod
    def weigh(logits: NDArray[Any], allowed: NDArray[np.int32], sampling: Sampling) -> Weighed:
        """Return the probability of each token; see `WeighingModel.weigh`."""
        weights = np.zeros(logits.shape, dtype=np.single)
        scales = np.zeros(len(logits))
        for index, row in enumerate(logits):
            if not np.isfinite(row.max()):
                weights[index] = np.nan
                continue
            logprobs = log_softmax(row)
            if sampling.is_plain:
                weights[index] = np.exp(logprobs)
                continue
            ids, shares = sampling.candidates(row)
            weights[index, ids] = shares
            best = int(shares.argmax())
            scales[index] = logprobs[ids[best]] - sampling.temperature * np.log(shares[best])
        is_allowed = _unpacked(allowed, logits.shape[1])
        return Weighed(weights * is_allowed, scales, _mass(logits, is_allowed))

    @staticmethod
    def allowed_logprobs(logits: NDArray[Any], allowed: NDArray[np.int32]) -> list[float]:
        """Return the logarithm of the allowed mass; see `WeighingModel.allowed_logprobs`."""
        found: list[float] = _mass(np.asarray(logits), _unpacked(allowed, len(logits[0]))).tolist()
        return found

    @staticmethod
    def logprobs(logits: NDArray[Any], rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """Return the log-probability of a token in a row, for each pair; see `LogitsModel.logprobs`."""
        scores = {row: log_softmax(logits[row]) for row in dict.fromkeys(rows)}
        return [float(scores[row][token]) for row, token in zip(rows, tokens, strict=True)]


def _unpacked(allowed: NDArray[np.int32], width: int) -> NDArray[np.bool_]:
    """Return bitmask rows as booleans (rows, width)."""
    octets = np.ascontiguousarray(allowed, dtype="<i4").view(np.uint8)
    return np.unpackbits(octets, axis=1, count=width, bitorder="little").astype(np.bool_)


def _mass(logits: NDArray[Any], is_allowed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the logarithm of the allowed mass, float64 (rows,); NaN for logits that are not numbers."""
    exact = logits.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        odds = np.exp(exact - exact.max(axis=1, keepdims=True))
        return np.asarray(np.log((odds * is_allowed).sum(axis=1)) - np.log(odds.sum(axis=1)))
