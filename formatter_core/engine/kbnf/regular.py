"""Regular nodes as patterns of the kbnf package, over an alphabet of bytes.

The package's patterns match code points, but texts here are bytes: tokens split characters, and a vocabulary may spell
bytes that are not UTF-8. So each byte of a text becomes one *letter*, a code point, and all that the package ever sees,
token bytes included, is spelled in letters. A byte is the code point of the same number; NUL is U+0100, because the
package reads U+0000 itself (see `SENTINEL`).
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from functools import lru_cache, reduce

from formatter_core.engine.kbnf import traits
from formatter_core.engine.kbnf.traits import Traits
from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import (
    Bytes,
    Capture,
    Chars,
    Choice,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    Substring,
    Terminal,
    children,
    holds_of_parts,
    inner_first,
    literal,
    map_children,
    optional,
)
from formatter_core.grammar.utf8 import utf8_sequences
from formatter_core.limits import Limits

__all__ = ["SENTINEL", "TWIN", "RegularNodes", "Shape", "Work", "byte_class", "letters", "special_letter"]

#: Ends every complete text. No letter is NUL, so no token spells it but the id that is given it.
SENTINEL = "\0"
#: Spelled by no token; see `text`. Its first UTF-8 byte, 0xD0, begins no letter either, so it costs no time.
TWIN = "\u0400"
#: Special tokens are the letters from here on: outside of the alphabet, so that no bytes spell them.
_FIRST_SPECIAL = 0x10000

#: Nodes of up to this many positions are examined exactly, for about as many steps of `Limits.work`.
_EXAMINED_POSITIONS = 100
_EXAMINED_WORK = 2_000
#: The package takes about a millisecond to build one pattern for each character of a substring's text.
_SUBSTRING_LENGTH = 2_000

ByteSequence = tuple[tuple[int, int], ...]


def letters(data: bytes) -> str:
    """Spell bytes in the letters of patterns."""
    return data.decode("latin-1").replace("\0", "\u0100")


def special_letter(token_id: int) -> str | None:
    """Return the letter of a token that spells no bytes; None if all letters are taken."""
    code = _FIRST_SPECIAL + token_id
    return chr(code) if code <= 0x10FFFF else None


def byte_class(ranges: Iterable[tuple[int, int]]) -> str:
    """Return a pattern of one letter out of one or more inclusive byte ranges."""
    parts = []
    for low, high in ranges:
        if low == 0:
            parts.append(_escaped("\u0100"))
            low = 1
        if low < high:
            parts.append(f"{_escaped(chr(low))}-{_escaped(chr(high))}")
        elif low == high:
            parts.append(_escaped(chr(low)))
    return parts[0] if len(parts) == 1 and "-" not in parts[0] else f"[{''.join(parts)}]"


class Work:
    """A counter of the elementary steps of one compile against `Limits.work`."""

    def __init__(self, limits: Limits) -> None:
        self._maximum = limits.work
        self._done = 0

    def add(self, steps: int) -> None:
        self._done += steps
        if self._done > self._maximum:
            raise LimitExceeded("work", self._maximum, "lowering the grammar for the kbnf package")


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a node as a pattern, with repeats written out.

    Attributes:
        weight: letters.
        positions: the same, but a character out of a class counts once, however many letters spell it.
        height: nesting.
    """

    weight: int
    positions: int
    height: int


