"""Search for the most probable outputs of a format with beams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import DeadEnd, InvalidArgument, PromptTooLong, UnsupportedByEngine
from formatter_core.errors.arguments import whole_number
from formatter_core.generation.models import LogitsModel, WeighingModel, with_logits
from formatter_core.generation.prompts import OnePrompt, Prompts, as_list, beginning
from formatter_core.generation.results import ChosenToken, Generated, Prompt
from formatter_core.grammar.lazy import cached_property
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.runtime.formatter import Formatter

__all__ = ["Beam", "BeamSearch", "beam_search"]


@overload
def beam_search(
    model: LogitsModel,
    prompt: str | Generated | Prompt,
    format: Any,
    *,
    width: int = 4,
    max_tokens: int | None = None,
) -> list[Generated]: ...
@overload
def beam_search(
    model: LogitsModel, prompt: list[str], format: Any, *, width: int = 4, max_tokens: int | None = None
) -> list[list[Generated]]: ...
@overload
def beam_search(
    model: LogitsModel, prompt: Prompts, format: Any, *, width: int = 4, max_tokens: int | None = None
) -> Any: ...
def beam_search(
    model: LogitsModel, prompt: Prompts, format: Any, *, width: int = 4, max_tokens: int | None = None
) -> Any:
    """Return the most probable outputs of a format that `width` beams find, best first, all complete.

    Their texts are distinct; each has the best tokenisation that was found. Outputs are ranked by the raw sum of
    log-probabilities among all tokens (`total_logprob`); `Generated.chosen` has the log-probabilities. The prompt is
    computed once, and each step makes one small copy to the host. If all beams have ended and there are fewer texts
    than beams, the search resumes with the best hypotheses that it dropped. It returns fewer outputs than beams, or
    none, if the format has no more texts, if `max_tokens` is too small for them to end, or if too many hypotheses were
    dropped.

    Args:
        model: a model that gives its logits.
        prompt: text, token ids, messages, an earlier output, or an output with more text; or a list of these, which are
            searched one after the other and give a list of outputs each.
        format: a format that `Compiler.compile` accepts.
        width: the number of beams.
        max_tokens: the maximum number of tokens of each output, including the end id; 128 by default. A number that you
            give is a budget: every output is complete within it (docs/budgets.md).

    Raises:
        InvalidArgument: the prompt is empty, or a number is below 1.
        BudgetTooSmall: no output of the format is complete within `max_tokens`.
        PromptTooLong: the prompt with an output is longer than the model accepts.
        DeadEnd: the vocabulary cannot spell any output.
        FormatterError: any other error of compiling the format.
    """
    with_logits(model)
    if format is None:
        raise InvalidArgument("format is None; give a format: beams are complete outputs of one", argument="format")
    prompts, is_one = as_list(prompt)
    most = 128 if max_tokens is None else whole_number(max_tokens, "max_tokens", 1)
    compiled = model.compiler.compile(format)
    found = [_beams_of(model, one, compiled, width, most, max_tokens is not None) for one in prompts]
    return found[0] if is_one else found


def _beams_of(
    model: LogitsModel, prompt: OnePrompt, compiled: CompiledFormat, width: int, most: int, has_budget: bool
) -> list[Generated]:
    before = beginning(model, prompt, None).tokens
    if len(before) + most > model.max_length:
        raise PromptTooLong(len(before), model.max_length, output=most)
    start = compiled.formatter()
    if has_budget:
        with suppress(UnsupportedByEngine):
            start.set_budget(most)
    search = BeamSearch(start, width)
    batch = model.start([before])
    while True:
        masks = search.masks
        mass = model.allowed_logprobs(batch.logits, masks) if isinstance(model, WeighingModel) else None
        search.take(model.best(batch.logits, masks, search.candidates), mass)
        search.drop_at(most)
        if not search.is_over:
            batch.select([beam.parent for beam in search.beams])
            batch.forward([beam.tokens[-1:] for beam in search.beams])
        elif search.resume():
            batch = model.start([[*before, *beam.tokens] for beam in search.beams])
        else:
            return search.outputs(before)


@dataclass(frozen=True, eq=False)
class Beam:
    """A hypothesis of a beam search.

    Attributes:
        tokens: its ids, including the end id.
        logprobs: the log-probability of each token among all tokens.
        masked_logprobs: the log-probability of each token among the allowed tokens; None if the model does not give it.
        logprob: the sum of `logprobs`.
        parent: the index of the beam of the previous step that this one continues.
        formatter: the state after its tokens.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    masked_logprobs: tuple[float | None, ...]
    logprob: float
    parent: int
    formatter: Formatter

    @cached_property
    def mask(self) -> NDArray[np.int32]:
        """Return the mask of the next token, int32 (words of the vocabulary,).

        Raises:
            DeadEnd: no token is allowed, because the vocabulary cannot spell what must follow.
        """
        row = np.zeros(self.formatter.compiled.vocabulary.words, dtype=np.int32)
        self.formatter.fill_bitmask(row)
        return row


#: A hypothesis that no beam took: the negated sum of its log-probabilities, the beam that it continues, the token, and
#: the token's log-probability among all tokens and among the allowed ones.
_LeftOut: TypeAlias = tuple[float, Beam, int, float, float | None]
#: How many such hypotheses are kept for each beam.
_LEFT_OUT = 8


def _continued(beam: Beam, parent: int, token: int, logprob: float, masked: float | None) -> Beam:
    formatter = beam.formatter.fork()
    formatter.accept_token(token)
    return Beam(
        (*beam.tokens, token),
        (*beam.logprobs, logprob),
        (*beam.masked_logprobs, masked),
        beam.logprob + logprob,
        parent,
        formatter,
    )


