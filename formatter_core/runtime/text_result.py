"""The result of a whole text, read without tokens."""

from __future__ import annotations

from typing import get_args

from formatter_core.formats.protocol import Lowered
from formatter_core.limits import Limits
from formatter_core.parsing import Recognizer, parse
from formatter_core.runtime.events import EventStream
from formatter_core.runtime.explanation import describe
from formatter_core.runtime.result import Ended, Result
from formatter_core.support.arguments import as_bytes, one_of

__all__ = ["result_of_text"]


def result_of_text(lowered: Lowered, text: str | bytes, limits: Limits, ended: Ended = "end") -> Result:
    """What a format makes of a text.

    Args:
        lowered: the format.
        text: the whole text.
        limits: what reading it may cost.
        ended: how the text ended. One that did not end by itself is complete only if nothing could follow it.
    """
    one_of(ended, "ended", get_args(Ended))
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else as_bytes(text, "text")
    match = parse(lowered.grammar, data, limits)
    if match is None:
        missing = _what_is_missing(lowered, data, limits)
        return Result(data, (), None if ended == "end" else ended, missing, lowered, None)
    if ended == "end" or not _may_go_on(lowered, data, limits):
        return Result(data, (), ended, None, lowered, match)
    certain = tuple(EventStream(lowered, limits).matches([data]))
    missing = "the text is in the format, but it could go on, and it did not end by itself"
    return Result(data, (), ended, missing, lowered, None, certain)


def _may_go_on(lowered: Lowered, data: bytes, limits: Limits) -> bool:
    recognizer = Recognizer(lowered.grammar, limits)
    for byte in data:
        recognizer.push(byte)
    return bool(recognizer.next_bytes() or recognizer.next_tokens())


def _what_is_missing(lowered: Lowered, data: bytes, limits: Limits) -> str:
    recognizer = Recognizer(lowered.grammar, limits)
    for offset, byte in enumerate(data):
        if not recognizer.push(byte):
            return f"the text leaves the format at byte {offset}; expected {describe(recognizer.expected())}"
    return f"the text ends too early; expected {describe(recognizer.expected())}"
