"""Beam search under a format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import DeadEnd, InvalidArgument, PromptTooLong
from formatter_core.generation.models import LogitsModel
from formatter_core.generation.prompts import OnePrompt, beginning
from formatter_core.generation.results import ChosenToken, Generated
from formatter_core.runtime.formatter import Formatter

__all__ = ["Beam", "BeamSearch", "beam_search"]


def beam_search(
    model: LogitsModel, prompt: OnePrompt, format: Any, *, width: int = 4, max_tokens: int = 128
) -> list[Generated]:
    """The most probable outputs in a format that `width` beams find, the best first, all of them complete.

    The raw sum of log-probabilities among all tokens decides, and `Generated.chosen` has them. The prompt is computed
    once, and each step makes one small copy to the host. There are fewer outputs than beams, or none, where
    `max_tokens` is too few for them to end.

    Args:
        model: whose logits are at hand.
        prompt: text, token ids, an earlier output, or an output with more text.
        format: whatever `Compiler.compile` takes.
        width: how many beams.
        max_tokens: tokens of each output at most, the end id included.

    Raises:
        InvalidArgument: an empty prompt, numbers below 1.
        PromptTooLong: the prompt with an output is longer than the model takes.
        DeadEnd: the vocabulary cannot spell any output.
        FormatterError: whatever compiling the format raises.
    """
    before = beginning(model, prompt, None).tokens
    if max_tokens < 1:
        raise InvalidArgument(f"max_tokens is {max_tokens}; give a number from 1", argument="max_tokens")
    if len(before) + max_tokens > model.max_length:
        raise PromptTooLong(len(before) + max_tokens, model.max_length)
    search = BeamSearch(model.compiler.compile(format).formatter(), width)
    batch = model.start([before])
    for step in range(max_tokens):
        search.take(model.best(batch.logits, search.masks, search.candidates))
        if search.is_over or step == max_tokens - 1:
            break
        batch.select([beam.parent for beam in search.beams])
        batch.forward([beam.tokens[-1:] for beam in search.beams])
    return search.outputs(before)


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

    Each step takes the best of what may follow each beam that goes on. The search is over when none of them can get
    better than the finished ones, for log-probabilities only fall.

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

    def take(self, candidates: Sequence[Iterable[tuple[int, float]]]) -> None:
        """One token more for each beam; `beams` are then the new ones, the best first, each with its parent.

        Args:
            candidates: for each beam its `BeamSearch.candidates` best allowed tokens, in any order, with their
                log-probabilities among all tokens (`LogitsModel.best`); those of -inf are left out.

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
