"""Define plain text on one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from formatter_core.errors import InvalidFormat
from formatter_core.errors.arguments import shown
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.formats.within import limited
from formatter_core.grammar import (
    ANY_CHAR,
    Capture,
    Chars,
    Grammar,
    Intersection,
    Node,
    Repeat,
    Terminal,
    without,
)
from formatter_core.limits import Limits
from formatter_core.syntax.regex import parse_rust

__all__ = ["StringFormat", "string"]

_LINE_CHAR = Chars.of([(0, 0x09), (0x0B, 0x0C), (0x0E, 0x10FFFF)])


@dataclass(frozen=True)
class StringFormat(Alternatives):
    """A format of text of at most `max_length` characters that matches `pattern`; by default, text
    without line breaks.
    """

    kind: ClassVar = "string"
    pattern: str | None
    max_length: int | None

    def to_grammar(self, limits: Limits) -> Lowered:
        if self.pattern is None:
            node: Node = Repeat(_LINE_CHAR, 0, self.max_length)
        else:
            node = without(Capture, parse_rust(self.pattern, limits, look_around=True))
            if self.max_length is not None:
                node = Intersection((node, Repeat(ANY_CHAR, 0, self.max_length)))
        return Lowered(Grammar({"string": Terminal(node)}, "string"))


def string(pattern: str | None = None, max_length: int | None = None, *, max_tokens: int | None = None) -> Format:
    """Return the format of at most `max_length` code points that match `pattern` (Rust `regex` syntax) as a whole.

    Without a pattern the text has no line break. The text has no quotes and no escapes: for a JSON string use
    `json_schema({"type": "string"})`. `max_tokens` limits its tokens; see `within`.
    """
    if pattern is not None and not isinstance(pattern, str):
        raise InvalidFormat(f"expected a pattern as a str, found {type(pattern).__name__}")
    if max_length is not None and (not isinstance(max_length, int) or isinstance(max_length, bool) or max_length < 0):
        raise InvalidFormat(f"max_length is {shown(max_length)}; give a whole number from 0")
    return limited(StringFormat(pattern, max_length), max_tokens)
