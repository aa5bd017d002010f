"""Our engine as vLLM's `StructuredOutputBackend`, and one request's cursor as its `StructuredOutputGrammar`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import Cursor, Formatter, bitmask
from formatter_vllm import _compat_structured_outputs as compat
from formatter_vllm.compilers import RequestCompiler, compiler_of
from formatter_vllm.failures import CountingFailureLog
from formatter_vllm.figures import MaskTimer
from formatter_vllm.requests import content_of_structured_outputs
from formatter_vllm.vocabulary import create_vocabulary, logger

__all__ = ["FormatterGrammar", "create_backend_class"]

_failures = CountingFailureLog(logger)


class FormatterGrammar:
    """One request's cursor as vLLM's `StructuredOutputGrammar`. Nothing raises: that would end every request.

    If a mask cannot be made, only end ids are allowed, and any token that is sampled then is refused, so that vLLM ends
    the request with an error.
    """

    def __init__(self, formatter: Formatter, reasoning_ends: Collection[int] = ()) -> None:
        self.cursor = Cursor(formatter)
        self._too_early = () if formatter.can_stop else formatter.end_ids
        self._reasoning_ends = reasoning_ends

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.cursor!r}>"

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Accept these tokens; False, without any change, if they are not allowed."""
        for token_id in tokens:
            self.cursor.append(token_id)
        if self.cursor.error is None:
            return True
        _failures.report(self.cursor, request_id=request_id)
        self.cursor.rollback(len(tokens))  # vLLM rolls back only accepted drafts
        return False

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens up to the first forbidden one; nothing is changed."""
        return list(tokens[: self.cursor.count_valid(tokens)])

    def rollback(self, num_tokens: int) -> None:
        """Take back this many tokens."""
        self.cursor.rollback(num_tokens)

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Write the mask into a row of a tensor: int32 (rows, words)."""
        with MaskTimer():
            self.cursor.fill_bitmask(bitmask[batch_index].numpy())

    def mask_reasoning(self, row: NDArray[np.int32]) -> None:
        """Take out of a mask, while the model still reasons, what would end the request without its answer.

        These are the ends, unless the format may be empty: vLLM would call that "stop". And tokens that end reasoning
        and begin the answer, such as `<tool_call>`, where the format does not begin so.
        """
        if self._reasoning_ends:
            refused = [one for one in self._reasoning_ends if not self.cursor.count_valid([one])]
            self._too_early, self._reasoning_ends = (*self._too_early, *refused), ()
        bitmask.clear_ids(row, self._too_early)

    def is_terminated(self) -> bool:
        """Return False: vLLM stops constraining a terminated request, but an ended one may continue (`ignore_eos`)."""
        return False

    def reset(self) -> None:
        """Start again."""
        self.cursor.reset()


def _compiler_of(tokenizer: Any, vllm_config: Any) -> RequestCompiler:
    return compiler_of(create_vocabulary(tokenizer, model=vllm_config))


def create_backend_class(
    backend: Any, grammar: Any, compiler: Callable[[Any, Any], RequestCompiler] = _compiler_of
) -> Any:
    """Make the backend as a subclass of vLLM's `StructuredOutputBackend`; its grammars are of vLLM's class, too.

    Args:
        compiler: gives the compiler for a tokenizer and vLLM's configuration.
    """

    class RequestGrammar(FormatterGrammar, grammar):  # type: ignore[misc]
        """The state of one request, as a class of vLLM's."""

    class FormatterBackend(backend):  # type: ignore[misc]
        """A backend that compiles for one engine, on several threads; an error fails only its request."""

        GRAMMAR = RequestGrammar

        def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int) -> None:
            super().__init__(vllm_config, tokenizer, vocab_size)
            self.compiler = compiler(tokenizer, vllm_config)
            config = getattr(vllm_config, "structured_outputs_config", None)
            self.has_reasoning = compat.has_reasoning_parser(config)
            self.reasoning_ends = compat.implicit_reasoning_ends(config, tokenizer)

        def compile_grammar(
            self, request_type: Any, grammar_spec: str, stop_token_ids: set[int] | None = None
        ) -> FormatterGrammar:
            content = content_of_structured_outputs(request_type.name, grammar_spec, self.has_reasoning)
            compiled = self.compiler.compile(content)
            size = len(compiled.vocabulary)
            ends = [token_id for token_id in stop_token_ids or () if 0 <= token_id < size]
            return RequestGrammar(compiled.formatter(ends or None), self.reasoning_ends)

        def allocate_token_bitmask(self, max_num_seqs: int) -> Any:
            import torch

            size = max(self.vocab_size, len(self.compiler.vocabulary))
            return torch.from_numpy(np.full((max_num_seqs, bitmask.words(size)), -1, dtype=np.int32))

        def fill_bitmasks(
            self, grammars: Sequence[FormatterGrammar], rows: NDArray[np.int32], places: Sequence[int]
        ) -> None:
            """Fill the masks of all grammars in one call, each in the row of its place."""
            with MaskTimer():
                Cursor.step_batch([grammar.cursor for grammar in grammars], rows, places)

        def destroy(self) -> None:
            """Do nothing: all resources are shared."""

    return FormatterBackend
