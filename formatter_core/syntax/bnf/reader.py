"""Common parts of the readers of GBNF and EBNF: literals, character classes, repeats, names."""

from __future__ import annotations

import re
from typing import ClassVar

from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import EMPTY, Bytes, Chars, Node
from formatter_core.limits import Limits
from formatter_core.syntax.expression import Expression
from formatter_core.syntax.rules import Rules
from formatter_core.syntax.source import Source

__all__ = ["BnfReader"]

_LITERAL = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_MARKS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_LAST = 0x10FFFF
_SURROGATE = re.compile("[\ud800-\udfff]")


class BnfReader:
    """A reader of the parts that both notations share: a text and the current place. Subclasses add the rest."""

    #: An escape: groups `hexadecimal` (any that matched holds the digits) or `char`.
    escape: ClassVar[re.Pattern[str]]
    #: The meaning of a backslash and one character, in literals and in classes.
    literal_escapes: ClassVar[dict[str, str]]
    class_escapes: ClassVar[dict[str, str]]
    name: ClassVar[re.Pattern[str]]
    #: A bounded repeat: the minimum, a comma, the maximum.
    count: ClassVar[re.Pattern[str]]

    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.at = 0
        self.limits = limits
        self.source = Source(text)
        self.rules = Rules(self.source)

    def fault(self, reason: str, offset: int | None = None) -> InvalidGrammar:
        """Make the error for a fault at `offset`, by default at the current position."""
        return self.source.fault(self.at if offset is None else offset, reason)

    def peek(self) -> str:
        """Return the character at the current position; "" at the end."""
        return self.text[self.at : self.at + 1]

    def take_name(self) -> str:
        """Read the name at the current position; return "" if there is none."""
        match = self.name.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match.group()

    def read_literal(self) -> Node:
        """Read a text between `"`."""
        value = self.read_text().encode()
        return Bytes(value) if value else EMPTY

    def read_text(self) -> str:
        """Read the literal here and return its text."""
        opening = self.at
        match = _LITERAL.match(self.text, opening)
        if match is None:
            raise self.fault('this literal is never closed; end it with `"`')
        self._check_literal(match[1], opening + 1)
        parts: list[str] = []
        start = opening + 1
        while (end := self.text.find("\\", start, match.end() - 1)) >= 0:
            parts.append(self._plain(start, end))
            char, start = self._escaped(end, self.literal_escapes)
            if _SURROGATE.match(char):
                raise self._lone_surrogate(end)
            parts.append(char)
        parts.append(self._plain(start, match.end() - 1))
        self.at = match.end()
        return "".join(parts)

    def read_class(self) -> Chars:
        """Read a character class in square brackets."""
        opening = self.at
        self.at += 1
        negated = self.peek() == "^"
        self.at += negated
        ranges: list[tuple[int, int]] = []
        while self.peek() != "]":
            start = self.at
            low = self._class_char(opening)
            high = low
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._class_char(opening)
            if low > high:
                raise self.fault("this range runs backwards; put the smaller character first", start)
            ranges.append((low, high))
        self.at += 1
        if not ranges:
            self._check_empty_class(negated, opening)
        found = Chars.of(ranges)
        return _others(found) if negated else found

    def repeat(self, expression: Expression) -> bool:
        """Read a repeat of the last item, if there is one here."""
        mark = self.peek()
        if mark in _MARKS:
            minimum, maximum = _MARKS[mark]
            end = self.at + 1
        elif mark == "{":
            count = self.count.match(self.text, self.at)
            if count is None:
                raise self.fault("a repeat is {m}, {m,} or {m,n}; write numbers between the braces")
            minimum = self._number(count[1])
            maximum = minimum if count[2] is None else self._number(count[3]) if count[3] else None
            end = count.end()
            if maximum is not None and maximum < minimum:
                raise self.fault(f"minimum exceeds maximum in {{{minimum},{maximum}}}; swap them")
        else:
            return False
        if expression.is_blank:
            raise self.fault(f"there is nothing before `{mark}` to repeat; write it after what it repeats")
        expression.repeat(minimum, maximum)
        self.at = end
        return True

    def _check_literal(self, written: str, offset: int) -> None:
        """Refuse text that a literal may not contain."""

    def _check_empty_class(self, negated: bool, opening: int) -> None:
        """Refuse a class without characters, where the notation has none."""

    def _class_char(self, opening: int) -> int:
        char = self.peek()
        if not char or char == "\n":
            raise self.fault("this class is never closed on its line; end it with `]`, and write a newline as `\\n`",
                             opening)  # fmt: skip
        if char != "\\":
            self.at += 1
            return ord(char)
        meaning, self.at = self._escaped(self.at, self.class_escapes)
        return ord(meaning)

    def _escaped(self, offset: int, simple: dict[str, str]) -> tuple[str, int]:
        """Return the character of the escape at `offset`, and the offset after it."""
        match = self.escape.match(self.text, offset)
        if match is None:
            raise self.fault("a backslash begins an escape, but nothing follows it", offset)
        digits = match["digits"] or match["four"] or match["eight"]
        if digits:
            code = int(digits, 16) if len(digits) < 20 else _LAST + 1
            if code > _LAST:
                raise self.fault(f"U+{digits[:12]} is not a character; the last one is U+10FFFF", offset)
            return chr(code), match.end()
        char = match["char"]
        if char not in simple:
            known = " ".join("\\" + each for each in simple)
            raise self.fault(f"there is no escape `\\{char}` here; there are {known} \\x… \\u… \\U…", offset)
        return simple[char], match.end()

    def _plain(self, start: int, end: int) -> str:
        text = self.text[start:end]
        lone = None if text.isascii() else _SURROGATE.search(text)
        if lone is not None:
            raise self._lone_surrogate(start + lone.start())
        return text

    def _lone_surrogate(self, offset: int) -> InvalidGrammar:
        return self.fault("a lone surrogate is not a character; write the character itself, or \\U and eight digits",
                          offset)  # fmt: skip

    def _number(self, digits: str) -> int:
        digits = digits.lstrip("0") or "0"
        # Compared by length first: Python refuses to convert thousands of digits.
        if len(digits) > len(str(self.limits.repeat)) or int(digits) > self.limits.repeat:
            raise LimitExceeded("repeat", self.limits.repeat, f"the repeat at {self.source.where(self.at)}")
        return int(digits)


def _others(chars: Chars) -> Chars:
    edges = [-1, *(edge for bounds in chars.ranges for edge in bounds), _LAST + 1]
    return Chars.of((low + 1, high - 1) for low, high in zip(edges[::2], edges[1::2], strict=True) if low + 1 < high)
