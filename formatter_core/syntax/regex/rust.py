"""Rust syntax: the language of the crate `regex` (https://docs.rs/regex, section "Syntax"), for a whole text.

Perl classes (`\\d`, `\\w`, `\\s`) and `.` are Unicode-aware; `.` excludes the newline; `(?-u)` makes classes ASCII,
and is refused where it would match bytes that are not UTF-8. Look-around and back-references are not part of the
syntax; word boundaries and `(?m)^` are refused. Anchors keep their meaning: they hold at the ends of the text only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from formatter_core.grammar import Node
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.syntax.regex import classes
from formatter_core.syntax.regex.classes import Ranges
from formatter_core.syntax.regex.lower import lower
from formatter_core.syntax.regex.rust_class import IGNORE_CASE, UNICODE, VERBOSE, ClassReader
from formatter_core.syntax.regex.scanner import Scanner
from formatter_core.syntax.regex.tree import Anchor, Tree, capture, char

__all__ = ["escape", "parse_rust"]

_MULTI_LINE, _DOT_ALL, _SWAP_GREED, _CRLF = 8, 16, 32, 64
_FLAGS = {
    "i": IGNORE_CASE,
    "m": _MULTI_LINE,
    "s": _DOT_ALL,
    "U": _SWAP_GREED,
    "u": UNICODE,
    "R": _CRLF,
    "x": VERBOSE,
}
_META = r"\.+*?()|[]{}^$#&-~"
_PLAIN_RUN = re.compile(r"[^\\.+*?()|\[\]{}^$\ud800-\udfff]+")
_COUNT = re.compile(r"\{\s*([0-9]+)\s*(?:(,)\s*([0-9]*)\s*)?\}")


def parse_rust(pattern: str, limits: Limits = DEFAULT_LIMITS) -> Node:
    """Read a pattern in Rust syntax: the node matches the texts that match as a whole.

    `(?P<name>…)` and `(?<name>…)` become a `Capture`; other groups only group. Nothing is wrapped in a `Terminal`.

    Raises:
        InvalidRegex: a fault in the pattern, or something that is not regular, with its position.
        LimitExceeded: a count above `limits.repeat`, nesting above `limits.depth`, or too many nodes.
    """
    return _RustReader(pattern, limits).read()


def escape(text: str) -> str:
    """The pattern in Rust syntax that matches exactly this text."""
    return "".join("\\" + character if character in _META else character for character in text)


class _RustReader(ClassReader):
    def __init__(self, pattern: str, limits: Limits) -> None:
        super().__init__(pattern, limits)
        self.flags = UNICODE
        self._names: set[str] = set()

    def read(self) -> Node:
        while self.at < len(self.pattern):
            if not self.flags & (VERBOSE | IGNORE_CASE) and self.read_run(_PLAIN_RUN):
                continue
            self.skip_space()
            if self.at < len(self.pattern):
                self._STEPS.get(self.pattern[self.at], _RustReader._read_character)(self)
        return lower(self.finish(), self.pattern, self.limits, ordered=bool(self._names))

    def _read_character(self) -> None:
        code = ord(self.pattern[self.at])
        if 0xD800 <= code <= 0xDFFF:
            raise self.error("a lone surrogate occurs in no UTF-8 text; remove it", self.at)
        self.at += 1
        self._add_set(classes.single(code))

    def _add_set(self, ranges: Ranges) -> None:
        self.add(char(self.folded(ranges)))

    def _read_dot(self) -> None:
        self._require_unicode("`.`", self.at)
        self.at += 1
        excluded = "" if self.flags & _DOT_ALL else "\n\r" if self.flags & _CRLF else "\n"
        self.add(char(classes.negation(classes.ranges_of((ord(one), ord(one)) for one in excluded))))

    def _require_unicode(self, what: str, position: int) -> None:
        if not self.flags & UNICODE:
            raise self.error(f"{what} under (?-u) matches bytes that are not UTF-8; leave (?-u) out", position)

    def _read_class(self) -> None:
        self.add(char(self.read_class()))

    def _read_anchor(self) -> None:
        if self.flags & _MULTI_LINE:
            raise self.error("anchors are not supported under (?m); match the newlines as characters", self.at)
        self.add(Anchor(self.pattern[self.at] == "$", self.at))
        self.at += 1

    def _read_escape(self) -> None:
        start = self.at
        kind = self.peek(1)
        if kind in ("A", "z"):
            self.at += 2
            self.add(Anchor(kind == "z", start))
        elif kind in ("b", "B", "<", ">"):
            raise self.error(
                f"the word boundary `\\{kind}` is not supported; write the characters beside it instead", start
            )
        else:
            self.add(char(self.read_escape()))

    def _read_quantifier(self) -> None:
        start = self.at
        minimum, maximum = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self.pattern[start]]
        self.at += 1
        self._repeat(minimum, maximum, start)

    def _read_count(self) -> None:
        start = self.at
        count = _COUNT.match(self.pattern, start)
        if count is None:
            raise self.error("a repeat is `{m}`, `{m,}` or `{m,n}`; write `\\{` to mean the character", start)
        minimum = self._number(count[1])
        maximum = minimum if count[2] is None else self._number(count[3]) if count[3] else None
        self.at = count.end()
        self._repeat(minimum, maximum, start)

    def _number(self, digits: str) -> int:
        """A count; with too many digits, any number above the limit."""
        return int(digits) if len(digits) < 20 else self.limits.repeat + 1

    def _repeat(self, minimum: int, maximum: int | None, start: int) -> None:
        lazy = self.take("?")
        self.repeat(minimum, maximum, lazy == bool(self.flags & _SWAP_GREED), start)

    def _read_open(self) -> None:
        start = self.at
        self.at += 1
        self.skip_space()
        for sign in ("?=", "?!", "?<=", "?<!"):
            if self.pattern.startswith(sign, self.at):
                reason = (
                    f"the look-around `({sign}` is not supported here; spell out what may stand there, or use "
                    "`pattern` in a JSON Schema, which takes look-around"
                )
                raise self.error(reason, start)
        if self.take("?P<") or self.take("?<"):
            self.open(start, self._read_name())
        elif self.take("?"):
            self._read_flags(start)
        else:
            self.open(start)

    def _read_name(self) -> Callable[[Tree], Tree]:
        start = self.at
        end = self.pattern.find(">", start)
        name = self.pattern[start:end] if end >= 0 else ""
        if not name or not (name[0] == "_" or name[0].isalpha()):
            raise self.error("a group's name begins with a letter or `_` and ends with `>`", start)
        for index, one in enumerate(name):
            if not (one.isalnum() or one in "_.[]"):
                raise self.error("a group's name has only letters, digits and the characters `_.[]`", start + index)
        if name in self._names:
            raise self.error(f"the group name {name!r} is used twice; give each group its own name", start)
        self._names.add(name)
        self.at = end + 1
        return partial(capture, name)

    def _read_flags(self, start: int) -> None:
        """`(?flags)` up to the end of the group, or `(?flags:…)` for a group of its own."""
        flags, seen, negated, last = self.flags, "", False, ""
        while (one := self.peek()) not in (")", ":"):
            position = self.at
            self.at += 1
            self.skip_space()
            if one == "-" and not negated:
                negated = True
            elif one in _FLAGS and one not in seen:
                seen += one
                flags = flags & ~_FLAGS[one] if negated else flags | _FLAGS[one]
            elif one:
                raise self.error(f"{one!r} is not a flag here; the flags are i, m, s, U, u, R and x", position)
            else:
                raise self.error("this group is not closed; add `)`, or write `\\(` for the character", start)
            last = one
        if last == "-" or (not seen and one == ")"):
            raise self.error("flags are missing; a group without a name and flags begins with `(?:`", self.at)
        self.at += 1
        if one == ":":
            self.open(start)
            self.flags = flags
        else:
            self.flags = flags
            self.forbid_quantifier()

    _STEPS: ClassVar[dict[str, Callable[[_RustReader], None]]] = {
        "\\": _read_escape,
        ".": _read_dot,
        "[": _read_class,
        "(": _read_open,
        ")": Scanner.read_close,
        "|": Scanner.read_bar,
        "^": _read_anchor,
        "$": _read_anchor,
        "*": _read_quantifier,
        "+": _read_quantifier,
        "?": _read_quantifier,
        "{": _read_count,
    }
