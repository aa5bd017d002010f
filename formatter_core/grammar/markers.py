"""Texts and grammars in which none of some markers occurs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from collections.abc import Sequence as Texts

from formatter_core.grammar.grammar import Grammar
from formatter_core.grammar.json_text import long_escape
from formatter_core.grammar.nodes import (
    ANY_CHAR,
    ANY_TEXT,
    Bytes,
    Chars,
    Choice,
    Complement,
    Intersection,
    JsonText,
    Node,
    Repeat,
    Schema,
    Sequence,
    Substring,
    Terminal,
    children,
    interned,
    is_interned,
    literal,
    map_children,
)

__all__ = [
    "map_terminals",
    "marker_free_grammar",
    "marker_free_terminal",
    "marker_free_text",
]

#: Interned nodes are never freed, and layouts may come from requests.
_MAX_KEPT_TERMINALS = 1024
#: The marker-free form of terminals that are made once for a process, by identity and markers.
_interned: dict[tuple[int, tuple[str, ...], bool], Terminal] = {}
#: First characters of markers that JSON has only unescaped outside of strings, so they cannot be confused with an
#: escape.
_ESCAPABLE = frozenset("<>[]{}|#@$%&*=~`^!?()/_:;")
_NO_BACKSLASH = Chars.of([(0, 0x5B), (0x5D, 0x10FFFF)])


def marker_free_text(markers: Texts[str], *also: Node) -> Intersection:
    """Return a node for the texts that have no marker in them and match the regular nodes `also`."""
    return Intersection((ANY_TEXT, *_no_marker(markers), *also))


def marker_free_grammar(grammar: Grammar, markers: tuple[str, ...], *, in_json: bool) -> Grammar:
    """Return a grammar of the texts in which no terminal spells a marker; escaped markers do not count.

    With `in_json` the grammar is one of canonical JSON, in whose strings a marker's first character is escaped.
    """
    if not markers:
        return grammar
    if not in_json:
        return map_terminals(grammar, lambda node: marker_free_terminal(node, markers, in_json=False), {})
    made: dict[int, tuple[Terminal, Terminal]] = {}

    def free(body: Node) -> Node:
        if isinstance(body, Schema):
            return Schema(body.source.without(markers), body.prefix)
        return _mapped(body, lambda node: marker_free_terminal(node, markers, in_json=True), made)

    return Grammar({name: free(body) for name, body in grammar.rules.items()}, grammar.start)


def map_terminals(
    grammar: Grammar, change: Callable[[Terminal], Terminal], made: dict[int, tuple[Terminal, Terminal]]
) -> Grammar:
    """Return a grammar with each terminal replaced.

    `made` keeps the results by identity, so that one terminal stays one automaton.
    """
    grammar = grammar.lowered
    return Grammar({name: _mapped(body, change, made) for name, body in grammar.rules.items()}, grammar.start)


def _mapped(node: Node, change: Callable[[Terminal], Terminal], made: dict[int, tuple[Terminal, Terminal]]) -> Node:
    if not isinstance(node, Terminal):
        return map_children(node, lambda child: _mapped(child, change, made))
    if id(node) not in made:
        made[id(node)] = node, change(node)
    return made[id(node)][1]


def _escapable(markers: Texts[str]) -> frozenset[str]:
    """Return the first characters of markers that may be escaped in the strings of JSON."""
    return _ESCAPABLE.intersection(marker[0] for marker in markers)


def _marker_demands(markers: Texts[str], *, in_json: bool) -> tuple[Node, ...]:
    """Return the nodes that a terminal must match as well if markers may occur in it."""
    firsts = _escapable(markers) if in_json else frozenset[str]()
    return (*_no_marker(markers), *([_needed_escapes(markers, firsts)] if firsts else ()))


def marker_free_terminal(node: Terminal, markers: tuple[str, ...], *, in_json: bool) -> Terminal:
    """Return a node for the texts of a terminal without markers, see `marker_free_grammar`."""
    if not _may_spell(node, {marker[0] for marker in markers}):
        return node
    key = id(node), markers, in_json
    if (known := _interned.get(key)) is not None:
        return known
    item = _with_escapes(node.item, _escapable(markers)) if in_json else node.item
    free = Terminal(Intersection((item, *_marker_demands(markers, in_json=in_json))))
    if is_interned(node) and len(_interned) < _MAX_KEPT_TERMINALS:
        _interned[key] = interned(free)
    return free


def _with_escapes(node: Node, firsts: Collection[str]) -> Node:
    """Return the node with escapes allowed in strings for the characters that markers begin with."""
    if not firsts:
        return node
    if isinstance(node, Chars):
        escaped = [long_escape(first) for first in sorted(firsts) if any(a <= ord(first) <= b for a, b in node.ranges)]
        return Choice((node, *escaped)) if escaped else node
    if isinstance(node, JsonText) and any(first in node.text for first in firsts):
        pieces = re.split(f"([{re.escape(''.join(sorted(firsts)))}])", node.text)
        items = (JsonText(each, node.spelling) for each in pieces if each)
        return Sequence(
            tuple(Choice((each, long_escape(each.text))) if each.text in firsts else each for each in items)
        )
    return map_children(node, lambda child: _with_escapes(child, firsts))


def _needed_escapes(markers: Texts[str], firsts: Collection[str]) -> Node:
    """Return a node for the texts in which such a character is escaped only where there would be a marker otherwise."""
    before = Repeat(Choice((_NO_BACKSLASH, Sequence((Bytes(b"\\"), ANY_CHAR)))))
    needless: list[Node] = []
    for first in sorted(firsts):
        rests = tuple(literal(marker[1:]) for marker in markers if marker[0] == first)
        other = Intersection((ANY_TEXT, Complement(Sequence((Choice(rests), ANY_TEXT)))))
        needless.append(Sequence((before, long_escape(first), other)))
    return Complement(Choice(tuple(needless)))


def _no_marker(markers: Texts[str]) -> tuple[Node, ...]:
    if not markers:
        return ()
    some = Choice(tuple(literal(marker) for marker in markers))
    return (Complement(Sequence((ANY_TEXT, some, ANY_TEXT))),)


def _may_spell(node: Node, firsts: set[str]) -> bool:
    """Tell whether a regular node may spell one of these characters; True if that is uncertain."""
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, Complement):
            return True
        if isinstance(each, Chars):
            if any(low <= ord(first) <= high for first in firsts for low, high in each.ranges):
                return True
        elif isinstance(each, (Bytes, JsonText, Substring)):
            text = each.value.decode("utf-8", "replace") if isinstance(each, Bytes) else each.text
            if any(first in text for first in firsts):
                return True
        stack.extend(children(each))
    return False
