"""Beam search under a format, without an engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine import rows as bitmask
from formatter_core.errors import DeadEnd, InvalidArgument
from formatter_core.generation.results import ChosenToken, Generated
from formatter_core.generation.top_n import log_softmax
from formatter_core.runtime.formatter import Formatter

__all__ = ["Beam", "BeamSearch"]


@dataclass(frozen=True)
class Beam:
    """One hypothesis.

    Attributes:
        tokens: its ids, the end id included.
        logprobs: of each of them, among all tokens.
        logprob: their sum.
        parent: which beam of the step before it goes on from.
        formatter: the state after its tokens.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    logprob: float
    parent: int
    formatter: Formatter


class BeamSearch:
    """The beams of one prompt: the most probable texts of a format, as far as `width` hypotheses at a time show.

    Each step takes what may follow each beam that goes on: its logits (`advance`), or the best of them (`take`). The
    search is over when no beam that goes on can get better than the finished ones, for log-probabilities only fall.

    Args:
        formatter: the state before the first token; every beam has a fork of its own, the compiled format is shared.
        width: how many beams.
    """

    def __init__(self, formatter: Formatter, width: int) -> None:
        if width < 1:
            raise InvalidArgument(f"a search needs at least one beam, not {width}")
        self.width = width
        self.beams: list[Beam] = [Beam((), (), 0.0, 0, formatter)]
        self.finished: list[Beam] = []
        #: How many of the best tokens of a beam can be among the best of all: ends take no beam's place.
        self.candidates = width + len(formatter.end_ids)
        self._rows = [self._mask(formatter)]

    @property
    def is_over(self) -> bool:
        """Whether more steps cannot change `finished`."""
        if not self.beams:
            return True
        return len(self.finished) >= self.width and self.finished[-1].logprob >= self.beams[0].logprob

    @property
    def masks(self) -> NDArray[np.int32]:
        """What may follow each beam, int32 (beams, words of the vocabulary)."""
        return np.stack(self._rows)

    def advance(self, logits: Sequence[NDArray[np.single]]) -> None:
        """One token more for each beam; `beams` are then the new ones, the best first, each with its parent.

        Args:
            logits: a row, float32 (width of the vocabulary,), for each beam in order; left unchanged.

        Raises:
            DeadEnd: no beam is left, and none has finished.
        """
        candidates: list[list[tuple[int, float]]] = []
        for row, mask in zip(logits, self._rows, strict=True):
            scores = log_softmax(row)
            bitmask.apply_inplace(scores, mask)
            count = min(self.candidates, len(scores))
            best = np.argpartition(-scores, count - 1)[:count]
            candidates.append([(int(token), float(scores[token])) for token in best])
        self.take(candidates)

    def take(self, candidates: Sequence[Iterable[tuple[int, float]]]) -> None:
        """`advance`, given for each beam its best allowed tokens with their log-probabilities among all tokens.

        Args:
            candidates: `BeamSearch.candidates` tokens for each beam, in any order; those of -inf are left out.

        Raises:
            DeadEnd: no beam is left, and none has finished.
        """
        ranked = sorted(
            (-(beam.logprob + logprob), index, token, logprob)
            for index, (beam, best) in enumerate(zip(self.beams, candidates, strict=True))
            for token, logprob in best
            if logprob > -np.inf
        )
        following: list[Beam] = []
        rows: list[NDArray[np.int32]] = []
        dead: DeadEnd | None = None
        for total, index, token, logprob in ranked:
            if len(following) == self.width:
                break
            beam = self.beams[index]
            formatter = beam.formatter.fork()
            formatter.accept_token(token)
            new = Beam((*beam.tokens, token), (*beam.logprobs, logprob), -total, index, formatter)
            if formatter.is_finished:
                self.finished.append(new)
                continue
            try:
                rows.append(self._mask(formatter))
            except DeadEnd as error:  # the place is free for another beam
                dead = error
            else:
                following.append(new)
        self.finished.sort(key=lambda beam: -beam.logprob)
        del self.finished[self.width :]
        self.beams, self._rows = following, rows
        if dead is not None and not following and not self.finished:
            raise dead

    @staticmethod
    def _mask(formatter: Formatter) -> NDArray[np.int32]:
        row = np.zeros(formatter.compiled.vocabulary.words, dtype=np.int32)
        formatter.fill_bitmask(row)
        return row

    def outputs(self, prompt: Sequence[int] = ()) -> list[Generated]:
        """The finished texts, the best first; their `chosen` have the log-probabilities among all tokens.

        Args:
            prompt: the ids before them.
        """
        return [
            Generated(
                beam.tokens,
                beam.formatter.bytes,
                "end",
                chosen=tuple(
                    ChosenToken(token, None, one) for token, one in zip(beam.tokens, beam.logprobs, strict=True)
                ),
                formatter=beam.formatter,
                prompt=tuple(prompt),
            )
            for beam in self.finished
        ]
