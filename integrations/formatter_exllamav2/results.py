"""From what a generator returned to a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from formatter_core import Result
from formatter_core.errors import InvalidArgument
from formatter_core.runtime.result import Ended
from formatter_exllamav2.sequence import Sequence

__all__ = ["result_of"]

_ENDED: dict[str, Ended] = {
    "stop_token": "end",
    "end_filter": "end",
    "max_new_tokens": "length",
    "stop_string": "stop_string",
}


def result_of(sequence: Sequence, output: Any) -> Result:
    """The result of a sequence, and of how its job ended where that is told.

    Args:
        sequence: after all tokens of the job.
        output: the job's last result, or None.

    Raises:
        InvalidArgument: `output` is something else.
    """
    if output is None:
        return sequence.result()
    reason = output.get("eos_reason") if isinstance(output, Mapping) else None
    if reason not in _ENDED:
        raise InvalidArgument(
            "this is not the last result of a job, which holds eos_reason; take it from generator.iterate() when "
            '"eos" is True, or from generator.generate(..., return_last_results=True)'
        )
    if reason == "stop_string":
        # The tokens spell the stop string too, and perhaps more.
        cut = sequence.formatter()
        data = sequence.prefix + str(output.get("full_completion", "")).encode("utf-8", "surrogatepass")
        if cut.bytes != data and cut.bytes.startswith(data):
            cut.reset()
            if data:
                cut.accept_bytes(data)
            return cut.result("stop_string")
    stops = reason == "stop_token" and not sequence.has_ended
    return sequence.result("stop_string" if stops else _ENDED[reason])
