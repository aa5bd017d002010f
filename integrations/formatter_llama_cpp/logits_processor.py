"""The hook: a logits processor that leaves a sequence only the tokens that its format allows next."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Cursor, Result
from formatter_core.errors import HookReused, InvalidArgument
from formatter_core.errors.arguments import shown
from formatter_core.runtime.cursor import FailureLog
from formatter_core.runtime.hook import SequenceHook
from formatter_llama_cpp import _compat, _compat_grammar
from formatter_llama_cpp.followed import FollowedSequence
from formatter_llama_cpp.forced_drafts import ForcedDrafts
from formatter_llama_cpp.masks import Mask
from formatter_llama_cpp.open_models import in_use
from formatter_llama_cpp.refusals import check_caller, grammar_beside
from formatter_llama_cpp.results import result_of

__all__ = ["FormatterLogitsProcessor"]

_failures = FailureLog(logging.getLogger(__name__))
_HINT = (
    "pass the processor itself as logits_processor=..., not a list that holds it: llama-cpp-python drops such a list "
    "if there is a logit_bias"
)


class FormatterLogitsProcessor(SequenceHook, list[Any]):
    """A logits processor that allows a sequence only the tokens that its format allows next.

    The processor is itself the list that `logits_processor` takes. Processors that are added to it (`logit_bias`
    adds one) run before the format, so the format decides last.

    llama.cpp calls it from C, where an exception is printed and forgotten. So an error, also one of a processor that
    was added, is kept as `error`, the sequence can only end, and the error is raised at the end of the `with` block, by
    `result`, or by `raise_error`.

    One object serves one request after another. A `with` block always begins a new one; without it, a new request is
    recognized by its tokens, and by the sampler that each call of `generate` makes. It belongs to one `Llama`.
    """

    def __init__(self, llama: Any, compiled: CompiledFormat) -> None:
        # One object, because it is looked for in the list.
        self._own = self._constrain
        super().__init__([self._own])
        self.compiled = compiled
        self._llama = weakref.ref(llama)
        with in_use(llama):
            self._width = _compat.size(llama)
        self._mask = Mask(compiled.vocabulary)
        self._is_entered = False
        self._error_beside: BaseException | None = None  # of a processor that was added, in this call
        self._sequence = FollowedSequence(self._llama, compiled)

    def reset(self) -> None:
        """Forget the request: the next call begins a new one."""
        self._error_beside = None
        self._sequence = FollowedSequence(self._llama, self.compiled)

    @property
    def _cursor(self) -> Cursor:  # type: ignore[override]  # never set: each request has its own
        return self._sequence.cursor

    # --- what llama-cpp-python calls ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        for processor in super().__iter__():
            if processor is not self._own:
                yield partial(self._run_beside, processor)
        yield self._own

    def __call__(self, input_ids: NDArray[np.intc], scores: NDArray[np.single]) -> NDArray[np.single]:
        """Return the scores after all processors of the list, this one last.

        Raises:
            InvalidArgument: a grammar of llama.cpp's own takes part.
        """
        if _compat_grammar.is_called_with_grammar():
            self._cursor.fail(grammar_beside())
            self._cursor.is_used = True
            self.raise_error()
        for processor in self:
            scores = processor(input_ids, scores)
        return scores

    def extend(self, others: Iterable[Any]) -> FormatterLogitsProcessor:  # type: ignore[override]  # see below
        """Extend the list and return it; `logit_bias` continues with the returned list."""
        super().extend(others)
        return self

    def _run_beside(
        self, processor: Any, input_ids: NDArray[np.intc], scores: NDArray[np.single]
    ) -> NDArray[np.single]:
        """Call a processor that was added; its exception ends the sequence, like an error of this processor."""
        if self._error_beside is None:
            try:
                found = np.asarray(processor(input_ids, scores), dtype=np.single)
                if found.shape == scores.shape:
                    return found
                raise InvalidArgument(
                    f"the logits processor {shown(processor)} returned an array of shape {found.shape} for "
                    f"{len(scores)} scores; return the scores, one for each token id"
                )
            except BaseException as error:  # noqa: BLE001 - even an interrupt is lost if it leaves this function
                self._error_beside = error
        return scores

    def _constrain(self, input_ids: NDArray[np.intc], scores: NDArray[np.single]) -> NDArray[np.single]:
        if not scores.flags.writeable:
            scores = scores.copy()
        error_beside, self._error_beside = self._error_beside, None
        try:
            check_caller(self._llama(), input_ids, self._width, len(scores))
            self._sequence.follow(np.asarray(input_ids, dtype=np.intc))
            if isinstance(drafts := getattr(self._llama(), "draft_model", None), ForcedDrafts):
                drafts.ask(self._sequence.forced)
            if error_beside is not None:
                raise error_beside
            if not self._cursor.length and _compat_grammar.grammar_beside(self._llama()):
                raise grammar_beside()
            if not self._cursor.has_failed:
                self._mask.apply(self._cursor, scores)
        except BaseException as error:  # noqa: BLE001 - even an interrupt is lost if it leaves this function
            self._cursor.fail(cast(Exception, error))
            self._cursor.is_used = True
        if self._cursor.has_failed:
            _failures.report(self._cursor)
            self._leave_only_the_end(scores)
        return scores

    # --- for the caller ----------------------------------------------------------------------------------------

    def __enter__(self) -> FormatterLogitsProcessor:
        if self._is_entered:
            raise HookReused("FormatterLogitsProcessor", "create one for each request that runs at the same time")
        self._is_entered = True
        self.reset()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_entered = False
        if error is None:
            self.raise_error()

    def raise_error(self) -> None:
        """Raise what aborted the call that has just ended, if anything did.

        Raises:
            HookNotCalled: llama-cpp-python never called the processor.
            BaseException: what aborted the sequence.
        """
        super().raise_error()
        self._cursor.check_used(_HINT)

    def result(self, output: Any = None) -> Result:
        """Return the result of the sequence.

        Args:
            output: what `create_completion` or `create_chat_completion` returned, or the generated text. llama.cpp
                shows its last token to no processor, so without `output` the result is that of an unfinished text.

        Raises:
            HookNotCalled: llama-cpp-python never called the processor.
            InvalidArgument: `output` is something else, or not that of the latest request.
            BaseException: what aborted the sequence.
        """
        self.raise_error()
        return result_of(self.formatter, output, self._sequence.prompts)

    def _leave_only_the_end(self, scores: NDArray[np.single]) -> None:
        inside = [end for end in self._cursor.end_ids if end < len(scores)]
        # A grammar that forbids the end must have another token, or llama.cpp aborts the process.
        if _compat_grammar.grammar_allows(self._llama(), inside):
            scores[:] = -np.inf
            scores[inside] = 0
