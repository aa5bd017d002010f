"""A reader of a schema's rules from the program that the native library made.

`program` says what the bytes mean. Equal programs give one object, and many schemas share the terminals with short
programs. A listed text is the `Bytes` that spell it.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from functools import cache, lru_cache

from formatter_core.grammar import operations
from formatter_core.grammar.checked import Program
from formatter_core.grammar.nodes import (
    ANY_CHAR,
    ANY_TEXT,
    Bytes,
    Chars,
    Choice,
    Complement,
    Intersection,
    JsonText,
    Member,
    Members,
    Multiples,
    Node,
    Reference,
    Repeat,
    Sequence,
    Terminal,
    Way,
    interned,
)

__all__ = ["regular_node", "rules_of"]

#: The longest programs of terminals that are kept for other schemas, in bytes, and how many of them.
_MAX_SHARED_BYTES, _MAX_SHARED_PROGRAMS = 1024, 512


def rules_of(program: Program) -> tuple[dict[str, Node], str]:
    """Read the rules, and the name of the start rule; without titles, rules are called by their numbers."""
    return _Reader(program.data, len(operations.MAGIC)).rules(program.titles() or ())


#: Nodes that occur in many other nodes and are written once.
_FIXED: dict[int, Node] = {operations.CHARS: ANY_CHAR, operations.REPEAT: ANY_TEXT}


def regular_node(program: bytes) -> Node:
    """Read a regular node. What the library makes once, such as a string format, is one object here, too."""
    return _Reader(program, 0, keeps=True).inside()


def _read_alone(operation: int, data: bytes) -> Node:
    """Read a program by itself: that of a terminal or a kept node."""
    node = _Reader(data, 0).inside()
    return Terminal(node) if operation == operations.TERMINAL else node


@cache
def _kept(data: bytes) -> Node:
    """Read one of the few nodes that the library makes once."""
    return interned(_read_alone(operations.KEPT, data))


_shared = lru_cache(maxsize=_MAX_SHARED_PROGRAMS)(_read_alone)


class _Reader:
    """A reader of the bytes of one program."""

    def __init__(self, data: bytes, at: int, *, keeps: bool = False) -> None:
        self._data = data
        self._at = at
        self._keeps = keeps
        #: The nodes for programs of terminals and of kept nodes.
        self._alone: dict[tuple[int, bytes], Node] = {}

    def rules(self, names: Items[str]) -> tuple[dict[str, Node], str]:
        """Read all."""
        count, start = self._number(), self._number()
        names = names if len(names) >= count else tuple(map(str, range(count)))
        bodies: list[Node] = []
        terminals: list[Node] = []
        while len(bodies) < count:
            if self._data[self._at] == operations.RULES:
                self._at += 1
                self._number()  # how many bytes
                shared, own, first = self._number(), list[Node](), len(bodies)
                bodies += [self._rule(names[first:], own) for _ in range(shared)]
            else:
                bodies.append(self._rule(names, terminals))
        return dict(zip(names, bodies, strict=False)), names[start]

    def _rule(self, names: Items[str], terminals: list[Node]) -> Node:
        stack: list[Node] = []
        while self._data[self._at] != operations.RULE_END:
            operation = self._byte()
            if operation == operations.AGAIN:
                stack.append(terminals[self._number()])
            elif operation == operations.TERMINAL:
                terminals.append(self._whole(operation))
                stack.append(terminals[-1])
            elif operation == operations.REFERENCE:
                stack.append(Reference(names[self._number()]))
            elif operation == operations.MEMBERS:
                stack.append(self._members(stack))
            else:
                stack.append(self._node(operation, stack))
        self._at += 1
        return stack[0]

    def _whole(self, operation: int) -> Node:
        """Read a program by itself."""
        data = self._counted()
        if self._keeps:
            return _kept(data)
        key = operation, data
        if key not in self._alone:
            self._alone[key] = _shared(*key) if len(data) <= _MAX_SHARED_BYTES else _read_alone(*key)
        return self._alone[key]

    def inside(self) -> Node:
        """Read the content of a terminal."""
        stack: list[Node] = []
        made: list[Node] = []
        while self._at < len(self._data):
            operation = self._byte()
            if operation == operations.AGAIN:
                stack.append(made[self._number()])
                continue
            node = self._whole(operation) if operation == operations.KEPT else self._node(operation, stack)
            made.append(_FIXED[operation] if node == _FIXED.get(operation) else node)
            stack.append(made[-1])
        return stack[0]

    def _node(self, operation: int, stack: list[Node]) -> Node:
        """Read a node that is allowed anywhere, or only inside a terminal."""
        if operation == operations.BYTES:
            return Bytes(self._counted())
        if operation == operations.CHARS:
            return Chars(tuple((self._number(), self._number()) for _ in range(self._number())))
        if operation in (operations.JSON_TEXT, operations.CANONICAL_TEXT):
            return JsonText(self._counted().decode(), "any" if operation == operations.JSON_TEXT else "canonical")
        if operation == operations.MULTIPLES:
            step, places, zeros, digits = (self._number() for _ in range(4))
            return Multiples(step, places - zeros, digits)
        if operation in (operations.REPEAT, operations.LAZY_REPEAT):
            minimum, maximum = self._number(), self._maximum()
            return Repeat(stack.pop(), minimum, maximum, operation == operations.REPEAT)
        if operation == operations.COMPLEMENT:
            return Complement(stack.pop())
        items = _taken(stack, self._number())
        if operation == operations.INTERSECTION:
            return Intersection(items)
        return Sequence(items) if operation == operations.SEQUENCE else Choice(items)

    def _members(self, stack: list[Node]) -> Members:
        ordered, minimum, maximum = bool(self._number()), self._number(), self._maximum()
        conditions, once = self._number(), self._bits()
        found: list[tuple[int, int, list[int]]] = []
        for _ in range(self._number()):
            flags = self._number()
            absent = self._bits() if flags & 4 else 0
            found.append((flags, absent, [self._bits() for _ in range(self._number())] if flags & 4 else [0]))
        items = iter(_taken(stack, sum(len(meets) for _, _, meets in found)))
        separator = stack.pop()
        members = tuple(
            Member(
                tuple(Way(next(items), each) for each in meets),
                required=bool(flags & 1),
                repeated=bool(flags & 2),
                absent=absent,
                distinct=bool(flags & 8),
            )
            for flags, absent, meets in found
        )
        return Members(members, separator, ordered, minimum, maximum, conditions, once)

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _number(self) -> int:
        value, self._at = operations.read_number(self._data, self._at)
        return value

    def _maximum(self) -> int | None:
        most = self._number()
        return most - 1 if most else None

    def _bits(self) -> int:
        return sum(1 << self._number() for _ in range(self._number()))

    def _counted(self) -> bytes:
        size = self._number()
        self._at += size
        return self._data[self._at - size : self._at]


def _taken(stack: list[Node], count: int) -> tuple[Node, ...]:
    """Take the last nodes away, and return them."""
    taken = tuple(stack[len(stack) - count :])
    del stack[len(stack) - count :]
    return taken
