"""The result of a whole text, read without tokens."""

from __future__ import annotations

from functools import partial
from typing import get_args

from formatter_core.formats.protocol import Lowered
from formatter_core.limits import Limits
from formatter_core.parsing import Recognizer, parse
from formatter_core.runtime.events import EventStream
from formatter_core.runtime.reading import TextReading
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
        reading = TextReading(lowered, limits, [data], False)
        return Result(data, (), None if ended == "end" else ended, False, reading)
    is_complete = ended == "end" or not _may_go_on(lowered, data, limits)
    reading = TextReading(lowered, limits, [data], True, match, partial(EventStream, lowered, limits))
    return Result(data, (), ended, is_complete, reading)


def _may_go_on(lowered: Lowered, data: bytes, limits: Limits) -> bool:
    recognizer = Recognizer(lowered.grammar, limits)
    for byte in data:
        recognizer.push(byte)
    return bool(recognizer.next_bytes() or recognizer.next_tokens())
