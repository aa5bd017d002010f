"""KBNF text -> grammar."""

from __future__ import annotations

from dataclasses import dataclass, field

from formatter_core.errors import InvalidGrammar, InvalidRegex, LimitExceeded
from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    EMPTY,
    Capture,
    Choice,
    Complement,
    Grammar,
    Intersection,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Substring,
    Terminal,
    literal,
    walk,
)
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.syntax.kbnf.lexer import Lexer, Token, locate, unescape
from formatter_core.syntax.regex import as_terminal, parse_rust
from formatter_core.syntax.rules import cut, similar
from formatter_core.syntax.source import Source

__all__ = ["parse_kbnf", "without_match"]

_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_COUNTS: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_WHAT_FOLLOWS = "expected a rule name, a literal, or a group"


def parse_kbnf(text: str, start: str = "start", limits: Limits = DEFAULT_LIMITS) -> Grammar:
    """Read KBNF text; the whole language is described in `docs/kbnf.md`.

    Every `"…"` becomes `Bytes` (or `EMPTY`), every regex and `#substrs` a `Terminal`, and `name:…` and the named
    groups of regexes become `Capture`s. Rules keep the order of their first definition.

    Raises:
        InvalidGrammar: a fault in the text, with its line and column, or an undefined start rule. A fault in a
            regex has the `InvalidRegex` as its cause.
        LimitExceeded: groups nested too deeply, too large a repeat, or too many nodes.
    """
    if not isinstance(text, str):
        raise InvalidGrammar(f"KBNF text must be a str, found {type(text).__name__}; decode it first")
    rules = _Reader(Source(text), limits).read()
    if not isinstance(start, str) or start not in rules:
        hint = similar(str(start), rules)
        raise InvalidGrammar(f"the start rule {cut(repr(start))} is not defined{hint}; define it or name another")
    grammar = Grammar(rules, start)
    grammar.check(limits)
    return grammar


def without_match(pattern: Node) -> Node:
    """Return the node of `#ex`: one or more characters without a match of the pattern."""
    somewhere = Sequence((ANY_TEXT, pattern, ANY_TEXT))
    return Terminal(Intersection((Repeat(ANY_CHAR, 1), Complement(somewhere))))


@dataclass(slots=True)
class _Group:
    """An open group, or the right-hand side of a rule."""

    opening: Token
    alternatives: list[Node] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)
    label: Token | None = None
    comma: Token | None = None


