"""The best tokens of a batch of logits in torch: measured where they are; from a device, one copy brings them over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument
from formatter_core.generation.candidates import (
    ScoreSettings,
    Ties,
    TopTokens,
    check_ids,
    checked_counts,
    chosen_token,
    listed,
    measured_tokens,
)
from formatter_core.generation.results import ChosenToken
from formatter_core.limits import DEFAULT_LIMITS, Limits

__all__ = ["score_step", "top_tokens"]

Chosen: TypeAlias = "torch.Tensor | Sequence[int]"

#: Logits that are measured at a time on a device; what is computed on the way takes at most eight bytes for each.
_AT_ONCE = 1 << 20
_NUMPY_DTYPES = (torch.float64, torch.float32, torch.float16)
#: Columns before the ids and values: the chosen token, its logit, how many are better, the scale, how many are kept.
_HEAD = 5


def top_tokens(
    logits: torch.Tensor,
    n: int | Sequence[int],
    *,
    chosen: Chosen | None = None,
    ties: Ties = "all",
    logprob: bool = True,
    rank: bool = True,
    limits: Limits = DEFAULT_LIMITS,
) -> list[TopTokens]:
    """Compute `formatter_core.generation.top_tokens` for floating torch logits of any dtype, on any device.

    Logits in the host's memory are measured there. Those of a device are measured on it, all rows together, and one
    copy brings what was found to the host; a row comes over whole where more than `n / 4 + 8` tokens tie at the end of
    its list. Ties are those of the logits' own dtype; log-probabilities are computed in float32 at least.
    """
    settings = ScoreSettings(0, logprob, rank, ties=ties, limits=limits)
    if _is_on_host(logits):
        return _measured_on_host(logits, n, chosen, settings)
    measure = _Measure(logits, n, chosen, settings)
    return measure.read(measure.packed().cpu().numpy())


def score_step(
    logits: torch.Tensor, masked: torch.Tensor, chosen: torch.Tensor, settings: ScoreSettings
) -> list[ChosenToken]:
    """Measure one step of a generation loop as `settings` ask, before and after the mask, with one copy to the host.

    Args:
        logits: floating (rows, width), from the model.
        masked: the logits after the mask; the same object if there is no mask.
        chosen: int64 (rows,), the chosen tokens.
        settings: the values to compute.

    Returns:
        one for each row, the entries of `Generated.chosen`.
    """
    batches = (masked, logits) if settings.unmasked and masked is not logits else (masked,)
    if _is_on_host(logits):
        found = [_measured_on_host(batch, settings.top, chosen, settings) for batch in batches]
    else:
        measures = [_Measure(batch, settings.top, chosen, settings) for batch in batches]
        packed = torch.cat([measure.packed() for measure in measures]).cpu().numpy()
        parts = np.split(packed, len(measures))
        found = [measure.read(part) for measure, part in zip(measures, parts, strict=True)]
    return [
        chosen_token(after, before if settings.unmasked else None)
        for after, before in zip(found[0], found[-1], strict=True)
    ]


def _is_on_host(logits: torch.Tensor) -> bool:
    return logits.device.type == "cpu"


def _measured_on_host(
    logits: torch.Tensor, n: int | Sequence[int], chosen: Chosen | None, settings: ScoreSettings
) -> list[TopTokens]:
    _check(logits, chosen)
    rows = logits.detach()
    if rows.dtype == torch.bfloat16:  # which numpy does not have
        array = rows.view(torch.int16).numpy().view(np.uint16)
    else:
        array = (rows if rows.dtype in _NUMPY_DTYPES else rows.float()).numpy()
    return measured_tokens(array, n, chosen.tolist() if isinstance(chosen, torch.Tensor) else chosen, settings)


def _check(logits: torch.Tensor, chosen: Chosen | None = None) -> None:
    if logits.ndim != 2 or not logits.is_floating_point():
        raise InvalidArgument(f"logits are floating (rows, width), but these are {logits.dtype} {tuple(logits.shape)}")
    if isinstance(chosen, torch.Tensor) and chosen.shape != logits.shape[:1]:
        found = f"chosen tokens of shape {tuple(chosen.shape)}"
        raise InvalidArgument(f"{found} for {len(logits)} rows of logits; give one for each row")


@dataclass
class _Measure:
    """One question about a batch: `packed` runs on the device, `read` on the host."""

    logits: torch.Tensor
    n: int | Sequence[int]
    chosen: Chosen | None
    settings: ScoreSettings

    def __post_init__(self) -> None:
        _check(self.logits)
        rows, self.width = self.logits.shape
        self.counts = [min(count, self.width) for count in checked_counts(self.n, rows, self.settings.limits)]
        most = max(self.counts, default=0)
        #: The number of tokens that are selected first. The spare ones show ties without a second selection: in
        #: bfloat16 there is about one in five rows at n = 5, and one in each at n = 20.
        self.sorted = min(most + most // 4 + 8, self.width) if most else 0
        #: Exact for the values of the logits, and at least float32 for sums.
        self.dtype = torch.float64 if self.logits.dtype == torch.float64 else torch.float32
        if self.chosen is None:
            return
        if not isinstance(self.chosen, torch.Tensor):  # of a tensor this would wait for its device
            check_ids(self.chosen, self.width)
        self.chosen = torch.as_tensor(self.chosen, dtype=torch.int64, device=self.logits.device)
        _check(self.logits, self.chosen)

    @torch.inference_mode()
    def packed(self) -> torch.Tensor:
        """Pack the results into one tensor of floats (rows, columns), so that one copy brings them to the host.

        Ids and counts are exact in it (below 2^24). The columns are those of `_HEAD`, then ids, then values.
        """
        rows, at_once = self.logits, max(1, _AT_ONCE // max(1, self.width))
        token = value = place = scale = tied = rows.new_zeros(len(rows), dtype=self.dtype)
        if isinstance(self.chosen, torch.Tensor):
            logit = rows.gather(1, self.chosen[:, None])
            token, value = self.chosen, logit[:, 0]
            if self.settings.rank:
                parts = zip(rows.split(at_once), logit.split(at_once), strict=True)
                place = torch.cat([(part > own).sum(1) for part, own in parts])
        if self.sorted or (self.chosen is not None and self.settings.logprob):
            scale = torch.cat([part.to(self.dtype).logsumexp(1) for part in rows.split(at_once)])
        head = [token, value, place, scale]
        if not self.sorted:
            return torch.stack([one.to(self.dtype) for one in (*head, tied)], 1)
        values, ids = rows.topk(self.sorted, 1)
        wanted = torch.tensor(self.counts, device=rows.device)[:, None]
        last = values.gather(1, (wanted - 1).clamp(min=0))
        kept = (values >= last) & (values > -torch.inf) & (wanted > 0)
        columns = [*(one[:, None] for one in (*head, kept.sum(1))), ids, values]
        return torch.cat([column.to(self.dtype) for column in columns], 1)

    def read(self, packed: NDArray[Any]) -> list[TopTokens]:
        """Return the result of each row, read from the output of `packed`."""
        value, scale = (packed[:, column].astype(np.float64) for column in (1, 3))
        if np.isnan(scale).any() or np.isposinf(scale).any():
            raise InvalidArgument("the logits hold NaN or +inf, so they say nothing; look for an overflow in the model")
        scale[np.isneginf(scale)] = 0.0  # nothing is allowed in this row
        ids, values = packed[:, _HEAD : _HEAD + self.sorted].astype(np.int64), packed[:, _HEAD + self.sorted :]
        order = np.lexsort((ids, -values), axis=1)  # the best first and ties by id: `topk` gives ties in any order
        ids, values = np.take_along_axis(ids, order, 1), np.take_along_axis(values, order, 1)
        how = self.settings
        columns = zip(
            self.counts,
            packed[:, 4].astype(np.int64).tolist(),
            ids.tolist(),
            (values.astype(np.float64) - scale[:, None]).tolist(),
            _ranks(values).tolist(),
            packed[:, 0].astype(np.int64).tolist() if self.chosen is not None else [None] * len(packed),
            (value - scale).tolist(),
            packed[:, 2].astype(np.int64).tolist(),
            strict=True,
        )
        found: list[TopTokens] = []
        for n, tied, *row in columns:
            if tied == self.sorted < self.width and n:
                found.append(self._on_the_host(len(found)))
                continue
            found.append(listed(how, n, tied, *row))
        return found

    def _on_the_host(self, row: int) -> TopTokens:
        """Measure, on the host, a row whose selected values all tie with the last; unseen values may tie, too."""
        logits = self.logits[row : row + 1].detach().to(self.dtype).cpu().numpy()
        chosen = self.chosen[row : row + 1].tolist() if isinstance(self.chosen, torch.Tensor) else None
        return measured_tokens(logits, self.counts[row], chosen, self.settings)[0]


def _ranks(values: NDArray[Any]) -> NDArray[np.intp]:
    """Return the rank of each value: one plus the number of greater values in its row.

    Values do not increase along a row.
    """
    places = np.arange(values.shape[1])
    falls = np.ones(values.shape, dtype=bool)
    falls[:, 1:] = values[:, 1:] < values[:, :-1]
    ranks: NDArray[np.intp] = np.maximum.accumulate(np.where(falls, places, 0), axis=1) + 1
    return ranks
