"""The best tokens of a batch of logits in torch: measured on their device, brought over in one copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument
from formatter_core.generation import candidates
from formatter_core.generation.candidates import ScoreSettings, Ties, TopTokens, check_ids, checked_counts, chosen_token
from formatter_core.generation.results import ChosenToken
from formatter_core.limits import DEFAULT_LIMITS, Limits

__all__ = ["score_step", "top_tokens"]

Chosen: TypeAlias = "torch.Tensor | Sequence[int]"

#: Logits that are measured at a time; what is computed on the way takes at most eight bytes for each. With more, a CPU
#: spends most of the time on new memory.
_AT_ONCE = 1 << 20
#: Columns in a group of which only the best one is compared at first.
_GROUP = 16
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
    """`formatter_core.generation.top_tokens` for floating torch logits of any dtype, on any device.

    All rows are measured together on the device of the logits, and one copy brings what was found to the host; a row
    comes over whole where more than `n / 4 + 8` tokens tie at the end of its list. Ties are those of the logits' own
    dtype; log-probabilities are computed in float32 at least.
    """
    measure = _Measure(logits, n, chosen, ScoreSettings(0, logprob, rank, ties=ties, limits=limits))
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
    after = _Measure(masked, settings.top, chosen, settings)
    if not settings.unmasked or masked is logits:
        found = after.read(after.packed().cpu().numpy())
        return [chosen_token(one, one if settings.unmasked else None) for one in found]
    before = _Measure(logits, settings.top, chosen, settings)
    both = torch.cat([after.packed(), before.packed()]).cpu().numpy()
    return list(map(chosen_token, after.read(both[: len(both) // 2]), before.read(both[len(both) // 2 :])))


@dataclass
class _Measure:
    """One question about a batch: `packed` runs on the device, `read` on the host."""

    logits: torch.Tensor
    n: int | Sequence[int]
    chosen: Chosen | None
    settings: ScoreSettings

    def __post_init__(self) -> None:
        if self.logits.ndim != 2 or not self.logits.is_floating_point():
            raise InvalidArgument(
                f"logits are floating (rows, width), but these are {self.logits.dtype} {tuple(self.logits.shape)}"
            )
        rows, self.width = self.logits.shape
        self.counts = [min(count, self.width) for count in checked_counts(self.n, rows, self.settings.limits)]
        most = max(self.counts, default=0)
        #: How many are sorted out at first. The spare ones find ties without a second look: in bfloat16 there is about
        #: one in five rows at n = 5, and one in each at n = 20.
        self.sorted = min(most + most // 4 + 8, self.width) if most else 0
        #: Exact for the values of the logits, and at least float32 for sums.
        self.dtype = torch.float64 if self.logits.dtype == torch.float64 else torch.float32
        if self.chosen is None:
            return
        if not isinstance(self.chosen, torch.Tensor):  # of a tensor this would wait for its device
            check_ids(self.chosen, self.width)
        self.chosen = torch.as_tensor(self.chosen, dtype=torch.int64, device=self.logits.device)
        if self.chosen.shape != (rows,):
            raise InvalidArgument(f"{len(self.chosen)} chosen tokens for {rows} rows of logits; give one for each row")

    @torch.inference_mode()
    def packed(self) -> torch.Tensor:
        """What was found, int64 (rows, columns): one tensor, so that one copy brings it all.

        Numbers travel as their bits. The columns are those of `_HEAD`, then ids, then values.
        """
        rows = self.logits
        token = value = place = scale = tied = rows.new_zeros(len(rows), dtype=torch.int64)
        if isinstance(self.chosen, torch.Tensor):
            token = self.chosen
            logit = rows.gather(1, token[:, None])
            value = self._bits(logit[:, 0])
            if self.settings.rank:
                place = _how_many_are_better(rows, logit)
        if self.sorted or (self.chosen is not None and self.settings.logprob):
            scale = self._bits(_log_sums(rows, self.dtype))
        head = [token, value, place, scale]
        if not self.sorted:
            return torch.stack([*head, tied], 1)
        values, ids = _topk(rows, self.sorted)
        wanted = torch.tensor(self.counts, device=rows.device)[:, None]
        last = values.gather(1, (wanted - 1).clamp(min=0))
        kept = (values >= last) & (values > -torch.inf) & (wanted > 0)
        return torch.cat([torch.stack([*head, kept.sum(1)], 1), ids, self._bits(values)], 1)

    def _bits(self, values: torch.Tensor) -> torch.Tensor:
        values = values.to(self.dtype).contiguous()
        return values.view(torch.int64) if self.dtype == torch.float64 else values.view(torch.int32).to(torch.int64)

    def _numbers(self, bits: NDArray[np.int64]) -> NDArray[Any]:
        bits = np.ascontiguousarray(bits)
        return bits.view(np.float64) if self.dtype == torch.float64 else bits.astype(np.int32).view(np.float32)

    def read(self, packed: NDArray[np.int64]) -> list[TopTokens]:
        """The result of each row, from what `packed` gave."""
        value, scale = (self._numbers(packed[:, column]).astype(np.float64) for column in (1, 3))
        if np.isnan(scale).any() or np.isposinf(scale).any():
            raise InvalidArgument("the logits hold NaN or +inf, so they say nothing; look for an overflow in the model")
        scale[np.isneginf(scale)] = 0.0  # nothing is allowed in this row
        ids, values = packed[:, _HEAD : _HEAD + self.sorted], self._numbers(packed[:, _HEAD + self.sorted :])
        order = np.lexsort((ids, -values), axis=1)  # the best first and ties by id: `topk` gives ties in any order
        ids, values = np.take_along_axis(ids, order, 1), np.take_along_axis(values, order, 1)
        how, asked = self.settings, self.chosen is not None
        columns = zip(
            self.counts,
            packed[:, 4].tolist(),
            ids.tolist(),
            (values.astype(np.float64) - scale[:, None]).tolist(),
            _ranks(values).tolist(),
            packed[:, 0].tolist(),
            (value - scale).tolist(),
            packed[:, 2].tolist(),
            strict=True,
        )
        found: list[TopTokens] = []
        for n, tied, row_ids, logprobs, ranks, chosen, chosen_logprob, better in columns:
            if tied == self.sorted < self.width and n:
                found.append(self._on_the_host(len(found)))
                continue
            kept = min(tied, n if how.ties == "none" else how.limits.max_top_n)
            found.append(
                TopTokens(
                    tuple(row_ids[:kept]),
                    tuple(logprobs[:kept]),
                    tuple(ranks[:kept]),
                    tied > kept,
                    chosen if asked else None,
                    chosen_logprob if asked and how.logprob else None,
                    better + 1 if asked and how.rank else None,
                )
            )
        return found

    def _on_the_host(self, row: int) -> TopTokens:
        """A row in which everything that was sorted out ties with the last, so that what was not seen may tie too."""
        logits = self.logits[row : row + 1].detach().to(self.dtype).cpu().numpy()
        chosen = self.chosen[row : row + 1].tolist() if isinstance(self.chosen, torch.Tensor) else None
        how, n = self.settings, self.counts[row]
        options: dict[str, Any] = {"ties": how.ties, "logprob": how.logprob, "rank": how.rank, "limits": how.limits}
        return candidates.top_tokens(logits, n, chosen=chosen, **options)[0]


def _parts(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """As many rows at a time as a pass over all columns takes."""
    at_once = _AT_ONCE // 4 if rows.device.type == "cpu" else _AT_ONCE  # a CPU is faster within its cache
    parts: tuple[torch.Tensor, ...] = rows.split(max(1, at_once // max(1, rows.shape[1])))
    return parts


def _log_sums(rows: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`rows.logsumexp(1)`, about twice as fast on a CPU: what the best logit of each row loses to be a log-probability.

    Every part is computed in the same memory, since new memory costs a CPU as much as the numbers in it.
    """
    parts, sums = _parts(rows), []
    memory = rows.new_empty((2, *parts[0].shape), dtype=dtype)
    for part in parts:
        converted, logprobs = memory[:, : len(part)]
        values = part if part.dtype == dtype else converted.copy_(part)
        torch.log_softmax(values, 1, out=logprobs)
        best = values.amax(1)
        sums.append(torch.where(best == -torch.inf, best, best - logprobs.amax(1)))
    return torch.cat(sums)


