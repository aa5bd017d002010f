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
`JsonText`       a text as it is spelled inside a JSON string, without the quotes (regular only)
`Multiples`      the plain decimals that are multiples of a step                        (regular only)
`Terminal`       the item, to be compiled into one automaton: it holds no `Reference`, `Capture`, `Token` or `Special`
`Reference`      what the named rule derives
`Members`        one or more members, each at most once, with a separator between them (see `Members`)
`Capture`        the item, whose place in the parse is reported under a name
`Region`         the item, in which a limited number of tokens begin; a text without tokens is not limited
`Token`          exactly this token id; no byte string spells it
`Special`        the special token of this name; whoever compiles the grammar puts a `Token` or text in its place
`AnySpecial`     any special token of the vocabulary but some; resolved as a `Special` is
`Schema`         the documents of a JSON Schema; the whole body of a rule, which its own rules replace when needed
===============  =====================================================================================

`Terminal` never changes the language; it says which regular part an engine should treat as one automaton. Leaves
outside a `Terminal` count as separate terminals. `Intersection`, `Complement`, `Shortest`, `JsonText` and `Multiples`
occur only inside one.

If there are several parses, compare their choices from the left, in a leftmost derivation. The preferred parse has an
earlier item of a `Choice`, one more round of a greedy `Repeat`, one round less of a lazy one, an earlier way of an
earlier one of `Members`, or one more member. `Intersection`, `Complement`, `Shortest`, `Substring`, `JsonText` and
`Multiples` have no inner choices; of several ends the longest comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol, TypeAlias, TypeVar

from formatter_core.errors import InvalidGrammar
from formatter_core.grammar.checked import Program
from formatter_core.grammar.values import value
from formatter_core.limits import Limits

__all__ = [
    "ANY_CHAR",
    "ANY_TEXT",
    "EMPTY",
    "NOTHING",
    "WITHOUT_PARTS",
    "AnySpecial",
    "Bytes",
    "Capture",
    "Chars",
    "Choice",
    "Complement",
    "Intersection",
    "JsonText",
    "Member",
    "Members",
    "Multiples",
    "Node",
    "Reference",
    "Region",
    "Repeat",
    "Schema",
    "SchemaRules",
    "SchemaSource",
    "Sequence",
    "Shortest",
    "Special",
    "Substring",
    "Terminal",
    "TextSpelling",
    "Token",
    "Way",
    "children",
    "holds_of_parts",
    "inner_first",
    "interned",
    "is_internal",
    "is_interned",
    "literal",
    "map_children",
    "nullable",
    "optional",
    "renamed",
    "rules_where",
    "walk",
    "with_schemas_lowered",
    "without",
]

TextSpelling: TypeAlias = Literal["any", "canonical"]


@value()
class Bytes:
    """A node that matches exactly these bytes; they need not be whole characters."""

    value: bytes


@value()
class Chars:
    """A node that matches one code point out of sorted, disjoint, inclusive ranges, as UTF-8.

    It never matches surrogates.
    """

    ranges: tuple[tuple[int, int], ...]

    @staticmethod
    def of(ranges: Iterable[tuple[int, int]]) -> Chars:
        """Build the node from inclusive ranges in any order; ranges are merged and surrogates are removed."""
        merged: list[list[int]] = []
        for low, high in sorted(_without_surrogates(ranges)):
            if merged and low <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        return Chars(tuple((low, high) for low, high in merged))


@value()
class Sequence:
    """A node that matches its items one after the other."""

    items: tuple[Node, ...]


@value()
class Choice:
    """A node that matches one of its items; where several match, the earliest is preferred."""

    items: tuple[Node, ...]


@value()
class Repeat:
    """A node that matches its item from `minimum` to `maximum` times; `maximum` None means no upper bound."""

    item: Node
    minimum: int = 0
    maximum: int | None = None
    greedy: bool = True


@value()
class Intersection:
    """A node that matches the byte strings that all its items match."""

    items: tuple[Node, ...]


@value()
class Complement:
    """A node that matches every byte string that its item does not match, ill-formed UTF-8 included."""

    item: Node


