"""Record for one output what the model wanted at each token, and what the format allowed."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from formatter_core.engine.native_parser import Reading
from formatter_core.errors import FormatterError, InvalidArgument, LimitExceeded
from formatter_core.errors.arguments import shown
from formatter_core.generation.candidates import ScoreSettings
from formatter_core.generation.results import ChosenToken, Generated, TokenScore
from formatter_core.grammar.lazy import cached_property
from formatter_core.parsing.expectation import Expected
from formatter_core.runtime import bitmask
from formatter_core.runtime.explanation import describe, in_words, reader_of
from formatter_core.runtime.formatter import Formatter
from formatter_core.runtime.prepared import PreparedFormat
from formatter_core.runtime.result import Capture, Result
from formatter_core.trace.page import page_of
from formatter_core.trace.runs import Run, find_runs
from formatter_core.trace.steps import Alternative, Step, shown_bytes
from formatter_core.trace.traps import Trap, find_traps
from formatter_core.vocabulary import Vocabulary

__all__ = ["SCORES", "Trace", "make_trace", "trace_of"]

#: The scores that a generation loop must compute for a trace: the best tokens before and after the mask.
SCORES = ScoreSettings(top=5, logprob=True, ties="none")

_NOTEBOOK_HEIGHT = 640
#: The number of decimals of probabilities in JSON.
_DIGITS = 6


@dataclass(frozen=True, eq=False)
class Trace:
    """A record of what happened at each token of one output.

    Attributes:
        steps: the tokens.
        result: the parse result of the output.
        compiled: the format.
    """

    steps: tuple[Step, ...]
    result: Result
    compiled: PreparedFormat

    @cached_property
    def traps(self) -> tuple[Trap, ...]:
        """Return the places where the mask removed most of the probability, worst first, each with a proposal."""
        return find_traps(self.steps, self.result.bytes, self.compiled.format, self.compiled.limits)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Return the runs of 16 or more equal characters or blanks, in the order of the text."""
        return find_runs(self.steps)

    @cached_property
    def captures(self) -> tuple[Capture, ...]:
        """Return the captures of the output; none if a Python type refuses one."""
        try:
            return self.result.spans
        except FormatterError:
            return ()

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON data. Bytes become text; `\\xNN` is written for bytes that are not a whole
        character.
        """
        result = self.result
        return {
            "text": result.text,
            "ended": result.ended,
            "is_complete": result.is_complete,
            "missing": result.missing,
            "captures": [{"name": one.name, "start": one.start, "end": one.end} for one in self.captures],
            "steps": [{**_plain(asdict(step)), "is_forced": step.is_forced} for step in self.steps],
            "traps": [_plain(asdict(trap)) for trap in self.traps],
            "runs": [_plain(asdict(run)) for run in self.runs],
        }

    def to_html(self) -> str:
        """Return one HTML page that needs no network and no other files."""
        return page_of(self.steps, self.result, self.captures, self.traps, self.runs)

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html())
        style = f"width: 100%; height: {_NOTEBOOK_HEIGHT}px; border: 0"
        return f'<iframe sandbox="allow-scripts" srcdoc="{page}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        return f"<Trace of {len(self.steps)} tokens, {len(self.traps)} traps: {self.result.text[:40]!r}>"


def trace_of(output: Generated) -> Trace:
    """Return the trace of an output of `completion` with `scores=trace.SCORES` (or with more of the best tokens).

    Raises:
        InvalidArgument: the object is not an output, the output has no format, or the best tokens were not listed.
    """
    if not isinstance(output, Generated):
        raise InvalidArgument(f"{shown(output)} is not an output of completion", argument="output")
    if output.formatter is None or output.result is None:
        raise InvalidArgument("the output has no format, so nothing was masked; trace one that has", argument="output")
    chosen = output.chosen
    is_scored = all(token.masked_probability is not None and token.unmasked_top for token in chosen)
    if len(chosen) != len(output.tokens) or not is_scored:
        raise InvalidArgument(
            "the best tokens of each step were not listed; write the output with scores=trace.SCORES",
            argument="output",
        )
    return make_trace(output.formatter.compiled, output.tokens, chosen, output.result, output.formatter.end_ids)


def make_trace(
    compiled: PreparedFormat,
    tokens: Sequence[int],
    chosen: Sequence[ChosenToken],
    result: Result,
    end_ids: tuple[int, ...] | None = None,
) -> Trace:
    """Make a trace of tokens that were scored before and after the mask of a format; for adapters.

    Args:
        compiled: the format.
        tokens: the generated tokens; those after the first that the format does not allow are left out.
        chosen: the scores of each token, including lists of the best tokens.
        result: the parse result.
        end_ids: the end ids of the sequence, if they differ from the vocabulary's.
    """
    vocabulary = compiled.vocabulary
    formatter = Formatter(compiled, vocabulary.end_ids if end_ids is None else end_ids)
    places = _Places(compiled)
    row = bitmask.allocate(1, len(vocabulary))[0]
    steps: list[Step] = []
    start = 0
    for token, scored in zip(tokens, chosen, strict=True):
        formatter.fill_bitmask(row)
        allowed = int(bitmask.unpack(row).sum())
        if not formatter.accept_tokens([token]):
            break
        text = None if token in formatter.end_ids else vocabulary.text_token(token)
        expected, place = places.here()

        def seen(tops: Sequence[TokenScore]) -> tuple[Alternative, ...]:
            return tuple(_seen(top, vocabulary, formatter.end_ids, row) for top in tops)

        steps.append(
            Step(
                token,
                text,
                start,
                allowed,
                scored.masked_probability or 0.0,
                math.exp(scored.logprob or 0.0),
                math.exp(scored.unmasked_logprob or 0.0),
                seen(scored.unmasked_top),
                seen(scored.top),
                expected,
                place,
            )
        )
        if token not in formatter.end_ids:
            places.accept(token, text)
        start += len(text or b"")
    return Trace(tuple(steps), result, compiled)


def _seen(
    score: TokenScore, vocabulary: Vocabulary, end_ids: tuple[int, ...], row: np.ndarray[Any, np.dtype[np.int32]]
) -> Alternative:
    token = score.token_id
    is_end = token in end_ids
    is_allowed = token < 32 * len(row) and bitmask.get(row, token)
    text = None if is_end or token >= len(vocabulary) else vocabulary.text_token(token)
    return Alternative(token, text, math.exp(score.logprob), is_allowed, is_end)


class _Places:
    """A reader that returns what the format expects after each token, in words; it stops if that takes too long."""

    def __init__(self, compiled: PreparedFormat) -> None:
        self._parser: Reading | None = None
        with suppress(LimitExceeded):
            self._parser = reader_of(compiled.lowered.grammar, compiled.limits)

    def here(self) -> tuple[str, str]:
        if self._parser is None:
            return "", ""
        expected = self._parser.expected()
        places = {where for _, where in expected}
        if len(places) == 1:
            expected = [Expected(what, "") for what, _ in expected]
        # An inner place is more specific: it names the value itself, not the value around it.
        return describe(in_words(expected)), max(places, key=len, default="").removeprefix("at ")

    def accept(self, token: int, text: bytes | None) -> None:
        if self._parser is None:
            return
        try:
            self._parser.append([token if text is None else text])
        except LimitExceeded:
            self._parser = None


def _plain(value: Any) -> Any:
    """Return values as JSON data."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return shown_bytes(value)
    return round(value, _DIGITS) if isinstance(value, float) else value
