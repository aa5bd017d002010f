"""The oracle: a grammar engine that tries every token, byte by byte, in the reference recognizer.

It shares grammars, limits and terminals' automata with the other engines, and no other code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.protocol import NoBudget, OneByOne, StepInTwoCalls, mask_status
from formatter_core.grammar import Grammar
from formatter_core.limits import Limits
from formatter_core.testing.recognizer import Recognizer
from formatter_core.vocabulary import Vocabulary

__all__ = ["OracleEngine", "OracleGrammar", "OracleState"]


class OracleEngine:
    """A slow and obviously right `GrammarEngine`; it can do every node."""

    name = "oracle"

    def compile(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> OracleGrammar:
        """See `GrammarEngine.compile`; nothing is ever unsupported."""
        return OracleGrammar(grammar, vocabulary, limits)


class _TrieNode:
    """The tokens that begin with the bytes that lead here; `ids` are those that end here."""

    __slots__ = ("children", "ids")

    def __init__(self) -> None:
        self.children: dict[int, _TrieNode] = {}
        self.ids: list[int] = []


class OracleGrammar(OneByOne):
    """A grammar and the trie of a vocabulary's tokens."""

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> None:
        self.vocabulary = vocabulary
        self.root = _TrieNode()
        self._first = Recognizer(grammar, limits)
        for token_id in range(len(vocabulary)):
            text = vocabulary.text_token(token_id)
            if text:
                node = self.root
                for byte in text:
                    node = node.children.setdefault(byte, _TrieNode())
                node.ids.append(token_id)

    def start(self) -> OracleState:
        """Return the state of a new sequence."""
        return OracleState(self, [self._first.copy()], [])

    def may_name(self, token_id: int) -> bool:
        """Tell whether a grammar's `Token` may name this id: an id of the vocabulary that is not an end id."""
        return 0 <= token_id < len(self.vocabulary) and token_id not in self.vocabulary.end_ids


# One step that can be undone: how many steps of the one recognizer, or the recognizers that there were before.
_Undo: TypeAlias = "int | list[Recognizer]"


class OracleState(StepInTwoCalls, NoBudget):
    """One sequence; see `EngineState`.

    A token that the grammar names by its id and whose bytes fit as well may be meant either way, so there can be
    several recognizers.
    """

    def __init__(self, grammar: OracleGrammar, recognizers: list[Recognizer], undo: list[_Undo]) -> None:
        self._grammar = grammar
        self._recognizers = recognizers
        self._undo = undo

    def fill_bitmask(self, row: NDArray[np.int32]) -> int:
        """Write the mask of the tokens that may come next; end ids are left 0."""
        bits = np.zeros(len(row) * 32, dtype=np.uint8)
        bits[list(self._allowed())] = 1
        row[:] = np.packbits(bits, bitorder="little").view(np.dtype("<i4"))
        return mask_status(row, self.can_stop())

    def accept_token(self, token_id: int) -> bool:
        """Append one token; False, with nothing changed, where it is not allowed."""
        text = self._grammar.vocabulary.text_token(token_id)
        named = self._grammar.may_name(token_id)
        if len(self._recognizers) == 1 and not (named and token_id in self._recognizers[0].next_tokens()):
            return text is not None and self.accept_bytes(text)
        following: list[Recognizer] = []
        for recognizer in self._recognizers:
            by_id, by_text = recognizer.copy(), recognizer.copy()
            if named and by_id.push_token(token_id):
                following.append(by_id)
            if text is not None and _push_all(by_text, text):
                following.append(by_text)
        return self._take(following)

    def accept_bytes(self, data: bytes) -> bool:
        """Append bytes; False, with nothing changed, where they are not allowed."""
        if len(self._recognizers) == 1:
            if not _push_all(self._recognizers[0], data):
                return False
            self._undo.append(len(data))
            return True
        copies = [recognizer.copy() for recognizer in self._recognizers]
        return self._take([copy for copy in copies if _push_all(copy, data)])

    def rollback(self, steps: int) -> None:
        """Undo the last `steps` steps."""
        for _ in range(steps):
            undo = self._undo.pop()
            if isinstance(undo, int):
                self._recognizers[0].pop(undo)
            else:
                # A fork may hold the same list.
                self._recognizers = [recognizer.copy() for recognizer in undo]

    def fork(self) -> OracleState:
        """Return an independent copy, including its history."""
        return OracleState(self._grammar, [one.copy() for one in self._recognizers], list(self._undo))

    def can_stop(self) -> bool:
        """Tell whether the accepted text is complete."""
        return any(recognizer.can_stop() for recognizer in self._recognizers)

    def forced_bytes(self, limit: int) -> bytes:
        """Return the longest byte string that begins every completion of the rest, up to `limit`; empty if complete."""
        recognizers = [recognizer.copy() for recognizer in self._recognizers]
        result = bytearray()
        while len(result) < limit and not any(one.can_stop() or one.next_tokens() for one in recognizers):
            following = {byte for one in recognizers for byte in one.next_bytes()}
            if len(following) != 1:
                break
            byte = following.pop()
            recognizers = [one for one in recognizers if one.push(byte)]
            result.append(byte)
        return bytes(result)

    def _take(self, following: list[Recognizer]) -> bool:
        if following:
            self._undo.append(self._recognizers)
            self._recognizers = following
        return bool(following)

    def _allowed(self) -> Iterator[int]:
        for recognizer in self._recognizers:
            yield from (token_id for token_id in recognizer.next_tokens() if self._grammar.may_name(token_id))
            trial = recognizer.copy()
            # Each entry is a node to try with the byte that leads to it; None undoes one byte.
            stack: list[tuple[int, _TrieNode] | None] = list(self._grammar.root.children.items())
            while stack:
                entry = stack.pop()
                if entry is None:
                    trial.pop(1)
                    continue
                byte, node = entry
                if trial.takes(byte):
                    yield from node.ids
                    if node.children:
                        trial.push(byte)
                        stack.append(None)
                        stack.extend(node.children.items())


def _push_all(recognizer: Recognizer, data: bytes) -> bool:
    """Push every byte, or none, also where `Limits` end it."""
    before = recognizer.length
    done = False
    try:
        done = all(recognizer.push(byte) for byte in data)
    finally:
        if not done:
            recognizer.pop(recognizer.length - before)
    return done
