"""A right grammar engine with a fault planted in it: in its states, or in what it makes of a grammar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from formatter_core.engine.protocol import (
    EngineGrammar,
    EngineState,
    GrammarEngine,
    MaskStatus,
    OneByOne,
    StepInTwoCalls,
    mask_status,
)
from formatter_core.errors import InvalidGrammar
from formatter_core.grammar import (
    ANY_TEXT,
    EMPTY,
    Bytes,
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
    map_children,
    walk,
)
from formatter_core.limits import Limits
from formatter_core.testing.automaton import DEAD, Automaton
from formatter_core.vocabulary import Vocabulary


class FaultyEngine:
    """An engine on a right one, with states of another kind and grammars that are rewritten."""

    def __init__(
        self, engine: GrammarEngine, state: type[State] | None = None, rewrite: Callable[[Node], Node] | None = None
    ) -> None:
        self.name = "faulty"
        self.state = state or State
        self._engine = engine
        self._rewrite = rewrite

    def compile(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> FaultyGrammar:
        if self._rewrite is not None:
            rules = {name: _deep(body, self._rewrite) for name, body in grammar.rules.items()}
            grammar = Grammar(rules, grammar.start)
        return FaultyGrammar(self, self._engine.compile(grammar, vocabulary, limits), grammar, vocabulary)


def _deep(node: Node, rewrite: Callable[[Node], Node]) -> Node:
    """Rewrite terminals and leaves, and what holds them, from the inside out; the inside of a terminal stays."""
    return rewrite(node if isinstance(node, Terminal) else map_children(node, lambda child: _deep(child, rewrite)))


class FaultyGrammar(OneByOne):
    def __init__(self, engine: FaultyEngine, compiled: EngineGrammar, grammar: Grammar, vocabulary: Vocabulary) -> None:
        self.grammar, self.vocabulary = grammar, vocabulary
        self.cache: dict[Any, Any] = {}
        self._engine, self._compiled = engine, compiled

    def start(self) -> State:
        return self._engine.state(self, self._compiled.start())


class State(StepInTwoCalls):
    """A right state; the faults are in its subclasses."""

    def __init__(self, grammar: FaultyGrammar, inner: EngineState, steps: int = 0) -> None:
        self.grammar, self.inner, self.steps = grammar, inner, steps

    def fill_bitmask(self, row: np.ndarray) -> int:
        self.inner.fill_bitmask(row)
        self.spoil(row)
        return mask_status(row, self.can_stop())

    def spoil(self, row: np.ndarray) -> None:
        """Change a right mask."""

    def accept_token(self, token_id: int) -> bool:
        taken = self.inner.accept_token(token_id)
        self.steps += taken
        return taken

    def accept_bytes(self, data: bytes) -> bool:
        taken = self.inner.accept_bytes(data)
        self.steps += taken
        return taken

    def rollback(self, steps: int) -> None:
        self.inner.rollback(steps)
        self.steps -= steps

    def fork(self) -> State:
        return type(self)(self.grammar, self.inner.fork(), self.steps)

    def can_stop(self) -> bool:
        return self.inner.can_stop()

    def forced_bytes(self, limit: int) -> bytes:
        return self.inner.forced_bytes(limit)

    def lose(self, row: np.ndarray, is_lost: Callable[[int, bytes | None], bool]) -> None:
        """Clear the bits of tokens."""
        tokens = self.grammar.vocabulary.tokens
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        for token_id in np.flatnonzero(bits[: len(tokens)]).tolist():
            bits[token_id] = not is_lost(token_id, tokens[token_id])
        row[:] = np.packbits(bits, bitorder="little").view(np.int32)


# --- Masks -------------------------------------------------------------------------------------------------------


class KeepsMasksByTheNextBytesAlone(State):
    """The key of the cache says which bytes may come, and not what after them."""

    def spoil(self, row: np.ndarray) -> None:
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        single = [i for i, data in enumerate(self.grammar.vocabulary.tokens) if bits[i] and data and len(data) == 1]
        row[:] = self.grammar.cache.setdefault((tuple(single), self.inner.can_stop()), row.copy())


class LosesPartsOfCharacters(State):
    def spoil(self, row: np.ndarray) -> None:
        self.lose(row, lambda _, data: data is not None and "\ufffd" in data.decode("utf-8", "replace"))


class LosesDuplicates(State):
    """Of several tokens with the same bytes only the first one is allowed."""

    def spoil(self, row: np.ndarray) -> None:
        tokens = self.grammar.vocabulary.tokens
        self.lose(row, lambda token_id, data: bool(data) and tokens.index(data) != token_id)


class LosesTokensThatSpanTerminals(State):
    """A token is only allowed inside of one terminal."""

    def spoil(self, row: np.ndarray) -> None:
        self.lose(row, lambda token_id, data: bool(data) and not self._fits_one(data))

    def _fits_one(self, data: bytes) -> bool:
        cache = self.grammar.cache
        if not cache:
            leaves = [node for body in self.grammar.grammar.rules.values() for node in _terminals(body)]
            cache[""] = [Automaton(leaf) for leaf in leaves]
        if data not in cache:
            cache[data] = any(
                automaton.run(data, state) != DEAD
                for automaton in cache[""]
                for state in range(1, automaton.explore(10_000))
            )
        return cache[data]


def _terminals(node: Node) -> list[Node]:
    if isinstance(node, Terminal):
        return [node.item]
    if isinstance(node, (Bytes, Chars, Substring)):
        return [node]
    return [terminal for child in _parts(node) for terminal in _terminals(child)]


def _parts(node: Node) -> list[Node]:
    found: list[Node] = []
    map_children(node, lambda child: (found.append(child), child)[1])
    return found


class LosesTokensThatAreNamed(State):
    """`Token` is ignored: only text is allowed."""

    def spoil(self, row: np.ndarray) -> None:
        named = {
            node.token_id
            for body in self.grammar.grammar.rules.values()
            for node in walk(body)
            if isinstance(node, Token)
        }
        self.lose(row, lambda token_id, data: token_id in named and not data)


class LosesTheLastBitOfEachWord(State):
    def spoil(self, row: np.ndarray) -> None:
        row &= np.int32(0x7FFF_FFFF)


class LosesTheLastToken(State):
    def spoil(self, row: np.ndarray) -> None:
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        self.lose(row, lambda token_id, _: token_id == allowed[-1])


class KeepsOldBits(State):
    def fill_bitmask(self, row: np.ndarray) -> int:
        old = row.copy()
        status = super().fill_bitmask(row)
        row |= old
        return status


# --- Steps -------------------------------------------------------------------------------------------------------


class UndoesOneStepTooFew(State):
    def rollback(self, steps: int) -> None:
        super().rollback(steps - (steps > 1))


class ForksShareTheirState(State):
    def fork(self) -> State:
        return type(self)(self.grammar, self.inner, self.steps)


class KeepsWhatARejectedTokenBeganWith(State):
    def accept_token(self, token_id: int) -> bool:
        if super().accept_token(token_id):
            return True
        data = self.grammar.vocabulary.text_token(token_id) or b""
        for length in range(len(data) - 1, 0, -1):
            if super().accept_bytes(data[:length]):
                break
        return False


class MayEndWhereItCouldBefore(State):
    """An engine that does not check again whether the text may end after steps were undone."""

    ends: bool | None = None

    def can_stop(self) -> bool:
        if self.ends is None:
            self.ends = self.inner.can_stop()
        return self.ends

    def accept_token(self, token_id: int) -> bool:
        self.ends = None
        return super().accept_token(token_id)

    def accept_bytes(self, data: bytes) -> bool:
        self.ends = None
        return super().accept_bytes(data)


class NeverStops(State):
    def can_stop(self) -> bool:
        return False


class StopsWhereOneByteFollows(State):
    def can_stop(self) -> bool:
        return super().can_stop() or len(self.inner.forced_bytes(1)) == 1


class AcceptsAnything(State):
    def accept_token(self, token_id: int) -> bool:
        return super().accept_token(token_id) or True


class KeepsTheFirstByteOfARefusedString(State):
    def accept_bytes(self, data: bytes) -> bool:
        return super().accept_bytes(data) or (super().accept_bytes(data[:1]) and False)


class StaleMaskStatus(State):
    """The status of a mask is that of the mask before it."""

    status = MaskStatus.HAS_TOKENS

    def fill_bitmask(self, row: np.ndarray) -> int:
        before, self.status = self.status, super().fill_bitmask(row)
        return before


class ForcesTheBytesOfOneCompletionOnly(State):
    def forced_bytes(self, limit: int) -> bytes:
        forced = self.inner.forced_bytes(limit)
        ahead = self.inner.fork()
        if self.inner.can_stop() or len(forced) == limit or not ahead.accept_bytes(forced) or ahead.can_stop():
            return forced
        following = next((byte for byte in range(256) if ahead.fork().accept_bytes(bytes([byte]))), None)
        return forced if following is None else forced + bytes([following])


class ForcesBytesWhereTheTextMayEnd(State):
    def forced_bytes(self, limit: int) -> bytes:
        forced = self.inner.forced_bytes(limit)
        following = (bytes([byte]) for byte in range(256) if self.inner.fork().accept_bytes(bytes([byte])))
        return forced or next(following, b"")


# --- Grammars ----------------------------------------------------------------------------------------------------


def completions_of_empty_rules_are_skipped(node: Node) -> Node:
    """A rule that derives nothing is completed nowhere but at the end of the rule that uses it."""
    if isinstance(node, Choice) and len(node.items) > 1:
        return Choice(tuple(item for item in node.items if item != EMPTY) or node.items)
    return node


def terminals_match_no_empty_text(node: Node) -> Node:
    """A terminal that matches the empty string is taken to match something."""
    if not isinstance(node, Terminal):
        return node
    something = Terminal(Intersection((node.item, Complement(EMPTY), ANY_TEXT)))
    try:
        empty = Automaton(something.item).is_empty()
    except InvalidGrammar:
        return node
    return node if empty else something


def left_recursion_ends_after_one_round(node: Node) -> Node:
    if isinstance(node, Choice):
        return Choice(tuple(item for item in node.items if not _begins_with_a_reference(item)) or node.items)
    return node


def _begins_with_a_reference(node: Node) -> bool:
    return isinstance(node, Sequence) and len(node.items) > 1 and isinstance(node.items[0], Reference)


def without_the_last_alternative(node: Node) -> Node:
    return Choice(node.items[:-1]) if isinstance(node, Choice) and len(node.items) > 2 else node


def one_round_more(node: Node) -> Node:
    many = isinstance(node, Repeat) and node.maximum is not None and node.maximum > 1
    return Repeat(node.item, node.minimum, node.maximum + 1) if many else node


def not_the_shortest(node: Node) -> Node:
    return node.item if isinstance(node, Shortest) else node


def no_characters_of_four_bytes(node: Node) -> Node:
    if not isinstance(node, Chars):
        return node
    return Chars(tuple((low, min(high, 0xFFFF)) for low, high in node.ranges if low <= 0xFFFF))


def substrings_from_the_start(node: Node) -> Node:
    if not isinstance(node, Substring):
        return node
    return Choice(tuple(Bytes(node.text[:end].encode()) for end in range(len(node.text) + 1)))


def inside_terminals(rewrite: Callable[[Node], Node]) -> Callable[[Node], Node]:
    """Return a change of every node, those inside terminals included."""

    def deep(node: Node) -> Node:
        return rewrite(map_children(node, deep))

    return lambda node: deep(node) if isinstance(node, Terminal) else rewrite(node)


#: By what goes wrong.
FAULTS: dict[str, tuple[type[State] | None, Callable[[Node], Node] | None]] = {
    "a cache that is keyed too coarsely": (KeepsMasksByTheNextBytesAlone, None),
    "parts of characters are dropped": (LosesPartsOfCharacters, None),
    "duplicates are dropped": (LosesDuplicates, None),
    "tokens that span two terminals are lost": (LosesTokensThatSpanTerminals, None),
    "tokens that the grammar names are lost": (LosesTokensThatAreNamed, None),
    "the sign bit of each word is lost": (LosesTheLastBitOfEachWord, None),
    "rollback is off by one": (UndoesOneStepTooFew, None),
    "forks share their state": (ForksShareTheirState, None),
    "a rejected token leaves something behind": (KeepsWhatARejectedTokenBeganWith, None),
    "the end bit is stale": (MayEndWhereItCouldBefore, None),
    "the status of a mask is stale": (StaleMaskStatus, None),
    "forced bytes go on past a choice": (ForcesTheBytesOfOneCompletionOnly, None),
    "completions of empty rules are skipped": (None, completions_of_empty_rules_are_skipped),
    "terminals that match the empty text do not": (None, terminals_match_no_empty_text),
    "left recursion ends too early": (None, left_recursion_ends_after_one_round),
    "the last token is lost": (LosesTheLastToken, None),
    "bits of the row before stay": (KeepsOldBits, None),
    "no text may end": (NeverStops, None),
    "a text may end where one byte follows": (StopsWhereOneByteFollows, None),
    "any token is accepted": (AcceptsAnything, None),
    "a refused string leaves its first byte": (KeepsTheFirstByteOfARefusedString, None),
    "bytes are forced where the text may end": (ForcesBytesWhereTheTextMayEnd, None),
    "the last of several alternatives is lost": (None, inside_terminals(without_the_last_alternative)),
    "repeats go on for one round more": (None, inside_terminals(one_round_more)),
    "the shortest matches may be longer": (None, inside_terminals(not_the_shortest)),
    "characters of four bytes are lost": (None, inside_terminals(no_characters_of_four_bytes)),
    "substrings begin at the start": (None, inside_terminals(substrings_from_the_start)),
}
