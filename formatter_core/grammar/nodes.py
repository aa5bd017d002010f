"""The grammar as immutable values: what every format becomes and every grammar engine receives.

A grammar maps rule names to nodes. A node denotes a set of byte strings:

===============  =====================================================================================
`Bytes`          exactly these bytes
`Chars`          one code point of these ranges, as UTF-8
`Sequence`       the items one after the other; no items: the empty string (`EMPTY`)
`Choice`         one of the items, in written order of preference; no items: nothing (`NOTHING`)
`Repeat`         the item `minimum` to `maximum` times (None: without bound), greedy or lazy
`Intersection`   what all items match                                                   (regular only)
`Complement`     every byte string that the item does not match                         (regular only)
`Shortest`       the non-empty strings of the item without a non-empty proper prefix in it (regular only)
`Substring`      any run of whole characters of a text, the empty one included
`JsonText`       a text in every spelling that JSON strings have for it, without the quotes (regular only)
`Terminal`       the item, to be compiled into one automaton: it holds no `Reference`, `Capture`, `Token` or `Special`
`Reference`      what the named rule derives
`Capture`        the item, whose place in the parse is reported under a name
`Token`          exactly this token id; no byte string spells it
`Special`        the special token of this name; whoever compiles the grammar puts a `Token` or text in its place
===============  =====================================================================================

`Terminal` never changes the language; it says which regular part an engine should treat as one automaton. Leaves
outside a `Terminal` count as terminals of their own. `Intersection`, `Complement`, `Shortest` and `JsonText` stand only
inside one.

Where several parses exist, the one whose choices, read from the left in a leftmost derivation, come first wins: an
earlier item of a `Choice`, one more round of a greedy `Repeat`, one round less of a lazy one. `Intersection`,
`Complement`, `Shortest`, `Substring` and `JsonText` have no inner choices; of several ends the longest comes first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.support.lazy import cached_property

__all__ = [
    "ANY_CHAR",
    "ANY_TEXT",
    "EMPTY",
    "NOTHING",
    "Bytes",
    "Capture",
    "Census",
    "Chars",
    "Choice",
    "Complement",
    "Grammar",
    "Intersection",
    "JsonText",
    "Node",
    "Reference",
    "Repeat",
    "Sequence",
    "Shortest",
    "Special",
    "Substring",
    "Terminal",
    "Token",
    "children",
    "interned",
    "is_interned",
    "literal",
    "map_children",
    "optional",
    "walk",
]


@dataclass(frozen=True, slots=True)
class Bytes:
    """Exactly these bytes; they need not be whole characters."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Chars:
    """One code point out of sorted, disjoint, inclusive ranges, as UTF-8. Surrogates are never matched."""

    ranges: tuple[tuple[int, int], ...]

    @staticmethod
    def of(ranges: Iterable[tuple[int, int]]) -> Chars:
        """Build from inclusive ranges in any order; they are merged and surrogates are cut out."""
        merged: list[list[int]] = []
        for low, high in sorted(_without_surrogates(ranges)):
            if merged and low <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        return Chars(tuple((low, high) for low, high in merged))


@dataclass(frozen=True, slots=True)
class Sequence:
    """The items one after the other."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the items; an earlier one is preferred where a parse could take several."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The item from `minimum` to `maximum` times; `maximum` None means without bound."""

    item: Node
    minimum: int = 0
    maximum: int | None = None
    greedy: bool = True


@dataclass(frozen=True, slots=True)
class Intersection:
    """What every item matches."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Complement:
    """Every byte string that the item does not match, ill-formed UTF-8 included."""

    item: Node


@dataclass(frozen=True, slots=True)
class Shortest:
    """The non-empty strings of the item that have no non-empty proper prefix in it: a match that ends early."""

    item: Node


@dataclass(frozen=True, slots=True)
class Substring:
    """Any run of whole characters of `text`, the empty run included."""

    text: str


@dataclass(frozen=True, slots=True)
class JsonText:
    """`text`, which holds no lone surrogates, in every spelling inside of a JSON string (RFC 8259, section 7)."""

    text: str


@dataclass(frozen=True, slots=True)
class Terminal:
    """A regular node that is compiled into one automaton."""

    item: Node


@dataclass(frozen=True, slots=True)
class Reference:
    """What the named rule derives."""

    name: str


@dataclass(frozen=True, slots=True)
class Capture:
    """The item; its place in the parse is reported under `name`. Names that begin with "." stay internal."""

    name: str
    item: Node


@dataclass(frozen=True, slots=True)
class Token:
    """Exactly the token with this id, whatever its bytes."""

    token_id: int


@dataclass(frozen=True, slots=True)
class Special:
    """The special token that the vocabulary calls `name`; with `or_text`, the name as text where it has none."""

    name: str
    or_text: bool = False


Node: TypeAlias = (
    Bytes
    | Chars
    | Sequence
    | Choice
    | Repeat
    | Intersection
    | Complement
    | Shortest
    | Substring
    | JsonText
    | Terminal
    | Reference
    | Capture
    | Token
    | Special
)

EMPTY = Sequence(())
NOTHING = Choice(())
ANY_CHAR = Chars(((0, 0xD7FF), (0xE000, 0x10FFFF)))
ANY_TEXT = Repeat(ANY_CHAR)

_REGULAR_ONLY = (Intersection, Complement, Shortest, JsonText)
_NOT_REGULAR = (Terminal, Reference, Capture, Token, Special)


def literal(text: str) -> Bytes:
    """The UTF-8 bytes of `text`.

    Raises:
        InvalidGrammar: `text` holds a lone surrogate, which UTF-8 cannot spell.
    """
    try:
        return Bytes(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InvalidGrammar(
            f"the text {text!r} holds a lone surrogate at index {error.start}, which UTF-8 cannot spell; remove it"
        ) from error


def optional(node: Node) -> Repeat:
    """The node once or not at all."""
    return Repeat(node, 0, 1)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below `node`."""
    if isinstance(node, (Sequence, Choice, Intersection)):
        return node.items
    if isinstance(node, (Repeat, Complement, Shortest, Terminal, Capture)):
        return (node.item,)
    return ()


