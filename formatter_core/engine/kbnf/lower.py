"""Grammar -> productions without the empty string, groups or repeats.

Every nonterminal made here derives exactly the non-empty strings of its node. Whether a node also derives the empty
string is known beforehand, and the productions around it leave it out where it does: see `productions`. Regular nodes
become patterns, together with their neighbours if those are simple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from itertools import filterfalse
from typing import TypeAlias

from formatter_core.engine.kbnf.automata import automaton_of, left_linear, pattern_of
from formatter_core.engine.kbnf.productions import ENGINE, Literal, Production, Productions, Regex, Rules, Symbol
from formatter_core.engine.kbnf.regular import RegularNodes, Work, letters, special_letter
from formatter_core.engine.kbnf.traits import EMPTY_TRAITS, NOTHING_TRAITS, Traits, any_of, row
from formatter_core.errors import UnsupportedByEngine
from formatter_core.grammar import (
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    Multiples,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Substring,
    Terminal,
    Token,
    holds_of_parts,
    nullable,
    rules_where,
)
from formatter_core.limits import Limits
from formatter_core.vocabulary import Vocabulary

__all__ = ["lower"]

#: The largest weight of a node that becomes one pattern. Beyond, it becomes rules over smaller patterns.
_PATTERN_WEIGHT = 200_000
#: Items that are counted further than that are counted in chunks of about this weight.
_CHUNK_WEIGHT = 50_000
#: Steps of `Limits.work` for each letter of a pattern, which the package takes a microsecond or more to make
#: deterministic. When they are used up, the rest becomes rules over single characters.
_WORK_PER_LETTER = 15
#: The largest weight of a node in a row that is put into one pattern with its neighbours: fewer terminals are faster,
#: but each place gets a copy. So less is copied once this many letters were spent.
_NEIGHBOUR_WEIGHT = 1_000
_SPARING_NEIGHBOUR_WEIGHT = 40
_SPARING_FROM = 50_000
#: The same in a choice; and the largest weight of what is put together.
_ALTERNATIVE_WEIGHT = 2_000
_JOINED_WEIGHT = 20_000


_Item: TypeAlias = "tuple[Symbol | None, bool]"  # what derives the non-empty strings, and whether "" is one too


def lower(
    grammar: Grammar, vocabulary: Vocabulary, limits: Limits, work: Work, refused: frozenset[str] = frozenset()
) -> Rules:
    """Lower a grammar; nodes whose pattern is in `refused` become rules over smaller patterns.

    Raises:
        UnsupportedByEngine: a token of text as a `Token`, or a terminal that needs too many rules.
        LimitExceeded: see `automaton_of`, and `work`.
    """
    return _Lowering(grammar, vocabulary, limits, work, refused).run()


class _Lowering:
    def __init__(
        self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits, work: Work, refused: frozenset[str]
    ) -> None:
        self._grammar = grammar
        self._vocabulary = vocabulary
        self._limits = limits
        self._work = work
        self._refused = refused
        self._regular = RegularNodes(grammar, limits, work)
        self._automaton_productions: dict[Node, list[Production]] = {}
        self._letters = 0  # of all patterns so far
        self._patterns: set[str] = set()
        self._productions = Productions(work)
        self._symbols: dict[int, Symbol | None] = {}
        self._nonterminals: dict[str, int] = {}
        self._rule_patterns: dict[str, list[Symbol] | None] = {}
        self._waiting: list[str] = []
        self._nullable_rules = rules_where(grammar.rules, self._nullable)

    def run(self) -> Rules:
        start = self._reference(self._grammar.start)
        while self._waiting:
            name = self._waiting.pop()
            for production in self._alternatives(self._grammar.rules[name]):
                self._productions.add(self._nonterminals[name], production)
        return Rules(self._productions.alternatives, start, self._grammar.start in self._nullable_rules)

    # --- which nodes derive "" ---------------------------------------------------------------------------------

    def _nullable(self, node: Node, rules: Set[str] | None = None) -> bool:
        self._work.add(1)
        if self._regular.shape(node) is not None:
            return self._regular.nullable(node)
        if isinstance(node, Reference):
            return node.name in (self._nullable_rules if rules is None else rules)
        if isinstance(node, Terminal):
            return self._nullable(node.item, rules)
        if isinstance(node, (Intersection, Complement, Shortest, Multiples)):
            return nullable(node)
        return holds_of_parts(node, lambda part: self._nullable(part, rules)) or isinstance(node, Substring)

    # --- nodes -------------------------------------------------------------------------------------------------

    def _symbol_of(self, productions: list[Production]) -> Symbol | None:
        if len(productions) == 1 and len(productions[0]) == 1:
            return productions[0][0]
        return self._productions.new(productions) if productions else None

    def _symbol(self, node: Node) -> Symbol | None:
        """Return the symbol that derives the non-empty strings of the node; None if there are none."""
        if id(node) not in self._symbols:
            self._symbols[id(node)] = self._symbol_of(self._alternatives(node))
        return self._symbols[id(node)]

    def _alternatives(self, node: Node) -> list[Production]:
        """Return productions for the non-empty strings of the node."""
        self._work.add(1)
        regular = self._as_pattern(node)
        if regular is not None:
            return [(symbol,) for symbol in regular]
        if isinstance(node, (Capture, Terminal)):
            return self._alternatives(node.item)
        if isinstance(node, Sequence):
            return self._sequence(node)
        if isinstance(node, Choice):
            return self._choice(node)
        if isinstance(node, Repeat):
            return self._repeat(node)
        if isinstance(node, Substring):
            raise UnsupportedByEngine(
                f"its text of {len(node.text)} characters is too long for the package",
                engine=ENGINE,
                node="a Substring",
            )
        if isinstance(node, (Intersection, Complement, Shortest, Multiples)):
            if node not in self._automaton_productions:
                self._automaton_productions[node] = self._automaton_rules(node)
            return self._automaton_productions[node]
        if isinstance(node, Token):
            return [(self._token(node),)]
        if isinstance(node, Reference):
            symbol = self._reference(node.name)
            return [] if symbol is None else [(symbol,)]
        if isinstance(node, Bytes):
            return [(Literal(letters(node.value)),)] if node.value else []
        raise UnsupportedByEngine("the package refuses its pattern", engine=ENGINE, node=f"a {type(node).__name__}")

    def _as_pattern(self, node: Node) -> list[Symbol] | None:
        """Return the node as a single terminal ([] if it has no non-empty strings); None if it must become rules."""
        shape = self._regular.shape(node)
        if shape is None or shape.weight > min(_PATTERN_WEIGHT, self._limits.states) or isinstance(node, Bytes):
            return None
        if not self._regular.traits(node).simple:
            return None
        # A class of characters has no smaller parts to become rules of.
        weight = 0 if isinstance(node, Chars) else shape.weight
        return self._pattern_symbols(self._regular.solid_choice((node,)), weight)

    def _pattern_symbols(self, pattern: str | None, weight: int) -> list[Symbol] | None:
        if pattern is None:
            return []
        if pattern not in self._patterns:
            if (self._letters + weight) * _WORK_PER_LETTER > self._limits.work:
                return None
            self._letters += weight
            self._patterns.add(pattern)
        return None if pattern in self._refused else [Regex(pattern)]

    def _reference(self, name: str) -> Symbol | None:
        if name not in self._rule_patterns:
            self._rule_patterns[name] = self._as_pattern(self._grammar.rules[name])
        regular = self._rule_patterns[name]
        if regular is not None:
            return regular[0] if regular else None
        if name not in self._nonterminals:
            self._nonterminals[name] = self._productions.fresh()
            self._waiting.append(name)
        return self._nonterminals[name]

    def _token(self, node: Token) -> Symbol:
        letter = special_letter(node.token_id)
        if self._vocabulary.text_token(node.token_id) is not None:
            reason = "its id also spells text, and the package gives each id one spelling"
        elif letter is None:
            reason = "its id is too large"
        else:
            return Literal(letter)
        raise UnsupportedByEngine(reason, engine=ENGINE, node=f"Token({node.token_id})")

    # --- choices and sequences ---------------------------------------------------------------------------------

    def _choice(self, node: Choice) -> list[Production]:
        """Make productions of a choice.

        Small regular alternatives share patterns; their order does not affect masks.
        """
        productions: list[Production] = []
        regular: list[Node] = []
        for item in node.items:
            shape = self._regular.shape(item)
            if shape is not None and shape.weight <= _ALTERNATIVE_WEIGHT:
                regular.append(item)
            elif isinstance(item, Sequence):
                productions.extend(self._alternatives(item))
            else:
                symbol = self._symbol(item)
                productions.extend([] if symbol is None else [(symbol,)])
        # Literals make a trie, which is always simple.
        groups = self._groups(filter(_is_bytes, regular), lambda one, _: one, NOTHING_TRAITS, _JOINED_WEIGHT)
        groups += self._groups(filterfalse(_is_bytes, regular), any_of, NOTHING_TRAITS, _JOINED_WEIGHT)
        for group in groups:
            symbols = self._joined_pattern(self._regular.solid_choice(group), group) if len(group) > 1 else None
            if symbols is None:
                symbols = [symbol for item in group if (symbol := self._symbol(item)) is not None]
            productions.extend((symbol,) for symbol in symbols)
        return productions

    def _groups(
        self, items: Iterable[Node], combined: Callable[[Traits, Traits], Traits], empty: Traits, weight: int
    ) -> list[list[Node]]:
        """Group regular items so that each group is a simple pattern of at most this weight."""
        groups: list[list[Node]] = []
        traits = empty
        room = 0
        for item in items:
            shape = self._regular.shape(item)
            needed = 0 if shape is None else shape.weight
            traits = combined(traits, self._regular.traits(item))
            if not groups or not traits.simple or needed > room:
                groups.append([])
                room = weight
                traits = combined(empty, self._regular.traits(item))
            groups[-1].append(item)
            room -= needed
        return groups

    def _joined_pattern(self, pattern: str | None, group: list[Node]) -> list[Symbol] | None:
        shapes = [self._regular.shape(node) for node in group]
        return self._pattern_symbols(pattern, sum(shape.weight for shape in shapes if shape is not None))

    def _sequence(self, node: Sequence) -> list[Production]:
        items: list[_Item] = []
        regular: list[Node] = []
        sparing = self._letters > _SPARING_FROM
        heaviest = _SPARING_NEIGHBOUR_WEIGHT if sparing else _NEIGHBOUR_WEIGHT
        for item in self._flat(node):
            shape = self._regular.shape(item)
            if shape is not None and shape.weight <= heaviest:
                regular.append(item)
                continue
            items.extend(self._regular_items(regular))
            regular = []
            items.append((self._symbol(item), self._nullable(item)))
        items.extend(self._regular_items(regular))
        if any(symbol is None and not nullable for symbol, nullable in items):
            return []
        return self._productions.row([(symbol, nullable) for symbol, nullable in items if symbol is not None])

    def _flat(self, node: Node) -> list[Node]:
        """Return the items of a sequence, including those of sequences directly inside it."""
        if isinstance(node, Capture) or (isinstance(node, Terminal) and self._regular.shape(node) is None):
            return self._flat(node.item)
        if isinstance(node, Sequence):
            return [inner for item in node.items for inner in self._flat(item)]
        return [node]

    def _regular_items(self, nodes: list[Node]) -> list[_Item]:
        """Merge regular neighbours into as few terminals as possible."""
        items: list[_Item] = []
        for group in self._groups(nodes, row, EMPTY_TRAITS, _JOINED_WEIGHT):
            if all(isinstance(node, Bytes) for node in group):
                text = b"".join(node.value for node in group if isinstance(node, Bytes))
                items.append((Literal(letters(text)) if text else None, not text))
                continue
            symbols = self._joined_pattern(self._regular.solid_sequence(group), group)
            if symbols is None:
                items.extend((self._symbol(node), self._nullable(node)) for node in group)
            else:
                items.append((symbols[0] if symbols else None, all(self._nullable(node) for node in group)))
        return items

    # --- repeats -----------------------------------------------------------------------------------------------

    def _repeat(self, node: Repeat) -> list[Production]:
        node = self._one_repeat(node)
        item = self._symbol(node.item)
        if item is None or node.maximum == 0:
            return []
        if self._nullable(node.item):
            return [(self._productions.repeated(item, 1, node.maximum),)]
        minimum = max(node.minimum, 1)
        chunks = self._in_chunks(node, minimum)
        if chunks is not None:
            return chunks
        return [(self._productions.repeated(item, minimum, node.maximum),)]

    def _in_chunks(self, node: Repeat, minimum: int) -> list[Production] | None:
        """Split a large repeat into whole chunks of items and part of a chunk.

        Each is a pattern; a single pattern would be too large.
        """
        shape = self._regular.shape(node.item)
        if shape is None or node.maximum is None or not self._regular.traits(node).simple:
            return None
        size = _CHUNK_WEIGHT // max(shape.weight, 1)
        if size < 2 or node.maximum <= size:
            return None
        needed, odd = divmod(minimum - 1, size)
        full, last = divmod(node.maximum - minimum, size)
        chunk = self._counted(node.item, size, size)
        part = self._counted(node.item, 1, size)
        end = self._counted(node.item, 1, last + 1)
        rest = self._counted(node.item, odd, odd)
        if chunk is None or part is None or end is None or (odd and rest is None):
            return None
        repeated = self._productions.repeated
        before: list[Symbol] = [repeated(chunk, needed, needed)] if needed else []
        before += [rest] if odd and rest is not None else []
        ends: list[list[Symbol]] = [[repeated(chunk, full, full), end], [part]] if full else [[end]]
        ends += [[repeated(chunk, 1, full - 1), part]] if full > 1 else []
        return [(*before, *symbols) for symbols in ends]

    def _counted(self, item: Node, minimum: int, maximum: int) -> Symbol | None:
        shape = self._regular.shape(item)
        if shape is None or maximum == 0:
            return None
        symbols = self._pattern_symbols(self._regular.counted(item, minimum, maximum), shape.weight * maximum)
        return symbols[0] if symbols else None

    def _one_repeat(self, node: Repeat) -> Repeat:
        """Merge a repeat with a repeat directly inside it, since their counts would have many derivations.

        This keeps the language if one round takes a minimum of 0 or 1: the inner counts of k rounds then have no gaps,
        nor have those of k and of k + 1 rounds together.
        """
        item = node.item
        while isinstance(item, (Capture, Terminal)):
            item = item.item
        if not isinstance(item, Repeat) or item.minimum > 1 or node.maximum == 0:
            return node
        inner = self._one_repeat(item)
        if inner.maximum == 0:
            return node
        unbounded = node.maximum is None or inner.maximum is None
        maximum = None if unbounded else (node.maximum or 0) * (inner.maximum or 0)
        return Repeat(inner.item, node.minimum * inner.minimum, maximum)

    # --- automata ----------------------------------------------------------------------------------------------

    def _automaton_rules(self, node: Node) -> list[Production]:
        """Return a short pattern, or left-linear rules: each state derives the strings that lead to it."""
        automaton = automaton_of(node, self._limits)
        if not automaton.count:
            return []
        pattern = pattern_of(automaton)
        symbols = None if pattern is None else self._pattern_symbols(pattern, len(pattern) // 4)
        if symbols is not None:
            return [(symbol,) for symbol in symbols]
        return left_linear(automaton, node, self._productions)


def _is_bytes(node: Node) -> bool:
    return isinstance(node, Bytes)
