"""The hook of the V0 engine, in vLLM before 0.11: a callable for one request, called for each of its rows.

vLLM's interface then: `SamplingParams(logits_processors=[f])`, and `f(prompt_ids, output_ids, logits)` for each
sequence of the request and each step, with one row of logits. It does not identify the sequence or the step, the
outputs of `n > 1` share `f`, and an exception ends every request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from formatter_core import CompiledFormat, Cursor
from formatter_core.runtime.cursor import FailureLog
from formatter_vllm.compilers import compiler_for_results
from formatter_vllm.constraints import Constraint
from formatter_vllm.masks import StepMasks
from formatter_vllm.vocabulary import create_vocabulary, logger

__all__ = ["RequestLogitsProcessor", "create_logits_processor"]

#: The number of a request's sequences that keep their own state; other sequences are followed from their beginning.
_SEQUENCES = 16


def create_logits_processor(
    tokenizer: Any, format: Any, *, model: Any = None, end_ids: Iterable[int] | None = None
) -> RequestLogitsProcessor:
    """Create a logits processor for one request of the V0 engine: `SamplingParams(logits_processors=[processor])`.

    For vLLM before 0.11 only; later ones refuse it, and have `FormatterLogitsProcessor` instead.

    Args:
        tokenizer: what `LLM.get_tokenizer()` gives.
        format: anything that `Compiler.compile` takes.
        model: the `LLM`; it says which ids end its outputs and how wide its logits are.
        end_ids: the ids that end the output, instead of the model's: those and the request's `stop_token_ids`.

    Raises:
        InvalidVocabulary: the tokenizer does not say how its tokens become text, or there is no end id.
        FormatterError: any error of `Compiler.compile`.
    """
    compiler = compiler_for_results(create_vocabulary(tokenizer, model=model, end_ids=end_ids))
    return RequestLogitsProcessor(compiler.compile(format))


class RequestLogitsProcessor:
    """A logits processor that allows each sequence of a request only the tokens that its format allows next.

    It never raises: a sequence that cannot continue is forced to stop, and the cause is logged.
    """

    def __init__(self, compiled: CompiledFormat) -> None:
        self._compiled = compiled
        self._masks = StepMasks(len(compiled.vocabulary))
        self._failures = FailureLog(logger)
        self._cursors: dict[tuple[int, ...], Cursor] = {}  # by their output so far; the latest last

    def clone(self) -> RequestLogitsProcessor:
        """Return another processor for a copy of the request; vLLM calls this."""
        return RequestLogitsProcessor(self._compiled)

    def __call__(self, prompt_ids: Sequence[int], output_ids: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        """Mask one row of logits, float (width,), in place."""
        try:
            cursor = self._cursor(tuple(map(int, output_ids)))
        except Exception as error:  # noqa: BLE001 - as the class says
            cursor = Cursor.failed(error, self._compiled.vocabulary.end_ids)
        self._masks.apply(logits[None], [(0, Constraint(cursor, has_competing_rules=False))])
        self._failures.report(cursor, "request")
        return logits

    def _cursor(self, output_ids: tuple[int, ...]) -> Cursor:
        """Return the cursor at this output, or one that continues to it from the previous token, or else a new one."""
        cursors = self._cursors
        cursor = cursors.pop(output_ids, None) or cursors.pop(output_ids[:-1], None)
        cursor = cursor or Cursor(self._compiled.formatter())
        cursor.follow(output_ids)
        cursors[output_ids] = cursor
        if len(cursors) > _SEQUENCES:
            del cursors[next(iter(cursors))]
        return cursor
