"""A regular expression as a format."""

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
    """The whole text matches a pattern in the Rust `regex` syntax; its named groups become captures."""

    kind: ClassVar = "regex"
    pattern: str

    def to_grammar(self, limits: Limits) -> Lowered:
        node = parse_rust(self.pattern, limits, look_around=True)
        return Lowered(Grammar({"regex": as_terminal(node)}, "regex"))


def regex(pattern: str | re.Pattern[str], *, max_tokens: int | None = None) -> Format:
    r"""The whole text matches `pattern` (Rust `regex` syntax).

    `\d \w \s` and case folding are Unicode's and `.` is anything but a newline. Look-ahead, look-behind of one
    character and word boundaries see this text alone: it ends where the format does. Back-references are refused with
    their position when the format is compiled, and named groups that a look-ahead reaches.

    Args:
        pattern: a `str`; or a pattern of Python's `re`, which stands for the texts that its `fullmatch` matches.
        max_tokens: how many tokens the text may take; see `within`.

    Raises:
        InvalidRegex: a pattern of `re` has a flag or a part that Rust syntax cannot express.
    """
    if isinstance(pattern, re.Pattern):
        pattern = rust_of_python(pattern)
    if not isinstance(pattern, str):
        raise InvalidFormat(f"expected a pattern as a str, found {type(pattern).__name__}")
    return limited(RegexFormat(pattern), max_tokens)
