"""Grammars as numbers, for the native parser: nodes as they are written, with captures and preferences.

The format is that of `native/src/written.rs`.
"""

from __future__ import annotations

from array import array

from formatter_core.errors import InvalidGrammar
from formatter_core.grammar import (
    AnySpecial,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    JsonText,
    Members,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Special,
    Substring,
    Terminal,
    Token,
    children,
)
from formatter_core.grammar.program import operands_of_members

__all__ = ["ParserProgram"]

_UNBOUNDED = 2**32 - 1
_KINDS: dict[type, int] = {
    Bytes: 1, Chars: 2, Sequence: 3, Choice: 4, Repeat: 5, Intersection: 6, Complement: 7, Shortest: 8, Substring: 9,
    JsonText: 10, Terminal: 11, Reference: 12, Token: 13, Capture: 14,
    Members: 15,
}  # fmt: skip


class ParserProgram:
    """A grammar that `Grammar.check` has passed.

    Attributes:
        numbers: the nodes, each after those that it is made of.
        text: what literals refer to.
        names: the names of captures, by the numbers that stand for them.
    """

    def __init__(self, grammar: Grammar) -> None:
        self._rules = {name: number for number, name in enumerate(grammar.rules)}
        self._names: dict[str, int] = {}
        # A node that is used in many places is written once. The grammar keeps them alive.
        self._known: dict[int, int] = {}
        self._nodes = array("I")
        self._text = bytearray()
        bodies = [self._write(body) for body in grammar.rules.values()]
        header = (len(self._known), len(bodies), self._rules[grammar.start])
        self.numbers = array("I", header) + self._nodes + array("I", bodies)
        self.text = bytes(self._text)
        self.names = tuple(self._names)

    def _write(self, body: Node) -> int:
        """The number of a node, once it and all below it are written."""
        known = self._known
        stack = [body]
        while stack:
            node = stack[-1]
            missing = [child for child in children(node) if id(child) not in known]
            if missing and id(node) not in known:
                stack += reversed(missing)
                continue
            stack.pop()
            if id(node) not in known:
                self._nodes.extend(self._content(node))
                known[id(node)] = len(known)
        return known[id(body)]

    def _content(self, node: Node) -> tuple[int, ...]:
        if isinstance(node, (Special, AnySpecial)):
            raise InvalidGrammar(f"a special token is not resolved: {node}; put a Token or text in its place")
        return (_KINDS[type(node)], *self.fields(node))

    def fields(self, node: Node) -> tuple[int, ...]:
        """What stands after a node's kind."""
        if isinstance(node, Bytes):
            return self._place(node.value)
        if isinstance(node, (Substring, JsonText)):
            return self._place(node.text.encode("utf-8", "surrogatepass"))
        if isinstance(node, Chars):
            return (len(node.ranges), *(bound for bounds in node.ranges for bound in bounds))
        if isinstance(node, (Sequence, Choice, Intersection)):
            return (len(node.items), *(self._known[id(item)] for item in node.items))
        if isinstance(node, Repeat):
            maximum = _UNBOUNDED if node.maximum is None else node.maximum
            return (self._known[id(node.item)], node.minimum, maximum, int(node.greedy))
        if isinstance(node, Reference):
            return (self._rules[node.name],)
        if isinstance(node, Token):
            return (node.token_id,)
        if isinstance(node, Capture):
            return (self._names.setdefault(node.name, len(self._names)), self._known[id(node.item)])
        if isinstance(node, Members):
            items = [self._known[id(item)] for item in children(node)]
            return (*self._place(operands_of_members(node)), len(items), *items)
        if isinstance(node, (Complement, Shortest, Terminal)):
            return (self._known[id(node.item)],)
        return ()

    def _place(self, text: bytes) -> tuple[int, int]:
        start = len(self._text)
        self._text += text
        return start, len(text)
