"""Blank space between the tokens of JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown, whole_number

__all__ = ["Whitespace", "WhitespaceName", "check_whitespace"]

WhitespaceName: TypeAlias = Literal["flexible", "compact", "one_line"]

_BLANK = " \t\n\r"


@dataclass(frozen=True)
class Whitespace:
    """The whitespace that JSON may have. There is never any before or after the whole text.

    Attributes:
        comma: the exact text between two entries, such as ", "; None: a comma with a gap on either side.
        colon: the exact text between a name and its value, such as ": "; None: a colon with a gap on either side.
        spaces: the most spaces in a gap on one line.
        lines: whether a gap may also be a newline and an indentation.
        indent: the most spaces after such a newline.
    """

    comma: str | None = None
    colon: str | None = None
    spaces: int = 1
    lines: bool = True
    indent: int = 64

    def __post_init__(self) -> None:
        for name, text, mark in (("comma", self.comma, ","), ("colon", self.colon, ":")):
            if text is not None and (not isinstance(text, str) or text.strip(_BLANK) != mark):
                raise InvalidArgument(f"Whitespace.{name} is {shown(text)}; give a {name} with only blanks around it")
        for name, count in (("spaces", self.spaces), ("indent", self.indent)):
            whole_number(count, f"Whitespace.{name}")


_NAMES = get_args(WhitespaceName)


def check_whitespace(value: WhitespaceName | Whitespace) -> None:
    """Check an option.

    Raises:
        InvalidArgument: neither a name nor a `Whitespace`.
    """
    if not isinstance(value, Whitespace) and (not isinstance(value, str) or value not in _NAMES):
        reason = f'whitespace is {shown(value)}; give "flexible", "one_line", "compact" or a Whitespace'
        raise InvalidArgument(reason, argument="whitespace")
