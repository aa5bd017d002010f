"""Define a format by a regular expression."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from formatter_core.errors import InvalidFormat
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.formats.within import limited
from formatter_core.grammar import Grammar
from formatter_core.limits import Limits
from formatter_core.syntax.regex import as_terminal, parse_rust, rust_of_python

__all__ = ["RegexFormat", "regex"]


@dataclass(frozen=True)
class RegexFormat(Alternatives):
    """A format whose text matches a pattern in the Rust `regex` syntax; its named groups become captures."""

    kind: ClassVar = "regex"
    pattern: str

    def to_grammar(self, limits: Limits) -> Lowered:
        node = parse_rust(self.pattern, limits, look_around=True)
        return Lowered(Grammar({"regex": as_terminal(node)}, "regex"))


def regex(pattern: str | re.Pattern[str], *, max_tokens: int | None = None) -> Format:
    r"""Return the format whose whole text matches `pattern` (Rust `regex` syntax).

    `\d \w \s` and case folding follow Unicode, and `.` is any character except a newline. Look-ahead, look-behind of
    one character and word boundaries see only the text of this format. Compiling rejects back-references, with their
    position, and named groups inside the reach of a look-ahead.

    Args:
        pattern: a `str`; or a pattern of Python's `re`, for the texts that its `fullmatch` matches.
        max_tokens: the maximum number of tokens of the text; see `within`.

    Raises:
        InvalidRegex: a pattern of `re` has a flag or a part that Rust syntax cannot express.
    """
    if isinstance(pattern, re.Pattern):
        pattern = rust_of_python(pattern)
    if not isinstance(pattern, str):
        raise InvalidFormat(f"expected a pattern as a str, found {type(pattern).__name__}")
    return limited(RegexFormat(pattern), max_tokens)
