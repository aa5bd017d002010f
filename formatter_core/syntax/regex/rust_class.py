"""The parts of Rust syntax that denote one character: escapes and bracketed classes."""

from __future__ import annotations

import re
from collections.abc import Callable

from formatter_core.errors import LimitExceeded
from formatter_core.syntax.regex import classes
from formatter_core.syntax.regex.classes import Ranges
from formatter_core.syntax.regex.scanner import Scanner

__all__ = ["IGNORE_CASE", "UNICODE", "VERBOSE", "ClassReader"]

IGNORE_CASE, UNICODE, VERBOSE = 1, 2, 4

_SPACE = re.compile(r"(?:[\t-\r \x85\u200e\u200f\u2028\u2029]+|#[^\n]*)*")
_POSIX_NAME = re.compile(r"\[:(\^?)([a-z]+):\]")
_CONTROLS = {"a": 0x07, "f": 0x0C, "t": 0x09, "n": 0x0A, "r": 0x0D, "v": 0x0B}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_PERL: dict[str, tuple[Callable[[], Ranges], Ranges]] = {
    "d": (classes.perl_digit, classes.POSIX["digit"]),
    "s": (classes.perl_space, classes.POSIX["space"]),
    "w": (classes.perl_word, classes.POSIX["word"]),
}
_OPERATIONS: dict[str, Callable[[Ranges, Ranges], Ranges]] = {
    "&&": classes.intersection,
    "--": classes.difference,
    "~~": classes.symmetric_difference,
}


class _Class:
    """An open bracket: the current union, and a set operation that waits for its right side."""

    __slots__ = ("left", "members", "negated", "operation", "position")

    def __init__(self, position: int, negated: bool) -> None:
        self.position = position
        self.negated = negated
        self.members = classes.Members()
        self.left: Ranges = classes.NONE
        self.operation: Callable[[Ranges, Ranges], Ranges] | None = None


