"""The hook: a logits processor that leaves each row only the tokens that its format allows next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Cursor, Result, bitmask
from formatter_core.errors import InvalidArgument, MaskOverridden, NoTokenLeft, TokenRejected
from formatter_core.errors.arguments import neither_format_nor_formats
from formatter_core.runtime import torch_bitmask
from formatter_core.runtime.generics import Value_co
from formatter_transformers import _compat
from formatter_transformers._compat import LogitsProcessor
from formatter_transformers.calls import OneCall
from formatter_transformers.generations import Generation
from formatter_transformers.vocabulary import compiler_for

__all__ = ["FormatterLogitsProcessor", "create_logits_processor"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: The score of an end that another rule forbids but that has to come: the only finite one of its row, so it is taken
#: for sure, and so low that a beam which goes on is better.
_FORCED_END = -1e4


@overload
def create_logits_processor(
    tokenizer: Any,
    format: type[_T] | CompiledFormat[_T],
    *,
    model: Any = None,
    end_ids: Iterable[int] | None = None,
    max_tokens: int | None = None,
) -> FormatterLogitsProcessor[_T]: ...
@overload
def create_logits_processor(
    tokenizer: Any,
    format: Any = None,
    *,
    formats: Sequence[Any] | None = None,
    model: Any = None,
    end_ids: Iterable[int] | None = None,
    max_tokens: int | None = None,
) -> FormatterLogitsProcessor[Any]: ...
def create_logits_processor(
    tokenizer: Any,
    format: Any = None,
    *,
    formats: Sequence[Any] | None = None,
    model: Any = None,
    end_ids: Iterable[int] | None = None,
    max_tokens: int | None = None,
) -> FormatterLogitsProcessor[Any]:
    """A logits processor for `model.generate(..., logits_processor=[processor])`.

    Args:
        tokenizer: what `AutoTokenizer.from_pretrained` gives.
        format: whatever `Compiler.compile` takes, for all prompts.
        formats: instead of `format` one for each prompt, None for a prompt that is unconstrained.
        model: the model that will generate. Give it whenever you have it: it says which ids end its outputs and how
            wide its logits are.
        end_ids: the ids that end an output, in place of the model's.
        max_tokens: each output is complete within it, the end id included (docs/budgets.md); give `generate` at least
            as many `max_new_tokens`.

    Raises:
        BudgetTooSmall: no complete output is known to fit into `max_tokens`.
        InvalidArgument: the tokenizer's name in place of the tokenizer; neither `format` nor `formats`, or both.
        InvalidVocabulary: the tokenizer cannot be read.
        FormatterError: whatever else `Compiler.compile` raises.
    """
    if (format is None) == (formats is None):
        raise neither_format_nor_formats()
    compiler = compiler_for(tokenizer, model=model, end_ids=end_ids)
    given = [format] if formats is None else formats
    return FormatterLogitsProcessor(
        [None if one is None else compiler.compile(one).within(max_tokens) for one in given]
    )


class _LastWord(LogitsProcessor):
    """Stands last in a list where processors after the format's could let a masked token through: it masks again."""

    def __init__(self) -> None:
        self.check: Callable[[torch.Tensor], torch.Tensor] | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        check, self.check = self.check, None
        return scores if check is None else check(scores)