def map_children(node: Node, function: Callable[[Node], Node]) -> Node:
    """The same node over changed children."""
    if isinstance(node, (Sequence, Choice, Intersection)):
        return type(node)(tuple(function(item) for item in node.items))
    if isinstance(node, Repeat):
        return Repeat(function(node.item), node.minimum, node.maximum, node.greedy)
    if isinstance(node, (Complement, Shortest, Terminal)):
        return type(node)(function(node.item))
    if isinstance(node, Capture):
        return Capture(node.name, function(node.item))
    return node


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first, from the left."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


_NodeT = TypeVar("_NodeT", bound="Node")

#: The interned nodes by identity, each with the size and the height of what it holds.
_interned: dict[int, tuple[Node, int, int]] = {}


def interned(node: _NodeT) -> _NodeT:
    """Mark a regular node, or a `Terminal`, that is made once and never freed: what is worked out about it is kept.

    Only for what does not come from any user's format, so that there are few, whose size and repeats are in order.
    """
    inner = node.item if isinstance(node, Terminal) else node
    size, height = _Inspection({}, DEFAULT_LIMITS).measure("", inner, DEFAULT_LIMITS.depth)
    for each in (node, inner):
        _interned[id(each)] = (each, size, height)
    return node


def is_interned(node: Node) -> bool:
    """Whether a node was marked as `interned`."""
    return id(node) in _interned


@dataclass(frozen=True, slots=True)
class Census:
    """What a grammar consists of: how many nodes, which token ids, and whether there are captures and `Special`s."""

    nodes: int
    tokens: tuple[int, ...]
    captures: bool
    specials: bool = False


