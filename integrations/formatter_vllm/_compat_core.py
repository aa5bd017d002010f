"""Support for vLLM's Rust front end: wraps two functions in the scheduler's process, which every front end uses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from formatter_vllm._compat_server import optional_module

__all__ = ["check_requests", "check_structured_outputs", "config_of", "report_failures"]

#: An attribute that only wrapped functions have.
_MARK = "formatter_checks"


def check_requests(check: Callable[[Any, str, Any], None]) -> bool:
    """Call `check(engine, id, parameters)` before the engine's process takes a request; False if that cannot be done.

    You may call it again. What `check` raises is the answer to that request.
    """
    core = getattr(optional_module("vllm.v1.engine.core"), "EngineCore", None)
    preprocess: Any = getattr(core, "preprocess_add_request", None)
    if preprocess is None or hasattr(preprocess, _MARK):
        return preprocess is not None

    @functools.wraps(preprocess)
    def preprocess_add_request(self: Any, request: Any) -> Any:
        parameters = getattr(request, "sampling_params", None)
        if parameters is not None:
            check(self, request.request_id, parameters)
        return preprocess(self, request)

    setattr(preprocess_add_request, _MARK, True)
    core.preprocess_add_request = preprocess_add_request  # type: ignore[union-attr]
    return True


def report_failures(failure_ids: set[int], cause_of: Callable[[str], str | None]) -> bool:
    """Make outputs that stopped at one of these ids end with an error; False if that cannot be done.

    You may call it again.

    Args:
        cause_of: gives the cause by the request's id; None if it is not known.
    """
    scheduler = getattr(optional_module("vllm.v1.core.sched.scheduler"), "Scheduler", None)
    reasons: Any = getattr(optional_module("vllm.v1.engine"), "FinishReason", None)
    described: Any = getattr(optional_module("vllm.outputs"), "RequestError", None)
    update: Any = getattr(scheduler, "update_from_output", None)
    if update is None or described is None or not hasattr(reasons, "ERROR"):
        return False
    if hasattr(update, _MARK):
        return True

    @functools.wraps(update)
    def update_from_output(self: Any, *arguments: Any, **named: Any) -> Any:
        made = update(self, *arguments, **named)
        for sent in made.values():
            for output in sent.outputs:
                if output.stop_reason in failure_ids and output.finish_reason == reasons.STOP:
                    output.finish_reason, output.stop_reason = reasons.ERROR, None
                if output.finish_reason == reasons.ERROR and output.error is None:
                    cause = cause_of(output.request_id)
                    if cause is not None:
                        output.error = described(code="generation_error", message=cause)
        return made

    setattr(update_from_output, _MARK, True)
    scheduler.update_from_output = update_from_output  # type: ignore[union-attr]
    return True


def check_structured_outputs(engine: Any, parameters: Any) -> None:
    """Have vLLM check a request's structured outputs, and say which backend they are for, as `AsyncLLM` does."""
    config = config_of(engine)
    tokenizer = engine.structured_output_manager.tokenizer
    parameters._validate_structured_outputs(config.model_config, config.structured_outputs_config, tokenizer)


def config_of(engine: Any) -> Any:
    """Return the `VllmConfig` of the scheduler's process."""
    return engine.vllm_config
