"""Patterns of Python's `re` in Rust syntax. What has no equivalent is refused with its position."""

from __future__ import annotations

import re

from formatter_core.errors import InvalidRegex
from formatter_core.syntax.regex.reader import escape

__all__ = ["rust_of_python"]

_REFUSED_FLAGS = {
    re.IGNORECASE: "IGNORECASE folds case differently from Rust; use formats.regex('(?i)...')",
    re.MULTILINE: "MULTILINE lets anchors match inside the text; write the line breaks as characters",
    re.VERBOSE: "VERBOSE does not ignore the same spaces as Rust; write the pattern without it",
    re.ASCII: r"ASCII changes what \d, \w and \s match; write the characters as classes",
}
_REFUSED_GROUPS = {
    ">": "an atomic group", "(": "a conditional group", "P": "a back-reference",
}  # fmt: skip
_WORD = r"[\p{L}\p{N}_]"
_BOUNDARY = f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))"
#: Python's `\w` is what `str.isalnum` takes, Rust's has marks and no other numbers; Python's `\s` has four separators.
_CLASSES = {
    "d": r"\d",
    "D": r"\D",
    "w": _WORD,
    "W": r"[^\p{L}\p{N}_]",
    "s": r"[\s\x1c-\x1f]",
    "S": r"[^\s\x1c-\x1f]",
}
_CONTROLS = "afnrtv"
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})")
_COUNT = re.compile(r"\{(?:([0-9]+)(,[0-9]*)?|()(,[0-9]*))\}")
_LOOK = re.compile(r"\(\?<?[=!]")
_FLAGS = re.compile(r"\(\?([aiLmsux]*)(?:-([imsx]+))?([:)])")


def rust_of_python(pattern: re.Pattern[str]) -> str:
    """Return the pattern in Rust syntax that matches, as a whole, the texts that `pattern.fullmatch` does.

    Raises:
        InvalidRegex: it is for bytes, or a flag or a part of it means something else in Rust syntax.
    """
    source = pattern.pattern
    if not isinstance(source, str):
        reason = "the pattern is for bytes, and outputs are text; compile it from a str"
        raise InvalidRegex(reason, pattern=repr(source), position=0)
    for flag, reason in _REFUSED_FLAGS.items():
        if pattern.flags & flag:
            raise InvalidRegex(reason, pattern=source, position=0)
    text = _Reader(source).read()
    return f"(?s:{text})" if pattern.flags & re.DOTALL else text


class _Reader:
    """A reader of a pattern that `re` has compiled; the pattern therefore has no faults."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def read(self) -> str:
        parts: list[str] = []
        while self._at < len(self._pattern):
            parts.append(self._read_part(self._pattern[self._at]))
        return "".join(parts)

    def _read_part(self, one: str) -> str:
        if one == "\\":
            return self._read_escape()
        if one == "[":
            return self._read_class()
        if one == "(":
            return self._read_open()
        count = _COUNT.match(self._pattern, self._at)
        if one in "*+?" or count:
            return self._read_repeat(count)
        if one == "$" and (self._depth or self._at + 1 < len(self._pattern)):
            raise self._refused(r"`$` also matches before a newline at the end; use \Z, or remove it")
        self._at += 1
        self._depth -= one == ")"
        return r"\z" if one == "$" else one if one in ".^|)" else escape(one)

    def _read_repeat(self, count: re.Match[str] | None) -> str:
        text = self._pattern[self._at] if count is None else f"{{{count[1] or 0}{count[2] or count[4] or ''}}}"
        self._at += 1 if count is None else len(count[0])
        mode = self._pattern[self._at : self._at + 1]
        if mode == "+":
            raise self._refused("a possessive repeat is not regular; remove the second `+`")
        self._at += mode == "?"
        return text + "?" * (mode == "?")

    def _read_open(self) -> str:
        if not self._pattern.startswith("(?", self._at):
            end, text = self._at + 1, "("
        elif self._pattern.startswith("(?#", self._at):
            self._at = self._pattern.index(")", self._at) + 1
            return ""
        elif self._pattern.startswith("(?P<", self._at):
            end = self._pattern.index(">", self._at) + 1
            text = self._pattern[self._at : end]
        elif (look := _LOOK.match(self._pattern, self._at)) is not None:
            end, text = look.end(), look[0]
        elif (flags := _FLAGS.match(self._pattern, self._at)) is None:
            kind = _REFUSED_GROUPS.get(self._pattern[self._at + 2], "this group")
            raise self._refused(f"{kind} is not supported; write the allowed characters instead")
        else:
            return self._read_flags(flags)
        self._depth += 1
        self._at = end
        return text

    def _read_flags(self, flags: re.Match[str]) -> str:
        changed = set(flags[1]) - set("su")
        if changed:
            raise self._refused(f"the flag {min(changed)!r} has another meaning in Rust syntax; remove it")
        self._at = flags.end()
        if flags[3] == ")":
            return ""  # it holds for the whole pattern, whose flags are known
        self._depth += 1
        return "(?s:" if "s" in flags[1] else "(?-s:" if "s" in (flags[2] or "") else "(?:"

    def _read_escape(self) -> str:
        kind = self._pattern[self._at + 1]
        if kind == "b":
            self._at += 2
            return _BOUNDARY
        if kind == "B":
            raise self._refused(r"\B means something else from Python 3.14 on; write the characters beside it instead")
        if kind in "AZz":
            self._at += 2
            return r"\A" if kind == "A" else r"\z"
        return self._read_character()

    def _read_class(self) -> str:
        self._at += 1
        parts = ["["]
        if self._pattern[self._at] == "^":
            parts.append("^")
            self._at += 1
        while self._pattern[self._at] != "]" or parts[-1] in ("[", "^"):
            parts.append(self._read_character())
            if self._pattern[self._at] == "-" and self._pattern[self._at + 1] != "]":
                self._at += 1
                parts.append("-" + self._read_character())
        self._at += 1
        return "".join(parts) + "]"

    def _read_character(self) -> str:
        """Return a character or an escape for a set of them, inside and outside brackets."""
        one = self._pattern[self._at]
        if one != "\\":
            self._at += 1
            return escape(one)
        kind = self._pattern[self._at + 1]
        found = _HEX.match(self._pattern, self._at + 1)
        if found is None and (kind.isdigit() or kind == "N"):
            raise self._refused(
                "back-references, octal escapes and named characters are not supported; write the character itself"
            )
        self._at += 2 if found is None else 1 + len(found[0])
        if found is not None:
            return f"\\x{{{found[found.lastindex or 0]}}}"
        if kind == "b":
            return r"\x08"
        return _CLASSES.get(kind) or ("\\" + kind if kind in _CONTROLS else escape(kind))

    def _refused(self, reason: str) -> InvalidRegex:
        return InvalidRegex(reason, pattern=self._pattern, position=self._at)
