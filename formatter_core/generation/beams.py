"""Beam search under a format, without an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from formatter_core import bitmask
from formatter_core.errors import InvalidFormat
from formatter_core.formatter import Formatter
from formatter_core.generation.top_n import log_softmax

__all__ = ["Beam", "BeamSearch"]


@dataclass(frozen=True)
class Beam:
    """One hypothesis.

    Attributes:
        tokens: its ids, the end id included.
        logprob: the sum of their log-probabilities among all tokens.
        parent: which beam of the step before it goes on from.
        formatter: the state after its tokens.
    """

    tokens: tuple[int, ...]
    logprob: float
    parent: int
    formatter: Formatter


class BeamSearch:
    """The beams of one prompt: the most probable texts of a format, as far as `width` hypotheses at a time show.

    Each step takes a row of logits for each beam that goes on. The search is over when no beam that goes on can get
    better than the finished ones, for log-probabilities only fall.

    Args:
        formatter: the state before the first token; every beam has a fork of its own, the compiled format is shared.
        width: how many beams.
    """

    def __init__(self, formatter: Formatter, width: int) -> None:
        if width < 1:
            raise InvalidFormat(f"a search needs at least one beam, not {width}")
        self.width = width
        self.beams: list[Beam] = [Beam((), 0.0, 0, formatter)]
        self.finished: list[Beam] = []
        self._row = np.zeros(formatter.compiled.vocabulary.words, dtype=np.int32)

    @property
    def is_over(self) -> bool:
        """Whether more steps cannot change `finished`."""
        if not self.beams:
            return True
        return len(self.finished) >= self.width and self.finished[-1].logprob >= self.beams[0].logprob

    def advance(self, logits: Sequence[NDArray[np.single]]) -> None:
        """One token more for each beam; `beams` are then the new ones, the best first, each with its parent.

        Args:
            logits: a row, float32 (width of the vocabulary,), for each beam in order; left unchanged.
        """
        candidates: list[tuple[float, int, int]] = []
        for index, (beam, row) in enumerate(zip(self.beams, logits, strict=True)):
            scores = log_softmax(row)
            beam.formatter.fill_bitmask(self._row)
            bitmask.apply_inplace(scores, self._row)
            # No more than these can be among the best of all beams, ends included, which take no beam's place.
            count = min(self.width + len(beam.formatter.end_ids), len(scores))
            best = np.argpartition(-scores, count - 1)[:count]
            candidates += [(beam.logprob + float(scores[t]), index, int(t)) for t in best if scores[t] > -np.inf]
        candidates.sort(key=lambda candidate: (-candidate[0], candidate[1:]))
        following: list[Beam] = []
        for total, index, token in candidates:
            beam = self.beams[index]
            if len(following) == self.width:
                break
            formatter = beam.formatter.fork()
            formatter.accept_token(token)
            new = Beam((*beam.tokens, token), total, index, formatter)
            (self.finished if formatter.is_finished else following).append(new)
        self.finished.sort(key=lambda beam: -beam.logprob)
        del self.finished[self.width :]
        self.beams = following
