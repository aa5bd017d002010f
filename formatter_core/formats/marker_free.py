"""Texts and grammars in which none of some markers occurs."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Texts
from dataclasses import replace

from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import (
    ANY_TEXT,
    Bytes,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    JsonText,
    Node,
    Sequence,
    Substring,
    Terminal,
    children,
    interned,
    is_interned,
    literal,
    map_children,
)
from formatter_core.limits import Limits
from formatter_core.limits.cache import ByteBoundedCache

__all__ = ["map_terminals", "marker_free_format", "marker_free_grammar", "marker_free_text"]

#: What is interned is never freed, and layouts may come from requests.
_MOST_KEPT = 1024
#: The marker-free form of terminals that are made once for a process, by identity and markers.
_interned: dict[tuple[int, tuple[str, ...]], Terminal] = {}
#: The lowered tools, each with its format (whose key may be its identity) and its approximate size in bytes.
_lowered: ByteBoundedCache[tuple[Format, Lowered, int]] = ByteBoundedCache(64 << 20, lambda entry: entry[2])
_BYTES_OF_NODE, _BYTES_OF_TERMINAL = 200, 4000


def marker_free_format(format: Format, markers: tuple[str, ...], limits: Limits) -> Lowered:
    """A format lowered without a marker in its texts; a tool seen before is not lowered again."""

    def lower() -> tuple[Format, Lowered, int]:
        lowered = format.to_grammar(limits)
        grammar = marker_free_grammar(lowered.grammar, markers)
        return format, replace(lowered, grammar=grammar), sum(map(_bytes_of, grammar.rules.values()))

    return _lowered.get((format.key(), markers, limits), lower)[1]


def marker_free_text(markers: Texts[str], *also: Node) -> Intersection:
    """The texts in which no marker occurs and that match the regular nodes `also`."""
    return Intersection((ANY_TEXT, *_no_marker(markers), *also))


def marker_free_grammar(grammar: Grammar, markers: tuple[str, ...]) -> Grammar:
    """The texts of a grammar in which no terminal spells a marker; an escaped one does not count."""
    if not markers:
        return grammar
    firsts = {marker[0] for marker in markers}
    return map_terminals(grammar, lambda node: _freed(node, markers) if _may_spell(node, firsts) else node, {})


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

    return Grammar({name: changed(body) for name, body in grammar.rules.items()}, grammar.start)


def _bytes_of(node: Node) -> int:
    """Roughly how many bytes a node takes; most terminals are shared, so their size is a guess."""
    if isinstance(node, Terminal):
        return _BYTES_OF_TERMINAL
    return _BYTES_OF_NODE + sum(map(_bytes_of, children(node)))


def _freed(node: Terminal, markers: tuple[str, ...]) -> Terminal:
    key = id(node), markers
    if (known := _interned.get(key)) is not None:
        return known
    free = Terminal(Intersection((_with_escapes(node.item, markers), *_no_marker(markers))))
    if is_interned(node) and len(_interned) < _MOST_KEPT:
        _interned[key] = interned(free)
    return free


def _with_escapes(node: Node, markers: Texts[str]) -> Node:
    """The same with every spelling of the listed texts that hold a marker: they have to be escaped."""
    if isinstance(node, JsonText):
        holds_marker = node.spelling == "listed" and any(marker in node.text for marker in markers)
        return JsonText(node.text) if holds_marker else node
    return map_children(node, lambda child: _with_escapes(child, markers))


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
