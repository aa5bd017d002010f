"""What is left to match of a rule, as hash-consed terms, with the symbols that it can begin with.

A remainder's *heads* are its linear form: the symbols that may come first, each with the remainder after it
(Antimirov 1996, applied to the right-hand sides of a context-free grammar). A repeat counts inside its remainder, so
`item{2,1000}` is never written out.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import Capture, Choice, Grammar, Node, Reference, Repeat, Sequence, Token
from formatter_core.grammar.automaton import Automaton
from formatter_core.limits import Limits
from formatter_core.limits.forking import TABLES
from formatter_core.parsing.shortest import EMPTY_LANGUAGE, minimum_costs

__all__ = ["Item", "Symbol", "Tables", "tables_of"]

_DONE, _NOTHING = 0, 1
_CONSTANT, _SYMBOL, _CAT, _ALT, _REPEAT, _CAPTURE, _CLOSE = range(7)


class Symbol:
    """A rule, a terminal or a token of the grammar.

    Attributes:
        name: the rule's name, "" for others.
        automaton: the terminal's, None for others.
        token_id: the token's, None for others.
        nullable: whether it derives the empty string.
        body: the item that a rule begins with.
    """

    __slots__ = ("automaton", "body", "name", "nullable", "token_id")

    def __init__(self, name: str, automaton: Automaton | None, token_id: int | None, nullable: bool) -> None:
        self.name = name
        self.automaton = automaton
        self.token_id = token_id
        self.nullable = nullable
        self.body: Item | None = None


class Item:
    """A rule with the remainder that is still to match.

    Attributes:
        complete: whether the remainder matches the empty string.
        heads: what may come next: the symbol, the item after it, and the captures open meanwhile. None until asked.
    """

    __slots__ = ("complete", "heads", "remainder", "rule")

    def __init__(self, rule: Symbol, remainder: int, complete: bool) -> None:
        self.rule = rule
        self.remainder = remainder
        self.complete = complete
        self.heads: list[tuple[Symbol, Item, tuple[str, ...]]] | None = None


class Tables:
    """The symbols and items of one grammar; filled as far as they are used, shared by threads.

    Attributes:
        rules: the symbols of the rules that derive anything, by name.
        leaves: the symbols of the terminals and tokens.
        start: the symbol of the start rule.
    """

    def __init__(self, grammar: Grammar, limits: Limits) -> None:
        grammar.check(limits)
        self._limits = limits
        self.leaves: dict[Node, Symbol] = {}
        costs = minimum_costs(grammar.rules, self._leaf_cost)
        if grammar.start not in costs:
            raise InvalidGrammar(EMPTY_LANGUAGE)
        self.rules = {name: Symbol(name, None, None, cost == 0) for name, cost in costs.items()}
        self._keys: list[tuple[Any, ...]] = []
        self._index: dict[tuple[Any, ...], int] = {}
        self._nullable: list[bool] = []
        self._closes: list[bool] = []
        self._heads: dict[int, list[tuple[Symbol, int]]] = {}
        self._items: dict[tuple[Symbol, int], Item] = {}
        self._intern((_CONSTANT, "done"), True)
        self._intern((_CONSTANT, "nothing"), False)
        for name, symbol in self.rules.items():
            symbol.body = self._item(symbol, self._build(grammar.rules[name]))
        self.start = self.rules[grammar.start]

    def heads(self, item: Item) -> list[tuple[Symbol, Item, tuple[str, ...]]]:
        """The symbols that `item` may continue with; see `Item.heads`."""
        if item.heads is None:
            with TABLES:
                item.heads = [
                    (symbol, self._item(item.rule, self._opened(rest)), self._open_captures(rest))
                    for symbol, rest in self._linear_form(item.remainder)
                ]
        return item.heads

    # --- terms -------------------------------------------------------------------------------------------------

    def _leaf_cost(self, leaf: Node) -> int | None:
        """Nothing for the empty string, one for any other: only emptiness and zero matter here."""
        symbol = self.leaves.get(leaf)
        if symbol is None:
            if isinstance(leaf, Token):
                symbol = Symbol("", None, leaf.token_id, False)
            else:
                automaton = Automaton(leaf, self._limits)
                symbol = Symbol("", automaton, None, automaton.accepting(automaton.start))
            self.leaves[leaf] = symbol
        if symbol.automaton is not None and symbol.automaton.is_empty():
            return None
        return 0 if symbol.nullable else 1

    def _build(self, node: Node) -> int:
        if isinstance(node, Sequence):
            result = _DONE
            for item in reversed(node.items):
                result = self._cat(self._build(item), result)
            return result
        if isinstance(node, Choice):
            return self._alt([self._build(item) for item in node.items])
        if isinstance(node, Repeat):
            return self._repeat(self._build(node.item), node.minimum, node.maximum)
        if isinstance(node, Capture):
            return self._capture(self._build(node.item), node.name)
        if isinstance(node, Reference):
            return self._symbol(self.rules[node.name]) if node.name in self.rules else _NOTHING
        symbol = self.leaves[node]
        empty = symbol.automaton is not None and symbol.automaton.is_empty()
        return _NOTHING if empty else self._symbol(symbol)

    def _item(self, rule: Symbol, remainder: int) -> Item:
        item = self._items.get((rule, remainder))
        if item is None:
            if len(self._items) >= self._limits.nodes:
                raise LimitExceeded("nodes", self._limits.nodes, "the remainders of the grammar's rules")
            item = self._items[rule, remainder] = Item(rule, remainder, self._nullable[remainder])
        return item

    def _intern(self, key: tuple[Any, ...], nullable: bool) -> int:
        term = self._index.get(key)
        if term is None:
            term = self._index[key] = len(self._keys)
            self._keys.append(key)
            self._nullable.append(nullable)
            self._closes.append(key[0] == _CLOSE or (key[0] == _CAT and (self._closes[key[1]] or self._closes[key[2]])))
        return term

    def _symbol(self, symbol: Symbol) -> int:
        return self._intern((_SYMBOL, symbol), symbol.nullable)

    def _cat(self, head: int, tail: int) -> int:
        if _NOTHING in (head, tail):
            return _NOTHING
        if head == _DONE:
            return tail
        if tail == _DONE:
            return head
        return self._intern((_CAT, head, tail), self._nullable[head] and self._nullable[tail])

    def _alt(self, items: Iterable[int]) -> int:
        found = tuple(sorted(set(items) - {_NOTHING}))
        if len(found) < 2:
            return found[0] if found else _NOTHING
        return self._intern((_ALT, found), any(self._nullable[item] for item in found))

    def _repeat(self, item: int, minimum: int, maximum: int | None) -> int:
        if item == _NOTHING:
            return _DONE if minimum == 0 else _NOTHING
        if item == _DONE or maximum == 0:
            return _DONE
        # Rounds that match nothing change no language, so a nullable item needs no minimum and only non-empty rounds.
        if self._nullable[item]:
            minimum = 0
        if minimum == 1 and maximum == 1:
            return item
        return self._intern((_REPEAT, item, minimum, maximum), minimum == 0)

    def _capture(self, item: int, name: str) -> int:
        return item if item in (_DONE, _NOTHING) else self._intern((_CAPTURE, item, name), self._nullable[item])

    def _linear_form(self, term: int) -> list[tuple[Symbol, int]]:
        known = self._heads.get(term)
        if known is None:
            known = self._heads[term] = list(dict.fromkeys(self._make_linear_form(term)))
        return known

    def _make_linear_form(self, term: int) -> list[tuple[Symbol, int]]:
        result: list[tuple[Symbol, int]] = []
        # A loop, not recursion: a sequence may have very many items.
        while self._keys[term][0] == _CAT:
            _, head, tail = self._keys[term]
            result.extend((symbol, self._cat(rest, tail)) for symbol, rest in self._linear_form(head))
            if not self._nullable[head]:
                return result
            term = tail
        key = self._keys[term]
        if key[0] == _SYMBOL:
            result.append((key[1], _DONE))
        elif key[0] == _ALT:
            result.extend(head for item in key[1] for head in self._linear_form(item))
        elif key[0] == _REPEAT:
            _, item, minimum, maximum = key
            after = self._repeat(item, max(0, minimum - 1), None if maximum is None else maximum - 1)
            result.extend((symbol, self._cat(rest, after)) for symbol, rest in self._linear_form(item))
        elif key[0] == _CAPTURE:
            close = self._intern((_CLOSE, key[2]), True)
            result.extend((symbol, self._cat(rest, close)) for symbol, rest in self._linear_form(key[1]))
        return result

    # --- captures, which matter to explanations and to nothing else -------------------------------------

    def _opened(self, term: int) -> int:
        """The remainder without the captures that close at its very beginning."""
        key = self._keys[term]
        while key[0] == _CAT:
            head = self._opened(key[1])
            if head != _DONE:
                return term if head == key[1] else self._cat(head, key[2])
            term = key[2]
            key = self._keys[term]
        return _DONE if key[0] == _CLOSE else term

    def _open_captures(self, term: int) -> tuple[str, ...]:
        """The captures that close somewhere in the remainder and so are open now, the innermost first."""
        names: list[str] = []
        stack = [term]
        while stack:
            term = stack.pop()
            key = self._keys[term]
            if key[0] == _CAT and self._closes[term]:
                stack += (key[2], key[1])
            elif key[0] == _CLOSE:
                names.append(key[1])
        return tuple(names)


_KNOWN: dict[tuple[int, Limits], Tables] = {}


def tables_of(grammar: Grammar, limits: Limits) -> Tables:
    """The tables of `grammar`, made once for as long as it lives."""
    key = (id(grammar), limits)
    tables = _KNOWN.get(key)
    if tables is None:
        tables = _KNOWN[key] = Tables(grammar.written_out, limits)
        weakref.finalize(grammar, _KNOWN.pop, key, None).atexit = False
    return tables
