"""Texts and grammars in which none of some markers occurs."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Sequence as Texts
from dataclasses import replace

from formatter_core.formats.json_schema import JsonSchemaFormat
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.formats.python_type import PythonTypeFormat
from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    Bytes,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    JsonText,
    Node,
    Repeat,
    Sequence,
    Substring,
    Terminal,
    children,
    interned,
    is_interned,
    literal,
    map_children,
)
from formatter_core.grammar.json_text import long_escape
from formatter_core.limits import Limits
from formatter_core.limits.cache import ByteBoundedCache

__all__ = ["is_canonical", "map_terminals", "marker_free_format", "marker_free_grammar", "marker_free_text"]

#: What is interned is never freed, and layouts may come from requests.
_MOST_KEPT = 1024
#: The marker-free form of terminals that are made once for a process, by identity and markers.
_interned: dict[tuple[int, tuple[str, ...], bool], Terminal] = {}
#: The lowered tools, each with its format (whose key may be its identity) and its approximate size in bytes.
_lowered: ByteBoundedCache[tuple[Format, Lowered, int]] = ByteBoundedCache(64 << 20, lambda entry: entry[2])
#: What markers begin with that stands in JSON outside of strings only as itself: there is no escape to mistake it for.
_ESCAPABLE = frozenset("<>[]{}|#@$%&*=~`^!?()/_:;")
_NO_BACKSLASH = Chars.of([(0, 0x5B), (0x5D, 0x10FFFF)])
_BYTES_OF_NODE, _BYTES_OF_TERMINAL = 200, 4000


def marker_free_format(format: Format, markers: tuple[str, ...], limits: Limits) -> Lowered:
    """A format lowered without a marker in its texts; a tool seen before is not lowered again."""

    def lower() -> tuple[Format, Lowered, int]:
        lowered = format.to_grammar(limits)
        grammar = marker_free_grammar(lowered.grammar.lowered, markers, in_json=is_canonical(format))
        return format, replace(lowered, grammar=grammar), sum(map(_bytes_of, grammar.rules.values()))

    return _lowered.get((format.key(), markers, limits), lower)[1]


def is_canonical(format: Format) -> bool:
    """Whether a format is JSON in canonical spelling."""
    made = format.schema if isinstance(format, PythonTypeFormat) else format
    return isinstance(made, JsonSchemaFormat) and made.spelling == "canonical"


def marker_free_text(markers: Texts[str], *also: Node) -> Intersection:
    """The texts in which no marker occurs and that match the regular nodes `also`."""
    return Intersection((ANY_TEXT, *_no_marker(markers), *also))


def marker_free_grammar(grammar: Grammar, markers: tuple[str, ...], *, in_json: bool) -> Grammar:
    """The texts of a grammar in which no terminal spells a marker; an escaped one does not count.

    With `in_json` the grammar is one of canonical JSON, in whose strings a marker's first character is escaped.
    """
    if not markers:
        return grammar
    firsts = {marker[0] for marker in markers}
    return map_terminals(grammar, lambda node: _freed(node, markers, in_json) if _may_spell(node, firsts) else node, {})


def map_terminals(
    grammar: Grammar, change: Callable[[Terminal], Terminal], made: dict[int, tuple[Terminal, Terminal]]
) -> Grammar:
    """A grammar with other terminals. `made` keeps them, by identity: what is written once is one automaton."""

    def changed(node: Node) -> Node:
        if not isinstance(node, Terminal):
            return map_children(node, changed)
        if id(node) not in made:
            made[id(node)] = node, change(node)
        return made[id(node)][1]

    grammar = grammar.lowered
    return Grammar({name: changed(body) for name, body in grammar.rules.items()}, grammar.start)


def _bytes_of(node: Node) -> int:
    """Roughly how many bytes a node takes; most terminals are shared, so their size is a guess."""
    if isinstance(node, Terminal):
        return _BYTES_OF_TERMINAL
    return _BYTES_OF_NODE + sum(map(_bytes_of, children(node)))


def _freed(node: Terminal, markers: tuple[str, ...], in_json: bool) -> Terminal:
    key = id(node), markers, in_json
    if (known := _interned.get(key)) is not None:
        return known
    item: Node = node.item
    needed: tuple[Node, ...] = ()
    if in_json and (firsts := {marker[0] for marker in markers if marker[0] in _ESCAPABLE}):
        item, needed = _with_escapes(item, firsts), (_needed_escapes(markers, firsts),)
    free = Terminal(Intersection((item, *_no_marker(markers), *needed)))
    if is_interned(node) and len(_interned) < _MOST_KEPT:
        _interned[key] = interned(free)
    return free


def _with_escapes(node: Node, firsts: set[str]) -> Node:
    """The same where characters that markers begin with may be escaped in strings."""
    if isinstance(node, Chars):
        escaped = [long_escape(first) for first in sorted(firsts) if any(a <= ord(first) <= b for a, b in node.ranges)]
        return Choice((node, *escaped)) if escaped else node
    if isinstance(node, JsonText) and not firsts.isdisjoint(node.text):
        pieces = re.split(f"([{re.escape(''.join(firsts))}])", node.text)
        items = (JsonText(each, node.spelling) for each in pieces if each)
        return Sequence(
            tuple(Choice((each, long_escape(each.text))) if each.text in firsts else each for each in items)
        )
    return map_children(node, lambda child: _with_escapes(child, firsts))


def _needed_escapes(markers: Texts[str], firsts: set[str]) -> Node:
    """Texts in which such a character is escaped only where else a marker would stand."""
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
    """Whether a regular node may spell one of these characters; True if that is uncertain."""
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
