"""The text of a grammar, with line, column and an excerpt for every fault."""

from __future__ import annotations

import re
import unicodedata

from formatter_core.errors import InvalidGrammar

__all__ = ["Source"]

_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_EXCERPT = 40  # characters shown on each side of a fault


class Source:
    """A text that maps offsets to lines and columns."""

    def __init__(self, text: str) -> None:
        self.text = text

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1; columns count characters (code points)."""
        line, start = 1, 0
        for line_break in _LINE_BREAK.finditer(self.text, 0, offset):
            line, start = line + 1, line_break.end()
        return line, offset - start + 1

    def where(self, offset: int) -> str:
        """Line and column as text, for messages without their own."""
        line, column = self.position(offset)
        return f"line {line}, column {column}"

    def fault(self, offset: int, reason: str) -> InvalidGrammar:
        """Make the error for a fault at `offset`; its message shows the line with a caret below the position."""
        line, column = self.position(offset)
        return InvalidGrammar(f"{reason}\n{self._excerpt(offset, column)}", line=line, column=column)

    def _excerpt(self, offset: int, column: int) -> str:
        start = offset - (column - 1)
        line_break = _LINE_BREAK.search(self.text, offset)
        end = line_break.start() if line_break else len(self.text)
        first = max(start, offset - _EXCERPT)
        before = _printable(("…" if first > start else "") + self.text[first:offset])
        last = min(end, offset + _EXCERPT)
        after = _printable(self.text[offset:last] + ("…" if last < end else ""))
        return f"    {before}{after}\n    {' ' * _width(before)}^"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " if char == "\t" else "\ufffd" for char in text)


def _width(text: str) -> int:
    """Return the columns that the text takes on a terminal; wide characters (UAX 11) take two."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)