class ClassReader(Scanner):
    """Reads the parts that denote one character."""

    def skip_space(self) -> None:
        """Under (?x), step over white space and comments."""
        if self.flags & VERBOSE:
            space = _SPACE.match(self.pattern, self.at)
            self.at = space.end() if space else self.at

    def folded(self, ranges: Ranges) -> Ranges:
        """The set under the flag `i`."""
        if not self.flags & IGNORE_CASE:
            return ranges
        return classes.fold(ranges) if self.flags & UNICODE else classes.fold_ascii(ranges)

    def read_escape(self) -> Ranges:
        """An escape that denotes a character or a class, case folding included."""
        found, is_class = self._read_escaped()
        return found if is_class else self.folded(found)

    def read_class(self) -> Ranges:
        """A bracketed class, case folding included."""
        stack = [self._open_class()]
        while True:
            self.skip_space()
            top, one = stack[-1], self.peek()
            if not one:
                raise self.error("this class is not closed; add `]`, or write `\\[` for the character", top.position)
            if one == "]":
                self.at += 1
                ranges = self._close_class(stack.pop())
                if not stack:
                    return ranges
                self.collect(stack[-1].members, ranges)
            elif one == "[" and (posix := self._read_posix()) is not None:
                self.collect(top.members, posix)
            elif one == "[":
                if len(stack) >= self.limits.depth:
                    raise LimitExceeded("depth", self.limits.depth, "the nesting of the pattern's classes")
                stack.append(self._open_class())
            elif (sign := self.pattern[self.at : self.at + 2]) in _OPERATIONS:
                self.at += 2
                top.left = self._operand(top)
                top.operation = _OPERATIONS[sign]
            else:
                self.collect(top.members, self._read_member())

    def _open_class(self) -> _Class:
        start = self.at
        self.at += 1
        self.skip_space()
        negated = self.take("^")
        self.skip_space()
        opened = _Class(start, negated)
        hyphens = False
        while self.take("-"):  # before anything else, `-` and then `]` are characters
            self.collect(opened.members, classes.single(0x2D))
            self.skip_space()
            hyphens = True
        if not hyphens and self.take("]"):
            self.collect(opened.members, classes.single(0x5D))
        return opened

    def _operand(self, opened: _Class) -> Ranges:
        """The current union, combined with the operand to its left."""
        right = self.folded(opened.members.union())
        opened.members = classes.Members()
        if opened.operation is None:
            return right
        self.spend(16 * (len(opened.left) + len(right)))
        return opened.operation(self.folded(opened.left), right)

    def _close_class(self, closed: _Class) -> Ranges:
        ranges = self.folded(self._operand(closed))
        if not closed.negated:
            return ranges
        if not self.flags & UNICODE:
            raise self.error("`[^` under (?-u) matches bytes that are not UTF-8; leave (?-u) out", closed.position)
        return classes.negation(ranges)

    def _read_posix(self) -> Ranges | None:
        """`[:alpha:]` or `[:^alpha:]`, if it is one."""
        named = _POSIX_NAME.match(self.pattern, self.at)
        if named is None or named[2] not in classes.POSIX:
            return None
        start, self.at = self.at, named.end()
        ranges = self.folded(classes.POSIX[named[2]])
        if named[1] and not self.flags & UNICODE:
            raise self.error("`[:^` under (?-u) matches bytes that are not UTF-8; leave (?-u) out", start)
        return classes.negation(ranges) if named[1] else ranges

    def _read_member(self) -> Ranges:
        """A character, a range or an escaped class inside brackets."""
        start = self.at
        low, is_class = self._read_single()
        self.skip_space()
        if self.peek() != "-" or self._after_dash() in ("]", "-", ""):
            return low
        self.at += 1
        self.skip_space()
        high, high_is_class = self._read_single()
        if is_class or high_is_class:
            raise self.error("a range in a class goes from one character to another; write `\\-` for a hyphen", start)
        if low[0][0] > high[0][0]:
            raise self.error("a range in a class ends before it begins; swap its ends", start)
        return classes.ranges_of([(low[0][0], high[0][0])])

    def _read_single(self) -> tuple[Ranges, bool]:
        start = self.at
        ranges, is_class = self._read_unchecked()
        if ranges and ranges[-1][1] > 0x7F and not self.flags & UNICODE:
            raise self.error("a class under (?-u) is ASCII; leave (?-u) out", start)
        return ranges, is_class

    def _after_dash(self) -> str:
        before = self.at
        self.at += 1
        self.skip_space()
        found = self.peek()
        self.at = before
        return found

    def _read_unchecked(self) -> tuple[Ranges, bool]:
        if self.peek() == "\\":
            if self.peek(1) in ("b", "B", "A", "z", "<", ">"):
                raise self.error(f"`\\{self.peek(1)}` is not a character; take it out of the class", self.at)
            return self._read_escaped()
        code = ord(self.peek())
        if 0xD800 <= code <= 0xDFFF:
            raise self.error("a lone surrogate occurs in no UTF-8 text; remove it", self.at)
        self.at += 1
        return classes.single(code), False

    def _read_escaped(self) -> tuple[Ranges, bool]:
        """The set, and whether it is a class (already folded) rather than one character."""
        start, kind = self.at, self.peek(1)
        self.at += 2
        if not kind:
            raise self.error("the pattern ends inside an escape; write `\\\\` for a backslash", start)
        if kind in _CONTROLS:
            return classes.single(_CONTROLS[kind]), False
        if kind in _HEX_DIGITS:
            return classes.single(self._read_hexadecimal(start, _HEX_DIGITS[kind])), False
        if kind.lower() in _PERL and kind.isascii():
            return self._perl(kind, start), True
        if kind in "pP":
            return self._read_property(kind == "P", start), True
        if kind.isascii() and not kind.isalnum() and kind not in "<>":
            return classes.single(ord(kind)), False
        if kind.isdigit():
            raise self.error(
                f"`\\{kind}`, a back-reference or octal escape, is not supported; write `\\x{{…}}` for a character",
                start,
            )
        raise self.error(f"`\\{kind}` is not an escape of this syntax; write `\\\\` for a backslash", start)

    def _read_hexadecimal(self, start: int, digits: int) -> int:
        """`\\x41`, `\\u0041`, `\\U00000041`, and each with any number of digits in braces."""
        self.skip_space()
        braced = self.peek() == "{"
        if braced:
            end = self.pattern.find("}", self.at)
            text = self.pattern[self.at + 1 : end] if end >= 0 else ""
            self.at = end + 1
        else:
            text = self.pattern[self.at : self.at + digits]
            self.at += digits
            if len(text) < digits:
                text = ""
        if not re.fullmatch(r"[0-9A-Fa-f]+", text):
            raise self.error("this escape has no hexadecimal digits; write `\\x41`, `\\u0041` or `\\x{41}`", start)
        code = int(text, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise self.error(f"U+{code:04X} is not a Unicode character; use at most U+10FFFF", start)
        if digits == 2 and not braced and code > 0x7F and not self.flags & UNICODE:
            raise self.error("a byte above 7F under (?-u) is not UTF-8; leave (?-u) out", start)
        return code

    def _perl(self, kind: str, start: int) -> Ranges:
        unicode, ascii_only = _PERL[kind.lower()]
        ranges = unicode() if self.flags & UNICODE else ascii_only
        if kind.islower():
            return ranges
        if not self.flags & UNICODE:
            raise self.error(f"`\\{kind}` under (?-u) matches bytes that are not UTF-8; leave (?-u) out", start)
        return classes.negation(ranges)

    def _read_property(self, negated: bool, start: int) -> Ranges:
        """`\\pL`, `\\p{Greek}`, `\\p{^Greek}`, `\\p{sc=Greek}`, `\\p{gc!=Lu}`; names are matched loosely."""
        if not self.flags & UNICODE:
            raise self.error("a Unicode property cannot stand under (?-u); leave (?-u) out", start)
        self.skip_space()
        text = self.peek()
        self.at += 1
        if text == "{":
            end = self.pattern.find("}", self.at)
            if end < 0:
                raise self.error("this property is not closed; add `}`", start)
            text, self.at = self.pattern[self.at : end], end + 1
        if text.startswith("^"):
            text, negated = text[1:], not negated
        parts = re.split("(!=|=|:)", text, maxsplit=1)
        ranges = _property(classes.normal_name(parts[0]), classes.normal_name(parts[2]) if len(parts) > 1 else None)
        if ranges is None:
            raise self.error(
                f"{text!r} is not a known general category, script or binary property; check its spelling",
                start,
            )
        folded = self.folded(ranges)
        return classes.negation(folded) if negated != (parts[1:2] == ["!="]) else folded


def _property(name: str, value: str | None) -> Ranges | None:
    name = name.removeprefix("is")
    if value is None:
        return _first(classes.binary(name), classes.category(name), classes.script(name))
    if name in ("gc", "generalcategory"):
        return _first(classes.category(value), classes.binary(value) if value in ("any", "ascii", "assigned") else None)
    if name in ("sc", "script"):
        return classes.script(value)
    return classes.script(value, extensions=True) if name in ("scx", "scriptextensions") else None


def _first(*found: Ranges | None) -> Ranges | None:
    return next((ranges for ranges in found if ranges is not None), None)
