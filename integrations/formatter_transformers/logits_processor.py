"""The hook: a logits processor that leaves each row only the tokens that its format allows next."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Generic

import torch

from formatter_core import CompiledFormat, Cursor, Formatter, Result
from formatter_core.errors import InvalidArgument, TokenRejected
from formatter_core.runtime.cursor import NotCopied
from formatter_core.runtime.generics import Value_co
from formatter_core.runtime.hook import check_formats, wrong_model
from formatter_transformers import _compat, _compat_steps
from formatter_transformers._compat import LogitsProcessor
from formatter_transformers.calls import OneCall
from formatter_transformers.generations import Generation
from formatter_transformers.masks import LastWord, StepMasks

__all__ = ["FormatterLogitsProcessor"]

logger = logging.getLogger(__name__)


class FormatterLogitsProcessor(NotCopied, LogitsProcessor, Generic[Value_co]):
    """A logits processor that allows each row of a batch only the tokens that its format allows next.

    The rows of one prompt (beams, returned sequences) share its format. One object serves one call of `generate`, and
    after `reset` the next. Any other caller (a second `generate`, one that runs at the same time, another thread) gets
    `HookReused` before a token is chosen.

    Nothing is left unconstrained: if a sequence cannot continue, only its end ids are allowed, and `errors` has the
    cause. If the format allows only the end, an end id is chosen even if `min_new_tokens` forbids it.

    Args:
        formats: one format for all prompts, or one for each prompt, None for a prompt that is unconstrained.
        model: the only model that may generate; None for any. No reference to it is kept.
        min_width: the minimum number of logits of a model that has the tokens of these formats.

    Raises:
        InvalidArgument: no formats.
    """

    def __init__(
        self, formats: Sequence[CompiledFormat[Value_co] | None], *, model: Any = None, min_width: int = 0
    ) -> None:
        self.formats = tuple(formats)
        """One format for all prompts, or one for each prompt; None for a prompt that is unconstrained."""
        check_formats(None, self.formats)
        self._vocabulary_size = max(len(compiled.vocabulary) if compiled else 0 for compiled in self.formats)
        self._model = None if model is None else weakref.ref(model)
        self._min_width = min_width
        self._call, self._resetting = OneCall(), threading.Lock()
        self.errors: dict[int, Exception] = {}
        """The error that ended a sequence early, by row of the latest step, or of the sequences given to `results`."""

    def __repr__(self) -> str:
        return f"<FormatterLogitsProcessor of {', '.join(map(repr, self.formats))}>"

    def reset(self) -> None:
        """Get ready for another call of `generate`; prompts, outputs and errors of the last one are forgotten."""
        with self._resetting:  # of two resets at once, the later one would let in again whom the earlier one has met
            self._call = self._call.close()
        self.errors = {}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return new scores, -inf wherever the format allows no token.

        Args:
            input_ids: int64 (rows, length), the prompts and the generated tokens.
            scores: float (rows, logits width); wider than the vocabulary is fine.

        Raises:
            HookReused: this object serves another call of `generate` already; see `reset`.
            InvalidArgument: the rows cannot be divided among the formats, or are not whole sequences; or `generate`
                runs in a mode that no logits processor can constrain.
            UnsupportedEngineVersion: beam sampling with transformers before 4.50.
            WrongModel: another model generates than the one that this object was made for.
        """
        if input_ids.ndim != 2 or scores.ndim != 2 or len(input_ids) != len(scores):
            raise InvalidArgument(
                f"a format needs whole sequences, but input_ids has shape {tuple(input_ids.shape)} and scores "
                f"{tuple(scores.shape)}; use generate in place of continuous batching (generate_batch)"
            )
        call, step = self._call, _compat_steps.running_step()
        is_draft = call.admit(step)
        if is_draft and not (call.generation and call.generation.is_begun_by(input_ids)):
            return scores  # the first drafts, or those of another vocabulary: the model's own step checks them
        if call.generation is None:
            self._check_model(step, scores.shape[1])
            call.generation = Generation(
                input_ids,
                self.formats,
                has_beams=_compat_steps.has_beams(step),
                stop_strings=_compat_steps.stop_strings(step),
            )
            if _compat_steps.may_unmask_after(self, processors := _compat_steps.processors_of(step)):
                call.last_word = LastWord()
                processors.append(call.last_word)
        with torch.profiler.record_function("formatter: masks"):
            generation = call.generation
            size = max(scores.shape[1], self._vocabulary_size)
            masks = StepMasks(generation.cursors(input_ids), size, generation.fail)
            masked = masks.apply(scores)
        if call.last_word is not None:
            call.last_word.check = lambda later: self._reported(generation, masks.cursors, masks.apply_again(later))
        return self._reported(generation, masks.cursors, masked)

    def formatter_after(self, input_ids: torch.Tensor) -> Formatter | None:
        """Return the state after the only row, int64 (1, length) with its prompt; None if it has no format or failed.

        Raises:
            InvalidArgument: something else, or several rows.
            HookReused: another prompt than that of the running call.
        """
        if not isinstance(input_ids, torch.Tensor) or input_ids.ndim != 2 or len(input_ids) != 1:
            raise InvalidArgument("formatter_after needs the ids of one row, (1, length)", argument="input_ids")
        if (generation := self._call.generation) is None:
            return None if (compiled := self.formats[0]) is None else compiled.formatter()
        cursor = generation.cursors(input_ids)[0]
        return None if cursor is None or cursor.has_failed else cursor.formatter

    def result(self, output: Any) -> Result[Value_co]:
        """Return the result of the only sequence that `generate` returned; otherwise like `results`."""
        results = self.results(output)
        if len(results) != 1:
            raise InvalidArgument(f"the output has {len(results)} sequences; read them with results", argument="output")
        if results[0] is None:
            raise InvalidArgument("the prompt has no format, so its text is all there is", argument="output")
        return results[0]

    def results(self, outputs: Any) -> list[Result[Value_co] | None]:
        """Return the results of the generated sequences.

        Args:
            outputs: what `generate` returned: int64 (rows, length) with the prompts, or its output object.

        Returns:
            one for each row; None for a row without a format.

        Raises:
            InvalidArgument: not what the latest `generate` returned, or another `generate` is running by now, or none
                has called this processor.
        """
        sequences = getattr(outputs, "sequences", outputs)
        if not isinstance(sequences, torch.Tensor) or sequences.ndim != 2:
            raise InvalidArgument(
                f"results needs the tensor (rows, length) that generate returned, or its output object, not this "
                f"{type(outputs).__name__}; texts, as from a pipeline, are read by formatter_core.parse(format, text)",
                argument="outputs",
            )
        call = self._call
        if call.generation is None:
            raise InvalidArgument(
                "no generate has called this processor since it was made or reset, so nothing was constrained; "
                "pass logits_processor=[processor] to generate, and read its outputs before reset()",
                argument="outputs",
            )
        results = None if call.runs_elsewhere() else call.generation.results(sequences)
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

    def _check_model(self, step: _compat_steps.Step | None, width: int) -> None:
        """Refuse another model before anything is written."""
        if width < self._min_width:
            raise wrong_model(f"a tokenizer of {self._min_width} tokens", f"a model of {width} logits")
        if self._model is not None and not _compat.are_same_model(self._model(), _compat_steps.model_of(step)):
            raise wrong_model("one model", "another one")

    def _reported(self, generation: Generation, cursors: Sequence[Cursor | None], masked: torch.Tensor) -> torch.Tensor:
        errors = generation.failures()
        for row, cursor in enumerate(cursors):
            # A rejected token is a draft or padding, since no other can come out of a mask.
            if cursor is not None and cursor.error is not None and not isinstance(cursor.error, TokenRejected):
                errors.setdefault(row, cursor.error)
        for row, error in errors.items():
            if error not in self.errors.values():
                logger.warning("row %d ended: %s", row, error)
        self.errors = errors
        return masked
