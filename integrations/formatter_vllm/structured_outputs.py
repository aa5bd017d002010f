"""Our engine as the backend of vLLM's structured outputs, where it is asked for.

With `FORMATTER_VLLM_STRUCTURED_OUTPUTS=1` in the environment, formatter-core keeps `response_format`,
`structured_outputs` and the tools that vLLM enforces, unless another backend is chosen by name
(`--structured-outputs-config`). Masks are made while the model runs, and a request waits for its format while others
are served. vLLM has no registry of backends, so this goes through names that are internal to vLLM. At the start dummy
requests are sent through them; where they do not come back as they should, the backend is off and vLLM uses its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import Compiler, Cursor, Formatter, Vocabulary, bitmask
from formatter_core.errors import InvalidArgument, UnsupportedFormat
from formatter_vllm import _compat_parameters, _compat_sources, admission
from formatter_vllm.compilers import RequestCompiler, check_content, compiler_of
from formatter_vllm.figures import CountingFailureLog, MaskTimer
from formatter_vllm.requests import KEY, content_of_structured_outputs, kind_of
from formatter_vllm.settings import read_settings
from formatter_vllm.vocabulary import create_vocabulary, logger

__all__ = ["VARIABLE", "FormatterGrammar", "create_backend_class", "reason_off", "refuse_what_is_off", "register"]

#: The environment variable that asks for it.
VARIABLE = "FORMATTER_VLLM_STRUCTURED_OUTPUTS"

_failures = CountingFailureLog(logger)


def register() -> None:
    """The entry point of the group `vllm.general_plugins`: called in every process of every vLLM; may be called again.

    Raises:
        InvalidArgument: the settings in the environment cannot be read.
    """
    read_settings()
    reason = reason_off()
    if reason is None:
        from formatter_vllm import _compat_structured_outputs as compat
        from formatter_vllm import tools

        tools.install()
        admission.install(compat.structured_outputs_of)
        _compat_sources.warn_of_changes(_compat_sources.BACKEND)
        return
    if is_asked_for():
        _compat_sources.say(
            "FORMATTER_VLLM_STRUCTURED_OUTPUTS=1 has no effect: %s. vLLM's own backend keeps structured outputs", reason
        )
    admission.install()


def is_asked_for() -> bool:
    """Whether the environment asks for the backend."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


def reason_off() -> str | None:
    """Why the backend does not serve this process; None where it does. The first call tries to begin with it."""
    return _begin() if is_asked_for() else f"vLLM was started without {VARIABLE}=1"


@cache
def _begin() -> str | None:
    """Put the backend in place, if dummy requests come through; else why they do not."""
    try:
        from formatter_vllm import _compat_probe
        from formatter_vllm import _compat_structured_outputs as compat

        interfaces = compat.interfaces()
        compat.add_backend(create_backend_class(*interfaces), check_request)
        try:
            _compat_probe.probe(create_backend_class(*interfaces, _compiler_of_bytes))
        except BaseException:
            compat.remove_backend()
            raise
    except Exception as error:  # noqa: BLE001 - whatever it is, vLLM must start
        release = _compat_sources.release()
        return f"formatter-core's backend does not fit vLLM {release} ({error})"
    return None


def refuse_what_is_off(parameters: Any) -> None:
    """Refuse a request that only our backend can serve, a content in the field `grammar`, where the backend is off.

    Raises:
        UnsupportedFormat: with the reason.
    """
    text = _compat_parameters.grammar_of(parameters)
    if text is not None and text.lstrip().startswith("{") and kind_of(text) is not None:
        reason = reason_off()
        if reason is not None:
            raise UnsupportedFormat(f"{reason}; send the format in `{KEY}` (vllm_xargs) instead", server="vLLM")


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
        """Never: vLLM no longer constrains what is terminated, and an ended request may continue (`ignore_eos`)."""
        return False

    def reset(self) -> None:
        """Start again."""
        self.cursor.reset()


def _compiler_of(tokenizer: Any, vllm_config: Any) -> RequestCompiler:
    return compiler_of(create_vocabulary(tokenizer, model=vllm_config))


def _compiler_of_bytes(tokenizer: Any, vllm_config: Any) -> RequestCompiler:
    """The compiler of the dummy requests at the start; no other engine of this process has this one."""
    return RequestCompiler(Compiler(Vocabulary.of_bytes()), read_settings())


def create_backend_class(
    backend: Any, grammar: Any, compiler: Callable[[Any, Any], RequestCompiler] = _compiler_of
) -> Any:
    """The backend, as a class of vLLM's `StructuredOutputBackend`; its grammars are of vLLM's class too.

    Args:
        compiler: gives the compiler for a tokenizer and vLLM's configuration.
    """
    from formatter_vllm import _compat_structured_outputs as compat

    class RequestGrammar(FormatterGrammar, grammar):  # type: ignore[misc]
        """The state of one request, as a class of vLLM's."""

    class FormatterBackend(backend):  # type: ignore[misc]
        """Compiles for one engine, on several threads; an error there fails that request alone."""

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
            """The masks of all grammars in one call, each in the row that its place says."""
            with MaskTimer():
                Cursor.step_batch([grammar.cursor for grammar in grammars], rows, places)

        def destroy(self) -> None:
            """Nothing is held that others do not share."""

    return FormatterBackend