@dataclass(frozen=True)
class Grammar:
    """Rules by name, and the rule that derives the whole text."""

    rules: Mapping[str, Node]
    start: str

    def check(self, limits: Limits) -> Census:
        """Raise unless the grammar is well formed and within `limits`; whether it derives anything is not asked here.

        Returns:
            what it consists of.

        Raises:
            InvalidGrammar: an undefined rule, or a node where it may not stand.
            LimitExceeded: too many nodes, too deep, or too large a repeat.
        """
        if self.start not in self.rules:
            raise InvalidGrammar(f"the start rule {self.start!r} is not defined; define it or name another")
        inspection = _Inspection(self.rules, limits)
        try:
            for name, body in self.rules.items():
                inspection.look_at(name, body, limits.depth)
        except RecursionError as error:  # a terminal, where `Limits.depth` was raised past what Python's stack holds
            raise LimitExceeded("depth", limits.depth, "a terminal deeper than Python's own recursion limit") from error
        return Census(inspection.nodes, tuple(inspection.tokens), inspection.captures, inspection.specials)

    def renamed(self, prefix: str) -> Grammar:
        """The same grammar with `prefix` before every rule name, so that it can stand beside others."""

        def rename(node: Node) -> Node:
            if isinstance(node, Reference):
                return Reference(prefix + node.name)
            if isinstance(node, Terminal):
                return node
            return map_children(node, rename)

        return Grammar({prefix + name: rename(body) for name, body in self.rules.items()}, prefix + self.start)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content (SHA-256, hexadecimal): equal for equal rules in equal order, in every process."""
        digest = hashlib.sha256(repr(self.start).encode())
        for name, body in self.rules.items():
            digest.update(repr((name, body)).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


class _Inspection:
    """One pass over the rules of a grammar."""

    def __init__(self, rules: Mapping[str, Node], limits: Limits) -> None:
        self.nodes = 0
        self.tokens: dict[int, None] = {}
        self.captures = False
        self.specials = False
        self._rules = rules
        self._limits = limits
        # By identity: a grammar made from a schema holds one node in many places. The grammar keeps them alive.
        self._regular: dict[int, tuple[int, int]] = {}
        self._terminals: dict[int, int] = {}

    def look_at(self, rule: str, body: Node, room: int) -> None:
        """Check a rule's body: `room` levels at most, itself included."""
        stack = [(body, room)]  # not recursion, for outside of terminals the limits may allow any depth
        while stack:
            node, room = stack.pop()
            if room <= 0:
                raise self._too_deep(rule)
            if isinstance(node, Terminal):
                self._terminal(rule, node, room)
                continue
            self._count(1)
            if isinstance(node, (Sequence, Choice)):
                below = room - 1
                for item in reversed(node.items):
                    # What most items are needs no further look.
                    if isinstance(item, Terminal):
                        if self._terminals.get(id(item), below) < below:
                            continue
                    elif isinstance(item, Reference) and below > 0 and item.name in self._rules:
                        self.nodes += 1
                        continue
                    stack.append((item, below))
            elif isinstance(node, Reference):
                if node.name not in self._rules:
                    raise InvalidGrammar(
                        f"the rule {node.name!r} is not defined but the rule {rule!r} uses it; define it"
                    )
            elif isinstance(node, Repeat):
                self._check_repeat(rule, node)
                stack.append((node.item, room - 1))
            elif isinstance(node, Capture):
                self.captures = True
                stack.append((node.item, room - 1))
            elif isinstance(node, Token):
                if node.token_id < 0:
                    raise InvalidGrammar(f"the token id {node.token_id} in the rule {rule!r} is negative")
                self.tokens[node.token_id] = None
            elif isinstance(node, Special):
                self.specials = True
            elif isinstance(node, _REGULAR_ONLY):
                kind = type(node).__name__
                raise InvalidGrammar(f"a {kind} stands outside a Terminal in the rule {rule!r}; wrap it in one")

    def _terminal(self, rule: str, node: Terminal, room: int) -> None:
        height = self._terminals.get(id(node))
        if height is None:
            # One terminal is one automaton, wherever it stands.
            size, height = self.measure(rule, node.item, room - 1)
            self._terminals[id(node)] = height
            self._count(1 + size)
        if height >= room:
            raise self._too_deep(rule)

    def measure(self, rule: str, node: Node, room: int) -> tuple[int, int]:
        """The size and the height of a node in a terminal, which are those of a tree even where nodes are shared."""
        known = self._regular.get(id(node))
        if known is None:
            if id(node) in _interned:
                known = _interned[id(node)][1:]
            elif room <= 0:
                raise self._too_deep(rule)
            else:
                known = self._measured(rule, node, room)
            self._regular[id(node)] = known
        if known[1] > room:
            raise self._too_deep(rule)
        return known

    def _measured(self, rule: str, node: Node, room: int) -> tuple[int, int]:
        size = height = 1
        if isinstance(node, JsonText):
            size += len(node.text)
        elif isinstance(node, (Sequence, Choice, Intersection)):
            for child in node.items:
                if isinstance(child, (Bytes, Chars)):
                    size, height = size + 1, max(height, 2)
                    continue
                below = self.measure(rule, child, room - 1)
                size, height = size + below[0], max(height, below[1] + 1)
        elif isinstance(node, (Repeat, Complement, Shortest)):
            if isinstance(node, Repeat):
                self._check_repeat(rule, node)
            below = self.measure(rule, node.item, room - 1)
            size, height = 1 + below[0], 1 + below[1]
        elif isinstance(node, _NOT_REGULAR):
            kind = type(node).__name__
            raise InvalidGrammar(f"a {kind} stands inside a Terminal of the rule {rule!r}; terminals are regular")
        # Of shared nodes a tree can be astronomically large: it is not counted on.
        return min(size, self._limits.nodes + 1), height

    def _count(self, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > self._limits.nodes:
            raise LimitExceeded("nodes", self._limits.nodes, "the grammar")

    def _too_deep(self, rule: str) -> LimitExceeded:
        return LimitExceeded("depth", self._limits.depth, f"the rule {rule!r}")

    def _check_repeat(self, rule: str, node: Repeat) -> None:
        minimum, maximum = node.minimum, node.maximum
        if minimum < 0 or (maximum is not None and maximum < minimum):
            raise InvalidGrammar(
                f"the repeat {{{minimum},{maximum}}} in the rule {rule!r} needs 0 <= minimum <= maximum"
            )
        if max(minimum, maximum or 0) > self._limits.repeat:
            raise LimitExceeded("repeat", self._limits.repeat, f"a repeat in the rule {rule!r}")


def _without_surrogates(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for low, high in ranges:
        if low <= min(high, 0xD7FF):
            yield low, min(high, 0xD7FF)
        if max(low, 0xE000) <= high:
            yield max(low, 0xE000), high
