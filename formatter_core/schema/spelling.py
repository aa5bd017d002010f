"""JSON spellings of texts and text languages, as regular nodes; see `json_text` for what a spelling is."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from formatter_core.grammar import (
    ANY_CHAR,
    EMPTY,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Intersection,
    JsonText,
    Node,
    Repeat,
    Sequence,
    TextSpelling,
    interned,
    map_children,
)
from formatter_core.grammar.json_text import Spelling, spell_chars

__all__ = [
    "QUOTE", "Spelling", "free_body", "free_char", "free_string", "has_spelling", "not_in", "quoted", "spell", "words",
]  # fmt: skip

QUOTE = Bytes(b'"')

#: Maximum nesting of alternatives with shared beginnings.
_TRIE_DEPTH = 12


@cache
def free_char(spelling: Spelling) -> Node:
    """Any character of a string."""
    return interned(spell_chars(ANY_CHAR.ranges, spelling))


@cache
def free_body(spelling: Spelling) -> Node:
    """Any string without quotes."""
    return interned(Repeat(free_char(spelling)))


@cache
def free_string(spelling: Spelling) -> Node:
    """Any string."""
    return interned(Sequence((QUOTE, free_body(spelling), QUOTE)))


def has_spelling(text: str) -> bool:
    """Whether UTF-8 can spell the text: it holds no lone surrogate."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def quoted(text: str, spelling: Spelling) -> tuple[Node, ...]:
    """The nodes of a listed text in quotes, to be put in a `Sequence`."""
    return (QUOTE, JsonText(text, _of_listed(spelling)), QUOTE)


def spell(node: Node, spelling: Spelling) -> Node:
    """The language of a node over text, as JSON strings without quotes."""
    if isinstance(node, Chars):
        return spell_chars(node.ranges, spelling)
    if isinstance(node, Bytes):
        return JsonText(node.value.decode("utf-8"), spelling)
    if isinstance(node, Complement):
        return Intersection((free_body(spelling), Complement(spell(node.item, spelling))))
    if isinstance(node, Capture):
        return spell(node.item, spelling)
    return map_children(node, lambda child: spell(child, spelling))


def words(texts: Iterable[str], spelling: Spelling) -> Node:
    """The union of listed texts, without quotes; equal beginnings are shared."""
    return _trie(list(dict.fromkeys(texts)), _TRIE_DEPTH, _of_listed(spelling))


def _of_listed(spelling: Spelling) -> TextSpelling:
    return "any" if spelling == "any" else "listed"


def _trie(texts: list[str], depth: int, spelling: TextSpelling) -> Node:
    if len(texts) == 1:
        return JsonText(texts[0], spelling) if texts[0] else EMPTY
    if depth == 0:
        return Choice(tuple(JsonText(text, spelling) for text in texts))
    least, greatest = min(texts), max(texts)
    length = next((place for place, char in enumerate(least) if char != greatest[place]), len(least))
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(text[length : length + 1], []).append(text[length:])
    tails = Choice(tuple(_trie(group, depth - 1, spelling) for group in groups.values()))
    return Sequence((JsonText(least[:length], spelling), tails)) if length else tails


def not_in(texts: Iterable[str], spelling: Spelling) -> Node:
    """Every text other than `texts`, however these are spelled, without quotes.

    A difference of two automata: written out as a node it would take a class of other characters for each character.
    """
    listed = list(dict.fromkeys(texts))
    free = free_body(spelling)
    return Intersection((free, Complement(_trie(listed, _TRIE_DEPTH, spelling)))) if listed else free
