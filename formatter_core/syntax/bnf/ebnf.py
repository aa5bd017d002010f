"""EBNF text -> grammar: the notation of XGrammar, described in its documentation under "EBNF Grammar".

Refused, each with what to write instead: temperatures, look-ahead, and the macro `ExcludeToken`. Captures are those of
the preferred parse. Budgets are never relaxed.
"""

from __future__ import annotations

import re
from typing import ClassVar

from formatter_core.grammar import (
    ANY_CHAR,
    EMPTY,
    AnySpecial,
    Capture,
    Grammar,
    Intersection,
    Node,
    Reference,
    Region,
    Repeat,
    Shortest,
    Terminal,
    Token,
    nullable,
    walk,
    without,
)
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.syntax.bnf.macros import MACROS, MacroReader
from formatter_core.syntax.bnf.reader import BnfReader
from formatter_core.syntax.bnf.terminals import with_terminals
from formatter_core.syntax.expression import Expression
from formatter_core.syntax.rules import cut

__all__ = ["parse_ebnf"]

# One way to match each blank, and comments only whole: what follows is looked for at their end alone.
_BLANKS = r"(?:\s|#[^\r\n]*(?=[\r\n]|\Z))*"
_BLANK = re.compile(_BLANKS)
_NAME = r"[A-Za-z_.\-][A-Za-z0-9_.\-]*"
_HEAD = re.compile(rf"({_NAME})(\[[^\]\r\n]*\])?{_BLANKS}::=")
_NO_TEXT = re.compile(rf"\({_BLANKS}\)")
_OPTION = re.compile(r'[ \t]*([a-z_]+)[ \t]*(?:=[ \t]*("[^"\\\r\n]*"|[0-9.eE+-]+))?[ \t]*')
#: The options of a rule, and how their values are written.
_OPTIONS = {
    "capture": re.compile(r'|"[^"]+"'),
    "lazy": re.compile(""),
    "max_chars": re.compile("[0-9]{1,10}"),
    "max_tokens": re.compile("[1-9][0-9]{0,9}"),
}
_REFUSED_OPTIONS = {
    "temperature": "a grammar does not choose how to sample; give the temperature to the sampler",
}
_WHAT_FOLLOWS = "expected a literal, a class, a rule name, a group or a macro"


def parse_ebnf(text: str, start: str = "root", limits: Limits = DEFAULT_LIMITS) -> Grammar:
    """Read XGrammar's EBNF.

    Raises:
        InvalidGrammar: a fault in the text, with its line and column, or an undefined start rule.
        LimitExceeded: groups nested too deep, too large a repeat, or too many nodes.
    """
    return with_terminals(_EbnfReader(text, limits).read(start), limits)


