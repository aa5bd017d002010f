"""The hook: a logits processor that leaves a sequence only the tokens that its format allows next."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Formatter, Result
from formatter_core.errors import FormatterError
from formatter_llama_cpp import _compat
from formatter_llama_cpp.masks import Mask
from formatter_llama_cpp.results import result_of
from formatter_llama_cpp.vocabulary import compiler_for

__all__ = ["FormatterLogitsProcessor", "NotCalled", "create_logits_processor"]

logger = logging.getLogger(__name__)


class NotCalled(FormatterError):
    """The call that has just ended never asked the logits processor, so its output is not constrained."""

    def __init__(self) -> None:
        super().__init__(
            "the logits processor was never called, so the output is not constrained; pass it itself as "
            "logits_processor=..., not a list that holds it (llama-cpp-python loses such a list beside logit_bias)"
        )


def create_logits_processor(
    llama: Any, format: Any, *, end_ids: Iterable[int] | None = None
) -> FormatterLogitsProcessor:
    """A logits processor for `Llama.create_completion`, `create_chat_completion` and `generate`, streamed or not.

    ::

        with create_logits_processor(llama, format) as processor:
            output = llama.create_chat_completion(messages, logits_processor=processor)
        value = processor.result(output).value

    Args:
        llama: the `llama_cpp.Llama` that will generate.
        format: whatever `Compiler.compile` takes.
        end_ids: the ids that end an output, in place of those at which llama.cpp ends one. It goes on after an id that
            is not among its own, so name another one only where your own loop stops at it.

    Raises:
        InvalidFormat: an invalid format.
        FormatterError: whatever else `Compiler.compile` raises.
    """
    return FormatterLogitsProcessor(llama, compiler_for(llama, end_ids=end_ids).compile(format))


class FormatterLogitsProcessor(list[Any]):
    """Leaves a sequence only the tokens that its format allows next.

    Itself the list that `logits_processor` takes. Processors that are added to it (`logit_bias` does so) run before the
    format, which has the last word.

    llama.cpp calls it from C, where an exception is printed and forgotten. So whatever goes wrong is kept as `error`,
    the sequence is offered nothing but its end, and the caller gets the error afterwards: where the `with` block
    ends, from `result`, or from `raise_error`.

    One object serves one request after the other. A `with` block begins a new one for sure; without it, a request is
    told from the one before by its tokens, and by the sampler that each call of `generate` makes.
    """

    def __init__(self, llama: Any, compiled: CompiledFormat) -> None:
        # One object, because it is looked for in the list.
        self._own = self._constrain
        super().__init__([self._own])
        self.compiled = compiled
        self.formatter: Formatter = compiled.formatter()
        self.error: BaseException | None = None
        """Why the sequence was ended; None while all is well."""
        self._llama = weakref.ref(llama)
        self._mask = Mask(self.formatter)
        self.reset()

    def reset(self) -> None:
        """Forget the request: the next call begins a new one."""
        self._generation: weakref.ref[Any] | None = None
        self._calls_of_generation = 0
        self._begin()

    # --- what llama-cpp-python calls ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        for processor in super().__iter__():
            if processor is not self._own:
                yield processor
        yield self._own

    def __call__(self, input_ids: NDArray[np.intc], scores: NDArray[np.single]) -> NDArray[np.single]:
        """The scores after all processors of the list, this one last."""
        for processor in self:
            scores = processor(input_ids, scores)
        return scores

    def extend(self, others: Iterable[Any]) -> FormatterLogitsProcessor:  # type: ignore[override]  # see below
        """`list.extend`, but it returns the list: `logit_bias` goes on with what it returns."""
        super().extend(others)
        return self

    def _constrain(self, input_ids: NDArray[np.intc], scores: NDArray[np.single]) -> NDArray[np.single]:
        if not scores.flags.writeable:
            scores = scores.copy()
        try:
            self._follow(np.asarray(input_ids, dtype=np.intc))
            if self.error is None:
                self._mask.apply(self.formatter, scores)
        except BaseException as error:  # noqa: BLE001 - even an interrupt is lost where it leaves this function
            self._fail(error)
        if self.error is not None:
            self._leave_only_the_end(scores)
        return scores

    # --- for the caller ----------------------------------------------------------------------------------------

    def __enter__(self) -> FormatterLogitsProcessor:
        self.reset()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.raise_error()

    def raise_error(self) -> None:
        """Raise what went wrong during the call that has just ended; nothing if nothing did.

        Raises:
            NotCalled: llama-cpp-python never called the processor.
            BaseException: what ended the sequence early.
        """
        if self.error is not None:
            raise self.error
        if not self._calls:
            raise NotCalled

    def result(self, output: Any = None) -> Result:
        """What the sequence turned out to be.

        Args:
            output: what `create_completion` or `create_chat_completion` returned, or the generated text. The last token
                that llama.cpp takes is shown to no processor, so without it the result is one of an unfinished text.

        Raises:
            NotCalled: llama-cpp-python never called the processor.
            BaseException: what ended the sequence early.
        """
        self.raise_error()
        return result_of(self.formatter, output)

    # --- inside ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.error = None
        self._known = 0  # how many of the ids are followed, the prompt included
        self._ids = b""  # those ids, as they lie in memory
        self._calls = 0
        if self.formatter.tokens:
            self.formatter = self.compiled.formatter()

    def _follow(self, ids: NDArray[np.intc]) -> None:
        if self._calls and self._has_drafts():
            # One call for each token that is kept, and behind those there are drafts that nobody has checked.
            ids = ids[: self._known + 1]
        if not self._continued_by(ids):
            self._begin()
            self._known = len(ids)
        new = ids[self._known :].tolist()
        self._known, self._ids = len(ids), ids.tobytes()
        self._calls += 1
        taken = 0 if self.error is not None else self.formatter.accept_tokens(new)
        if self.error is None and taken < len(new):
            self.formatter.accept_token(new[taken])  # which raises why not

    def _continued_by(self, ids: NDArray[np.intc]) -> bool:
        """Whether these ids go on from those that are followed; otherwise they are the prompt of a new request."""
        known = self._known
        is_same_generation = self._notice_generation(exactly_one=len(ids) == known + 1)
        if not self._calls or not is_same_generation or len(ids) <= known:
            return False
        if ids[:known].tobytes() != self._ids:
            return False
        new = ids[known:].tolist()
        # One token that is not allowed is a fault; several are the prompt of a conversation that goes on.
        return len(new) == 1 or self.error is not None or self.formatter.count_valid(new) == len(new)

    def _notice_generation(self, *, exactly_one: bool) -> bool:
        """Whether the call of `generate` is the one of the last time, as far as can be told."""
        llama = self._llama()
        current = None if llama is None else _compat.generation_of(llama)
        if current is None:
            return True
        before = None if self._generation is None else self._generation()
        if current is before:
            self._calls_of_generation += 1
            return True
        # Whoever calls `Llama.sample` itself has a new sampler for each token.
        is_by_hand = self._calls_of_generation == 1 and exactly_one
        self._generation, self._calls_of_generation = weakref.ref(current), 1
        return is_by_hand or not self._calls

    def _has_drafts(self) -> bool:
        llama = self._llama()
        return llama is not None and _compat.has_drafts(llama)

    def _fail(self, error: BaseException) -> None:
        self.error = error
        logger.warning("a sequence is ended after %d tokens: %s", len(self.formatter.tokens), error)

    def _leave_only_the_end(self, scores: NDArray[np.single]) -> None:
        scores[:] = -np.inf
        scores[[end for end in self.formatter.end_ids if end < len(scores)]] = 0