class _Reader:
    def __init__(self, source: Source, limits: Limits) -> None:
        self._source = source
        self._limits = limits
        self._lexer = Lexer(source)
        self._uses: dict[str, Token] = {}
        self._patterns: dict[tuple[str, str], Node] = {}

    def read(self) -> dict[str, Node]:
        alternatives: dict[str, list[Node]] = {}
        while self._lexer.peek().kind != "end":
            name = self._rule_name()
            alternatives.setdefault(name.text, []).extend(self._right_hand_side(name))
        if not alternatives:
            raise self._fault(self._lexer.peek(), 'found no rule; write one, such as `start ::= "yes" | "no";`')
        for used, token in self._uses.items():
            if used not in alternatives:
                raise self._fault(token, f"the rule {token} is not defined{similar(used, alternatives)}; define it")
        return {name: _choice(nodes) for name, nodes in alternatives.items()}

    def _rule_name(self) -> Token:
        name = self._lexer.take()
        if name.kind != "name":
            raise self._fault(name, f"expected the name of a rule, found {name}; write `name ::= …;`")
        define = self._lexer.take()
        if define.kind != "define":
            raise self._fault(define, f"expected `::=` after the rule name {name}, found {define}")
        return name

    def _right_hand_side(self, name: Token) -> list[Node]:
        # An explicit stack instead of recursion: only `Limits.depth` bounds the nesting.
        stack = [_Group(name)]
        while True:
            group, token = stack[-1], self._lexer.take()
            if token.kind in _CLOSERS:
                if len(stack) >= self._limits.depth:
                    what = f"the group at {self._source.where(token.offset)}"
                    raise LimitExceeded("depth", self._limits.depth, what)
                stack.append(_Group(token))
            elif token.kind == "literal":
                self._add(group, self._literal(token))
            elif token.kind == "name":
                self._name(group, token)
            elif token.kind == ",":
                self._comma(group, token)
            elif token.kind == "|":
                self._end_alternative(group, token)
            elif token.kind == _CLOSERS.get(group.opening.kind):
                self._end_alternative(group, token)
                stack.pop()
                self._add(stack[-1], _grouped(group))
            elif token.kind == ";" and len(stack) == 1:
                self._end_alternative(group, token)
                return group.alternatives
            else:
                raise self._misplaced(group, token)

    def _name(self, group: _Group, token: Token) -> None:
        following = self._lexer.peek()
        if following.kind == "define":
            if group.opening.kind != "name":
                raise self._unclosed(group)
            raise self._fault(token, f"the rule {group.opening} is not closed before {token}; add `;`")
        if following.kind == ":":
            if group.label:
                raise self._fault(
                    token, f"{group.label} already names this; put {token} and what it names in parentheses"
                )
            self._lexer.take()
            group.label = token
            return
        self._uses.setdefault(token.text, token)
        self._add(group, Reference(token.text))

    def _comma(self, group: _Group, token: Token) -> None:
        if not group.items or group.comma or group.label:
            raise self._fault(token, f"{_WHAT_FOLLOWS} before `,`")
        group.comma = token

    def _add(self, group: _Group, node: Node) -> None:
        repeated = self._repeated(node)
        if group.label:
            repeated = Capture(group.label.text, repeated)
        group.items.append(repeated)
        group.label = group.comma = None

    def _end_alternative(self, group: _Group, token: Token) -> None:
        if group.label:
            raise self._fault(token, f"{_WHAT_FOLLOWS} after {group.label} and `:`, found {token}")
        if group.comma:
            raise self._fault(token, f"{_WHAT_FOLLOWS} after `,`, found {token}")
        if not group.items:
            raise self._fault(token, f'{_WHAT_FOLLOWS} before {token}; write "" for the empty text')
        group.alternatives.append(group.items[0] if len(group.items) == 1 else Sequence(tuple(group.items)))
        group.items = []

    def _repeated(self, node: Node) -> Node:
        mark = self._lexer.peek()
        if mark.kind == "bound":
            minimum, maximum = self._bounds()
        elif mark.kind in _COUNTS:
            self._lexer.take()
            minimum, maximum = _COUNTS[mark.kind]
        else:
            return node
        greedy = self._lexer.peek().kind != "?"
        if not greedy:
            self._lexer.take()
        again = self._lexer.peek()
        if again.kind in _COUNTS or again.kind == "bound":
            raise self._fault(again, f"{again} repeats a repeat; put the inner one in parentheses")
        return Repeat(node, minimum, maximum, greedy)

    def _bounds(self) -> tuple[int, int | None]:
        opening = self._lexer.take()
        minimum = self._count()
        maximum: int | None = minimum
        token = self._lexer.take()
        if token.kind == ",":
            maximum = self._count() if self._lexer.peek().kind == "number" else None
            token = self._lexer.take()
        if token.kind != "}":
            raise self._fault(token, f"expected the `}}` of a repeat, found {token}; write for example {{2,5}}")
        if maximum is not None and maximum < minimum:
            raise self._fault(opening, f"minimum exceeds maximum in {{{minimum},{maximum}}}; swap them")
        return minimum, maximum

    def _count(self) -> int:
        token = self._lexer.take()
        digits = token.text.lstrip("0")
        # Compare the length first: Python refuses to convert thousands of digits.
        if len(digits) > len(str(self._limits.repeat)) or int(digits or "0") > self._limits.repeat:
            raise LimitExceeded("repeat", self._limits.repeat, f"the repeat at {self._source.where(token.offset)}")
        return int(digits or "0")

    def _literal(self, token: Token) -> Node:
        text = unescape(self._source, token)
        if token.prefix == "":
            return literal(text) if text else EMPTY
        if token.prefix == "#substrs":
            return Terminal(Substring(text))
        key = token.prefix, text
        if key not in self._patterns:
            self._patterns[key] = self._pattern(token, text)
        return self._patterns[key]

    def _pattern(self, token: Token, pattern: str) -> Node:
        try:
            node = parse_rust(pattern, self._limits)
        except InvalidRegex as error:
            offset = locate(self._source, token, error.position)
            raise self._source.fault(offset, f"invalid regex: {error.reason}") from None
        if token.prefix == "#":
            return as_terminal(node)
        if any(isinstance(below, Capture) for below in walk(node)):
            kind = token.prefix
            raise self._fault(token, f'{kind}"…" takes no named group; capture the whole literal: `name:{kind}"…"`')
        return Terminal(Shortest(node)) if token.prefix == "#e" else without_match(node)

    def _misplaced(self, group: _Group, token: Token) -> InvalidGrammar:
        if token.kind == "end" and group.opening.kind == "name":
            return self._fault(token, f"the rule {group.opening} is not closed; add `;`")
        if token.kind in ("end", ";"):
            return self._unclosed(group)
        if token.kind in _CLOSERS.values():
            closer = _CLOSERS.get(group.opening.kind)
            if closer is None:
                return self._fault(token, f"{token} closes no group; remove it, or open a group before it")
            where = self._source.where(group.opening.offset)
            return self._fault(token, f"{token} does not close the {group.opening} of {where}; write `{closer}` first")
        if token.kind in _COUNTS or token.kind == "bound":
            return self._fault(token, f"{token} has nothing to repeat; {_WHAT_FOLLOWS} before it")
        if token.kind == ":":
            return self._fault(token, "expected a name before `:`; write `name:…` to capture what follows")
        if token.kind == "number":
            return self._fault(token, f"unexpected number {token}; put text in quotes, and begin names with a letter")
        return self._fault(token, f"{_WHAT_FOLLOWS}, found {token}")

    def _unclosed(self, group: _Group) -> InvalidGrammar:
        closer = _CLOSERS[group.opening.kind]
        return self._fault(group.opening, f"this {group.opening} is not closed; add `{closer}`")

    def _fault(self, token: Token, reason: str) -> InvalidGrammar:
        return self._source.fault(token.offset, reason)


def _grouped(group: _Group) -> Node:
    node = _choice(group.alternatives)
    if group.opening.kind == "(":
        return node
    return Repeat(node, 0, 1 if group.opening.kind == "[" else None)


def _choice(alternatives: list[Node]) -> Node:
    return alternatives[0] if len(alternatives) == 1 else Choice(tuple(alternatives))