class FormatterLogitsProcessor(LogitsProcessor, Generic[Value_co]):
    """Leaves each row of a batch only the tokens that its format allows next.

    The rows of one prompt (beams, returned sequences) share its format. One object serves one call of `generate`, and
    after `reset` the next. Whatever else calls it (a second `generate`, one that runs at the same time, another thread)
    gets `HookReused` before a token is chosen.

    Nothing is left unconstrained: when a sequence cannot go on, it is offered only its end, and `errors` keeps why.
    An end id that `min_new_tokens` forbids is taken all the same where the format allows nothing else.

    Args:
        formats: one for all prompts, or one for each prompt, None where a prompt is unconstrained.

    Raises:
        InvalidArgument: no formats.
    """

    def __init__(self, formats: Sequence[CompiledFormat[Value_co] | None]) -> None:
        self._formats = tuple(formats)
        if not self._formats:
            raise InvalidArgument(
                "the list of formats is empty; give one format, or one for each prompt", argument="formats"
            )
        self._call = OneCall()
        self.errors: dict[int, Exception] = {}
        """What ended a sequence early, by the row of the latest step, or of the sequences given to `results`."""

    def __repr__(self) -> str:
        return f"<FormatterLogitsProcessor of {', '.join(map(repr, self._formats))}>"

    @property
    def formats(self) -> tuple[CompiledFormat[Value_co] | None, ...]:
        """One for all prompts, or one for each prompt; None where a prompt is unconstrained."""
        return self._formats

    def reset(self) -> None:
        """Be ready for another call of `generate`; prompts, outputs and errors of the last one are forgotten."""
        self._call = self._call.close()
        self.errors = {}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """New scores, -inf wherever the format allows no token.

        Args:
            input_ids: int64 (rows, length), the prompts and what was generated.
            scores: float (rows, logits width); wider than the vocabulary is fine.

        Raises:
            HookReused: this object serves another call of `generate` already; see `reset`.
            InvalidArgument: the rows cannot be shared out among the formats, or are not whole sequences; or `generate`
                runs in a mode that no logits processor can constrain.
            UnsupportedEngineVersion: beam sampling with transformers before 4.50.
        """
        if input_ids.ndim != 2 or scores.ndim != 2 or len(input_ids) != len(scores):
            raise InvalidArgument(
                f"a format needs whole sequences, but input_ids has shape {tuple(input_ids.shape)} and scores "
                f"{tuple(scores.shape)}; use generate in place of continuous batching (generate_batch)"
            )
        call, step = self._call, _compat.running_step()
        is_draft = call.admit(step)
        if is_draft and not (call.generation and call.generation.is_begun_by(input_ids)):
            return scores  # the first drafts, or those of another vocabulary: the model's own step checks them
        if call.generation is None:
            call.generation = Generation(input_ids, self._formats)
            if _compat.may_unmask_after(self, processors := _compat.processors_of(step)):
                call.last_word = _LastWord()
                processors.append(call.last_word)
        with torch.profiler.record_function("formatter: masks"):
            cursors = call.generation.cursors(input_ids)
            bits = self._masks(cursors, scores.shape[1])
            masked = torch_bitmask.apply(scores, bits)
        self._end_where_nothing_is_left(cursors, bits, masked)
        if call.last_word is not None:
            call.last_word.check = partial(self._mask_again, cursors, bits)
        return masked

    def result(self, output: Any) -> Result[Value_co]:
        """What the only sequence that `generate` returned turned out to be; otherwise like `results`."""
        results = self.results(output)
        if len(results) != 1:
            raise InvalidArgument(f"the output has {len(results)} sequences; read them with results", argument="output")
        if results[0] is None:
            raise InvalidArgument("the prompt has no format, so its text is all there is", argument="output")
        return results[0]

    def results(self, outputs: Any) -> list[Result[Value_co] | None]:
        """What the generated sequences turned out to be.

        Args:
            outputs: what `generate` returned: int64 (rows, length) with the prompts, or its output object.

        Returns:
            one for each row; None where it had no format.

        Raises:
            InvalidArgument: something else than what the latest `generate` returned; or another one runs by now.
        """
        sequences = getattr(outputs, "sequences", outputs)
        if not isinstance(sequences, torch.Tensor) or sequences.ndim != 2:
            raise InvalidArgument(
                f"results needs the tensor (rows, length) that generate returned, or its output object, not this "
                f"{type(outputs).__name__}; texts, as from a pipeline, are read by formatter_core.parse(format, text)",
                argument="outputs",
            )
        call = self._call
        results = None
        if call.generation is not None and not call.runs_elsewhere():
            results = call.generation.results(sequences)
        if results is None:
            raise InvalidArgument(
                "these sequences are not those of the generate that this processor served last; "
                "give what it returned, prompts included, and before reset()",
                argument="outputs",
            )
        self.errors = {row: error for row, (_, error) in enumerate(results) if error is not None}
        return [result for result, _ in results]

    def __len__(self) -> int:
        raise InvalidArgument("generate takes a list of processors; write logits_processor=[processor]")

    def __bool__(self) -> bool:
        return True

    def _masks(self, cursors: Sequence[Cursor | None], width: int) -> NDArray[np.int32]:
        """One bitmask row for each state, int32 (rows, words); None stands for everything."""
        size = max([width, *(len(compiled.vocabulary) for compiled in self._formats if compiled is not None)])
        bits = bitmask.allocate(len(cursors), size, fill="all")
        for row, cursor in enumerate(cursors):
            if cursor is not None:
                cursor.fill_bitmask(bits[row])
        return bits

    def _mask_again(
        self, cursors: Sequence[Cursor | None], bits: NDArray[np.int32], scores: torch.Tensor
    ) -> torch.Tensor:
        """Mask what later processors made of the scores; a row in which they let a masked token through is ended."""
        masked = torch_bitmask.apply(scores.where(~scores.isnan(), -torch.inf), bits)
        # Some processors write the lowest number in place of -inf.
        opened = masked.isneginf() & (scores > torch.finfo(scores.dtype).min / 2)
        for row in opened.any(dim=-1).nonzero().flatten().tolist():
            if (cursor := cursors[row]) is not None:
                cursor.fail(MaskOverridden(int(opened[row].int().argmax())))
                cursor.fill_bitmask(bits[row])
        masked = torch_bitmask.apply(masked, bits)
        self._end_where_nothing_is_left(cursors, bits, masked)
        return masked

    def _end_where_nothing_is_left(
        self, cursors: Sequence[Cursor | None], bits: NDArray[np.int32], masked: torch.Tensor
    ) -> None:
        empty = (masked.amax(dim=-1) == -torch.inf).tolist()
        errors: dict[int, Exception] = {}
        for row, (cursor, is_empty) in enumerate(zip(cursors, empty, strict=True)):
            if cursor is None:
                continue
            if is_empty:
                if not bitmask.get(bits[row], cursor.end_ids[0]):
                    cursor.fail(NoTokenLeft(cursor.bytes))
                ends = [token_id for token_id in cursor.end_ids if token_id < masked.shape[1]]
                masked[row, ends] = _FORCED_END
            # A rejected token is a draft or padding, since no other can come out of a mask.
            if cursor.error is not None and not isinstance(cursor.error, TokenRejected):
                errors[row] = cursor.error
                if cursor.error not in self.errors.values():
                    logger.warning("row %d is ended: %s", row, cursor.error)
        self.errors = errors
