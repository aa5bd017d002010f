"""Results from what llama-cpp-python returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from formatter_core import Formatter, Result
from formatter_core.errors import InvalidArgument, TokenRejected
from formatter_core.generation.stopping import stopped_result
from formatter_core.runtime.result import Ended

__all__ = ["result_of"]


def result_of(formatter: Formatter, output: Any) -> Result:
    """The result of a sequence of which the formatter has seen all tokens but the last one, and the text that came out.

    Args:
        formatter: after all tokens but the last one; left as it is.
        output: a completion or a chat completion, a text that is taken to have ended by itself, or None.

    Raises:
        InvalidArgument: `output` is something else.
    """
    if output is None:
        return formatter.result()
    text, reason = _text_of(output)
    data = text.encode("utf-8", "surrogatepass")
    seen = formatter.bytes
    if seen.startswith(data) and seen != data and reason != "length":  # a stop string was cut off, and text before it
        return stopped_result(formatter, data)
    whole = formatter.fork()
    # Where the text is another one, llama-cpp-python left out what it cannot decode: the tokens know better.
    is_whole = not data.startswith(seen) or _takes(whole, data[len(seen) :])
    ended: Ended = "length" if reason == "length" else "end" if is_whole and whole.can_stop else "stop_string"
    return whole.result(ended)


def _takes(formatter: Formatter, rest: bytes) -> bool:
    try:
        if rest:
            formatter.accept_bytes(rest)
    except TokenRejected:
        return False
    return True


def _text_of(output: Any) -> tuple[str, str | None]:
    if isinstance(output, str):
        return output, None
    choices = output.get("choices") if isinstance(output, Mapping) else None
    choice = choices[0] if isinstance(choices, Sequence) and choices else None
    if isinstance(choice, Mapping):
        message = choice.get("message")
        text = message.get("content") if isinstance(message, Mapping) else choice.get("text")
        if isinstance(text, str):
            return text, choice.get("finish_reason")
    raise InvalidArgument(
        "this is neither a completion of llama-cpp-python nor a text; give what create_completion or "
        "create_chat_completion returned, or the joined text of a stream"
    )
