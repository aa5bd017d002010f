"""Make the result of a job of ExLlamaV2 or ExLlamaV3, whose last result says why it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from formatter_core.errors import InvalidArgument
from formatter_core.generation.stopping import check_shown, stopped_result
from formatter_core.runtime.formatter import Formatter
from formatter_core.runtime.result import Result

__all__ = ["job_result"]


def job_result(formatter: Formatter, before: bytes, output: Any, *, is_over: bool = False) -> Result:
    """Return the result of a job, with the reason for its end if that is known.

    Args:
        formatter: the state after all tokens of the job; not changed.
        before: the bytes that the formatter was given from the prompt.
        output: the job's last result, or None.
        is_over: whether the job has ended as its format requires, whatever the last result says.

    Raises:
        InvalidArgument: `output` is of another kind, or its text contradicts the tokens.
    """
    told = output if isinstance(output, Mapping) else {}
    reason, text = told.get("eos_reason"), told.get("full_completion")
    if isinstance(text, str):
        check_shown(formatter, before, text)
    if is_over:
        return formatter.result("end")
    if output is None:
        return formatter.result()
    if not isinstance(reason, str):
        raise InvalidArgument(
            "this is not the last result of a job, which holds eos_reason; take it from generator.iterate() when "
            '"eos" is True, or from generator.generate(..., return_last_results=True)'
        )
    if reason == "stop_string":
        return stopped_result(formatter, before + str(text or "").encode("utf-8", "surrogatepass"))
    if formatter.is_finished or reason == "end_filter":
        return formatter.result("end")
    # A stop token that is not an end id is one that the caller chose.
    return formatter.result("stop_string" if reason == "stop_token" else "length")