class BeamSearch:
    """A beam search for one prompt: the most probable texts of a format that `width` hypotheses at a time find.

    Each step keeps the best continuations of all beams: first the best spelling of each text, then, if beams are free,
    other spellings of the same texts. The search ends when no beam can become better than the finished ones, because
    log-probabilities only decrease.

    Args:
        formatter: the state before the first token. Every beam has its own fork; all share the compiled format.
        width: the number of beams.
    """

    def __init__(self, formatter: Formatter, width: int) -> None:
        self.width = whole_number(width, "width", 1)
        self.beams: list[Beam] = [Beam((), (), (), 0.0, 0, formatter)]
        self.finished: list[Beam] = []
        #: Candidates per beam; the extra ones replace beams that are dropped.
        self.candidates = _LEFT_OUT * width + len(formatter.end_ids)
        self._left_out: list[_LeftOut] = []
        self._resumed = 0  # how often the search resumed with them
        self._dead: DeadEnd | None = None

    @property
    def is_over(self) -> bool:
        """Tell whether more steps cannot change `finished`."""
        if not self.beams:
            return True
        return len(self.finished) >= self.width and self.finished[-1].logprob >= self.beams[0].logprob

    @property
    def masks(self) -> NDArray[np.int32]:
        """Return the mask of each beam's next token, int32 (beams, words of the vocabulary)."""
        return np.stack([beam.mask for beam in self.beams])

    def take(
        self, candidates: Sequence[Iterable[tuple[int, float]]], allowed_logprobs: Sequence[float] | None = None
    ) -> None:
        """Add one token to each beam; `beams` are then the new ones, best first, each with its parent.

        Args:
            candidates: for each beam its `BeamSearch.candidates` best allowed tokens, in any order, with their
                log-probabilities among all tokens (`LogitsModel.best`); those of -inf are skipped.
            allowed_logprobs: for each beam the logarithm of the allowed mass; without it the outputs do not tell how
                far the masks bent them.

        Raises:
            DeadEnd: no beam is left, and no output is finished.
        """
        ranked = sorted(
            (-(beam.logprob + logprob), index, token, logprob)
            for index, (beam, best) in enumerate(zip(self.beams, candidates, strict=True))
            for token, logprob in best
            if logprob > -np.inf
        )
        self._dead = None
        following: dict[bytes, Beam] = {}
        others: list[Beam] = []
        for total, index, token, logprob in ranked:
            masked = None if allowed_logprobs is None else logprob - allowed_logprobs[index]
            if len(following) == self.width:
                self._left_out.append((total, self.beams[index], token, logprob, masked))
                continue
            new = _continued(self.beams[index], index, token, logprob, masked)
            if not self._goes_on(new):
                continue
            if following.setdefault(new.formatter.bytes, new) is not new and len(others) < self.width:
                others.append(new)
        self._keep_best()
        self._left_out = sorted(self._left_out, key=itemgetter(0))[: _LEFT_OUT * self.width]
        self.beams = sorted([*following.values(), *others][: self.width], key=lambda beam: -beam.logprob)
        if self._dead is not None and not self.beams and not self.finished:
            raise self._dead

    def drop_at(self, max_tokens: int) -> None:
        """Drop the beams that have this many tokens and have not ended."""
        self.beams = [beam for beam in self.beams if len(beam.tokens) < max_tokens]
        self._left_out = [one for one in self._left_out if len(one[1].tokens) + 1 < max_tokens]

    def resume(self) -> bool:
        """Resume with the best hypotheses that were dropped; return False if enough was found, or none is left.

        Hypotheses that do not begin a text that was already found come first. The new `beams` are not related to those
        of the step before, so the model must compute their tokens anew.
        """
        if len(self.finished) >= self.width or self._resumed == self.width:
            return False
        self._resumed += 1
        found = [beam.formatter.bytes for beam in self.finished]
        new = [_continued(beam, 0, token, logprob, masked) for _, beam, token, logprob, masked in self._left_out]
        new.sort(key=lambda beam: any(text.startswith(beam.formatter.bytes) for text in found))
        beams: dict[bytes, Beam] = {}
        for beam in new:
            if (len(beams) < self.width or beam.formatter.is_finished) and self._goes_on(beam):
                beams.setdefault(beam.formatter.bytes, beam)
        self._left_out = []
        self._keep_best()
        self.beams = list(beams.values())
        return bool(beams)

    def _goes_on(self, beam: Beam) -> bool:
        """Return whether a beam can continue; keep a beam that is finished in `finished`."""
        if beam.formatter.is_finished:
            self.finished.append(beam)
            return False
        try:
            return bool(beam.mask.any())
        except DeadEnd as error:  # another beam may continue instead
            self._dead = error
            return False

    def _keep_best(self) -> None:
        """Keep the best spelling of each finished text, and at most as many texts as there are beams."""
        texts: dict[bytes, Beam] = {}
        for beam in sorted(self.finished, key=lambda beam: -beam.logprob):
            texts.setdefault(beam.formatter.bytes, beam)
        self.finished = list(texts.values())[: self.width]

    def outputs(self, prompt: Sequence[int] = ()) -> list[Generated]:
        """Return the finished texts, best first; their `chosen` have the log-probabilities of their tokens.

        Args:
            prompt: the ids of the prompt.
        """
        return [
            Generated(
                beam.tokens,
                beam.formatter.bytes,
                "end",
                chosen=tuple(map(ChosenToken, beam.tokens, beam.masked_logprobs, beam.logprobs)),
                formatter=beam.formatter,
                prompt=tuple(prompt),
            )
            for beam in self.finished
        ]
