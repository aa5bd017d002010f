"""Grammar -> KBNF text: the inverse of the reader."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from formatter_core.errors import InvalidGrammar
from formatter_core.grammar import (
    Bytes,
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
)
from formatter_core.grammar.json_text import without_json_texts
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.syntax.kbnf.pattern import count_mark, to_rust
from formatter_core.syntax.kbnf.reader import without_match

__all__ = ["to_kbnf"]

# Precedence of an expression; one of lower precedence than its context needs goes into a group.
_ALTERNATIVES, _SEQUENCE, _LABELLED, _REPEATED, _PRIMARY = range(5)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_]+")
_CONTROLS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LINE = 100  # characters; the alternatives of a longer rule go on separate lines


def to_kbnf(grammar: Grammar, limits: Limits = DEFAULT_LIMITS) -> str:
    """Write the grammar as KBNF text, one rule after the other; the start rule is called `start`.

    `parse_kbnf` makes a grammar of the text that has the same language, the same captures and the same preferences.
    Rules whose names KBNF cannot spell get other names.

    Raises:
        InvalidGrammar: the grammar is not well formed, or contains what KBNF cannot express: a `Token`, bytes that are
            not whole characters, a capture whose name neither KBNF nor a regex can spell, a `Complement`, or an
            `Intersection` other than that of `#ex`.
        LimitExceeded: the grammar is not within `limits`.
    """
    if grammar.check(limits).regions:
        raise InvalidGrammar("KBNF cannot express a budget of tokens; leave max_tokens out")
    grammar = without_json_texts(grammar.written_out)
    names = _rule_names(grammar)
    return "".join(_RuleWriter(name, names).rule(body) for name, body in grammar.rules.items())


def _rule_names(grammar: Grammar) -> dict[str, str]:
    """Map the names in the grammar to the names in the text."""
    names = {name: name for name in grammar.rules if _NAME.fullmatch(name) and name != "start"}
    names[grammar.start] = "start"
    taken = set(names.values())
    tried: Counter[str] = Counter()
    for name in grammar.rules:
        if name not in names:
            stem = new = "_" + _NO_NAME_CHARACTERS.sub("_", name).strip("_")
            while new in taken:
                tried[stem] += 1
                new = f"{stem}_{tried[stem]}"
            taken.add(new)
            names[name] = new
    return names


class _RuleWriter:
    def __init__(self, name: str, names: dict[str, str]) -> None:
        self._name = name
        self._names = names

    def rule(self, body: Node) -> str:
        head = f"{self._names[self._name]} ::= "
        text, _ = self._expression(body)
        if len(head) + len(text) > _LINE and isinstance(body, Choice):
            text = "\n    | ".join(self._inside(item, _ALTERNATIVES) for item in _alternatives(body))
        return f"{head}{text};\n"

    def _expression(self, node: Node) -> tuple[str, int]:
        if isinstance(node, Terminal):
            return self._terminal(node.item)
        if isinstance(node, Bytes):
            return self._text(node), _PRIMARY
        if isinstance(node, Reference):
            return self._names[node.name], _PRIMARY
        if isinstance(node, Capture):
            return self._capture(node)
        if isinstance(node, Repeat):
            return self._inside(node.item, _PRIMARY) + count_mark(node), _REPEATED
        if isinstance(node, Sequence):
            return self._joined(node.items, " ", _SEQUENCE) if node.items else ('""', _PRIMARY)
        if isinstance(node, Choice) and node.items:
            return self._joined(node.items, " | ", _ALTERNATIVES)
        return self._terminal(node)

    def _joined(self, items: tuple[Node, ...], between: str, holds: int) -> tuple[str, int]:
        if len(items) == 1:
            return self._expression(items[0])
        return between.join(self._inside(item, holds) for item in items), holds

    def _inside(self, node: Node, needed: int) -> str:
        text, holds = self._expression(node)
        return text if holds >= needed else f"({text})"

    def _terminal(self, node: Node) -> tuple[str, int]:
        """Write a regular node as one literal, or as a group of literals if no single one expresses it."""
        if isinstance(node, Bytes) or node == Sequence(()):
            return self._expression(node)
        if isinstance(node, Substring):
            return "#substrs" + _quoted(node.text), _PRIMARY
        prefix, item = _kind(node)
        pattern = to_rust(item)
        if pattern is not None:
            return prefix + _quoted(pattern), _PRIMARY
        if isinstance(node, (Sequence, Choice, Repeat)):
            return self._expression(node)
        raise self._inexpressible(node)

    def _text(self, node: Bytes) -> str:
        try:
            return _quoted(node.value.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise self._inexpressible(node) from error

    def _capture(self, node: Capture) -> tuple[str, int]:
        if _NAME.fullmatch(node.name):
            return f"{node.name}:{self._inside(node.item, _REPEATED)}", _LABELLED
        pattern = to_rust(node)  # the groups of a regex may have names that are no names of KBNF
        if pattern is None:
            raise self._inexpressible(node)
        return "#" + _quoted(pattern), _PRIMARY

    def _inexpressible(self, node: Node) -> InvalidGrammar:
        shown = repr(node)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        return InvalidGrammar(f"KBNF cannot express {shown} in the rule {self._name!r}; keep the grammar as values")


def _kind(node: Node) -> tuple[str, Node]:
    """Return the prefix of the literal that may express the node, and the node that its pattern must match."""
    if isinstance(node, Shortest):
        return "#e", node.item
    if isinstance(node, Intersection) and len(node.items) == 2:
        outside = node.items[1]
        inside = outside.item if isinstance(outside, Complement) else None
        pattern = inside.items[1] if isinstance(inside, Sequence) and len(inside.items) == 3 else None
        if pattern is not None and Terminal(node) == without_match(pattern):
            return "#ex", pattern
    return "#", node


def _quoted(text: str) -> str:
    quote = "'" if '"' in text and "'" not in text else '"'
    return quote + "".join(_escaped(char, quote) for char in text) + quote


def _escaped(char: str, quote: str) -> str:
    if char in ("\\", quote):
        return "\\" + char
    if char in _CONTROLS:
        return _CONTROLS[char]
    return char if char.isprintable() else f"\\u{{{ord(char):X}}}"


def _alternatives(node: Choice) -> Iterator[Node]:
    """Yield the alternatives, including those of choices inside the choice, which need no parentheses."""
    for item in node.items:
        if isinstance(item, Choice) and item.items:
            yield from _alternatives(item)
        else:
            yield item
