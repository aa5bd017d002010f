"""The trace of what `generate` wrote with a format: what the model wanted at each token, and what was allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from formatter_core import bitmask
from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown, whole_number
from formatter_core.generation import ChosenToken, ScoreSettings
from formatter_core.runtime import torch_bitmask
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.trace import SCORES, Trace, make_trace
from formatter_transformers.logits_processor import FormatterLogitsProcessor
from formatter_transformers.token_scores import score_step

__all__ = ["trace_of"]

#: Steps whose logits are measured at a time.
_AT_ONCE = 64


def trace_of(processor: FormatterLogitsProcessor, output: Any, *, row: int = 0, top: int = SCORES.top) -> Trace:
    """Make the trace of one sequence.

    Args:
        processor: the logits processor that `generate` was called with.
        output: what `generate(..., return_dict_in_generate=True, output_logits=True)` returned, with beams
            `output_scores=True` too. It contains the logits of every step, four bytes for each token of the vocabulary.
        row: the number of the sequence.
        top: the number of best tokens to list at each step.

    Raises:
        InvalidArgument: an output without logits or of another call, or a row that does not exist or has no format.
    """
    if not isinstance(processor, FormatterLogitsProcessor):
        raise InvalidArgument(
            f"{shown(processor)} is not a FormatterLogitsProcessor; give the one that generate was called with",
            argument="processor",
        )
    logits = getattr(output, "logits", None)
    if not logits:
        raise InvalidArgument(
            "the output has no logits; call generate with return_dict_in_generate=True and output_logits=True",
            argument="output",
        )
    results = processor.results(output)
    if whole_number(row, "row") >= len(results):
        raise InvalidArgument(f"row is {row}, but the output has {len(results)} sequences", argument="row")
    result, compiled = results[row], processor.formats[row * len(processor.formats) // len(results)]
    if result is None or compiled is None:
        raise InvalidArgument(f"row {row} has no format, so nothing was masked", argument="row")
    tokens = result.tokens
    beams = getattr(output, "beam_indices", None)
    rows = [row] * len(tokens) if beams is None else beams[row, : len(tokens)].tolist()
    if beams is None and len(logits[0]) != len(results):
        raise InvalidArgument(
            "the rows of the logits are not those of the sequences; with beams generate needs output_scores=True too",
            argument="output",
        )
    steps = [step[at] for step, at in zip(logits, rows, strict=False)]
    chosen = _scored(compiled, tokens[: len(steps)], steps, replace(SCORES, top=top))
    return make_trace(compiled, tokens[: len(steps)], chosen, result)


def _scored(
    compiled: CompiledFormat, tokens: Sequence[int], steps: Sequence[torch.Tensor], settings: ScoreSettings
) -> list[ChosenToken]:
    """Measure each token with the model's logits, before and after the mask."""
    found: list[ChosenToken] = []
    formatter = compiled.formatter()
    for first in range(0, len(tokens), _AT_ONCE):
        part = tokens[first : first + _AT_ONCE]
        logits = torch.stack(list(steps[first : first + len(part)])).float()
        bits = bitmask.allocate(len(part), max(logits.shape[1], len(compiled.vocabulary)))
        for row, token in zip(bits, part, strict=True):
            formatter.fill_bitmask(row)
            formatter.accept_token(token)
        ids = torch.tensor(part, device=logits.device)
        found += score_step(logits, torch_bitmask.apply(logits, bits), ids, settings)
    return found
