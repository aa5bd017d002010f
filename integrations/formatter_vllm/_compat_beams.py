"""Refusal of formats in beam search, for which vLLM's server creates its own requests."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from formatter_vllm._compat_engine import engine_class
from formatter_vllm._compat_server import optional_module

__all__ = ["refuse_beams"]

_OPENAI = "vllm.entrypoints.openai"
_SPEECH = "vllm.entrypoints.speech_to_text"
#: The requests that may ask for beam search.
_BEAMS = (
    (f"{_OPENAI}.completion.protocol", "CompletionRequest"),
    (f"{_OPENAI}.chat_completion.protocol", "ChatCompletionRequest"),
    (f"{_SPEECH}.transcription.protocol", "TranscriptionRequest"),
    (f"{_SPEECH}.translation.protocol", "TranslationRequest"),
)
#: An attribute that only wrapped functions have.
_MARK = "formatter_looks_at_beams"


def refuse_beams(check: Callable[[Any, bool], None], say_absent: Callable[[str], None]) -> None:
    """Check requests for beam search, for which vLLM creates new parameters; this may be called again.

    Args:
        check: called with `vllm_xargs` and whether there are structured outputs; raises if the request is refused.
        say_absent: called, when a server starts, with the name of each kind of text request that cannot be checked.
    """
    engine = engine_class()
    begin: Any = getattr(engine, "__init__", None)
    if engine is None or hasattr(begin, _MARK):
        return

    @functools.wraps(begin)
    def begin_with_checks(self: Any, *arguments: Any, **named: Any) -> None:
        for module, name in _BEAMS:  # not before: the workers have no use for these modules
            if not _check_beams_of(getattr(optional_module(module), name, None), check) and module.startswith(_OPENAI):
                say_absent(name)
        begin(self, *arguments, **named)

    setattr(begin_with_checks, _MARK, True)
    engine.__init__ = begin_with_checks


def _check_beams_of(kind: Any, check: Callable[[Any, bool], None]) -> bool:
    make: Any = getattr(kind, "to_beam_search_params", None)
    if make is None or hasattr(make, _MARK):
        return make is not None

    @functools.wraps(make)
    def to_beam_search_params(self: Any, *arguments: Any, **named: Any) -> Any:
        structured = getattr(self, "extract_structured_outputs", lambda: None)()
        check(getattr(self, "vllm_xargs", None), structured is not None)
        return make(self, *arguments, **named)

    setattr(to_beam_search_params, _MARK, True)
    kind.to_beam_search_params = to_beam_search_params
    return True
