"""Respell texts for another notation: for the strings of JSON, and between quotes of Python.

Each character has its own spellings, each of which is read back in only one way. So respelling commutes with
intersection: the spellings of the common texts are the common spellings of the texts. The same holds for grammars,
terminal by terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from formatter_core.errors import InvalidFormat
from formatter_core.grammar import (
    ANY_CHAR,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    Node,
    Repeat,
    Terminal,
    literal,
    map_children,
)
from formatter_core.grammar import Sequence as InOrder
from formatter_core.grammar.json_text import spell_chars, without_json_texts
from formatter_core.grammar.markers import map_terminals
from formatter_core.grammar.nodes import Substring, without
from formatter_core.layouts.values import PYTHON_ESCAPES

__all__ = ["in_json", "in_quotes", "respelled"]

_Ranges: TypeAlias = Sequence[tuple[int, int]]


def in_json(node: Node) -> Node:
    """Return the texts of a regular node as they are written between the quotes of canonical JSON."""
    return _spelt(node, lambda ranges: spell_chars(tuple(ranges), "canonical"))


def in_quotes(node: Node, quote: str) -> Node:
    """Return the texts of a regular node as they are written between these quotes in Python, each in one way."""
    return _spelt(node, partial(_in_python, escapes={**PYTHON_ESCAPES, quote: "\\" + quote}))


def respelled(grammar: Grammar, change: Callable[[Node], Node]) -> Grammar:
    """Return a grammar with changed terminals, without its captures.

    Raises:
        InvalidFormat: the grammar has a part that has no other spelling.
    """
    plain = without_json_texts(grammar.lowered)
    rules = {name: without(Capture, body) for name, body in plain.rules.items()}
    return map_terminals(Grammar(rules, plain.start), lambda terminal: Terminal(change(terminal.item)), {})


def _spelt(node: Node, spell: Callable[[_Ranges], Node]) -> Node:
    if isinstance(node, Chars):
        return spell(node.ranges)
    if isinstance(node, Bytes):
        try:
            text = node.value.decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidFormat("a grammar of bytes that are no text cannot be the text of a tool") from None
        return InOrder(tuple(spell([(ord(each), ord(each))]) for each in text))
    if isinstance(node, Substring):
        raise InvalidFormat("the text of a tool cannot be any part of another text; write a grammar for it")
    made = map_children(node, lambda child: _spelt(child, spell))
    if isinstance(node, Complement):
        return Intersection((Repeat(spell(ANY_CHAR.ranges)), made))
    return made


def _in_python(ranges: _Ranges, escapes: dict[str, str]) -> Node:
    special = [each for each in escapes if any(low <= ord(each) <= high for low, high in ranges)]
    raw = [*_leaving_out(ranges, sorted(map(ord, special)))]
    return Choice((*([Chars.of(raw)] if raw else []), *(literal(escapes[each]) for each in special)))


def _leaving_out(ranges: _Ranges, codes: Sequence[int]) -> Iterator[tuple[int, int]]:
    for low, high in ranges:
        for code in codes:
            if low <= code <= high:
                if low < code:
                    yield low, code - 1
                low = code + 1
        if low <= high:
            yield low, high
