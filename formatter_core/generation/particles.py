"""Draw weighted samples of the model's distribution given the format, and of your own score: sequential Monte Carlo.

Each particle is an output that is drawn under the masks. Its weight is the product of the probabilities that the model
gave to the allowed tokens, times the score; copies of better particles replace particles of small weight (Lew et al.
2023, "Sequential Monte Carlo Steering of Large Language Models using Probabilistic Programs"). The masks give the
allowed mass exactly, so the weights need none of the estimates of Lipkin et al. 2025 ("Fast Controlled Generation from
Language Models with Adaptive Weighted Rejection Sampling"), and their mean is still unbiased.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument, NoParticleLeft
from formatter_core.errors.arguments import real_number, shown, true_or_false
from formatter_core.generation.draws import stream_of
from formatter_core.generation.loop import LoopSettings, Row, ended, news
from formatter_core.generation.models import GenerationEvent, LogitsModel, weighing
from formatter_core.generation.results import Generated
from formatter_core.generation.weighed_batch import Position, WeighedBatch, chosen_at

__all__ = ["Particles", "run_particles"]


@dataclass(frozen=True)
class Particles:
    """The settings of sequential Monte Carlo; the samples of a prompt are its particles.

    Attributes:
        score: returns a factor of an output's weight, a number of at least 0; True and False count as 1 and 0. Outputs
            are then drawn in proportion to the model's probability times the score.
        each_step: whether `score` is called after every step, with the text so far, so that particles without a future
            are replaced early. In the end only the score of the whole output counts; a score of 0 is final.
        resample_below: particles are resampled when the effective sample size is below this share of their number; 0
            never resamples, which is importance sampling.
        with_end: see `Faithful`.
    """

    score: Callable[[Generated], float] | None = None
    each_step: bool = False
    resample_below: float = 0.5
    with_end: bool = True

    def __post_init__(self) -> None:
        if self.score is not None and not callable(self.score):
            raise InvalidArgument(f"score is {shown(self.score)}; give a function of an output", argument="score")
        true_or_false(self.each_step, "each_step")
        true_or_false(self.with_end, "with_end")
        if not 0 <= real_number(self.resample_below, "resample_below") <= 1:
            raise InvalidArgument(
                f"resample_below is {self.resample_below}; give a share from 0 to 1", argument="resample_below"
            )


def run_particles(
    model: LogitsModel, rows: Sequence[Row], settings: LoopSettings, *, how: Particles
) -> Iterator[GenerationEvent]:
    """Write the particles of one prompt to their ends, together."""
    if rows:
        yield from _Population(model, rows, settings, how).run()


class _Population:
    """The particles of one prompt: `rows[i]` is the text of particle `i`, and `logs[i]` the logarithm of its weight."""

    def __init__(self, model: LogitsModel, rows: Sequence[Row], settings: LoopSettings, how: Particles) -> None:
        self._settings = settings
        self._how = how
        self._vocabulary = model.vocabulary
        self._batch = WeighedBatch(
            weighing(model), len(rows), forces=settings.forced_text != "off", with_end=how.with_end
        )
        self._rows = list(rows)
        self._uniforms = [stream_of(row.key) for row in rows]
        self._resampling = stream_of(~rows[0].key & (2**64 - 1))
        self._logs = np.zeros(len(rows))  # logarithms of the weights, including the scores
        self._scores = np.zeros(len(rows))  # logarithms of the scores alone
        self._over: set[int] = set()
        self._ahead: list[list[Position]] = [[] for _ in rows]  # positions that are computed but not written yet

    def run(self) -> Iterator[GenerationEvent]:
        while going := [at for at in range(len(self._rows)) if at not in self._over]:
            if self._settings.cancelled():
                yield from ended(self._rows, self._settings)
                return
            wanted = {at: self._rows[at] for at in going if not self._ahead[at]}
            if wanted:
                found = self._batch.weigh(wanted, going)
                for at in wanted:
                    self._ahead[at] = found.get(at, [])
            for at in going:
                self._step(at)
            if self._effective() < self._how.resample_below * len(self._rows):
                self._resample()
        if (self._logs == -math.inf).any():
            self._resample()
        for at, row in enumerate(self._rows):
            row.log_weight = float(self._logs[at])
            self._batch.remember(at)
            yield from news(row, self._settings)

    def _step(self, at: int) -> None:
        """Write the next token of a particle.

        All particles have the same number of tokens, so that their weights can be compared; the model computed forced
        text earlier.
        """
        row, ahead = self._rows[at], self._ahead[at]
        if not ahead or ahead[0].node.kept <= 0:
            return self._lose(at)
        position = ahead.pop(0)
        node = position.node
        self._logs[at] += math.log(node.kept)
        pick = node.pick(self._uniforms[at]() * node.kept)
        token = node.unlisted(position.row, pick) if pick.token is None else pick.token
        if token is None:
            return self._lose(at)
        row.chosen.append(chosen_at(node, token, float(position.row[token])))
        row.take(token, self._vocabulary, self._settings.stop_ids)
        row.pending = []
        row.check()
        if row.stopped == "error" or (row.stopped == "length" and row.cursor is not None):
            return self._lose(at)
        if row.stopped is not None:
            self._over.add(at)
        if self._how.score is not None and (self._how.each_step or row.stopped is not None):
            self._weigh(at, self._how.score(row.generated()))
        return None

    def _weigh(self, at: int, score: float) -> None:
        score = float(score) if isinstance(score, (bool, np.bool_)) else real_number(score, "score")
        if score < 0:
            raise InvalidArgument(f"the score is {shown(score)}; give a number from 0", argument="score")
        if score == 0:
            return self._lose(at)
        self._logs[at] += math.log(score) - self._scores[at]
        self._scores[at] = math.log(score)
        return None

    def _lose(self, at: int) -> None:
        """Mark a particle as lost: it waits to be replaced by a copy of another one."""
        self._logs[at] = -math.inf
        self._over.add(at)

    def _effective(self) -> float:
        """Return the effective sample size: the number of particles of equal weight that would carry as much
        information.
        """
        weights = self._weights()
        return float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0

    def _weights(self) -> NDArray[np.float64]:
        best = self._logs.max()
        return np.exp(self._logs - best) if best > -math.inf else np.zeros(len(self._logs))

    def _resample(self) -> None:
        """Replace the particles by copies in proportion to their weights; one draw for all of them keeps the noise low.

        Raises:
            NoParticleLeft: no particle has a positive weight.
        """
        count, weights = len(self._rows), self._weights()
        if not weights.any():
            errors = [row.error for row in self._rows if row.error is not None]
            raise NoParticleLeft(count) from (errors[0] if errors else None)
        reached = np.cumsum(weights)
        marks = (self._resampling() + np.arange(count)) / count * reached[-1]
        parents = np.minimum(np.searchsorted(reached, marks, side="right"), np.flatnonzero(weights)[-1]).tolist()
        parents = _kept_in_place(parents)
        self._batch.select(parents)
        self._rows = [
            self._rows[parent] if parent == at else _copy(self._rows[parent], self._rows[at])
            for at, parent in enumerate(parents)
        ]
        self._over = {at for at, row in enumerate(self._rows) if row.stopped is not None}
        self._scores = self._scores[parents]
        self._ahead = [[*self._ahead[parent]] for parent in parents]
        self._logs = np.full(count, self._logs.max() + math.log(weights.mean()))


def _kept_in_place(parents: list[int]) -> list[int]:
    """Reorder the parents so that each particle that is kept stays at its place."""
    taken = set(parents)
    copies = [later for earlier, later in pairwise(sorted(parents)) if earlier == later]
    return [at if at in taken else copies.pop() for at in range(len(parents))]


def _copy(parent: Row, replaced: Row) -> Row:
    row = parent.fork()
    row.sample, row.key = replaced.sample, replaced.key
    return row
