"""Escape the characters that a vocabulary cannot spell in listed texts, as `\\u` escapes."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from formatter_core.grammar import Grammar, Node, Schema
from formatter_core.grammar.json_text import unicode_escape
from formatter_core.vocabulary import Vocabulary

__all__ = ["Characters", "characters_of", "with_spelled_texts"]

_LONGEST_CHARACTER = 4
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
#: The bytes of UTF-8 encodings of non-ASCII characters.
_BEYOND_ASCII = (*range(0x80, 0xC0), *range(0xC2, 0xF5))


class Characters:
    """The set of characters that the tokens of a vocabulary spell.

    Attributes:
        all_there_are: whether the tokens certainly spell every character.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        ids = (token for token, text in enumerate(vocabulary.tokens) if text and len(text) <= _LONGEST_CHARACTER)
        self._tokens = frozenset(map(vocabulary.text_token, ids))
        self._known: dict[str, bool] = {}
        self._stays: dict[str, bool] = {}
        self.all_there_are = all(map(self.spells, _PRINTABLE)) and all(
            bytes((byte,)) in self._tokens for byte in _BEYOND_ASCII
        )

    def spells(self, char: str) -> bool:
        """Return whether some tokens spell this character alone."""
        if char not in self._known:
            self._known[char] = self._is_made_of_tokens(char.encode())
        return self._known[char]

    def can_stay(self, char: str) -> bool:
        """Return whether a character of a listed text stays unescaped: tokens spell it, or none spell its escape.

        A vocabulary of whole words may spell neither the character nor its escape, but still the whole text.
        """
        if char not in self._stays:
            self._stays[char] = self.spells(char) or not self._is_made_of_tokens(unicode_escape(char))
        return self._stays[char]

    def _is_made_of_tokens(self, rest: bytes) -> bool:
        ends = range(1, len(rest) + 1)
        return not rest or any(rest[:end] in self._tokens and self._is_made_of_tokens(rest[end:]) for end in ends)


_known: WeakKeyDictionary[Vocabulary, Characters] = WeakKeyDictionary()


def characters_of(vocabulary: Vocabulary) -> Characters:
    """Return the characters that the tokens of a vocabulary spell; computed once."""
    found = _known.get(vocabulary)
    if found is None:
        found = _known[vocabulary] = Characters(vocabulary)
    return found


def with_spelled_texts(grammar: Grammar, characters: Characters) -> Grammar:
    """Return the grammar with the characters that cannot be spelt escaped in the listed texts of its schemas."""
    if characters.all_there_are:
        return grammar

    def spelt(body: Node) -> Node:
        if not isinstance(body, Schema):
            return body
        source = body.source.escaping(characters.can_stay)
        return body if source is body.source else Schema(source, body.prefix)

    rules = {name: spelt(body) for name, body in grammar.rules.items()}
    are_same = all(rules[name] is body for name, body in grammar.rules.items())
    return grammar if are_same else Grammar(rules, grammar.start)
