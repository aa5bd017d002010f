"""Blank space between the tokens of JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown, whole_number
from formatter_core.grammar import EMPTY, Bytes, Choice, Node, Repeat, Sequence, literal, optional
from formatter_core.grammar.lazy import cached_property
from formatter_core.schema.spelling import Spelling

__all__ = ["Whitespace", "WhitespaceName", "as_whitespace", "is_named"]

WhitespaceName: TypeAlias = Literal["flexible", "compact", "one_line"]

_BLANK = " \t\n\r"
_SPACE = Bytes(b" ")


@dataclass(frozen=True)
class Whitespace:
    """Where JSON may have blanks. There are never any before or after the whole text.

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

    @cached_property
    def gap(self) -> Node:
        """Blank space next to a bracket."""
        options: list[Node] = [EMPTY]
        if self.spaces:
            options.append(Repeat(_SPACE, 1, self.spaces) if self.spaces > 1 else _SPACE)
        if self.lines:
            options.append(Sequence((Bytes(b"\n"), Repeat(_SPACE, 0, self.indent))))
        return Choice(tuple(options)) if len(options) > 1 else EMPTY

    def at(self, level: int) -> Whitespace:
        """The same for brackets that stand inside of so many others."""
        return self

    def around(self, mark: str, exact: str | None = None) -> Node:
        """`mark` with a gap on either side, or the exact text."""
        if exact is not None:
            return literal(exact)
        return Bytes(mark.encode()) if self.gap == EMPTY else Sequence((self.gap, Bytes(mark.encode()), self.gap))


#: Spaces for each level of nesting, at most.
_STEP = 4


@dataclass(frozen=True)
class _AsWritten(Whitespace):
    """Blanks where writers put them: none before a comma or a colon, and at most one space after a colon."""

    def at(self, level: int) -> Whitespace:
        """The same for brackets that stand inside of so many others."""
        return _AsWritten(indent=_STEP * (level + 1))

    def around(self, mark: str, exact: str | None = None) -> Node:
        """`mark` and what may follow it."""
        return Sequence((Bytes(mark.encode()), optional(_SPACE) if mark == ":" else self.gap))


_ON_ONE_LINE = {
    "compact": Whitespace(spaces=0, lines=False),
    "one_line": Whitespace(comma=", ", colon=": ", lines=False),
}
_NAMED: dict[Spelling, dict[str, Whitespace]] = {
    "any": {"flexible": Whitespace(), **_ON_ONE_LINE},
    "canonical": {"flexible": _AsWritten(), **_ON_ONE_LINE},
}


def as_whitespace(value: WhitespaceName | Whitespace, spelling: Spelling) -> Whitespace:
    """The named whitespace, or the value itself.

    Raises:
        InvalidArgument: neither of these.
    """
    if isinstance(value, Whitespace):
        return value
    known = _NAMED[spelling]
    if not isinstance(value, str) or value not in known:
        reason = f'whitespace is {shown(value)}; give "flexible", "one_line", "compact" or a Whitespace'
        raise InvalidArgument(reason, argument="whitespace")
    return known[value]


def is_named(whitespace: Whitespace) -> bool:
    """Whether it is one of those that have names, or one of their levels."""
    return isinstance(whitespace, _AsWritten) or whitespace in _NAMED["any"].values()
