"""The best tokens of a batch of logits in torch: measured on their device, brought over in one copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument
from formatter_core.generation.candidates import ScoreSettings, Ties, TopTokens, check_ids, checked_counts, chosen_token
from formatter_core.generation.results import ChosenToken
from formatter_core.limits import DEFAULT_LIMITS, Limits

__all__ = ["score_step", "top_tokens"]

Chosen: TypeAlias = "torch.Tensor | Sequence[int]"

#: How many more than `n` are sorted out at first, to find ties without a second look: in bfloat16 about one more for
#: every five rows at n = 5, and one a row at n = 20.
_SPARE = 24
#: Logits that are measured at a time; what is computed on the way takes at most eight bytes for each. With more, a CPU
#: spends most of the time on new memory.
_AT_ONCE = 1 << 20
#: Columns in a group of which only the best one is compared at first.
_GROUP = 16
#: Columns before the ids and values: the chosen token, its logit and rank, the scale, how many tie, how many are sure.
_HEAD = 6


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
    """The `n` best tokens of each row, and those that are exactly as good as the last of them.

    All rows are measured together on the device of the logits, and one copy brings what was found to the host; a second
    one is needed only where more than two dozen tokens tie at the end of a list. Ties are those of the logits' own
    dtype; log-probabilities are computed in float32 at least. Tokens of -inf, which a mask forbids, are never among
    them. What is computed on the way takes at most 8 MiB.

    Args:
        logits: floating (rows, width) on any device, as the model gives them; left unchanged.
        n: how many, for all rows or for each; 0 gives none.
        chosen: a token for each row, int64 (rows,) or a list, to learn its log-probability and rank.
        ties: `"all"`, at most `Limits.max_top_n` tokens in all; or `"none"` for exactly `n`. Of equally good tokens
            the lowest ids come first and stay.
        logprob: whether the log-probability of the chosen token is wanted.
        rank: whether its rank is wanted.
        limits: bounds what may be asked for, and how many ties come back.

    Raises:
        InvalidArgument: logits of another shape or that are not numbers, `n` or `chosen` that do not fit them.
        LimitExceeded: `n` is greater than `Limits.max_top_n`.
    """
    measure = _Measure(logits, n, chosen, ties, logprob, rank, limits)
    return measure.read(measure.packed().cpu().numpy())


def score_step(
    logits: torch.Tensor, masked: torch.Tensor, chosen: torch.Tensor, settings: ScoreSettings
) -> list[ChosenToken]:
    """What `settings` ask about one step of a generation loop, before and after the mask, in one copy to the host.

    Args:
        logits: floating (rows, width), as the model gave them.
        masked: the same after the mask; the same object where there is none.
        chosen: int64 (rows,), the tokens that were taken.
        settings: what is wanted.

    Returns:
        one for each row, the entries of `Generated.chosen`.
    """

    def measure(values: torch.Tensor) -> _Measure:
        return _Measure(values, settings.top, chosen, settings.ties, settings.logprob, settings.rank, settings.limits)

    after = measure(masked)
    if not settings.unmasked or masked is logits:
        found = after.read(after.packed().cpu().numpy())
        return [chosen_token(one, one if settings.unmasked else None) for one in found]
    before = measure(logits)
    both = torch.cat([after.packed(), before.packed()]).cpu().numpy()
    return list(map(chosen_token, after.read(both[: len(both) // 2]), before.read(both[len(both) // 2 :])))


@dataclass
class _Measure:
    """One question about a batch: `packed` runs on the device, `read` on the host."""

    logits: torch.Tensor
    n: int | Sequence[int]
    chosen: Chosen | None
    ties: Ties
    logprob: bool
    rank: bool
    limits: Limits

    def __post_init__(self) -> None:
        if self.logits.ndim != 2 or not self.logits.is_floating_point():
            raise InvalidArgument(
                f"logits are floating (rows, width), but these are {self.logits.dtype} {tuple(self.logits.shape)}"
            )
        rows, self.width = self.logits.shape
        self.counts = [min(count, self.width) for count in checked_counts(self.n, rows, self.limits)]
        most = max(self.counts, default=0)
        self.sorted = min(most + _SPARE, self.width) if most else 0
        #: Exact for the values of the logits, and at least float32 for sums.
        self.dtype = torch.float64 if self.logits.dtype == torch.float64 else torch.float32
        if self.chosen is None:
            return
        if not isinstance(self.chosen, torch.Tensor):  # of a tensor this would wait for its device
            check_ids(self.chosen, self.width)
        self.chosen = torch.as_tensor(self.chosen, dtype=torch.int64, device=self.logits.device)
        if self.chosen.shape != (rows,):
            raise InvalidArgument(f"{len(self.chosen)} chosen tokens for {rows} rows of logits; give one for each row")

    def packed(self) -> torch.Tensor:
        """What was found, int64 (rows, columns): one tensor, so that one copy brings it all.

        Numbers travel as their bits. The columns are those of `_HEAD`, then ids, then values.
        """
        height = max(1, _AT_ONCE // max(1, self.width))
        with torch.inference_mode():
            parts = [self._part(start, start + height) for start in range(0, len(self.counts), height)]
        return torch.cat(parts) if parts else self.logits.new_zeros((0, _HEAD + 2 * self.sorted), dtype=torch.int64)

    def _part(self, start: int, stop: int) -> torch.Tensor:
        rows, counts = self.logits[start:stop], self.counts[start:stop]
        has_chosen = isinstance(self.chosen, torch.Tensor)
        if self.sorted or (has_chosen and (self.logprob or self.rank)):
            rows = rows.to(self.dtype)  # once: the values stay what they are, and a CPU is slow with half of a float
        nothing = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
        token = value = place = scale = tied = sure = nothing
        if isinstance(self.chosen, torch.Tensor):
            token = self.chosen[start:stop]
            logit = rows.gather(1, token[:, None])
            value = self._bits(logit[:, 0])
            if self.rank:
                place = (rows > logit).sum(1)
        if self.sorted or (has_chosen and self.logprob):
            scale = self._bits(torch.logsumexp(rows, 1))
        head = [token, value, place, scale]
        if not self.sorted:
            return torch.stack([*head, tied, sure], 1)
        values, ids = _topk(rows, self.sorted)
        if len(set(counts)) == 1:
            last = values[:, max(counts[0] - 1, 0), None]
            kept = (values >= last) & (values > -torch.inf) if counts[0] else torch.zeros_like(values, dtype=torch.bool)
        else:
            wanted = torch.tensor(counts, device=rows.device)[:, None]
            last = values.gather(1, (wanted - 1).clamp(min=0))
            kept = (values >= last) & (values > -torch.inf) & (wanted > 0)
        numbers = torch.stack([*head, kept.sum(1), (kept & (values > last)).sum(1)], 1)
        return torch.cat([numbers, ids, self._bits(values)], 1)

    def _bits(self, values: torch.Tensor) -> torch.Tensor:
        values = values.to(self.dtype).contiguous()
        return values.view(torch.int64) if self.dtype == torch.float64 else values.view(torch.int32).to(torch.int64)

    def _numbers(self, bits: NDArray[np.int64]) -> NDArray[Any]:
        bits = np.ascontiguousarray(bits)
        return bits.view(np.float64) if self.dtype == torch.float64 else bits.astype(np.int32).view(np.float32)

    def read(self, packed: NDArray[np.int64]) -> list[TopTokens]:
        """The result of each row, from what `packed` gave."""
        token, place, tied, sure = packed[:, 0], packed[:, 2], packed[:, 4].copy(), packed[:, 5]
        value, scale = self._numbers(packed[:, 1]).astype(np.float64), self._numbers(packed[:, 3]).astype(np.float64)
        if np.isnan(scale).any() or np.isposinf(scale).any():
            raise InvalidArgument("the logits hold NaN or +inf, so they say nothing; look for an overflow in the model")
        scale[np.isneginf(scale)] = 0.0  # nothing is allowed in this row
        ids, values = packed[:, _HEAD : _HEAD + self.sorted], self._numbers(packed[:, _HEAD + self.sorted :])
        if self.sorted:
            ids, values = self._in_order(ids, values)
            if self.sorted < self.width and (tied == self.sorted).any():
                ids, values = self._with_all_ties(np.flatnonzero(tied == self.sorted), ids, values, tied, sure)
        ranks = _ranks(values)
        logprobs = values.astype(np.float64) - scale[:, None]
        most = [min(n, self.limits.max_top_n) if self.ties == "none" else self.limits.max_top_n for n in self.counts]
        asked = self.chosen is not None
        columns = zip(
            tied.tolist(),
            most,
            ids.tolist(),
            logprobs.tolist(),
            ranks.tolist(),
            token.tolist(),
            (value - scale).tolist(),
            place.tolist(),
            strict=True,
        )
        return [
            TopTokens(
                tuple(row_ids[: min(count, cap)]),
                tuple(row_logprobs[: min(count, cap)]),
                tuple(row_ranks[: min(count, cap)]),
                count > cap,
                chosen if asked else None,
                chosen_logprob if asked and self.logprob else None,
                better + 1 if asked and self.rank else None,
            )
            for count, cap, row_ids, row_logprobs, row_ranks, chosen, chosen_logprob, better in columns
        ]

    @staticmethod
    def _in_order(ids: NDArray[np.int64], values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The best first and ties by id: `topk` gives equal values in any order."""
        order = np.lexsort((ids, -values), axis=1)
        return np.take_along_axis(ids, order, 1), np.take_along_axis(values, order, 1)

    def _with_all_ties(
        self,
        rows: NDArray[np.intp],
        ids: NDArray[np.int64],
        values: NDArray[Any],
        tied: NDArray[np.int64],
        sure: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Rows in which everything that was sorted out ties with the last: what was not seen may tie as well.

        `topk` has then kept any of the ties; those with the lowest ids are looked up.
        """
        cap = min(self.limits.max_top_n, self.width)
        wide = max(cap, self.sorted)
        ids, values = (np.pad(array, ((0, 0), (0, wide - self.sorted))) for array in (ids, values))
        backwards = torch.arange(self.width, 0, -1, dtype=torch.int32, device=self.logits.device)
        height = max(1, _AT_ONCE // self.width)
        for start in range(0, len(rows), height):
            part = rows[start : start + height]
            some = self.logits[torch.from_numpy(part).to(self.logits.device)]
            last = torch.from_numpy(values[part, self.sorted - 1]).to(self.logits.device, some.dtype)
            ties = some == last[:, None]
            lowest = self.width - (ties * backwards).topk(cap, 1).values
            found = torch.cat([ties.sum(1, keepdim=True), lowest], 1).cpu().numpy()
            for row, (count, *places) in zip(part.tolist(), found.tolist(), strict=True):
                better = int(sure[row])
                end = min(wide, better + min(count, cap))
                ids[row, better:end] = places[: end - better]
                values[row, better:end] = values[row, self.sorted - 1]
                tied[row] = better + count
        return ids, values


def _topk(rows: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`rows.topk(k, 1)`, about twice as fast on a CPU: it sorts only groups of columns whose best are among the best.

    At most k groups hold a value of the k best, so none of these is in a group that is left out, save for ties.
    """
    groups = rows.shape[1] // _GROUP
    if rows.device.type != "cpu" or groups < 4 * k:
        best = rows.topk(k, 1)
        return best.values, best.indices
    # A group is each so many-th column, so that vectors of neighbouring columns are compared at once.
    grouped = rows[:, : groups * _GROUP].reshape(len(rows), _GROUP, groups)
    chosen = grouped.amax(1).topk(k, 1, sorted=False).indices[:, None, :].expand(-1, _GROUP, -1)
    columns = (chosen + torch.arange(_GROUP)[:, None] * groups).flatten(1)
    rest = torch.arange(groups * _GROUP, rows.shape[1]).expand(len(rows), -1)
    columns = torch.cat([columns, rest], 1)
    values, places = rows.gather(1, columns).topk(k, 1)
    return values, columns.gather(1, places)


def _ranks(values: NDArray[Any]) -> NDArray[np.intp]:
    """How many values of the row are greater, plus one; the values fall along each row."""
    places = np.arange(values.shape[1])
    falls = np.ones(values.shape, dtype=bool)
    falls[:, 1:] = values[:, 1:] < values[:, :-1]
    ranks: NDArray[np.intp] = np.maximum.accumulate(np.where(falls, places, 0), axis=1) + 1
    return ranks
