"""Our engine as the backend of vLLM's structured outputs, where it is asked for.

With `FORMATTER_VLLM_STRUCTURED_OUTPUTS=1` in the environment, formatter-core keeps `response_format`,
`structured_outputs` and the tools that vLLM enforces, unless another backend is chosen by name
(`--structured-outputs-config`). Masks are made while the model runs, and a request waits for its format while others
are served. vLLM has no registry of backends, so this goes through names that are internal to vLLM. Their signatures
are checked first; where one differs, the start fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import Cursor, Formatter, bitmask
from formatter_core.errors import InvalidArgument
from formatter_vllm import _compat_parameters, admission
from formatter_vllm.compilers import RequestCompiler, check_content, compiler_of
from formatter_vllm.figures import CountingFailureLog, MaskTimer
from formatter_vllm.requests import content_of_structured_outputs
from formatter_vllm.settings import read_settings
from formatter_vllm.vocabulary import create_vocabulary, logger

__all__ = ["VARIABLE", "FormatterGrammar", "create_backend_class", "register"]

#: The environment variable that asks for it.
VARIABLE = "FORMATTER_VLLM_STRUCTURED_OUTPUTS"

_failures = CountingFailureLog(logger)


def register() -> None:
    """The entry point of the group `vllm.general_plugins`: called in every process of every vLLM; may be called again.

    Raises:
        InvalidArgument: the settings in the environment cannot be read.
        UnsupportedEngineVersion: the backend is asked for, and an internal name of this vLLM is not what is needed.
    """
    read_settings()
    if os.environ.get(VARIABLE, "") in ("", "0"):
        admission.install()
        return
    from formatter_vllm import _compat_structured_outputs as compat
    from formatter_vllm import tools

    backend = create_backend_class(compat.BACKEND, compat.GRAMMAR, compat.has_reasoning_parser)
    compat.add_backend(backend, check_request)
    tools.install()
    admission.install(compat.structured_outputs_of)


def check_request(kind: str, specification: str, is_behind_reasoning: bool, parameters: Any) -> None:
    """Refuse a faulty request when it comes in.

    Args:
        kind: the name of a `StructuredOutputOptions`.
        specification: what goes with it, as text.
        is_behind_reasoning: whether vLLM splits reasoning from it.
        parameters: the request's `SamplingParams`.

    Raises:
        FormatterError: what is wrong.
    """
    reason = _compat_parameters.reason_to_refuse_beside(parameters, is_behind_reasoning=is_behind_reasoning)
    if reason is not None:
        raise InvalidArgument(reason)
    check_content(content_of_structured_outputs(kind, specification, is_behind_reasoning))


class FormatterGrammar:
    """One request's cursor as vLLM's `StructuredOutputGrammar`. Nothing raises: that would end every request.

    If a mask cannot be made, the request is offered its end ids alone, and whatever it samples then is refused, so that
    vLLM ends the request with an error.
    """

    def __init__(self, formatter: Formatter) -> None:
        self.cursor = Cursor(formatter)
        self._too_early = () if formatter.can_stop else formatter.end_ids

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.cursor!r}>"

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Accept these tokens; False, without any change, if they are not allowed."""
        for token_id in tokens:
            self.cursor.append(token_id)
        if self.cursor.error is None:
            return True
        _failures.report(self.cursor, f"request {request_id}")
        self.cursor.rollback(len(tokens))  # vLLM rolls back only accepted drafts
        return False

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """The tokens up to the first one that is not allowed; nothing is changed."""
        return list(tokens[: self.cursor.count_valid(tokens)])

    def rollback(self, num_tokens: int) -> None:
        """Take back this many tokens."""
        self.cursor.rollback(num_tokens)

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Write the mask into a row of a tensor: int32 (rows, words)."""
        with MaskTimer():
            self.cursor.fill_bitmask(bitmask[batch_index].numpy())

    def fill_reasoning(self, row: NDArray[np.int32]) -> None:
        """The mask while the model still reasons: everything but the ends, unless the format may be empty.

        A model that ended there would leave out its answer, and vLLM would call that "stop".
        """
        row.fill(-1)
        bitmask.clear_ids(row, self._too_early)

    def is_terminated(self) -> bool:
        """Never: vLLM no longer constrains what is terminated, and an ended request may continue (`ignore_eos`)."""
        return False

    def reset(self) -> None:
        """Start again."""
        self.cursor.reset()


def create_backend_class(backend: Any, grammar: Any, has_reasoning_parser: Callable[[Any], bool]) -> Any:
    """The backend, as a class of vLLM's `StructuredOutputBackend`; its grammars are of vLLM's class too."""

    class RequestGrammar(FormatterGrammar, grammar):  # type: ignore[misc]
        """The state of one request, as a class of vLLM's."""

    class FormatterBackend(backend):  # type: ignore[misc]
        """Compiles for one engine, on several threads; an error there fails that request alone."""

        GRAMMAR = RequestGrammar

        def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int) -> None:
            super().__init__(vllm_config, tokenizer, vocab_size)
            self.compiler: RequestCompiler = compiler_of(create_vocabulary(tokenizer, model=vllm_config))
            self.has_reasoning = has_reasoning_parser(getattr(vllm_config, "structured_outputs_config", None))

        def compile_grammar(
            self, request_type: Any, grammar_spec: str, stop_token_ids: set[int] | None = None
        ) -> FormatterGrammar:
            content = content_of_structured_outputs(request_type.name, grammar_spec, self.has_reasoning)
            compiled = self.compiler.compile(content)
            size = len(compiled.vocabulary)
            ends = [token_id for token_id in stop_token_ids or () if 0 <= token_id < size]
            return RequestGrammar(compiled.formatter(ends or None))

        def allocate_token_bitmask(self, max_num_seqs: int) -> Any:
            import torch

            size = max(self.vocab_size, len(self.compiler.vocabulary))
            return torch.from_numpy(np.full((max_num_seqs, bitmask.words(size)), -1, dtype=np.int32))

        def fill_bitmasks(
            self, grammars: Sequence[FormatterGrammar], rows: NDArray[np.int32], free: Sequence[int]
        ) -> None:
            """The masks of all grammars in one call; the models of those whose numbers are in `free` still reason."""
            masked = [number for number in range(len(grammars)) if number not in free] if free else range(len(grammars))
            with MaskTimer():
                Cursor.step_batch([grammars[number].cursor for number in masked], rows, masked)
            for number in free:
                grammars[number].fill_reasoning(rows[number])

        def destroy(self) -> None:
            """Nothing is held that others do not share."""

    return FormatterBackend
