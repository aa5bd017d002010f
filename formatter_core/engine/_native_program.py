"""Grammars as bytes, for the native engine.

The format, version 1: the bytes ``FCG1``, the number of rules, the number of the start rule, and one program for each
rule. A program is a list of operations in postfix order that ends with `RULE_END`; numbers are LEB128. What is made
inside of terminals is numbered from 0 on, and `AGAIN` stands for one of it; so is every terminal that ends.
"""

from __future__ import annotations

from formatter_core.grammar import (
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Substring,
    Terminal,
    Token,
)
from formatter_core.vocabulary import Vocabulary

__all__ = ["encode"]

_MAGIC = b"FCG1"
_RULE_END = 0
_BYTES = 1
_CHARS = 2
_SEQUENCE = 3
_CHOICE = 4
_REPEAT = 5
_INTERSECTION = 6
_COMPLEMENT = 7
_SHORTEST = 8
_SUBSTRING = 9
_TERMINAL_BEGIN = 10
_TERMINAL_END = 11
_AGAIN = 12
_REFERENCE = 13
_TOKEN = 14

# An id that no vocabulary has: in place of end ids, which are never meant by a grammar, and of unknown ids.
_NO_TOKEN = 2**32 - 1

_LISTS: dict[type, int] = {Sequence: _SEQUENCE, Choice: _CHOICE, Intersection: _INTERSECTION}
_WRAPPERS: dict[type, int] = {Complement: _COMPLEMENT, Shortest: _SHORTEST}


def encode(grammar: Grammar, vocabulary: Vocabulary) -> bytes:
    """The grammar as bytes. Captures are left out: they do not change what is matched."""
    writer = _Writer({name: number for number, name in enumerate(grammar.rules)}, vocabulary)
    writer.number(len(grammar.rules))
    writer.number(writer.rules[grammar.start])
    for body in grammar.rules.values():
        writer.program(body)
    return bytes(writer.out)


class _Writer:
    def __init__(self, rules: dict[str, int], vocabulary: Vocabulary) -> None:
        self.rules = rules
        self._vocabulary = vocabulary
        self.out = bytearray(_MAGIC)
        # Readers of formats use one value in many places: each is written once. The grammar keeps them alive.
        self._made: dict[int, int] = {}

    def number(self, value: int) -> None:
        """Write a number."""
        while value >= 0x80:
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)

    def program(self, body: Node) -> None:
        """Write a rule's body. `Grammar.check` has bounded its depth."""
        self._write(body, in_terminal=False)
        self.out.append(_RULE_END)

    def _write(self, node: Node, in_terminal: bool) -> None:
        made = self._made
        again = made.get(id(node))
        if again is not None:
            self.out.append(_AGAIN)
            self.number(again)
            return
        if isinstance(node, (Sequence, Choice, Intersection)):
            for item in node.items:
                self._write(item, in_terminal)
            self.out.append(_LISTS[type(node)])
            self.number(len(node.items))
        elif isinstance(node, Capture):
            self._write(node.item, in_terminal)
            return
        elif isinstance(node, Repeat):
            self._write(node.item, in_terminal)
            self.out.append(_REPEAT)
            self.number(node.minimum)
            self.number(0 if node.maximum is None else node.maximum + 1)
        elif isinstance(node, Terminal):
            self.out.append(_TERMINAL_BEGIN)
            self._write(node.item, in_terminal=True)
            self.out.append(_TERMINAL_END)
            made[id(node)] = len(made)
        elif isinstance(node, (Complement, Shortest)):
            self._write(node.item, in_terminal)
            self.out.append(_WRAPPERS[type(node)])
        else:
            self._leaf(node)
        if in_terminal:
            made[id(node)] = len(made)

    def _leaf(self, node: Node) -> None:
        if isinstance(node, Bytes):
            self.out.append(_BYTES)
            self._counted(node.value)
        elif isinstance(node, Chars):
            self.out.append(_CHARS)
            self.number(len(node.ranges))
            for low, high in node.ranges:
                self.number(low)
                self.number(high)
        elif isinstance(node, Substring):
            self.out.append(_SUBSTRING)
            self._counted(node.text.encode("utf-8", "surrogatepass"))
        elif isinstance(node, Reference):
            self.out.append(_REFERENCE)
            self.number(self.rules[node.name])
        elif isinstance(node, Token):
            self.out.append(_TOKEN)
            known = node.token_id < len(self._vocabulary) and node.token_id not in self._vocabulary.end_ids
            self.number(node.token_id if known else _NO_TOKEN)

    def _counted(self, data: bytes) -> None:
        self.number(len(data))
        self.out += data
