"""Build text with typed holes."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import Any

from formatter_core.errors import InvalidFormat
from formatter_core.errors.arguments import shown
from formatter_core.formats.choice import choice
from formatter_core.formats.coercion import as_format
from formatter_core.formats.notations import kbnf
from formatter_core.formats.number import Number, integer, number
from formatter_core.formats.protocol import Format
from formatter_core.formats.regex import regex
from formatter_core.formats.string import string
from formatter_core.formats.substring import substring_of
from formatter_core.formats.text import Hole, TextFormat
from formatter_core.formats.until import until
from formatter_core.schema import Spelling

__all__ = ["FormatterBuilder"]

# The marker of a hole inside an f-string. Its 128 random bits belong to one builder, so no literal text can look like a
# hole, and none needs escaping.
_MARKER = re.compile("\x02hole ([0-9a-f]{32}) ([0-9]+)\x03")


class FormatterBuilder:
    """A builder of text with typed holes.

    ::

        b = FormatterBuilder()
        age = b.integer(name="age", minimum=0)
        b.append("Name: ", b.string(name="name", max_length=40), ", age ", age, ".")
        b.append_line(f" Again: {age}.")

    Every hole takes `name=`; `Result.captures` and `Result.value` have the value of a named hole. The same hole may
    occur several times, each time with its own value.
    """

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(16)
        self._holes: list[Hole] = []
        self._parts: list[str | Hole] = []

    def __repr__(self) -> str:
        text = "".join(part if isinstance(part, str) else f"{{{part.name or '...'}}}" for part in self._parts)
        return f"<FormatterBuilder {shown(text)}>"

    def append(self, *parts: str | Hole) -> FormatterBuilder:
        """Add literal text (a `str`, without escapes) and holes; return the builder."""
        added: list[str | Hole] = []
        for part in parts:
            if isinstance(part, Hole):
                added.append(self._own(part))
            elif isinstance(part, str):
                added.extend(self._split(part))
            else:
                raise InvalidFormat(f"{part!r} is neither a str nor a hole; pass a str, or a hole of this builder")
        self._parts.extend(added)
        return self

    def append_line(self, *parts: str | Hole) -> FormatterBuilder:
        """Add parts as `append` does, then a newline."""
        return self.append(*parts, "\n")

    def build(self) -> TextFormat:
        """Return the format so far; you can keep using the builder."""
        return TextFormat(tuple(self._parts))

    def regex(self, pattern: str | re.Pattern[str], *, max_tokens: int | None = None, name: str | None = None) -> Hole:
        """Make a hole for text that matches a pattern in Rust `regex` syntax, of at most `max_tokens` tokens."""
        return self.format(regex(pattern, max_tokens=max_tokens), name=name)

    def choice(self, options: Iterable[str], *, name: str | None = None) -> Hole:
        """Make a hole for one of several texts."""
        return self.format(choice(options), name=name)

    def substring_of(self, text: str, *, name: str | None = None) -> Hole:
        """Make a hole for a run of characters of `text`."""
        return self.format(substring_of(text), name=name)

    def json(self, schema_or_type: Any, *, name: str | None = None, spelling: Spelling = "canonical") -> Hole:
        """Make a hole for JSON that satisfies a JSON Schema or is an instance of a Python type, spelled as in
        `json_schema`.
        """
        return self.format(as_format(schema_or_type, spelling=spelling), name=name)

    def kbnf(self, text: str, *, start: str = "start", name: str | None = None) -> Hole:
        """Make a hole for text that a KBNF grammar derives."""
        return self.format(kbnf(text, start), name=name)

    def integer(
        self,
        *,
        minimum: int | None = None,
        maximum: int | None = None,
        name: str | None = None,
        spelling: Spelling = "canonical",
    ) -> Hole:
        """Make a hole for a whole number, with digits as in `formats.integer`; its value is an `int`."""
        return self.format(integer(minimum, maximum, spelling=spelling), name=name)

    def number(
        self,
        *,
        minimum: Number | str | None = None,
        maximum: Number | str | None = None,
        name: str | None = None,
        spelling: Spelling = "canonical",
    ) -> Hole:
        """Make a hole for a decimal number, with digits as in `formats.number`; its value is a `float`."""
        return self.format(number(minimum, maximum, spelling=spelling), name=name)

    def string(
        self,
        *,
        pattern: str | None = None,
        max_length: int | None = None,
        max_tokens: int | None = None,
        name: str | None = None,
    ) -> Hole:
        """Make a hole for text of at most `max_length` characters and `max_tokens` tokens; one line
        without a pattern.
        """
        return self.format(string(pattern, max_length, max_tokens=max_tokens), name=name)

    def until(self, end: str, *, max_tokens: int | None = None, name: str | None = None) -> Hole:
        """Make a hole for text up to the first `end`, which is consumed but not captured; `max_tokens` includes the
        end.
        """
        return self.format(until(end, max_tokens=max_tokens), name=name)

    def format(self, format: Format, *, name: str | None = None) -> Hole:
        """Make a hole for any format."""
        if not isinstance(format, Format) or isinstance(format, type):
            raise InvalidFormat(f"{format!r} is not a format; use json() for a schema or a type")
        hole = Hole(format, name, f"\x02hole {self._nonce} {len(self._holes)}\x03")
        self._holes.append(hole)
        return hole

    def _own(self, hole: Hole) -> Hole:
        if not any(hole is own for own in self._holes):
            raise InvalidFormat(f"the hole {hole.name!r} belongs to another builder; make it with this builder")
        return hole

    def _split(self, text: str) -> list[str | Hole]:
        parts: list[str | Hole] = []
        done = 0
        for found in _MARKER.finditer(text):
            if found[1] != self._nonce:
                raise InvalidFormat("the text contains a hole of another builder; make the hole with this builder")
            if found.start() > done:
                parts.append(text[done : found.start()])
            parts.append(self._holes[int(found[2])])
            done = found.end()
        if done < len(text):
            parts.append(text[done:])
        return parts
