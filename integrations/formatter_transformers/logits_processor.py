"""The hook: a logits processor that leaves each row only the tokens that its format allows next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Result, bitmask, torch_bitmask
from formatter_core.errors import AllowedTokensForbidden, InvalidFormat
from formatter_transformers._compat import LogitsProcessor
from formatter_transformers.generations import Generations, formats_of_rows
from formatter_transformers.results import result_of
from formatter_transformers.states import RowState, tokens_of
from formatter_transformers.vocabulary import compiler_for

__all__ = ["FormatterLogitsProcessor", "create_logits_processor"]

#: The score of an end that another rule forbids but that has to come: the only finite one of its row, so it is taken
#: for sure, and so low that a beam which goes on is better.
_FORCED_END = -1e4


def create_logits_processor(
    tokenizer: Any, formats: Any, *, model: Any = None, end_ids: Iterable[int] | None = None
) -> FormatterLogitsProcessor:
    """A logits processor for `model.generate(..., logits_processor=[processor])`.

    Args:
        tokenizer: what `AutoTokenizer.from_pretrained` gives.
        formats: one thing that `Compiler.compile` takes, for all prompts; or a list with one for each prompt, where
            None leaves that prompt unconstrained.
        model: the model that will generate. Give it whenever you have it: it says which ids end its outputs and how
            wide its logits are.
        end_ids: the ids that end an output, in place of the model's.

    Raises:
        InvalidFormat: a format with a fault, none at all, or an empty list.
        InvalidVocabulary: the tokenizer cannot be read.
        FormatterError: whatever else `Compiler.compile` raises.
    """
    if formats is None:
        raise InvalidFormat("formats is None; give a format, or a list in which None leaves a prompt unconstrained")
    compiler = compiler_for(tokenizer, model=model, end_ids=end_ids)
    if isinstance(formats, (list, tuple)):
        return FormatterLogitsProcessor([None if one is None else compiler.compile(one) for one in formats])
    return FormatterLogitsProcessor([compiler.compile(formats)])


class FormatterLogitsProcessor(LogitsProcessor):
    """Leaves each row of a batch only the tokens that its format allows next.

    The rows of one prompt (beams, returned sequences) share its format. One object serves one call of `generate`
    after the other, not several at once. Prompts that begin with the latest ones resume their outputs where the format
    allows all that follows; call `reset` before, to begin anew in any case. (After `results` only the outputs that were
    read, at most one token longer, are resumed.)

    Nothing is left unconstrained: when a sequence cannot go on, it is offered only its end, and `errors` keeps why.
    An end id that `min_new_tokens` forbids is taken all the same where the format allows nothing else.

    Args:
        formats: one for all prompts, or one for each prompt, None where a prompt is unconstrained.
    """

    def __init__(self, formats: Sequence[CompiledFormat | None]) -> None:
        self._formats = tuple(formats)
        if not self._formats:
            raise InvalidFormat("the list of formats is empty; give one format, or one for each prompt")
        self._generations = Generations(self._formats)
        self.errors: dict[int, Exception] = {}
        """What ended a sequence early, by the row of the latest call, or of the sequences given to `results`."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """New scores, -inf wherever the format allows no token.

        Args:
            input_ids: int64 (rows, length), the prompts and what was generated.
            scores: float (rows, logits width); wider than the vocabulary is fine.

        Raises:
            InvalidFormat: the rows cannot be shared out among the formats, or are not whole sequences.
        """
        if input_ids.ndim != 2 or scores.ndim != 2 or len(input_ids) != len(scores):
            raise InvalidFormat(
                f"a format needs whole sequences, but input_ids has shape {tuple(input_ids.shape)} and scores "
                f"{tuple(scores.shape)}; use generate, which continuous batching (generate_batch) does not replace"
            )
        with torch.profiler.record_function("formatter: masks"):
            states = self._generations.states(input_ids)
            bits = self._masks(states, scores.shape[1])
            masked = torch_bitmask.apply(scores, bits)
        self._end_where_nothing_is_left(states, bits, masked)
        self.errors = {row: state.error for row, state in enumerate(states) if state and state.error}
        return masked

    def reset(self) -> None:
        """Forget all prompts and outputs: the next call begins a new generation."""
        self._generations.clear()
        self.errors = {}

    def results(self, sequences: Any) -> list[Result | None]:
        """What the generated sequences turned out to be.

        Args:
            sequences: what `generate` returned: int64 (rows, length) with the prompts, or its output object.

        Returns:
            one for each row; None where it had no format.

        Raises:
            InvalidFormat: they do not begin with the prompts of the latest generation.
        """
        output = self._generations.outputs(getattr(sequences, "sequences", sequences))
        if output is None:
            raise InvalidFormat(
                "these sequences do not begin with prompts that this processor has seen; "
                "give what the latest generate returned, prompts included"
            )
        generation, keys = output
        formats = formats_of_rows(self._formats, len(keys))
        self._generations.end(generation, keys)
        self.errors = {}
        results: list[Result | None] = []
        for row, (key, compiled) in enumerate(zip(keys, formats, strict=True)):
            if compiled is None:
                results.append(None)
                continue
            result, error = result_of(compiled, tokens_of(key), generation.error_in(compiled, key))
            results.append(result)
            if error is not None:
                self.errors[row] = error
        return results

    def _masks(self, states: Sequence[RowState | None], width: int) -> NDArray[np.int32]:
        """One bitmask row for each state, int32 (rows, words); None stands for everything."""
        size = max([width, *(len(compiled.vocabulary) for compiled in self._formats if compiled is not None)])
        bits = bitmask.allocate(len(states), size, fill="all")
        first_with: dict[RowState, int] = {}
        for row, state in enumerate(states):
            if state is None:
                continue
            if (first := first_with.setdefault(state, row)) != row:
                bits[row] = bits[first]
            else:
                state.fill(bits[row])
        return bits

    def _end_where_nothing_is_left(
        self, states: Sequence[RowState | None], bits: NDArray[np.int32], masked: torch.Tensor
    ) -> None:
        empty = (masked.amax(dim=-1) == -torch.inf).tolist()
        for row, (state, is_empty) in enumerate(zip(states, empty, strict=True)):
            if state is None or not is_empty:
                continue
            ends = [token_id for token_id in state.formatter.end_ids if token_id < masked.shape[1]]
            if not bitmask.get(bits[row], state.formatter.end_ids[0]):
                state.fail(AllowedTokensForbidden(state.formatter.bytes))
            masked[row, ends] = _FORCED_END
