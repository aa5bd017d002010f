"""GBNF text -> grammar: the notation of llama.cpp, described in its `grammars/README.md`.

Differences from llama.cpp's own reader: rules may be left-recursive, counts are exact however large (llama.cpp takes a
maximum above 2,000 for none), names may hold `_` (which its documentation says too), a rule that is defined twice is a
fault (llama.cpp keeps the last one), and so are an empty class and a range that runs backwards.
"""

from __future__ import annotations

import re
from typing import ClassVar

from formatter_core.grammar import ANY_CHAR, Grammar, Node, Reference, Special, Token
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.syntax.bnf.reader import BnfReader
from formatter_core.syntax.bnf.terminals import with_terminals
from formatter_core.syntax.expression import Expression
from formatter_core.syntax.rules import cut

__all__ = ["parse_gbnf"]

_BLANKS = re.compile(r"(?:[ \t]+|#[^\r\n]*)*")
_BLANK_LINES = re.compile(r"(?:[ \t\r\n]+|#[^\r\n]*)*")
_DEFINE = re.compile(r"[ \t]*::=")
_TOKEN_ID = re.compile(r"<\[([0-9]{1,10})\]>")
_TOKEN_NAME = re.compile(r"<[^>\r\n]+>")
_WHAT_FOLLOWS = "expected a literal, a class, a rule name, a group, `.` or a token"


def parse_gbnf(text: str, start: str = "root", limits: Limits = DEFAULT_LIMITS) -> Grammar:
    """Read GBNF text.

    Raises:
        InvalidGrammar: a fault in the text, with its line and column, or an undefined start rule.
        LimitExceeded: groups nested too deep, too large a repeat, or too many nodes.
    """
    return with_terminals(_GbnfReader(text, limits).read(start), limits)


class _GbnfReader(BnfReader):
    escape = re.compile(
        r"\\(?:x(?P<digits>[0-9a-fA-F]{2})|u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8})|(?P<char>.))",
        re.DOTALL,
    )
    class_escapes: ClassVar = {"n": "\n", "r": "\r", "t": "\t", **{char: char for char in '\\"[]-'}}
    literal_escapes = class_escapes
    name = re.compile(r"[A-Za-z0-9_-]+")
    count = re.compile(r"\{[ \t]*([0-9]+)[ \t]*(?:(,)[ \t]*([0-9]*)[ \t]*)?\}")

    def read(self, start: str) -> Grammar:
        self._skip(lines=True)
        while self.at < len(self.text):
            self._rule()
        return self.rules.grammar(start, self.limits)

    def _skip(self, *, lines: bool) -> None:
        match = (_BLANK_LINES if lines else _BLANKS).match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _rule(self) -> None:
        offset = self.at
        name = self.take_name()
        if not name:
            raise self.fault(self._not_a_rule())
        self._skip(lines=False)
        if not self.text.startswith("::=", self.at):
            raise self.fault(f"expected `::=` after the rule name `{cut(name)}`, on the same line")
        self.at += 3
        self._skip(lines=True)
        self.rules.define(name, offset, self._expression())
        self._skip(lines=True)

    def _not_a_rule(self) -> str:
        if self.peek() == "|":
            return "a line break ended the rule before `|`; put `|` at the end of the line before, or use parentheses"
        return "expected the name of a rule; write `name ::= …`, with line breaks only after `|` and inside parentheses"

    def _expression(self) -> Node:
        expression = Expression(self.source, self.limits, self.at)
        while (char := self.peek()) and (expression.is_nested or char not in "\r\n"):
            if char == "|":
                self.at += 1
                expression.alternative()
                self._skip(lines=True)
                continue
            if char == "(":
                expression.open(self.at)
                self.at += 1
            elif char == ")":
                if not expression.is_nested:
                    raise self.fault("this `)` closes nothing; remove it, or open a group before")
                expression.close()
                self.at += 1
            elif not self.repeat(expression):
                expression.add(self._item(char, expression))
            self._skip(lines=expression.is_nested)
        return expression.finish()

    def _item(self, char: str, expression: Expression) -> Node:
        if char == '"':
            return self.read_literal()
        if char == "[":
            return self.read_class()
        if char == ".":
            self.at += 1
            return ANY_CHAR
        if char in "<!":
            return self._token()
        offset = self.at
        name = self.take_name()
        if not name:
            raise self.fault(f"{_WHAT_FOLLOWS}, but found `{char}`")
        if _DEFINE.match(self.text, self.at):
            if expression.is_nested:
                raise expression.unclosed()
            raise self.fault(
                f"the rule before `{cut(name)}` has not ended; begin each rule on a line of its own", offset
            )
        self.rules.use(name, offset)
        return Reference(name)

    def _token(self) -> Node:
        if self.peek() == "!":
            raise self.fault(
                "`!<…>` counts tokens of any kind, which texts do not; write `.*` or a class for the text in between "
                "(no text spells a special token)"
            )
        by_id = _TOKEN_ID.match(self.text, self.at)
        match = by_id or _TOKEN_NAME.match(self.text, self.at)
        if match is None:
            raise self.fault("a token is written <[id]> or <name>, on one line")
        self.at = match.end()
        return Special(match.group()) if by_id is None else Token(int(by_id[1]))

    def _check_empty_class(self, negated: bool, opening: int) -> None:
        raise self.fault("this class is empty; write `.` for any character, or the characters it should hold", opening)
