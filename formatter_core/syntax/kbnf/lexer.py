"""KBNF text -> tokens, one at a time, and the escapes of its literals."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from formatter_core.errors import InvalidGrammar
from formatter_core.syntax.rules import cut
from formatter_core.syntax.source import Source

__all__ = ["Lexer", "Token", "locate", "unescape"]

_TOKEN = re.compile(
    r"""
      (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<literal>(?:\#[A-Za-z]*)?(?:"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'))
    | (?P<number>[0-9]+)
    | (?P<define>::=|=)
    | (?P<bound>\{(?=[ \t\r\n\f\v]*[0-9]))
    | (?P<mark>[;,|?*+:()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"\(\*|\*\)")
_OPENING = re.compile(r"(#[A-Za-z]*)?[\"']")
_PREFIXES = ("", "#", "#e", "#ex", "#substrs")

_ESCAPE = re.compile(
    r"""
    \\(?: u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})
        | u\{(?P<braced>[0-9a-fA-F]+)\} | u(?P<four>[0-9a-fA-F]{4}) | x(?P<two>[0-9a-fA-F]{2})
        | (?P<octal>[0-3][0-7]{0,2}|[4-7][0-7]?)
        | (?P<char>.) )
    """,
    re.VERBOSE | re.DOTALL,
)
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "/": "/", "'": "'", '"': '"', "\\": "\\"}

_CURLY_QUOTES = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb"
_HINTS = {
    **dict.fromkeys(_CURLY_QUOTES, "use straight quotes, \" or '"),
    **dict.fromkeys("#/", 'write a regex as #"…" and a comment as (* … *)'),
    "<": "write rule names without < and >",
    "-": "a rule name has ASCII letters, digits and `_`, and a rule is `name ::= …;`",
    ".": 'for any character except a newline write #"."',
    "!": 'for text without a match of a regex write #ex"…"',
    "\ufeff": "this is a byte order mark; remove it, or read the file with encoding='utf-8-sig'",
}


@dataclass(frozen=True, slots=True)
class Token:
    """One token of the text.

    `kind` is "name", "literal", "number", "define" (`::=` or `=`), "bound" (the `{` of a bounded repeat), "end", or
    the mark itself. Of a literal, `prefix` precedes the quotes (`#e` …), and `text` is between them, with
    its escapes, at the offset `start`.
    """

    kind: str
    text: str
    offset: int
    prefix: str = ""
    start: int = 0

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end of the text"
        return f"the literal {self.prefix}…" if self.kind == "literal" else f"`{cut(self.text)}`"


class Lexer:
    """A lexer that reads tokens on demand, with one token of look-ahead, so the first fault of a text is reported."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._next: Token | None = None
        self._offset = 0

    def peek(self) -> Token:
        """Return the token that `take` will return."""
        if self._next is None:
            self._next = self._read()
        return self._next

    def take(self) -> Token:
        """Take the next token; at the end of the text it is always "end"."""
        token = self.peek()
        self._next = None
        return token

    def _read(self) -> Token:
        self._skip_blanks()
        offset = self._offset
        if offset == len(self._source.text):
            return Token("end", "", offset)
        match = _TOKEN.match(self._source.text, offset)
        if match is None:
            raise self._stray(offset)
        self._offset = match.end()
        if match.lastgroup == "literal":
            return self._literal(match.group(), offset)
        return Token(match.group() if match.lastgroup == "mark" else str(match.lastgroup), match.group(), offset)

    def _literal(self, written: str, offset: int) -> Token:
        quote = written.index(written[-1])
        prefix = written[:quote]
        if prefix not in _PREFIXES:
            raise self._source.fault(
                offset, f'unknown prefix of a literal: `{cut(prefix)}"…"`; use #"…", #e"…", #ex"…" or #substrs"…"'
            )
        return Token("literal", written[quote + 1 : -1], offset, prefix, offset + quote + 1)

    def _skip_blanks(self) -> None:
        text = self._source.text
        while True:
            while self._offset < len(text) and text[self._offset] in " \t\r\n\f\v":
                self._offset += 1
            if not text.startswith("(*", self._offset):
                return
            self._skip_comment(self._offset)

    def _skip_comment(self, opening: int) -> None:
        depth = 0
        for mark in _COMMENT_MARK.finditer(self._source.text, opening):
            depth += 1 if mark.group() == "(*" else -1
            if depth == 0:
                self._offset = mark.end()
                return
        raise self._source.fault(opening, "this comment is not closed; add *) (comments nest)")

    def _stray(self, offset: int) -> InvalidGrammar:
        text = self._source.text
        if _OPENING.match(text, offset):
            return self._source.fault(
                offset,
                "this literal is not closed; add its closing quote, or check for a missing quote before it",
            )
        char = text[offset]
        shown = f"`{char}`" if char.isascii() and char.isprintable() else _describe(char)
        hint = _HINTS.get(char, "put text in quotes")
        if char.isspace():
            hint = "use plain spaces outside quotes"
        return self._source.fault(offset, f"unexpected {shown}; {hint}")


def unescape(source: Source, token: Token) -> str:
    """Return the meaning of a literal: its text, or its pattern if it is a regex.

    The escapes are those of the kbnf package, and surrogate pairs. In a regex, a backslash that begins none of
    them is left to the regex, so that `#"\\d"` and `#"\\\\d"` are the same.

    Raises:
        InvalidGrammar: an escape that does not exist or has no character, or a lone surrogate.
    """
    return "".join(piece for piece, _ in _pieces(source, token))


def locate(source: Source, token: Token, index: int) -> int:
    """Return the source offset of character `index` of the literal's meaning."""
    for piece, offset in _pieces(source, token):
        if index < len(piece):
            # Only runs without escapes, or with escapes for the regex, are longer than one character.
            return offset + index
        index -= len(piece)
    return token.start + len(token.text)


def _pieces(source: Source, token: Token) -> Iterator[tuple[str, int]]:
    done = 0
    for match in _ESCAPE.finditer(token.text):
        yield _checked(source, token, done, match.start()), token.start + done
        yield _meaning(source, token, match), token.start + match.start()
        done = match.end()
    yield _checked(source, token, done, len(token.text)), token.start + done


def _checked(source: Source, token: Token, start: int, stop: int) -> str:
    for index in range(start, stop) if not token.text.isascii() else ():
        if "\ud800" <= token.text[index] <= "\udfff":
            raise _lone_surrogate(source, token.start + index)
    return token.text[start:stop]


def _meaning(source: Source, token: Token, match: re.Match[str]) -> str:
    offset = token.start + match.start()
    if match["high"]:
        return chr(0x10000 + ((int(match["high"], 16) & 0x3FF) << 10) + (int(match["low"], 16) & 0x3FF))
    if match["octal"]:
        return _octal(token, match)
    hexadecimal = match["braced"] or match["four"] or match["two"]
    if hexadecimal:
        code_point = int(hexadecimal, 16)
        if code_point > 0x10FFFF:
            raise source.fault(offset, f"U+{hexadecimal[:12]} is not a character; use at most U+10FFFF")
        if 0xD800 <= code_point <= 0xDFFF:
            raise _lone_surrogate(source, offset)
        return chr(code_point)
    char: str = match["char"]
    if token.prefix not in ("", "#substrs"):
        if char == "b":
            raise source.fault(
                offset,
                r"`\b` is a backspace in KBNF and a word boundary in a regex; write \u0008 for a backspace "
                "(word boundaries are not supported)",
            )
        return _SIMPLE.get(char, match.group())
    if char not in _SIMPLE:
        raise source.fault(
            offset,
            f"unknown escape `\\{char}`; write `\\\\` for a backslash "
            r"(the escapes are \n \r \t \b \f \0 \/ \' \" \\ \xHH \uHHHH \u{H…} and octal \ooo)",
        )
    return _SIMPLE[char]


def _octal(token: Token, match: re.Match[str]) -> str:
    digits: str = match["octal"]
    if token.prefix not in ("", "#substrs") and digits[0] != "0" and len(digits) < 3:
        return match.group()  # a back-reference, which the regex reader refuses by its name
    return chr(int(digits, 8))


def _lone_surrogate(source: Source, offset: int) -> InvalidGrammar:
    return source.fault(offset, "a lone surrogate is not a character; write both surrogates of the pair")


def _describe(char: str) -> str:
    return f"U+{ord(char):04X} ({unicodedata.name(char, 'unnamed')})"
