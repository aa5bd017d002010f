"""Results from what a generator returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from formatter_core import Formatter, Result
from formatter_core.errors import InvalidArgument
from formatter_core.generation.stopping import check_shown, stopped_result

__all__ = ["result_of"]


def result_of(formatter: Formatter, before: bytes, output: Any) -> Result:
    """The result of a job, with how it ended where that is known.

    Args:
        formatter: after all tokens of the job; left as it is.
        before: what it was given of the prompt.
        output: the job's last result, or None.

    Raises:
        InvalidArgument: `output` is something else, or its text contradicts the tokens.
    """
    if output is None:
        return formatter.result()
    reason = output.get("eos_reason") if isinstance(output, Mapping) else None
    if not isinstance(reason, str):
        raise InvalidArgument(
            "this is not the last result of a job, which holds eos_reason; take it from generator.iterate() when "
            '"eos" is True, or from generator.generate(..., return_last_results=True)'
        )
    text = output.get("full_completion")
    if isinstance(text, str):
        check_shown(formatter, before, text)
    if reason == "stop_string":
        return stopped_result(formatter, before + str(text or "").encode("utf-8", "surrogatepass"))
    if formatter.is_finished or reason == "end_filter":
        return formatter.result("end")
    # A stop token that is not an end id is one of the caller's own.
    return formatter.result("stop_string" if reason == "stop_token" else "length")