@value()
class Shortest:
    """A node that matches the non-empty strings of its item that have no non-empty proper prefix in it."""

    item: Node


@value()
class Substring:
    """A node that matches any run of whole characters of `text`, the empty run included."""

    text: str


@value()
class JsonText:
    """A node that matches `text` as it is spelled inside a JSON string; see `json_text`.

    `text` has no lone surrogates.

    `spelling` is "any" or "canonical".
    """

    text: str
    spelling: TextSpelling = "any"


@value()
class Multiples:
    """A node that matches the JSON numbers without an exponent that are multiples of `step / 10**places`.

    `step` is above 0 and no multiple of 10; `places` is below 0 for a step that ends with zeros. `digits` bounds the
    digits before the point; 0 allows any number of them.
    """

    step: int
    places: int
    digits: int = 0


@value()
class Terminal:
    """A regular node that is compiled into one automaton."""

    item: Node


@value()
class Reference:
    """A reference to a rule: it matches what the named rule derives."""

    name: str


@value()
class Way:
    """One way to write a member; the text is never empty. `meets` has a bit for each condition that this way meets."""

    item: Node
    meets: int = 0


@value()
class Member:
    """One of `Members`, written in one of `ways`.

    Attributes:
        required: whether the member is required.
        repeated: whether it may come more than once; then it is not required, and its absence meets no condition.
        absent: a bit for each condition that its absence meets.
        distinct: whether the value that it begins with differs from those of all other such members. Its ways begin
            with a terminal, and that with the value: a JSON string, a plain decimal, or any other text as it is.
            Strings are compared decoded, decimals as numbers.
    """

    ways: tuple[Way, ...]
    required: bool = False
    repeated: bool = False
    absent: int = 0
    distinct: bool = False


@value()
class Members:
    """A list of members, each at most once, with `separator` between them; `minimum` to `maximum` members.

    The members come in any order, or, if `ordered`, in the written order, with the repetitions of a member in its
    place. There are `conditions` conditions, and all must be met at the end; a condition whose bit is in `once` must be
    met by exactly one member.
    """

    members: tuple[Member, ...]
    separator: Node
    ordered: bool = False
    minimum: int = 1
    maximum: int | None = None
    conditions: int = 0
    once: int = 0


@value()
class Capture:
    """A node that matches its item and reports its place in the parse under `name`, unless the name is internal."""

    name: str
    item: Node


def is_internal(name: str) -> bool:
    """Return whether captures of this name are internal, and so not reported."""
    return name.startswith(".")


@value()
class Region:
    """A node that matches its item, in which at most `max_tokens` tokens may begin.

    A token counts for the region that its first byte is in. A token that begins before the region and reaches into it
    does not count; a token that begins in the region and reaches beyond its end does. The count restarts each time the
    region is entered.
    """

    item: Node
    max_tokens: int


@value()
class Token:
    """A node that matches exactly the token with this id, whatever its bytes."""

    token_id: int


@value()
class Special:
    """A node that matches the special token `name`; with `or_text`, the name as text if there is no such token."""

    name: str
    or_text: bool = False


@value()
class AnySpecial:
    """A node that matches any special token that is neither an end id nor excluded by name or id."""

    excluded: tuple[str | int, ...] = ()


class SchemaRules(Protocol):
    """The rules of a schema, which the native library writes into a program, the start rule first.

    Attributes:
        count: how many rules there are.
    """

    count: int

    def names(self) -> list[str]:
        """Return the names of all rules, and perhaps further names."""
        ...

    def write(self, first: int, written: bytes) -> tuple[bytes, int, bytes, int]:
        """Write the program of the rules.

        Return the program, its number of nodes, the programs of terminals that no earlier rule has, and the number of
        these.

        Args:
            first: the number of the first rule.
            written: the programs of the terminals of earlier rules, by number; the new ones come next.
        """
        ...


