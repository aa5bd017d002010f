"""The comparison of engines: honest random grammars, and planted faults that it must find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from formatter_core.engine.protocol import mask_status
from formatter_core.errors import UnsupportedByEngine
from formatter_core.grammar import (
    Bytes,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    Multiples,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Substring,
    Token,
    map_children,
    walk,
)
from formatter_core.limits import Limits
from formatter_core.testing.compare import Report, compare
from formatter_core.testing.oracle import OracleEngine, OracleGrammar, OracleState
from formatter_core.testing.preferred import is_ambiguous
from formatter_core.testing.random_grammars import Features, random_case
from formatter_core.testing.traits import traits_of
from formatter_core.vocabulary import Vocabulary


def test_the_random_grammars_are_honest() -> None:
    report = compare(OracleEngine(), OracleEngine(), range(100))
    assert report.differences == []
    assert report.cases == report.grammars == 100
    assert report.share("recursive") >= 0.3
    assert report.share("ambiguous") >= 0.2
    assert report.share("empty") >= 0.2
    assert report.share("cyclic or useless") >= 0.1
    assert report.masks >= 6 * report.grammars
    assert "100 grammars" in report.summary()


def test_cases_are_reproducible_and_keep_to_their_features() -> None:
    rare = ("counts", "non_ascii", "substrings", "shortest", "complements", "multiples", "tokens")
    few = Features(**dict.fromkeys(rare, False))
    kinds: set[type] = set()
    for seed in range(150):
        case = random_case(seed)
        again = random_case(seed)
        assert case.grammar == again.grammar
        assert case.vocabulary.tokens == again.vocabulary.tokens
        kinds |= {type(node) for body in case.grammar.rules.values() for node in walk(body)}
        for body in random_case(seed, few).grammar.rules.values():
            for node in walk(body):
                assert not isinstance(node, (Substring, Shortest, Intersection, Complement, Multiples, Token))
                assert not isinstance(node, Repeat) or (node.maximum or 0) <= 1
    assert kinds >= {Substring, Shortest, Intersection, Complement, Multiples, Token, Chars, Repeat}


def test_vocabularies_have_everything_that_is_awkward() -> None:
    for seed in range(20):
        vocabulary = random_case(seed).vocabulary
        texts = [token for token in vocabulary.tokens if token]
        assert {b"", None, b"\xf0\x9f", b"\xff"} <= set(vocabulary.tokens)
        assert len(set(texts)) < len(texts)
        assert any(len(text) > 1 for text in texts)


@pytest.mark.parametrize(
    ("rules", "traits"),
    [
        ({"s": Bytes(b"a")}, set()),
        ({"s": Choice((Sequence((Bytes(b"a"), Reference("s"))), Bytes(b"b")))}, {"recursive"}),
        ({"s": Choice((Bytes(b"a"), Bytes(b"a")))}, {"ambiguous"}),
        ({"s": Choice((Sequence((Reference("s"), Reference("s"))), Bytes(b"a")))}, {"recursive", "ambiguous"}),
        ({"s": Repeat(Bytes(b"a"))}, {"empty"}),
        ({"s": Choice((Reference("s"), Bytes(b"a")))}, {"recursive", "cyclic"}),
        ({"s": Bytes(b"a"), "t": Bytes(b"b")}, {"useless"}),
        ({"s": Choice((Bytes(b"a"), Reference("t"))), "t": Sequence((Bytes(b"b"), Reference("t")))}, {"useless"}),
    ],
)
def test_traits(rules: dict[str, Node], traits: set[str]) -> None:
    assert traits_of(Grammar(rules, "s")) == traits


def test_ambiguity_is_that_of_one_text() -> None:
    grammar = Grammar({"s": Sequence((Repeat(Bytes(b"a")), Repeat(Bytes(b"a"), 0, 1), Bytes(b"b")))}, "s")
    assert not is_ambiguous(grammar, [b"b"])
    assert is_ambiguous(grammar, [b"aab"])


def test_captures_are_compared_of_grammars_that_have_some() -> None:
    assert compare(OracleEngine(), OracleEngine(), range(20)).captures > 20
    assert compare(OracleEngine(), OracleEngine(), range(20), features=Features(captures=False)).captures == 0


# --- planted faults ---


class Faulty(OracleState):
    """An oracle state that forks into its own kind."""

    def fork(self) -> Faulty:
        right = super().fork()
        return type(self)(right._grammar, right._recognizers, right._undo)


class KeepsOldBits(Faulty):
    def fill_bitmask(self, row: Any) -> int:
        right = np.zeros_like(row)
        status = super().fill_bitmask(right)
        row |= right
        return status


class ForgetsTheLastToken(Faulty):
    def fill_bitmask(self, row: Any) -> int:
        super().fill_bitmask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        if len(allowed):
            row[allowed[-1] // 32] &= ~np.int32(1 << int(allowed[-1] % 32) if allowed[-1] % 32 < 31 else -(2**31))
        return mask_status(row, self.can_stop())


class CachesByTheLastByte(Faulty):
    cache: dict[Any, Any] = {}  # noqa: RUF012 (shared on purpose: that is the fault)

    def fill_bitmask(self, row: Any) -> int:
        key = (id(self._grammar), tuple(self._recognizers[0].next_bytes()[:1]), self._recognizers[0].length == 0)
        if key not in self.cache:
            super().fill_bitmask(row)
            self.cache[key] = (self._grammar, row.copy())
        row[:] = self.cache[key][1]
        return mask_status(row, self.can_stop())


class NeverStops(Faulty):
    def can_stop(self) -> bool:
        return False


class StopsTooEarly(Faulty):
    def can_stop(self) -> bool:
        return super().can_stop() or not self._recognizers[0].next_bytes()[1:]


class RollsBackTooLittle(Faulty):
    def rollback(self, steps: int) -> None:
        super().rollback(steps - (steps > 2))


class ForksShareTheirState(Faulty):
    def fork(self) -> Faulty:
        return self


class AcceptsAnything(Faulty):
    def accept_token(self, token_id: int) -> bool:
        return super().accept_token(token_id) or True


class ForcesTooMuch(Faulty):
    def forced_bytes(self, limit: int) -> bytes:
        following = self._recognizers[0].next_bytes()
        return super().forced_bytes(limit) or bytes(following[:1])


class LosesBytesOfARefusedString(Faulty):
    def accept_bytes(self, data: bytes) -> bool:
        return super().accept_bytes(data) or (super().accept_bytes(data[:1]) and False)


def rewritten(rewrite: Callable[[Node], Node]) -> Callable[[Grammar], Grammar]:
    def deep(node: Node) -> Node:
        return rewrite(map_children(node, deep))

    return lambda grammar: Grammar({name: deep(body) for name, body in grammar.rules.items()}, grammar.start)


def without_last_alternative(node: Node) -> Node:
    return Choice(node.items[:-1]) if isinstance(node, Choice) and len(node.items) > 2 else node


def one_round_more(node: Node) -> Node:
    many = isinstance(node, Repeat) and node.maximum is not None and node.maximum > 1
    return Repeat(node.item, node.minimum, node.maximum + 1) if many else node


def not_shortest(node: Node) -> Node:
    return node.item if isinstance(node, Shortest) else node


def no_characters_of_four_bytes(node: Node) -> Node:
    if not isinstance(node, Chars):
        return node
    return Chars(tuple((low, min(high, 0xFFFF)) for low, high in node.ranges if low <= 0xFFFF))


def substrings_from_the_start(node: Node) -> Node:
    if not isinstance(node, Substring):
        return node
    return Choice(tuple(Bytes(node.text[:end].encode()) for end in range(len(node.text) + 1)))


class FaultyEngine:
    name = "faulty"

    def __init__(self, state: type[OracleState], change: Callable[[Grammar], Grammar]) -> None:
        self._state = state
        self._change = change

    def compile(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> OracleGrammar:
        compiled = OracleGrammar(self._change(grammar), vocabulary, limits)
        state = self._state

        class Start(OracleGrammar):
            def start(self) -> OracleState:
                right = super().start()
                return state(right._grammar, right._recognizers, right._undo)

        compiled.__class__ = Start
        return compiled


STATES = [
    KeepsOldBits, ForgetsTheLastToken, CachesByTheLastByte, NeverStops, StopsTooEarly, RollsBackTooLittle,
    ForksShareTheirState, AcceptsAnything, ForcesTooMuch, LosesBytesOfARefusedString,
]  # fmt: skip
#: With the first seed that is tried: a round more shows in few grammars.
CHANGES = [
    (without_last_alternative, 0), (one_round_more, 150), (not_shortest, 0), (no_characters_of_four_bytes, 0),
    (substrings_from_the_start, 0),
]  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_faults_of_a_state_are_found(state: type[OracleState]) -> None:
    report = compare(OracleEngine(), FaultyEngine(state, lambda grammar: grammar), range(60), most_differences=1)
    check(report)


@pytest.mark.parametrize(("change", "first"), CHANGES)
def test_faults_of_a_compiler_are_found(change: Callable[[Node], Node], first: int) -> None:
    engine = FaultyEngine(OracleState, rewritten(change))
    check(compare(OracleEngine(), engine, range(first, 300), most_differences=1))


def check(report: Report) -> None:
    assert len(report.differences) == 1
    difference = report.differences[0]
    assert difference.grammar == random_case(difference.seed).grammar
    assert f"seed {difference.seed}" in str(difference)


def test_refusals_are_counted_by_reason() -> None:
    class Refuses(OracleEngine):
        def compile(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> OracleGrammar:
            if any(isinstance(node, Chars) for body in grammar.rules.values() for node in walk(body)):
                raise UnsupportedByEngine("it has no classes", engine="refuses", node="Chars(...)")
            return super().compile(grammar, vocabulary, limits)

    report = compare(OracleEngine(), Refuses(), range(30))
    assert report.differences == []
    assert report.refusals["Chars: it has no classes"] == report.refusals.total() > 0
    assert report.grammars == 30 - report.refusals.total()
