"""Grammars as bytes, for the native engine.

The format, version 2: the bytes ``FCG2``, the number of rules, the number of the start rule, and one program for each
rule. A program is a list of operations in postfix order that ends with `RULE_END`; numbers are LEB128. What is made
inside of terminals is numbered from 0 on, and `AGAIN` stands for one of it; so is every terminal that ends.

`KEPT` stands for a node that lasts as long as the process: a length, and the program of that node alone, which counts
as one thing made. The engine keeps what it makes of it.
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
    JsonText,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Substring,
    Terminal,
    Token,
    is_interned,
)
from formatter_core.vocabulary import Vocabulary

__all__ = ["encode"]

_MAGIC = b"FCG2"
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
_JSON_TEXT = 15
_KEPT = 16

_AGAIN_BYTE = bytes((_AGAIN,))

# An id that no vocabulary has: in place of end ids, which are never meant by a grammar, and of unknown ids.
_NO_TOKEN = 2**32 - 1

_LISTS: dict[type, int] = {Sequence: _SEQUENCE, Choice: _CHOICE, Intersection: _INTERSECTION}
_WRAPPERS: dict[type, int] = {Complement: _COMPLEMENT, Shortest: _SHORTEST}


#: The programs of interned nodes, by identity.
_kept: dict[int, bytes] = {}


def encode(grammar: Grammar, vocabulary: Vocabulary) -> bytes:
    """The grammar as bytes. Captures are left out: they do not change what is matched."""
    writer = _Writer({name: number for number, name in enumerate(grammar.rules)}, vocabulary)
    writer.number(len(grammar.rules))
    writer.number(writer.rules[grammar.start])
    for body in grammar.rules.values():
        writer.program(body)
    return _MAGIC + writer.out


class _Writer:
    def __init__(self, rules: dict[str, int], vocabulary: Vocabulary | None) -> None:
        self.rules = rules
        self._vocabulary = vocabulary
        self.out = bytearray()
        # Readers of formats use one value in many places: each is written once. The grammar keeps them alive.
        self._again: dict[int, bytes] = {}

    def number(self, value: int) -> None:
        """Write a number."""
        if value < 0x80:
            self.out.append(value)
        else:
            self.out += _leb128(value)

    def program(self, body: Node) -> None:
        """Write a rule's body. `Grammar.check` has bounded its depth."""
        self._write(body)
        self.out.append(_RULE_END)

    def regular(self, node: Node) -> None:
        """Write a node inside of a terminal."""
        again = self._again.get(id(node))
        if again is not None:
            self.out += again
            return
        if isinstance(node, JsonText):
            self._counted(_JSON_TEXT, node.text.encode("utf-8"))
        elif self._vocabulary is not None and is_interned(node):
            self._counted(_KEPT, _program_of(node))
        elif isinstance(node, (Sequence, Choice, Intersection)):
            for item in node.items:
                known = self._again.get(id(item))
                if known is not None:
                    self.out += known
                else:
                    self.regular(item)
            self.out.append(_LISTS[type(node)])
            self.number(len(node.items))
        elif isinstance(node, Repeat):
            self.regular(node.item)
            self._repeat(node)
        elif isinstance(node, (Complement, Shortest)):
            self.regular(node.item)
            self.out.append(_WRAPPERS[type(node)])
        else:
            self._leaf(node)
        self._made(node)

    def _made(self, node: Node) -> None:
        self._again[id(node)] = _AGAIN_BYTE + _leb128(len(self._again))

    def _write(self, node: Node) -> None:
        if isinstance(node, (Sequence, Choice)):
            for item in node.items:
                again = self._again.get(id(item))
                if again is not None:
                    self.out += again
                else:
                    self._write(item)
            self.out.append(_LISTS[type(node)])
            self.number(len(node.items))
        elif isinstance(node, Reference):
            self.out.append(_REFERENCE)
            self.number(self.rules[node.name])
        elif isinstance(node, Terminal):
            again = self._again.get(id(node))
            if again is not None:
                self.out += again
                return
            self.out.append(_TERMINAL_BEGIN)
            self.regular(node.item)
            self.out.append(_TERMINAL_END)
            self._made(node)
        elif isinstance(node, Capture):
            self._write(node.item)
        elif isinstance(node, Repeat):
            self._write(node.item)
            self._repeat(node)
        elif isinstance(node, Token):
            self.out.append(_TOKEN)
            self.number(self._known(node.token_id))
        else:
            self._leaf(node)

    def _repeat(self, node: Repeat) -> None:
        self.out.append(_REPEAT)
        self.number(node.minimum)
        self.number(0 if node.maximum is None else node.maximum + 1)

    def _leaf(self, node: Node) -> None:
        if isinstance(node, Bytes):
            self._counted(_BYTES, node.value)
        elif isinstance(node, Chars):
            self.out.append(_CHARS)
            self.number(len(node.ranges))
            for low, high in node.ranges:
                self.number(low)
                self.number(high)
        elif isinstance(node, Substring):
            self._counted(_SUBSTRING, node.text.encode("utf-8", "surrogatepass"))

    def _counted(self, operation: int, data: bytes) -> None:
        self.out.append(operation)
        self.number(len(data))
        self.out += data

    def _known(self, token_id: int) -> int:
        vocabulary = self._vocabulary
        if vocabulary is None or token_id >= len(vocabulary) or token_id in vocabulary.end_ids:
            return _NO_TOKEN
        return token_id


def _program_of(node: Node) -> bytes:
    """The program of a interned node, all written out."""
    program = _kept.get(id(node))
    if program is None:
        writer = _Writer({}, None)
        writer.regular(node)
        program = _kept[id(node)] = bytes(writer.out)
    return program


def _leb128(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    return bytes((value & 0x7F | 0x80,)) + _leb128(value >> 7)