class RegularNodes:
    """The regular nodes of a grammar: their sizes as patterns, and the patterns themselves.

    References to rules that are themselves regular count as regular. Memos are by identity: the nodes belong to
    the grammar, or are kept here.
    """

    def __init__(self, grammar: Grammar, limits: Limits, work: Work) -> None:
        self._rules = grammar.rules
        self._depth = limits.depth
        self._work = work
        self._shapes: dict[int, Shape | None] = {}
        self._nullable: dict[int, bool] = {}
        self._patterns: dict[int, str | None] = {}
        self._substrings: dict[int, Node] = {}
        self._traits: dict[int, Traits] = {}
        self._seen: dict[Node, Traits] = {}
        self._rule_shapes: dict[str, Shape] = {}
        for name in inner_first(grammar.rules):
            shape = self.shape(grammar.rules[name])
            if shape is not None and shape.height <= self._depth:
                self._rule_shapes[name] = shape

    def shape(self, node: Node) -> Shape | None:
        """Return the size of the node's pattern; None if it can have none."""
        known = self._shapes.get(id(node), self)
        if isinstance(known, RegularNodes):
            known = self._shapes[id(node)] = self._new_shape(node)
        return known

    def traits(self, node: Node) -> Traits:
        """Return the traits of a regular node: whether its pattern is simple."""
        known = self._traits.get(id(node))
        if known is None:
            known = self._new_traits(node)
            shape = self.shape(node)
            if not known.simple and shape is not None and shape.positions <= _EXAMINED_POSITIONS:
                known = self._examined(node)
            self._traits[id(node)] = known
        return known

    def _examined(self, node: Node) -> Traits:
        plain = self._plain(node)
        if plain not in self._seen:
            self._work.add(_EXAMINED_WORK)
            self._seen[plain] = traits.examined(plain)
        return self._seen[plain]

    def _plain(self, node: Node) -> Node:
        """Return the node without references and captures; the language stays the same."""
        if isinstance(node, (Terminal, Capture)):
            return self._plain(node.item)
        return self._plain(self._rules[node.name]) if isinstance(node, Reference) else map_children(node, self._plain)

    def _new_traits(self, node: Node) -> Traits:
        if isinstance(node, Bytes):
            return traits.literals((node.value,))
        if isinstance(node, Chars):
            return traits.one_of(sequence[0] for sequence in _sequences(node.ranges))
        if isinstance(node, Sequence):
            return reduce(traits.row, map(self.traits, node.items), traits.EMPTY_TRAITS)
        if isinstance(node, Choice):
            return self.choice_traits(node.items)
        if isinstance(node, Repeat):
            return traits.repeated(self.traits(node.item), node.minimum, node.maximum)
        if isinstance(node, Substring):
            return traits.SUBSTRING
        inner = self._inner(node)
        return traits.NOT_SIMPLE if inner is None else self.traits(inner)

    def choice_traits(self, items: Items[Node]) -> Traits:
        """Return the traits of a choice among the items."""
        values = [item.value for item in items if isinstance(item, Bytes)]
        parts = [self.traits(item) for item in items if not isinstance(item, Bytes)]
        if values:
            parts.append(traits.literals(values))
        return reduce(traits.any_of, parts, traits.NOTHING_TRAITS)

    def expanded(self, node: Substring) -> Node:
        """Return the substring node as other nodes with shared parts; the language stays the same."""
        if id(node) not in self._substrings:
            self._substrings[id(node)] = _substring_node(node.text, self._work)
        return self._substrings[id(node)]

    def body(self, name: str) -> Node:
        return self._rules[name]

    def nullable(self, node: Node) -> bool:
        """Tell whether a regular node matches the empty string."""
        known = self._nullable.get(id(node))
        if known is None:
            known = self._nullable[id(node)] = self._new_nullable(node)
        return known

    def pattern(self, node: Node) -> str | None:
        """Return the pattern of a regular node, as one unit; None if the node matches nothing."""
        if id(node) not in self._patterns:
            pattern = self._new_pattern(node)
            self._work.add(len(pattern or "") // 8 + 1)
            self._patterns[id(node)] = pattern
        return self._patterns[id(node)]

    def counted(self, node: Node, minimum: int, maximum: int) -> str | None:
        """Return the pattern of the node, repeated `minimum` to `maximum` times."""
        return _repeated(self.pattern(node), minimum, maximum)

    def solid_sequence(self, items: Items[Node]) -> str | None:
        """Return the pattern of the non-empty strings of the items in a row; None if there are none."""
        patterns = [self.pattern(item) for item in items]
        if any(pattern is None for pattern in patterns):
            return None
        if not all(self.nullable(item) for item in items):
            return "".join(pattern or "" for pattern in patterns)
        return self._solid_row(items)

    def solid_choice(self, items: Items[Node]) -> str | None:
        """Return the pattern of the non-empty strings of any of the items; None if there are none."""
        return _alternatives(self._solid(item) for item in items)

    def _solid(self, node: Node) -> str | None:
        if isinstance(node, Sequence):
            return self.solid_sequence(node.items)
        if isinstance(node, Choice):
            return self.solid_choice(node.items)
        if isinstance(node, Repeat):
            if node.minimum and not self.nullable(node.item):
                return self.pattern(node)
            return _repeated(self._solid(node.item), 1, node.maximum) if node.maximum != 0 else None
        inner = self._inner(node)
        return self._solid(inner) if inner is not None else self.pattern(node) or None

    def _solid_row(self, items: Items[Node]) -> str | None:
        """Make the pattern of nullable items in a row, without the empty string.

        It is the first half non-empty and then the second half, or only the second half, non-empty.
        """
        if len(items) < 2:
            return self._solid(items[0]) if items else None
        middle = len(items) // 2
        first = self._solid_row(items[:middle])
        rest = "".join(self.pattern(item) or "" for item in items[middle:])
        self._work.add(len(rest) // 8 + 1)
        return _alternatives((None if first is None else first + rest, self._solid_row(items[middle:])))

    def _new_pattern(self, node: Node) -> str | None:
        if isinstance(node, Bytes):
            return _escaped(letters(node.value))
        if isinstance(node, Chars):
            return _chars_pattern(_sequences(node.ranges)) if node.ranges else None
        if isinstance(node, Sequence):
            parts = [self.pattern(item) for item in node.items]
            return None if any(part is None for part in parts) else "".join(part or "" for part in parts)
        if isinstance(node, Choice):
            return _alternatives(self.pattern(item) for item in node.items)
        if isinstance(node, Repeat):
            return _repeated(self.pattern(node.item), node.minimum, node.maximum)
        inner = self._inner(node)
        if inner is None:
            raise InvalidGrammar(f"a {type(node).__name__} has no pattern")
        return self.pattern(inner)

    def _new_nullable(self, node: Node) -> bool:
        if isinstance(node, Bytes):
            return not node.value
        inner = self._inner(node)
        return holds_of_parts(node, self.nullable) or (inner is not None and self.nullable(inner))

    def _new_shape(self, node: Node) -> Shape | None:
        self._work.add(1)
        if isinstance(node, Bytes):
            return Shape(len(node.value), len(node.value), 1)
        if isinstance(node, Chars):
            return Shape(sum(map(len, _sequences(node.ranges))), 1, 1)
        if isinstance(node, Reference):
            return self._rule_shapes.get(node.name)
        if isinstance(node, Substring):
            return self.shape(self.expanded(node)) if len(node.text) <= _SUBSTRING_LENGTH else None
        if not isinstance(node, (Sequence, Choice, Repeat, Terminal, Capture)):
            return None
        weight, positions, height = 0, 0, 0
        for child in children(node):
            shape = self.shape(child)
            if shape is None:
                return None
            weight, positions = weight + shape.weight, positions + shape.positions
            height = max(height, shape.height)
        times = max(node.maximum or node.minimum, 1) if isinstance(node, Repeat) else 1
        # Substrings are deeper than the format that holds them, by the logarithm of their length.
        return Shape(weight * times, positions * times, height + 1) if height < 2 * self._depth else None

    def _inner(self, node: Node) -> Node | None:
        """Return the inner node of a node that adds nothing to the language; None for other nodes."""
        if isinstance(node, (Terminal, Capture)):
            return node.item
        if isinstance(node, Reference):
            return self._rules[node.name]
        return self.expanded(node) if isinstance(node, Substring) else None


@lru_cache(maxsize=1024)
def _sequences(ranges: tuple[tuple[int, int], ...]) -> tuple[ByteSequence, ...]:
    return tuple(utf8_sequences(ranges))


def _escaped(text: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else f"\\x{{{ord(char):X}}}" for char in text)


def _alternatives(patterns: Iterable[str | None]) -> str | None:
    present = list(dict.fromkeys(pattern for pattern in patterns if pattern is not None))
    if len(present) < 2:
        return present[0] if present else None
    return f"(?:{'|'.join(present)})"


def _repeated(pattern: str | None, minimum: int, maximum: int | None) -> str | None:
    if pattern is None:
        return "" if minimum == 0 else None
    if pattern == "" or maximum == 0:
        return ""
    if (minimum, maximum) == (1, 1):
        return pattern
    if maximum is None:
        count = {0: "*", 1: "+"}.get(minimum, f"{{{minimum},}}")
    else:
        count = "?" if (minimum, maximum) == (0, 1) else f"{{{minimum},{maximum}}}"
    return f"(?:{pattern}){count}"


def _chars_pattern(sequences: Iterable[ByteSequence]) -> str:
    """Return alternatives that share both lead bytes and tails; this makes `\\w` ten times shorter."""
    ends: list[tuple[int, int]] = []
    tails: dict[tuple[int, int], list[ByteSequence]] = {}
    for sequence in sequences:
        if len(sequence) == 1:
            ends.append(sequence[0])
        else:
            tails.setdefault(sequence[0], []).append(sequence[1:])
    leads: dict[tuple[ByteSequence, ...], list[tuple[int, int]]] = {}
    for lead, rest in tails.items():
        leads.setdefault(tuple(rest), []).append(lead)
    parts = [byte_class(ends)] if ends else []
    parts.extend(byte_class(lead) + _chars_pattern(rest) for rest, lead in leads.items())
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _substring_node(text: str, work: Work) -> Node:
    """Return a node for any run of characters, by halves: in the left, in the right, or across. O(n log n) nodes."""

    def prefixes(low: int, high: int) -> Node:
        work.add(1)
        if high - low == 1:
            return literal(text[low:high])
        middle = (low + high) // 2
        return Choice((prefixes(low, middle), Sequence((literal(text[low:middle]), prefixes(middle, high)))))

    def suffixes(low: int, high: int) -> Node:
        work.add(1)
        if high - low == 1:
            return literal(text[low:high])
        middle = (low + high) // 2
        return Choice((suffixes(middle, high), Sequence((suffixes(low, middle), literal(text[middle:high])))))

    def runs(low: int, high: int) -> Node:
        work.add(1)
        if high - low == 1:
            return literal(text[low:high])
        middle = (low + high) // 2
        over = Sequence((suffixes(low, middle), prefixes(middle, high)))
        return Choice((runs(low, middle), runs(middle, high), over))

    return optional(runs(0, len(text))) if text else Sequence(())
