"""Reporting of failed requests to vLLM's server: the output ends with an error, and the answer states the cause."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

from formatter_vllm._compat_engine import engine_class
from formatter_vllm._compat_server import optional_module

__all__ = ["can_report_failures", "explain_failures", "report_failures"]

#: An attribute that only wrapped functions have.
_MARK = "formatter_reports"


def can_report_failures() -> bool:
    """Tell whether outputs can be made to end with an error."""
    processor, reasons = _outputs()
    parameters = inspect.signature(getattr(processor, "process_outputs", _outputs)).parameters
    return "engine_core_outputs" in parameters and hasattr(reasons, "ERROR")


def report_failures(failure_ids: set[int]) -> None:
    """Make outputs that stopped at one of these ids end with an error instead of "stop"; may be called again."""
    processor, reasons = _outputs()
    process: Any = getattr(processor, "process_outputs", None)
    if not can_report_failures() or hasattr(process, _MARK):
        return

    @functools.wraps(process)
    def process_outputs(self: Any, engine_core_outputs: Any, *arguments: Any, **named: Any) -> Any:
        for output in engine_core_outputs:
            if output.stop_reason in failure_ids and output.finish_reason == reasons.STOP:
                output.finish_reason, output.stop_reason = reasons.ERROR, None
        return process(self, engine_core_outputs, *arguments, **named)

    setattr(process_outputs, _MARK, True)
    processor.process_outputs = process_outputs


def explain_failures(has_format: Callable[[Any], bool], cause_of: Callable[[Any, str], Awaitable[str | None]]) -> bool:
    """Answer a request that failed with its cause instead of "Internal server error"; False if that cannot be done.

    You may call it again.

    Args:
        has_format: whether a request may fail because of its format, by its parameters.
        cause_of: gives the cause by the engine and the request's id; None if it is not known.
    """
    engine: Any = engine_class()
    generate: Any = getattr(engine, "generate", None)
    failed = getattr(optional_module("vllm.exceptions"), "GenerationError", None)
    if hasattr(generate, _MARK):
        return True
    if failed is None or not inspect.isasyncgenfunction(generate):
        return False
    signature = inspect.signature(generate)
    if not {"request_id", "sampling_params"} <= {*signature.parameters}:
        return False

    async def explained(self: Any, outputs: AsyncGenerator[Any, None], request_id: str) -> AsyncIterator[Any]:
        try:
            async for output in outputs:
                if any(one.finish_reason == "error" for one in getattr(output, "outputs", ())):
                    cause = await cause_of(self, request_id)
                    if cause is not None:
                        raise failed(cause)
                yield output
        finally:
            await outputs.aclose()  # now, not when it is collected: that is how vLLM aborts a request

    @functools.wraps(generate)
    def generate_explained(self: Any, *arguments: Any, **named: Any) -> Any:
        outputs = generate(self, *arguments, **named)
        given = signature.bind(self, *arguments, **named).arguments
        is_watched = has_format(given["sampling_params"])
        return explained(self, outputs, given["request_id"]) if is_watched else outputs

    setattr(generate_explained, _MARK, True)
    engine.generate = generate_explained
    return True


def _outputs() -> tuple[Any, Any]:
    """Return vLLM's class that makes outputs, and its enum of finish reasons; None for one that is missing."""
    processor = getattr(optional_module("vllm.v1.engine.output_processor"), "OutputProcessor", None)
    return processor, getattr(optional_module("vllm.v1.engine"), "FinishReason", None)
