"""Make the result of a whole text, parsed without tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import get_args

from formatter_core.engine.native_parser import parser_of
from formatter_core.errors.arguments import as_bytes, one_of
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import Grammar
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Captures
from formatter_core.runtime.events import EventStream
from formatter_core.runtime.reading import TextReading
from formatter_core.runtime.result import Ended, Result

__all__ = ["result_of_text"]


def result_of_text(
    lowered: Lowered,
    text: str | bytes,
    limits: Limits,
    ended: Ended = "end",
    *,
    wider: Callable[[], Lowered | None] | None = None,
) -> Result:
    """Parse a text in a format, and return the result.

    Args:
        lowered: the format.
        text: the whole text.
        limits: the maximum cost of reading it.
        ended: how the text ended. A text that did not end by itself is complete only if nothing could follow it.
        wider: returns a format with more texts, for texts that do not match the first one; None for none.
    """
    one_of(ended, "ended", get_args(Ended))
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else as_bytes(text, "text")
    captures, may_go_on = _read(lowered.grammar, data, limits)
    if captures is None:
        wide = None if wider is None else wider()
        if wide is not None:
            other = result_of_text(wide, data, limits, ended)
            if other.is_complete:
                return other
        reading = TextReading(lowered, limits, [data], False, wider=wide)
        return Result(data, (), None if ended == "end" else ended, False, reading)
    is_complete = ended == "end" or not may_go_on()
    reading = TextReading(lowered, limits, [data], True, captures, partial(_stream, lowered, data, limits))
    return Result(data, (), ended, is_complete, reading)


def _stream(lowered: Lowered, data: bytes, limits: Limits) -> EventStream:
    stream = EventStream(lowered, limits)
    stream.append([data])
    return stream


def _read(grammar: Grammar, data: bytes, limits: Limits) -> tuple[Captures | None, Callable[[], bool]]:
    """Return the captures of a text that matches, else None, and whether anything may follow it."""
    reading = parser_of(grammar, limits).read([data])
    if reading is None or not reading.can_stop():
        return None, lambda: False
    return reading.captures(), reading.may_go_on