class SchemaSource(Protocol):
    """A JSON Schema with its options, to be lowered on demand; schemas with equal content compare equal.

    Its methods raise the errors of lowering the schema.
    """

    @property
    def text(self) -> str:
        """The schema as JSON."""
        ...

    def lowered(self) -> tuple[Mapping[str, Node], str]:
        """Return the rules and the name of the start rule; they are computed once."""
        ...

    def program(self, limits: Limits, *, alone: bool) -> Program | SchemaRules:
        """Write the rules, or return a way to write them among those of another grammar.

        Args:
            limits: for the number of nodes.
            alone: whether the schema is a whole grammar: then there may be its program.
        """
        ...

    def without(self, markers: tuple[str, ...]) -> SchemaSource:
        """Return the schema in canonical spelling with no marker in any text; its first character may be escaped."""
        ...

    def escaping(self, can_stay: Callable[[str], bool]) -> SchemaSource:
        r"""Return the schema where listed texts have `\u` escapes for the characters that cannot be written raw."""
        ...


@value()
class Schema:
    """A node that matches the documents of a JSON Schema.

    It is the body of a rule; its own rules' names begin with `prefix`.
    """

    source: SchemaSource
    prefix: str = ""


def with_schemas_lowered(rules: Mapping[str, Node], start: str) -> tuple[Mapping[str, Node], str]:
    """Return the rules with every schema replaced by the rules it is lowered to, and the name of the start rule."""
    found: dict[str, Node] = {}
    own: dict[str, Node] = {}
    named: dict[str, str] = {}
    for name, body in rules.items():
        if isinstance(body, Schema):
            of_schema, first = body.source.lowered()
            if body.prefix:
                found.update((body.prefix + each, renamed(node, body.prefix)) for each, node in of_schema.items())
            else:
                found.update(of_schema)
            named[name] = body.prefix + first
        else:
            found[name] = own[name] = body

    def follow(node: Node) -> Node:
        if isinstance(node, Reference):
            return Reference(named.get(node.name, node.name))
        return node if isinstance(node, (Terminal, Schema)) else map_children(node, follow)

    if any(name != first for name, first in named.items()):
        found.update((name, follow(body)) for name, body in own.items())
    return found, named.get(start, start)


def renamed(node: Node, prefix: str) -> Node:
    """Return the node with `prefix` before the name of each rule that it refers to."""
    if isinstance(node, Reference):
        return Reference(prefix + node.name)
    if isinstance(node, Schema):
        return Schema(node.source, prefix + node.prefix)
    return node if isinstance(node, Terminal) else map_children(node, lambda child: renamed(child, prefix))


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
    | Multiples
    | Terminal
    | Reference
    | Members
    | Capture
    | Region
    | Token
    | Special
    | AnySpecial
    | Schema
)

#: Kinds of nodes without parts that may occur outside of terminals; most nodes are of these kinds.
WITHOUT_PARTS: frozenset[type] = frozenset({Bytes, Chars, Reference, Schema, Terminal})

EMPTY = Sequence(())
NOTHING = Choice(())
ANY_CHAR = Chars(((0, 0xD7FF), (0xE000, 0x10FFFF)))
ANY_TEXT = Repeat(ANY_CHAR)


