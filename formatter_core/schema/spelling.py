"""JSON spellings of texts and text languages, as regular nodes; see `json_text` for what a spelling is."""

from __future__ import annotations

from collections.abc import Iterable

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
    interned,
    map_children,
)
from formatter_core.grammar.json_text import spell_chars

__all__ = ["FREE_BODY", "FREE_CHAR", "FREE_STRING", "QUOTE", "has_spelling", "not_in", "quoted", "spell", "words"]

QUOTE = Bytes(b'"')
FREE_CHAR = interned(spell_chars(ANY_CHAR.ranges))
FREE_BODY = interned(Repeat(FREE_CHAR))
FREE_STRING = interned(Sequence((QUOTE, FREE_BODY, QUOTE)))

#: Maximum nesting of alternatives with shared beginnings.
_TRIE_DEPTH = 12


def has_spelling(text: str) -> bool:
    """Whether UTF-8 can spell the text: it holds no lone surrogate."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def quoted(text: str) -> tuple[Node, ...]:
    """The nodes of the text in quotes, in every spelling, to be put in a `Sequence`."""
    return (QUOTE, JsonText(text), QUOTE)


def spell(node: Node) -> Node:
    """The language of a node over text, each text in every JSON spelling, without quotes."""
    if isinstance(node, Chars):
        return spell_chars(node.ranges)
    if isinstance(node, Bytes):
        return JsonText(node.value.decode("utf-8"))
    if isinstance(node, Complement):
        return Intersection((FREE_BODY, Complement(spell(node.item))))
    if isinstance(node, Capture):
        return spell(node.item)
    return map_children(node, spell)


def words(texts: Iterable[str]) -> Node:
    """The union of texts, without quotes; equal beginnings are shared."""
    return _trie(list(dict.fromkeys(texts)), _TRIE_DEPTH)


def _trie(texts: list[str], depth: int) -> Node:
    if len(texts) == 1:
        return JsonText(texts[0]) if texts[0] else EMPTY
    if depth == 0:
        return Choice(tuple(map(JsonText, texts)))
    least, greatest = min(texts), max(texts)
    length = next((place for place, char in enumerate(least) if char != greatest[place]), len(least))
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(text[length : length + 1], []).append(text[length:])
    tails = Choice(tuple(_trie(group, depth - 1) for group in groups.values()))
    return Sequence((JsonText(least[:length]), tails)) if length else tails


def not_in(texts: Iterable[str]) -> Node:
    """Every text other than `texts`, in every spelling, without quotes.

    A difference of two automata: written out as a node it would take a class of other characters for each character.
    """
    listed = list(texts)
    return Intersection((FREE_BODY, Complement(words(listed)))) if listed else FREE_BODY
