"""The hook of the V0 engine, in vLLM before 0.11: a callable for one request, asked for each of its rows.

What vLLM did then: `SamplingParams(logits_processors=[f])`, and `f(prompt_ids, output_ids, logits)` for each sequence
of the request and each step, with one row of logits. Neither the sequence nor the step is named, the outputs of
`n > 1` share `f`, and an exception ends every request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from formatter_core import CompiledFormat, bitmask
from formatter_core.runtime import torch_bitmask
from formatter_core.runtime.cursor import Cursor
from formatter_vllm.vocabulary import compiler_for_results, create_vocabulary

__all__ = ["RequestLogitsProcessor", "create_logits_processor"]

logger = logging.getLogger("formatter_vllm")

#: How many sequences of a request keep a state of their own; more than that work too, but are followed anew.
_SEQUENCES = 16


def create_logits_processor(
    format: Any, tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None
) -> RequestLogitsProcessor:
    """A logits processor for one request of the V0 engine: `SamplingParams(logits_processors=[processor])`.

    For vLLM before 0.11 only; later ones refuse it, and have `FormatterLogitsProcessor` instead.

    Args:
        format: whatever `Compiler.compile` takes.
        tokenizer: what `LLM.get_tokenizer()` gives.
        model: the `LLM`; it says which ids end its outputs and how wide its logits are.
        end_ids: the ids that end the output, in place of the model's: those and the request's `stop_token_ids`.

    Raises:
        InvalidVocabulary: the tokenizer does not say how its tokens become text, or there is no end id.
        FormatterError: whatever `Compiler.compile` raises.
    """
    compiler = compiler_for_results(create_vocabulary(tokenizer, model=model, end_ids=end_ids))
    return RequestLogitsProcessor(compiler.compile(format))


class RequestLogitsProcessor:
    """Leaves each sequence of a request only the tokens that the format allows next.

    Nothing raises here: a sequence that cannot go on is offered its end alone, and the cause is logged.
    """

    def __init__(self, compiled: CompiledFormat) -> None:
        self._compiled = compiled
        self._bits = bitmask.allocate(1, len(compiled.vocabulary))[0]
        self._sequences: list[_Sequence] = []  # the latest last

    def clone(self) -> RequestLogitsProcessor:
        """Another one for a copy of the request; vLLM asks for it."""
        return RequestLogitsProcessor(self._compiled)

    def __call__(self, prompt_ids: Sequence[int], output_ids: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        """Mask one row of logits, float (width,), in place."""
        try:
            sequence = self._sequence([int(token_id) for token_id in output_ids])
            sequence.cursor.fill_bitmask(self._bits)
            torch_bitmask.apply_inplace(logits, self._bits)
            if sequence.cursor.error is not None and not sequence.is_reported:
                sequence.is_reported = True
                logger.error("a request is ended, because its format cannot be kept: %s", sequence.cursor.error)
        except Exception:  # as the class says
            logger.exception("a request is ended by a fault")
            logits.fill_(-torch.inf)
            logits[[token_id for token_id in self._compiled.vocabulary.end_ids if token_id < len(logits)]] = 0.0
        return logits

    def _sequence(self, output_ids: list[int]) -> _Sequence:
        """The sequence with this output: one that it goes on from, or else a new one."""
        best = max(self._sequences, key=lambda one: one.worth(output_ids), default=None)
        if best is None or (best.worth(output_ids) < 0 and len(self._sequences) < _SEQUENCES):
            best = _Sequence([], Cursor(self._compiled.formatter()))
        else:
            self._sequences.remove(best)
        best.output = output_ids
        best.cursor.follow(output_ids)
        self._sequences.append(best)
        return best


@dataclass(eq=False)
class _Sequence:
    output: list[int]
    cursor: Cursor
    is_reported: bool = False

    def worth(self, output_ids: list[int]) -> int:
        """How many tokens are spared by going on from here; those that would have to be taken back count against it."""
        known = len(self.output)
        return known if output_ids[:known] == self.output else -known