class _EbnfReader(BnfReader):
    escape = re.compile(
        r"\\(?:x(?P<digits>[0-9a-fA-F]+)|u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8})|(?P<char>.))",
        re.DOTALL,
    )
    count = re.compile(r"\{\s*([0-9]+)\s*(?:(,)\s*(?:([0-9]+)|-1)?\s*)?\}")
    literal_escapes: ClassVar = {
        **{char: char for char in "\"\\/'?"},
        **dict(zip("nrtbfav0e", "\n\r\t\b\f\a\v\0\x1b", strict=True)),
    }
    class_escapes: ClassVar = {**literal_escapes, **{char: char for char in "^$.*+?()[]{}|-"}}
    name = re.compile(_NAME)

    def read(self, start: str) -> Grammar:
        self.skip()
        while self.at < len(self.text):
            self._rule()
        return self.rules.grammar(start, self.limits)

    def skip(self) -> None:
        """Go past blanks, line breaks and comments."""
        match = _BLANK.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _rule(self) -> None:
        head = _HEAD.match(self.text, self.at)
        if head is None:
            raise self.fault("expected the name of a rule; write `name ::= …`")
        offset = self.at
        name = head[1]
        if name in MACROS or name in ("true", "false"):
            raise self.fault(f"`{name}` has a meaning of its own here; give the rule another name")
        options = self._options(head[2][1:-1], head.start(2) + 1) if head[2] else {}
        self.at = head.end()
        body = self._expression()
        if "lazy" in options:
            body = self._lazy(body, offset)
        if "max_chars" in options:
            bound = Repeat(ANY_CHAR, 0, int(options["max_chars"]))
            body = Terminal(Intersection((self._regular(body, "a rule with `max_chars`", offset), bound)))
        if "max_tokens" in options:
            body = Region(body, int(options["max_tokens"]))
        if "capture" in options:
            body = Capture(options["capture"] or name, body)
        self.rules.define(name, offset, body)

    def _options(self, written: str, offset: int) -> dict[str, str]:
        found: dict[str, str] = {}
        for part in written.split(","):
            option = _OPTION.fullmatch(part)
            word = option[1] if option else ""
            if word in _REFUSED_OPTIONS:
                raise self.fault(f"the option `{word}` is not enforced; {_REFUSED_OPTIONS[word]}", offset)
            if option is None or word not in _OPTIONS or word in found:
                known = "there are `capture`, `lazy`, `max_chars` and `max_tokens`"
                raise self.fault(f"the option `{cut(part.strip())}` is not known; {known}", offset)
            if not _OPTIONS[word].fullmatch(option[2] or ""):
                raise self.fault(
                    f'the option `{word}` is malformed; write `lazy`, `capture="name"` or `max_tokens=100`', offset
                )
            found[word] = (option[2] or "").strip('"')
            offset += len(part) + 1
        return found

    def _lazy(self, body: Node, offset: int) -> Node:
        regular = self._regular(body, "a lazy rule", offset)
        return EMPTY if nullable(regular) else Terminal(Shortest(regular))

    def _regular(self, body: Node, of_what: str, offset: int) -> Node:
        if any(isinstance(part, (Reference, Capture, Token, AnySpecial)) for part in walk(body)):
            raise self.fault(
                f"the body of {of_what} is made of literals, classes, repeats and `Regex` only; write out what its "
                "rules stand for",
                offset,
            )
        return without(Terminal, body)

    def _expression(self) -> Node:
        expression = Expression(self.source, self.limits, self.at)
        while True:
            self.skip()
            char = self.peek()
            if not char or (char not in '"[(|)' and (head := _HEAD.match(self.text, self.at))):
                break
            if char == "|":
                self._require_item(expression)
                self.at += 1
                expression.alternative()
            elif char == "(" and not _NO_TEXT.match(self.text, self.at):
                if self.text.startswith("(=", self.at):
                    raise self.fault("a look-ahead is not enforced; remove it (the same texts are accepted without it)")
                expression.open(self.at)
                self.at += 1
            elif char == ")":
                if not expression.is_nested:
                    raise self.fault("this `)` closes nothing; remove it, or open a group before")
                self._require_item(expression)
                expression.close()
                self.at += 1
                self._quantifier(expression)
            else:
                expression.add(self._item(char))
                self._quantifier(expression)
        if char and expression.is_nested:
            raise expression.unclosed()
        if char and self.text[self.text.rfind("\n", 0, self.at) + 1 : self.at].strip(" \t\r"):
            raise self.fault(f"the rule `{cut(head[1] if head else '')}` begins here; put it on a line of its own")
        if not expression.is_nested:
            self._require_item(expression)
        return expression.finish()

    def _require_item(self, expression: Expression) -> None:
        if expression.is_blank:
            raise self.fault(f'{_WHAT_FOLLOWS}; write "" for the empty text')

    def _quantifier(self, expression: Expression) -> None:
        self.skip()
        if self.repeat(expression):
            self.skip()
            if self.peek() in ("*", "+", "?", "{"):
                raise self.fault("this repeats a repeat; put parentheses around the inner one")

    def _item(self, char: str) -> Node:
        if char == '"':
            return self.read_literal()
        if char == "[":
            return self.read_class()
        if char == "(":
            match = _NO_TEXT.match(self.text, self.at)
            self.at = match.end() if match else self.at
            return EMPTY
        offset = self.at
        name = self.take_name()
        if not name:
            raise self.fault(f"{_WHAT_FOLLOWS}, but found `{char}`")
        if name in MACROS:
            return MacroReader(self, name, offset).read()
        self.rules.use(name, offset)
        return Reference(name)

    def _check_literal(self, written: str, offset: int) -> None:
        for index, char in enumerate(written) if "\n" in written or "\r" in written else ():
            if char in "\r\n":
                raise self.fault("a literal stands on one line; write the line break as `\\n`", offset + index)

    def _check_empty_class(self, negated: bool, opening: int) -> None:
        if not negated:
            raise self.fault("this class is empty; write [^] for any character", opening)