def _how_many_are_better(rows: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """How many values of each row are greater than its own of `logits`, (rows, 1)."""
    better = []
    for part, own in zip(_parts(rows), logits.split(len(_parts(rows)[0])), strict=True):
        better.append((part > own).view(torch.uint8).sum(1, dtype=torch.int64))  # a CPU is slow to sum booleans
    return torch.cat(better)


def _topk(rows: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`rows.topk(k, 1)`, two to three times as fast on a CPU: only groups of columns are sorted out whose best ones
    are among the best.

    At most k groups hold a value of the k best, so none of these is in a group that is left out, save for ties.
    """
    groups = rows.shape[1] // _GROUP
    if rows.device.type != "cpu" or groups < 4 * k:
        best = rows.topk(k, 1)
        return best.values, best.indices
    # A group is every n-th column, so that vectors of neighbouring columns are compared at once.
    maxima = rows[:, : groups * _GROUP].reshape(len(rows), _GROUP, groups).amax(1)
    members = _best_places(maxima, k)[:, None] + groups * np.arange(_GROUP)[:, None]
    remainder = np.broadcast_to(np.arange(groups * _GROUP, rows.shape[1]), (len(rows), rows.shape[1] % _GROUP))
    columns = np.concatenate([members.reshape(len(rows), -1), remainder], axis=1)
    values = rows.gather(1, torch.from_numpy(columns))
    places = torch.from_numpy(_best_places(values, k))
    values, order = values.gather(1, places).sort(1, descending=True)
    return values, torch.from_numpy(columns).gather(1, places.gather(1, order))


def _best_places(values: torch.Tensor, k: int) -> NDArray[np.intp]:
    """Where the k best of each row are, in any order; numpy, because it is faster at that."""
    wide = values.float() if values.dtype.itemsize < 4 else values
    return np.argpartition(wide.numpy(), -k, axis=1)[:, -k:]


def _ranks(values: NDArray[Any]) -> NDArray[np.intp]:
    """How many values of the row are greater, plus one; the values fall along each row."""
    places = np.arange(values.shape[1])
    falls = np.ones(values.shape, dtype=bool)
    falls[:, 1:] = values[:, 1:] < values[:, :-1]
    ranks: NDArray[np.intp] = np.maximum.accumulate(np.where(falls, places, 0), axis=1) + 1
    return ranks