def literal(text: str) -> Bytes:
    """Return the UTF-8 bytes of `text`.

    Raises:
        InvalidGrammar: `text` contains a lone surrogate, which UTF-8 cannot spell.
    """
    try:
        return Bytes(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InvalidGrammar(
            f"the text {text!r} holds a lone surrogate at index {error.start}, which UTF-8 cannot spell; remove it"
        ) from error


def optional(node: Node) -> Repeat:
    """Make the node optional: once or not at all."""
    return Repeat(node, 0, 1)


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below `node`."""
    if isinstance(node, (Sequence, Choice, Intersection)):
        return node.items
    if isinstance(node, (Repeat, Complement, Shortest, Terminal, Capture, Region)):
        return (node.item,)
    if isinstance(node, Members):
        return (node.separator, *(way.item for member in node.members for way in member.ways))
    return ()


def holds_of_parts(node: Node, holds: Callable[[Node], bool]) -> bool | None:
    """Tell whether a node derives some text all of whose parts satisfy `holds`.

    Return None for a node that is neither a sequence of parts nor a choice among parts; the caller decides such nodes.
    """
    if isinstance(node, Sequence):
        return all(map(holds, node.items))
    if isinstance(node, Choice):
        return any(map(holds, node.items))
    if isinstance(node, Repeat):
        return node.minimum == 0 or holds(node.item)
    return holds(node.item) if isinstance(node, Capture) else None


def nullable(node: Node, rules: Set[str] = frozenset()) -> bool:
    """Return whether a node derives the empty text; `rules` are the names of the rules that do."""
    found = holds_of_parts(node, lambda part: nullable(part, rules))
    if found is not None:
        return found
    if isinstance(node, Intersection):
        return all(nullable(item) for item in node.items)
    if isinstance(node, (Terminal, Region)):
        return nullable(node.item, rules)
    if isinstance(node, Complement):
        return not nullable(node.item)
    if isinstance(node, Reference):
        return node.name in rules
    if isinstance(node, JsonText):
        return not node.text
    return isinstance(node, Substring) or (isinstance(node, Bytes) and not node.value)


def rules_where(rules: Mapping[str, Node], holds: Callable[[Node, Set[str]], bool]) -> Set[str]:
    """Return the smallest set of rules for which `holds` of the body, given the rules found so far."""
    found: set[str] = set()
    users: dict[str, set[str]] = {}
    for name, body in rules.items():
        for part in walk(body):
            if isinstance(part, Reference):
                users.setdefault(part.name, set()).add(name)
    waiting = list(rules)
    while waiting:
        name = waiting.pop()
        if name not in found and holds(rules[name], found):
            found.add(name)
            waiting.extend(users.get(name, ()))
    return found


def inner_first(rules: Mapping[str, Node]) -> list[str]:
    """Return the rules in an order where each follows the rules that it refers to.

    Rules on a cycle, and rules that lead to a cycle, are left out.
    """
    uses = {
        name: list(dict.fromkeys(part.name for part in walk(body) if isinstance(part, Reference)))
        for name, body in rules.items()
    }
    waiting = {name: len(used) for name, used in uses.items()}
    users: dict[str, list[str]] = {}
    for name, used in uses.items():
        for other in used:
            users.setdefault(other, []).append(name)
    order = [name for name, count in waiting.items() if not count]
    for name in order:
        for user in users.get(name, ()):
            waiting[user] -= 1
            if not waiting[user]:
                order.append(user)
    return order


def map_children(node: Node, function: Callable[[Node], Node]) -> Node:
    """Return the node with `function` applied to each child."""
    if isinstance(node, (Sequence, Choice, Intersection)):
        return type(node)(tuple(function(item) for item in node.items))
    if isinstance(node, Repeat):
        return Repeat(function(node.item), node.minimum, node.maximum, node.greedy)
    if isinstance(node, (Complement, Shortest, Terminal)):
        return type(node)(function(node.item))
    if isinstance(node, Capture):
        return Capture(node.name, function(node.item))
    if isinstance(node, Region):
        return Region(function(node.item), node.max_tokens)
    if isinstance(node, Members):
        members = (
            replace(member, ways=tuple(Way(function(way.item), way.meets) for way in member.ways))
            for member in node.members
        )
        return replace(node, members=tuple(members), separator=function(node.separator))
    return node


def without(kind: type[Capture | Terminal], node: Node) -> Node:
    """Return the node with each part of the given kind replaced by what it holds."""
    return without(kind, node.item) if isinstance(node, kind) else map_children(node, partial(without, kind))


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and everything below it, parents first, from the left."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


_NodeT = TypeVar("_NodeT", bound="Node")

#: The interned nodes by identity.
_interned: dict[int, Node] = {}


def interned(node: _NodeT) -> _NodeT:
    """Mark a regular node or a `Terminal` that is made once and never freed, so that results for it are kept.

    Use it only for nodes that do not come from a user's format: there are few of these, and their size and repeats are
    known to be within limits.
    """
    for each in (node, node.item) if isinstance(node, Terminal) else (node,):
        _interned[id(each)] = each
    return node


def is_interned(node: Node) -> bool:
    """Return whether a node was marked as `interned`."""
    return id(node) in _interned


def _without_surrogates(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for low, high in ranges:
        if low <= min(high, 0xD7FF):
            yield low, min(high, 0xD7FF)
        if max(low, 0xE000) <= high:
            yield max(low, 0xE000), high
