"""This project's engine as the backend of vLLM's structured outputs, if it is enabled.

With `FORMATTER_VLLM_STRUCTURED_OUTPUTS=1` in the environment, formatter-core enforces `response_format`,
`structured_outputs` and the tools that vLLM enforces, unless another backend is chosen by name
(`--structured-outputs-config`). Masks are made while the model runs, and a request waits for its format while other
requests are served. vLLM has no registry of backends, so this package uses names that are internal to vLLM. At startup,
dummy requests test them; if the results are not as expected, the backend is off and vLLM uses its own.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import InvalidArgument, UnsupportedFormat
from formatter_vllm import _compat_parameters, _compat_sources, _compat_structured_outputs, admission
from formatter_vllm.compilers import RequestCompiler, check_content
from formatter_vllm.requests import KEY, content_of_structured_outputs, kind_of
from formatter_vllm.settings import read_settings

__all__ = ["VARIABLE", "reason_off", "refuse_what_is_off", "register"]

#: The environment variable that enables the backend.
VARIABLE = "FORMATTER_VLLM_STRUCTURED_OUTPUTS"


def register() -> None:
    """Register the backend: the entry point of the group `vllm.general_plugins`.

    Every process of every vLLM calls this; it may be called again.

    Raises:
        InvalidArgument: the settings in the environment cannot be read.
    """
    read_settings()
    reason = reason_off()
    if reason is None:
        from formatter_vllm import tools

        tools.install()
        admission.install(_compat_structured_outputs.structured_outputs_of)
        _compat_sources.warn_of_changes(_compat_sources.BACKEND)
        return
    if is_asked_for():
        _compat_sources.say(
            "FORMATTER_VLLM_STRUCTURED_OUTPUTS=1 has no effect: %s. vLLM's own backend keeps structured outputs", reason
        )
    admission.install()


def is_asked_for() -> bool:
    """Tell whether the environment enables the backend."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


def reason_off() -> str | None:
    """Return the reason why the backend does not serve this process; None if it does.

    The first call tries to start it.
    """
    return _begin() if is_asked_for() else f"vLLM was started without {VARIABLE}=1"


@cache
def _begin() -> str | None:
    """Put the backend in place, if dummy requests come through; else why they do not."""
    try:
        from formatter_vllm import _compat_manager, _compat_probe, backend

        interfaces = _compat_structured_outputs.interfaces()
        _compat_manager.add_backend(backend.create_backend_class(*interfaces), check_request)
        try:
            _compat_probe.probe(backend.create_backend_class(*interfaces, _compiler_of_bytes))
        except BaseException:
            _compat_manager.remove_backend()
            raise
    except Exception as error:  # noqa: BLE001 - vLLM must start despite any error
        release = _compat_sources.release()
        return f"formatter-core's backend does not fit vLLM {release} ({error})"
    return None


def refuse_what_is_off(parameters: Any) -> None:
    """Refuse a request that only this backend can serve, a content in the field `grammar`, where the backend is off.

    Raises:
        UnsupportedFormat: with the reason.
    """
    text = _compat_structured_outputs.grammar_of(parameters)
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


def _compiler_of_bytes(tokenizer: Any, vllm_config: Any) -> RequestCompiler:
    """Return the compiler of the dummy requests at startup; no other engine of this process uses it."""
    return RequestCompiler(Compiler(Vocabulary.of_bytes()), read_settings())
