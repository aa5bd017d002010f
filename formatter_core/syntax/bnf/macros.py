"""The macros of XGrammar's EBNF: `Regex`, `Substring`, `TagDispatch`, `TokenTagDispatch`, `Token`."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeVar

from formatter_core.errors import InvalidGrammar, InvalidRegex
from formatter_core.grammar import (
    EMPTY,
    Capture,
    Chars,
    Choice,
    Intersection,
    Node,
    Reference,
    Repeat,
    Sequence,
    Substring,
    Terminal,
    Token,
    literal,
    without,
)
from formatter_core.syntax.bnf.reader import BnfReader
from formatter_core.syntax.dispatch import dispatch, token_dispatch
from formatter_core.syntax.regex import parse_rust

__all__ = ["MACROS", "MacroReader", "parse_xgrammar_regex"]

_Tag = TypeVar("_Tag", str, int)

MACROS = ("Regex", "Substring", "TagDispatch", "Token", "ExcludeToken", "TokenTagDispatch")

_BLANK = re.compile(r"(?:\s+|#[^\r\n]*)*")
_INTEGER = re.compile(r"[+-]?[0-9]+(?![A-Za-z0-9_.-])")
#: The characters of a JSON string that need no escape.
_JSON_CHAR = Chars.of([(0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)])
#: Classes are those of ASCII, except for the spaces.
_CLASSES = {
    "d": "[0-9]", "D": "[^0-9]", "w": "[a-zA-Z0-9_]", "W": "[^a-zA-Z0-9_]",
    "s": r"[\f\n\r\t\v \u{a0}]", "S": r"[^\f\n\r\t\v \u{a0}]",
}  # fmt: skip
_IGNORE_CASE = re.compile(r"\(\?[a-z]*i")
_PIECE = re.compile(r"\\(.)|(\[\^?)|(\])|([&~])|.", re.DOTALL)


def parse_xgrammar_regex(pattern: str, *, dot_all: bool = True) -> Node:
    """Read a regular expression with XGrammar's meaning: classes are ASCII, and `.` is any character.

    Raises:
        InvalidRegex: a fault in the pattern, or what is not supported; its position is one in the pattern.
    """
    folding = _IGNORE_CASE.search(pattern)
    if folding:
        reason = "`i` folds ASCII letters only in XGrammar; write both cases as classes, as in `[aA]`"
        raise InvalidRegex(reason, pattern=pattern, position=folding.start())
    places: list[int] = []
    parts: list[str] = []
    inside = False
    for match in _PIECE.finditer(pattern):
        escape, opening, closing, mark = match.groups()
        part = match.group()
        if escape in _CLASSES:
            part = _CLASSES[escape]
        elif escape == "/":
            part = "/"
        elif opening:
            part, inside = (r"\[" + opening[1:] if inside else opening), True
        elif closing:
            inside = False
        elif mark and inside:
            part = "\\" + mark
        parts.append(part)
        places += [match.start()] * len(part)
    flags = "(?s)" if dot_all else ""
    try:
        node = parse_rust(flags + "".join(parts))
    except InvalidRegex as error:
        at = error.position - len(flags)
        place = places[at] if 0 <= at < len(places) else len(pattern)
        raise InvalidRegex(error.reason, pattern=pattern, position=place) from None
    return without(Capture, node)


class _Arguments(NamedTuple):
    positional: list[Any]
    named: dict[str, Any]


class _Name(NamedTuple):
    text: str
    offset: int


class MacroReader:
    """One call of a macro, the name of which has just been read."""

    def __init__(self, reader: BnfReader, name: str, offset: int) -> None:
        self._reader = reader
        self._name = name
        self._offset = offset

    def read(self) -> Node:
        """Read the call and return its node."""
        if self._name == "ExcludeToken":
            raise self._fault(
                "`ExcludeToken` is one token of any kind, and a text does not show where tokens end; use `[^]*` before "
                "a `Token(…)` (no text spells a special token)"
            )
        arguments = self._arguments()
        if self._name == "Regex":
            return self._regex(arguments)
        if self._name == "Substring":
            return self._substring(arguments)
        if self._name == "Token":
            return self._token(arguments)
        if self._name == "TokenTagDispatch":
            return self._token_tag_dispatch(arguments)
        return self._tag_dispatch(arguments)

    def _regex(self, arguments: _Arguments) -> Node:
        unknown = arguments.named.keys() - {"json_string", "flags"}
        flags, json_string = arguments.named.get("flags"), arguments.named.get("json_string", False)
        if len(arguments.positional) != 1 or not isinstance(arguments.positional[0], str) or unknown:
            raise self._fault('write `Regex("pattern")`, with `json_string=true` or `flags="s"` where needed')
        if not isinstance(json_string, bool) or not (flags is None or isinstance(flags, str)):
            raise self._fault("`json_string` is true or false, and `flags` a text")
        if set(flags or "") - set("su"):
            raise self._fault("of the flags only `s` and `u` are enforced; write both cases as classes, as in `[aA]`")
        try:
            node = parse_xgrammar_regex(arguments.positional[0], dot_all=flags is None or "s" in flags)
        except InvalidRegex as error:
            raise self._fault(f"in this regex, at position {error.position}: {error.reason}") from None
        return Terminal(Intersection((node, Repeat(_JSON_CHAR))) if json_string else node)

    def _substring(self, arguments: _Arguments) -> Node:
        chunks = arguments.positional
        if arguments.named or not all(isinstance(chunk, str) for chunk in chunks):
            raise self._fault('write the chunks as texts: `Substring("one", "two")`')
        chunks = [chunk for chunk in chunks if chunk]
        if all(len(chunk) == 1 for chunk in chunks):
            return Terminal(Substring("".join(chunks)))
        rest: Node = EMPTY
        starts: list[Node] = []
        for number, chunk in reversed(list(enumerate(chunks))):
            name = f"substring {self._offset}.{number}"
            self._reader.rules.define(name, self._offset, Sequence((literal(chunk), rest)))
            starts.append(Reference(name))
            rest = Choice((Reference(name), EMPTY))
        return Choice((*reversed(starts), EMPTY))

    def _token(self, arguments: _Arguments) -> Node:
        ids = arguments.positional
        if arguments.named or not ids or not all(type(each) is int and each >= 0 for each in ids):
            raise self._fault("write token ids: `Token(5, 6)`")
        tokens = tuple(map(Token, dict.fromkeys(ids)))
        return tokens[0] if len(tokens) == 1 else Choice(tokens)

    def _tag_dispatch(self, arguments: _Arguments) -> Node:
        branches, excludes, loop = self._branches(arguments, str, '"one", "two"')
        for tag, _ in branches:
            if any(tag.startswith(each) for each in excludes):
                raise self._fault(f"the tag {tag!r} begins with an excluded text, so it can never occur; remove one")
        return dispatch(branches, excludes, loop=loop)

    def _token_tag_dispatch(self, arguments: _Arguments) -> Node:
        branches, excludes, loop = self._branches(arguments, int, "5, 6")
        if any(tag in excludes for tag, _ in branches):
            raise self._fault("a token both begins a branch and is excluded; remove one")
        return token_dispatch([(Token(tag), rule) for tag, rule in branches], map(Token, excludes), loop=loop)

    def _branches(
        self, arguments: _Arguments, kind: type[_Tag], examples: str
    ) -> tuple[list[tuple[_Tag, Node]], tuple[_Tag, ...], bool]:
        """Read the tags with their rules, the exclusions, and whether text continues after a rule."""
        unknown = arguments.named.keys() - {"loop_after_dispatch", "excludes"}
        loop, excludes = arguments.named.get("loop_after_dispatch", True), arguments.named.get("excludes", ())
        if unknown or not isinstance(loop, bool) or not _are_all(excludes, kind):
            options = f"`loop_after_dispatch=false` and `excludes=({examples})`"
            raise self._fault(f"the options of `{self._name}` are {options}")
        pair_shown = f"`({examples.partition(',')[0]}, rule)`"
        branches: list[tuple[_Tag, Node]] = []
        for pair in arguments.positional:
            if not isinstance(pair, tuple) or len(pair) != 2 or not _are_all(pair[:1], kind):
                raise self._fault(f"a branch of `{self._name}` is a pair {pair_shown}")
            if not isinstance(pair[1], _Name):
                raise self._fault(f"the second of each pair {pair_shown} is the name of a rule")
            self._reader.rules.use(pair[1].text, pair[1].offset)
            branches.append((pair[0], Reference(pair[1].text)))
        return branches, excludes, loop

    def _arguments(self) -> _Arguments:
        reader = self._reader
        found = _Arguments([], {})
        self._expect("(")
        while not self._take(")"):
            if found.positional or found.named:
                self._expect(",")
            value = self._value()
            if isinstance(value, _Name) and self._take("="):
                found.named[value.text] = self._value()
            else:
                found.positional.append(value)
            if reader.at >= len(reader.text):
                raise self._fault("this call is never closed; write `)` after its arguments")
        return found

    def _value(self, room: int = 2) -> Any:
        reader = self._reader
        self._skip()
        if reader.peek() == '"':
            return reader.read_text()
        integer = _INTEGER.match(reader.text, reader.at)
        if integer:
            reader.at = integer.end()
            if len(integer.group()) > 12:
                raise self._fault("this number is too large for a token id")
            return int(integer.group())
        if reader.peek() == "(" and room:
            reader.at += 1
            values: list[Any] = []
            while not self._take(")"):
                if values:
                    self._expect(",")
                    if self._take(")"):
                        break
                values.append(self._value(room - 1))
            return tuple(values)
        offset = reader.at
        name = reader.take_name()
        if not name:
            raise reader.fault("expected a text, a number, true, false, the name of a rule, or a tuple of these")
        return name == "true" if name in ("true", "false") else _Name(name, offset)

    def _skip(self) -> None:
        match = _BLANK.match(self._reader.text, self._reader.at)
        self._reader.at = match.end() if match else self._reader.at

    def _take(self, mark: str) -> bool:
        self._skip()
        found = self._reader.peek() == mark
        self._reader.at += found
        return found

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._reader.fault(f"expected `{mark}` in the call of `{self._name}`")

    def _fault(self, reason: str) -> InvalidGrammar:
        return self._reader.fault(reason, self._offset)


def _are_all(values: Any, kind: type) -> bool:
    """Tell whether all values are non-empty texts, or non-negative numbers."""
    least: Any = "\0" if kind is str else 0
    return isinstance(values, tuple) and all(type(each) is kind and each >= least for each in values)
