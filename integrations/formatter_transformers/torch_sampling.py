"""`Sampling` for torch logits: the draws stay on the device where the logits are."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core.generation import Sampling

__all__ = ["draw", "probabilities"]

#: The number of kept tokens that tie with the last of `top_k`; keeping all would need a copy from the device.
_TIES = 64
#: Weights that are summed up in float32. Only the sums are cumulated, which needs more digits.
_BLOCK = 256


def draw(how: Sampling, logits: torch.Tensor, uniforms: NDArray[np.float64]) -> torch.Tensor:
    """Draw a token for each row, int64 (rows,), as `how` says; the result equals `Sampling` in numpy up to rounding.

    More than 64 tokens that tie with the last of `top_k` are cut there: which ones, torch decides.

    Args:
        how: how tokens are chosen.
        logits: float32 (rows, width), -inf where no token is allowed.
        uniforms: float64 (rows,), the draws, from 0 to below 1.
    """
    if how.temperature == 0:
        return logits.argmax(dim=-1)
    values, ids = _candidates(how, logits)
    weights, width = torch.softmax(values, dim=-1), values.shape[1]
    exact = torch.float32 if logits.device.type == "mps" else torch.float64
    drawn = torch.from_numpy(uniforms).to(logits.device, exact)[:, None]
    if width <= _BLOCK:
        place = _place(weights.to(exact), drawn, is_share=True)[0]
    else:
        whole = width - width % _BLOCK
        blocks = weights[:, :whole].unflatten(1, (-1, _BLOCK)).sum(-1)
        sums = torch.cat([blocks, weights[:, whole:].sum(-1, keepdim=True)], dim=1)
        block, drawn = _place(sums.to(exact), drawn, is_share=True)
        columns = block * _BLOCK + torch.arange(_BLOCK, device=logits.device)
        inside = weights.gather(1, columns.clamp(max=width - 1)).masked_fill(columns >= width, 0.0)
        place = columns.gather(1, _place(inside.to(exact), drawn)[0]).clamp(max=width - 1)  # NaN may lead anywhere
    return place[:, 0] if ids is None else ids.gather(1, place)[:, 0]


def probabilities(how: Sampling, logits: torch.Tensor) -> torch.Tensor:
    """Return the probability with which `how` draws each token, float32 (rows, width)."""
    if how.temperature == 0:
        return torch.zeros_like(logits).scatter_(1, logits.argmax(dim=1, keepdim=True), 1.0)
    values, ids = _candidates(how, logits)
    weights = torch.softmax(values, dim=-1)
    return weights if ids is None else torch.zeros_like(logits).scatter_(1, ids, weights)


def _place(weights: torch.Tensor, drawn: torch.Tensor, is_share: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the place where the cumulative weights exceed the drawn number, and how much of its weight is below.

    Both results are (rows, 1). The drawn number is a weight, or a share of the total weight. A place without weight is
    never found.
    """
    sums = weights.cumsum(dim=-1)
    total = sums[:, -1:]
    # Rounded up to the total, a draw would lead past the last candidate with a weight.
    drawn = torch.minimum(drawn * total if is_share else drawn, torch.nextafter(total, torch.zeros_like(total)))
    place = torch.searchsorted(sums, drawn, right=True).clamp(max=weights.shape[1] - 1)
    return place, (drawn - sums.gather(1, place) + weights.gather(1, place)).clamp(min=0)


def _candidates(how: Sampling, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the candidates' logits at the temperature, -inf for cut candidates, and their ids; None for all ids."""
    values, ids = logits, None
    if 0 < how.top_k < logits.shape[1]:
        best = logits.topk(min(how.top_k + _TIES, logits.shape[1]), dim=-1)
        ids = best.indices.sort(dim=-1).values  # of equal ones the lowest id comes first
        values = logits.gather(1, ids)
        values = values.masked_fill(values < best.values[:, how.top_k - 1, None], -torch.inf)
    if how.temperature != 1:  # nothing overflows, however low it is
        values = (values - values.amax(dim=-1, keepdim=True)) / how.temperature
    if ids is not None or how.top_p < 1:
        values, order = values.sort(dim=-1, descending=True, stable=True)
        ids = order if ids is None else ids.gather(1, order)
    if how.top_p < 1:
        shares = torch.softmax(values, dim=-1)
        values = values.masked_fill(shares.cumsum(dim=-1) - shares >= how.top_p, -torch.inf)
    if how.min_p > 0:
        values = values.masked_fill(values < values.amax(dim=-1, keepdim=True) + math.log(how.min_p), -torch.inf)
    if how.typical_p < 1:
        values = _typical(values, how.typical_p)
    return values, ids


def _typical(values: torch.Tensor, mass: float) -> torch.Tensor:
    """Keep the tokens whose surprise is nearest to the expected one, as many as reach the mass."""
    logprobs = torch.log_softmax(values, dim=-1)
    shares = logprobs.exp()
    expected = -(shares * logprobs.masked_fill(shares == 0, 0)).sum(dim=-1, keepdim=True)
    order = (-logprobs - expected).abs().sort(dim=-1, stable=True).indices
    sorted_shares = shares.gather(1, order)
    is_cut = sorted_shares.cumsum(dim=-1) - sorted_shares >= mass
    return values.masked_fill(torch.zeros_like(is_cut).scatter(1, order, is_cut), -torch.inf)
