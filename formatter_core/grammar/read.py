"""A grammar out of its program: what the native library wrote for schemas, as nodes, for engines that need these.

`program` says what the bytes mean. What one program stands for, wherever it comes again, is one object.
"""

from __future__ import annotations

from collections.abc import Sequence as Items

from formatter_core.grammar import operations
from formatter_core.grammar.checked import Program
from formatter_core.grammar.grammar import Grammar
from formatter_core.grammar.nodes import (
    Bytes,
    Capture,
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
    Region,
    Repeat,
    Schema,
    Sequence,
    Shortest,
    Substring,
    Terminal,
    Token,
    Way,
)
from formatter_core.limits import Limits

__all__ = ["without_schemas"]


def without_schemas(grammar: Grammar, limits: Limits) -> Grammar:
    """Put the rules of a grammar's program in the place of its schemas; return it as it is if it has none.

    Raises:
        FormatterError: what `Grammar.check` raises.
    """
    if not any(isinstance(body, Schema) for body in grammar.rules.values()):
        return grammar
    program, named = grammar.check(limits), grammar.rule_names(limits)
    return _Reader(program).grammar(() if named is None else named[0])


class _Reader:
    """Reads the bytes of one program."""

    def __init__(self, program: Program) -> None:
        self._data = program.data
        self._captures = program.names
        self._at = len(operations.MAGIC)
        #: What stands for programs of terminals, and of kept nodes.
        self._alone: dict[tuple[int, bytes], Node] = {}

    def grammar(self, names: Items[str]) -> Grammar:
        """Read all; rules without a name are called by their numbers."""
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
        return Grammar(dict(zip(names, bodies, strict=False)), names[start])

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
            elif operation == operations.TOKEN:
                stack.append(Token(self._number()))
            elif operation == operations.CAPTURE:
                stack.append(Capture(self._captures[self._number()], stack.pop()))
            elif operation == operations.REGION:
                stack.append(Region(stack.pop(), self._number()))
            elif operation == operations.MEMBERS:
                stack.append(self._members(stack))
            else:
                stack.append(self._node(operation, stack))
        self._at += 1
        return stack[0]

    def _whole(self, operation: int) -> Node:
        """Read a program that stands alone."""
        size = self._number()
        end = self._at + size
        key = operation, self._data[self._at : end]
        if key not in self._alone:
            node = self._inside(end)
            self._alone[key] = Terminal(node) if operation == operations.TERMINAL else node
        self._at = end
        return self._alone[key]

    def _inside(self, end: int) -> Node:
        """Read what stands inside a terminal."""
        stack: list[Node] = []
        made: list[Node] = []
        while self._at < end:
            operation = self._byte()
            if operation == operations.AGAIN:
                stack.append(made[self._number()])
                continue
            made.append(self._whole(operation) if operation == operations.KEPT else self._node(operation, stack))
            stack.append(made[-1])
        return stack[0]

    def _node(self, operation: int, stack: list[Node]) -> Node:
        """Read a node that may stand anywhere, or only inside a terminal."""
        if operation == operations.BYTES:
            return Bytes(self._counted())
        if operation == operations.CHARS:
            return Chars(tuple((self._number(), self._number()) for _ in range(self._number())))
        if operation == operations.SUBSTRING:
            return Substring(self._counted().decode("utf-8", "surrogatepass"))
        if operation in (operations.JSON_TEXT, operations.CANONICAL_TEXT):
            return JsonText(self._counted().decode(), "any" if operation == operations.JSON_TEXT else "canonical")
        if operation == operations.MULTIPLES:
            step, places, zeros, digits = (self._number() for _ in range(4))
            return Multiples(step, places - zeros, digits)
        if operation in (operations.REPEAT, operations.LAZY_REPEAT):
            minimum, maximum = self._number(), self._maximum()
            return Repeat(stack.pop(), minimum, maximum, operation == operations.REPEAT)
        if operation in (operations.COMPLEMENT, operations.SHORTEST):
            return Complement(stack.pop()) if operation == operations.COMPLEMENT else Shortest(stack.pop())
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
