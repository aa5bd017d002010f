"""Support for requests through vLLM's Rust front end (`VLLM_USE_RUST_FRONTEND=1`), which runs no code of this package.

Instead, the scheduler's process checks them when it takes them, and logs there which of them failed. Formats are
compiled in that process, on the thread that takes requests: there is no queue such as that of `admission`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from formatter_core.errors import FormatterError
from formatter_vllm import _compat_core, _compat_parameters, _compat_server, failures
from formatter_vllm._compat_sources import say
from formatter_vllm.compilers import RequestCompiler
from formatter_vllm.requests import content_of

__all__ = ["install", "is_in_front"]


def is_in_front() -> bool:
    """Tell whether vLLM was started with the Rust front end."""
    return os.environ.get("VLLM_USE_RUST_FRONTEND", "0") not in ("", "0")


def install(
    structured_outputs_of: Callable[[Any, Any], tuple[str, str, bool] | None] | None,
    compiler_for: Callable[[Any], RequestCompiler | None],
) -> None:
    """Check requests in the process that schedules; may be called again.

    Args:
        structured_outputs_of: as in `admission.install`.
        compiler_for: gives the compiler by vLLM's configuration; None if there is no tokenizer.
    """
    compilers: WeakKeyDictionary[Any, RequestCompiler | None] = WeakKeyDictionary()
    failure_ids: set[int] = set()

    def check(engine: Any, request_id: str, parameters: Any) -> None:
        from formatter_vllm.logits_processor import FormatterLogitsProcessor

        config = _compat_core.config_of(engine)
        if engine not in compilers:
            compilers[engine] = compiler_for(config)
        compiler = compilers[engine]
        try:
            FormatterLogitsProcessor.validate_params(parameters)
            has_format = content_of(_compat_parameters.arguments_of(parameters)) is not None
        except (ValueError, FormatterError) as error:
            raise _compat_server.invalid_error(str(error)) from None
        if has_format:
            _compat_parameters.set_request_id(parameters, request_id)
            if compiler is not None and compiler.failure_id is not None:
                _compat_parameters.add_stop_id(parameters, compiler.failure_id)
                failure_ids.add(compiler.failure_id)
            return
        chosen = config.structured_outputs_config
        if structured_outputs_of is not None and structured_outputs_of(chosen, parameters) is not None:
            _compat_core.check_structured_outputs(engine, parameters)

    if not _compat_core.check_requests(check):
        say(
            "vLLM's Rust front end checks no format: EngineCore.preprocess_add_request is not as needed; a request "
            'whose format is faulty ends with "stop" and no text, and only the log and `formatter_vllm.result` say so'
        )
    elif not _compat_core.report_failures(failure_ids, failures.cause_of):
        say('requests whose format fails end with "stop": Scheduler.update_from_output is not as needed')
