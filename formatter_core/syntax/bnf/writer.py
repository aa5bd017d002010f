"""Grammar -> GBNF text: the way out, for llama.cpp and for what reads its notation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from formatter_core.engine.regular import count_texts
from formatter_core.errors import InvalidGrammar
from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    Node,
    Reference,
    Repeat,
    Sequence,
    Special,
    Substring,
    Terminal,
    Token,
    nullable,
    without,
)
from formatter_core.grammar.json_text import without_json_texts
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.syntax.bnf.analysis import left_recursive_rule, with_repeats, without_dead_ends
from formatter_core.syntax.bnf.characters import CharacterAutomaton

__all__ = ["to_gbnf"]

# How tightly an expression holds together; what holds less tightly than its place needs goes into a group.
_ALTERNATIVES, _SEQUENCE, _PRIMARY = range(3)

_TOKEN_NAME = re.compile(r"<[^>\r\n\[][^>\r\n]*>")
_NO_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9]+")
_CONTROLS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
#: llama.cpp makes a rule of each round, and refuses 2,000 of them in one repeat.
_ROUNDS = 1000
_MARKS = {(0, 1): "?", (0, None): "*", (1, None): "+"}


def to_gbnf(grammar: Grammar, limits: Limits = DEFAULT_LIMITS) -> str:
    """Write the grammar as GBNF text that llama.cpp reads, one rule after the other; the start rule is called `root`.

    `parse_gbnf` makes a grammar of the text that has the same language. Captures and preferences are left out, since
    GBNF has neither; rules whose names GBNF cannot spell get other names.

    Raises:
        InvalidGrammar: the grammar is not well formed, derives no text, or contains what GBNF cannot express: bytes
            that are not whole characters, a special token whose name is not written in `<…>`, left recursion.
        LimitExceeded: the grammar is not within `limits`.
    """
    if grammar.check(limits).regions:
        raise InvalidGrammar("GBNF cannot express a budget of tokens; leave max_tokens out")
    plain = without_json_texts(grammar.written_out)
    reduced = without_dead_ends(
        Grammar({name: without(Capture, body) for name, body in plain.rules.items()}, plain.start), limits
    )
    reduced = Grammar({name: with_repeats(name, body) for name, body in reduced.rules.items()}, reduced.start)
    recursive = left_recursive_rule(reduced)
    if recursive is not None:
        raise InvalidGrammar(
            f"GBNF readers do not accept left recursion, but the rule {recursive!r} is left-recursive; let it refer to "
            "itself last, or use a repeat"
        )
    return _Writer(reduced, limits).write()


class _Writer:
    def __init__(self, grammar: Grammar, limits: Limits) -> None:
        self._grammar = grammar
        self._limits = limits
        self._tried: Counter[str] = Counter()
        self._taken: set[str] = set()
        self._names = {grammar.start: self._name("root")}
        self._names.update((name, self._name(name)) for name in grammar.rules if name != grammar.start)
        self._lines: list[str] = []
        self._rules: dict[str, str] = {}
        self._rule = ""

    def write(self) -> str:
        """Write all rules; rules made on the way follow the rules that use them."""
        for name, body in self._grammar.rules.items():
            self._rule = name
            self._line(self._names[name], self._expression(body)[0])
        return "".join(self._lines)

    def _name(self, wanted: str) -> str:
        stem = new = _NO_NAME_CHARACTERS.sub("-", wanted).strip("-") or "rule"
        while new in self._taken:
            self._tried[stem] += 1
            new = f"{stem}-{self._tried[stem]}"
        self._taken.add(new)
        return new

    def _line(self, name: str, text: str) -> None:
        self._lines.append(f"{name} ::= {text}\n")

    def _expression(self, node: Node) -> tuple[str, int]:
        if isinstance(node, Bytes):
            return self._literal(node), _PRIMARY
        if isinstance(node, Chars):
            return _class(node), _PRIMARY
        if isinstance(node, Reference):
            return self._names[node.name], _PRIMARY
        if isinstance(node, Sequence):
            return self._joined(node.items, " ", _SEQUENCE) if node.items else ('""', _PRIMARY)
        if isinstance(node, Choice):
            return self._joined(node.items, " | ", _ALTERNATIVES)
        if isinstance(node, Repeat):
            return self._repeat(node)
        if isinstance(node, Token):
            return f"<[{node.token_id}]>", _PRIMARY
        if isinstance(node, Special) and _TOKEN_NAME.fullmatch(node.name):
            return node.name, _PRIMARY
        if isinstance(node, Substring):
            return self._automaton(node), _PRIMARY
        if isinstance(node, Terminal):
            return self._expression(node.item) if _is_plain(node.item) else (self._automaton(node.item), _PRIMARY)
        raise self._inexpressible(node)

    def _joined(self, items: tuple[Node, ...], between: str, holds: int) -> tuple[str, int]:
        if len(items) == 1:
            return self._expression(items[0])
        return between.join(self._inside(item, holds) for item in items), holds

    def _inside(self, node: Node, needed: int) -> str:
        text, holds = self._expression(node)
        return text if holds >= needed else f"({text})"

    def _repeat(self, node: Repeat) -> tuple[str, int]:
        minimum, maximum = node.minimum, node.maximum
        text, holds = self._expression(node.item)
        if (minimum, maximum) in _MARKS:
            return (text if holds == _PRIMARY else f"({text})") + _MARKS[minimum, maximum], _SEQUENCE
        if holds < _PRIMARY:
            text = self._rule_for(text)
        written = [f"{text}{{{count}}}" for count in _parts(minimum)]
        if maximum is None:
            written.append(text + "*")
        elif not written and maximum <= _ROUNDS:
            written = [f"{text}{{0,{maximum}}}"]
        elif minimum <= _ROUNDS and maximum <= _ROUNDS:
            written = [f"{text}{{{minimum}}}" if minimum == maximum else f"{text}{{{minimum},{maximum}}}"]
        else:
            written += [f"{text}{{0,{count}}}" for count in _parts(maximum - minimum)]
        return " ".join(written), _SEQUENCE

    def _rule_for(self, text: str) -> str:
        """Return the name of a separate rule for an expression; equal expressions share one rule."""
        if text not in self._rules:
            self._rules[text] = self._name(self._rule)
            self._line(self._rules[text], text)
        return self._rules[text]

    def _literal(self, node: Bytes) -> str:
        try:
            text = node.value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._inexpressible(node) from error
        return '"' + "".join(_char(char, '"\\') for char in text) + '"'

    def _automaton(self, node: Node) -> str:
        """Write a node that no expression can state as one rule for each state of its automaton."""
        if count_texts(Intersection((node, Complement(ANY_TEXT))), self._limits, 1)[0]:
            raise self._inexpressible(node)
        automaton = CharacterAutomaton(Intersection((node, ANY_TEXT)), self._limits)
        stem = f"{self._rule}-state"
        names: dict[int, str] = {0: self._name(stem)}
        waiting = [0]
        for state in waiting:
            alternatives = []
            for chars, target in automaton.moves(state):
                if target not in names:
                    names[target] = self._name(stem)
                    waiting.append(target)
                alternatives.append(f"{_class(chars)} {names[target]}")
            if automaton.accepting(state):
                alternatives.append('""')
            self._line(names[state], " | ".join(alternatives))
        return names[0]

    def _inexpressible(self, node: Node) -> InvalidGrammar:
        shown = repr(node)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        return InvalidGrammar(f"GBNF cannot express {shown} in the rule {self._rule!r}; keep the format as it is")


def _is_plain(node: Node) -> bool:
    """Tell whether GBNF can express a regular node; it cannot repeat an item that may be empty without bound."""
    if isinstance(node, Bytes):
        try:
            node.value.decode("utf-8")
        except UnicodeDecodeError:
            return False
        return True
    if isinstance(node, (Sequence, Choice)):
        return all(map(_is_plain, node.items))
    if isinstance(node, Repeat):
        return _is_plain(node.item) and (node.maximum is not None or not nullable(node.item))
    return isinstance(node, Chars)


def _parts(count: int) -> Iterable[int]:
    whole, rest = divmod(count, _ROUNDS)
    return [_ROUNDS] * whole + ([rest] if rest else [])


def _class(node: Chars) -> str:
    if node == ANY_CHAR:
        return "."
    return "[" + "".join(_range(low, high) for low, high in node.ranges) + "]"


def _range(low: int, high: int) -> str:
    first, last = _char(chr(low), '"\\[]-^'), _char(chr(high), '"\\[]-^')
    return first if low == high else f"{first}-{last}"


def _char(char: str, marks: str) -> str:
    if char in "^-" and char in marks:  # no special escape, or none in older releases
        return f"\\x{ord(char):02X}"
    if char in marks:
        return "\\" + char
    if char in _CONTROLS:
        return _CONTROLS[char]
    code = ord(char)
    return char if char.isprintable() else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
