"""The fixed tokens of JSON with their gaps, each one terminal, made once for each `Whitespace` and spelling."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from formatter_core.grammar import Bytes, Choice, Node, Reference, Sequence, Terminal, interned, shared
from formatter_core.schema.numbers import ANY_NUMBER, number_node
from formatter_core.schema.spelling import QUOTE, Spelling, free_string, quoted
from formatter_core.schema.whitespace import Whitespace, is_named

__all__ = ["ANY_RULE", "LEVELS", "Tokens", "tokens_of"]

_NodeT = TypeVar("_NodeT", bound=Node)

ANY_RULE = "any value"
#: Names of properties are kept for other schemas: at most this number, each of at most this length.
_MOST_KEPT_NAMES = 2048
_LONGEST_KEPT_NAME = 100
_LITERALS = (Bytes(b"null"), Bytes(b"true"), Bytes(b"false"))


#: The tokens that blanks belong to.
_GAPPED = ("comma", "open_array", "close_array", "empty_array", "open_object", "close_object", "empty_object")
#: How deep lines are indented by their depth: deeper ones, and those under recursion, as the deepest of these.
LEVELS = 16


class _Punctuation:
    """Punctuation at one level. No token is nullable; blanks belong to the token beside them."""

    def __init__(self, whitespace: Whitespace) -> None:
        gap = whitespace.gap
        self.comma = _terminal(whitespace, whitespace.around(",", whitespace.comma))
        self.open_array = _terminal(whitespace, Bytes(b"["), gap)
        self.close_array = _terminal(whitespace, gap, Bytes(b"]"))
        self.empty_array = _terminal(whitespace, Bytes(b"["), gap, Bytes(b"]"))
        self.open_object = _terminal(whitespace, Bytes(b"{"), gap)
        self.close_object = _terminal(whitespace, gap, Bytes(b"}"))
        self.empty_object = _terminal(whitespace, Bytes(b"{"), gap, Bytes(b"}"))


class Tokens(_Punctuation):
    """Punctuation for any depth, and names."""

    def __init__(self, whitespace: Whitespace, spelling: Spelling) -> None:
        super().__init__(whitespace)
        self.spelling: Spelling = spelling
        is_same = whitespace.at(0) == whitespace
        #: Punctuation by its depth; none where that does not matter.
        self.levels = () if is_same else tuple(_Punctuation(whitespace.at(level)) for level in range(LEVELS))
        #: What punctuation a terminal is, by identity.
        self.kinds = {id(getattr(self, name)): name for name in _GAPPED}
        self._colon = _interned(whitespace, whitespace.around(":", whitespace.colon))
        self.any_name = _terminal(whitespace, free_string(spelling), self._colon)
        scalars = (free_string(spelling), number_node(ANY_NUMBER, spelling), *_LITERALS)
        self.any_scalar = _terminal(whitespace, Choice(scalars))
        self._names: dict[str, Terminal] = {}
        #: The rules of any JSON value.
        self.any_rules = _any_rules(self, whitespace)

    def at(self, level: int, kind: str) -> Terminal:
        """A token at a level."""
        found: Terminal = getattr(self.levels[level], kind)
        return found

    def name(self, name: str) -> Terminal:
        """A property's name and the colon, in one terminal: the same one for the same name, as many schemas have it."""
        found = self._names.get(name)
        if found is None:
            found = Terminal(Sequence((*quoted(name, self.spelling), self._colon)))
            if len(name) <= _LONGEST_KEPT_NAME:
                if len(self._names) >= _MOST_KEPT_NAMES:
                    self._names = {}
                self._names[name] = found
        return found

    def names(self, body: Node) -> Node:
        """Any of the names that `body` spells without quotes, and the colon."""
        return Terminal(Sequence((QUOTE, body, QUOTE, self._colon)))


@lru_cache(maxsize=32)
def tokens_of(whitespace: Whitespace, spelling: Spelling) -> Tokens:
    """The tokens for this whitespace and this spelling."""
    return Tokens(whitespace, spelling)


def _any_rules(tokens: Tokens, whitespace: Whitespace) -> dict[str, Node]:
    value = Reference(ANY_RULE)
    entries, items = Reference("any entries"), Reference("any items")
    rules: dict[str, Node] = {
        ANY_RULE: Choice((tokens.any_scalar, Reference("any object"), Reference("any array"))),
        "any object": Choice((tokens.empty_object, Sequence((tokens.open_object, entries, tokens.close_object)))),
        "any entries": Choice(
            (Sequence((tokens.any_name, value)), Sequence((entries, tokens.comma, tokens.any_name, value)))
        ),
        "any array": Choice((tokens.empty_array, Sequence((tokens.open_array, items, tokens.close_array)))),
        "any items": Choice((value, Sequence((items, tokens.comma, value)))),
    }
    return shared(rules) if is_named(whitespace) else rules


def _terminal(whitespace: Whitespace, *items: Node) -> Terminal:
    kept = tuple(item for item in items if item != Sequence(()))
    return _interned(whitespace, Terminal(kept[0] if len(kept) == 1 else Sequence(kept)))


def _interned(whitespace: Whitespace, node: _NodeT) -> _NodeT:
    """Tokens for a user's own whitespace are not shared between formats."""
    return interned(node) if is_named(whitespace) else node
