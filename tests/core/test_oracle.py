"""The oracle engine: its masks against completions written out, its steps against a list of bytes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import (
    ANY_CHAR,
    NOTHING,
    Bytes,
    Choice,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    Token,
    literal,
    optional,
)
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.testing.oracle import OracleEngine, OracleState
from formatter_core.vocabulary import Vocabulary

TOKENS = [b"a", b"b", b"ab", b"a", b"", None, b"\xc3", b"\xa9", "é".encode(), b"aba", b"b\xc3", b"</s>", None]
END = 11
VOCABULARY = Vocabulary(TOKENS, [END])


def start(node: Node, limits: Limits = DEFAULT_LIMITS, **rules: Node) -> OracleState:
    return OracleEngine().compile(Grammar({"s": node, **rules}, "s"), VOCABULARY, limits).start()


def allowed(state: OracleState) -> list[int]:
    row = np.full(VOCABULARY.words, -1, dtype=np.int32)
    state.fill_bitmask(row)
    return [i for i in range(VOCABULARY.words * 32) if row[i // 32] >> (i % 32) & 1]


COMPLETIONS = [b"a", b"ab", b"abab", "aéb".encode(), "é".encode(), b"bb", b"</s>"]


def test_masks_are_the_tokens_that_begin_a_completion() -> None:
    state = start(Choice(tuple(Bytes(text) for text in COMPLETIONS)))

    def check(prefix: bytes) -> None:
        rests = [text[len(prefix) :] for text in COMPLETIONS if text.startswith(prefix)]
        expected = [i for i, t in enumerate(TOKENS) if t and i != END and any(rest.startswith(t) for rest in rests)]
        assert allowed(state) == expected
        assert state.can_stop() == (b"" in rests)
        for token_id in range(-1, len(TOKENS) + 1):
            assert state.accept_token(token_id) == (token_id in expected)
            if token_id in expected:
                check(prefix + (TOKENS[token_id] or b""))
                state.rollback(1)

    check(b"")


def test_steps_are_undone_and_forks_are_independent() -> None:
    rng = random.Random(1)
    state = start(Repeat(Choice((Sequence((Bytes(b"a"), Reference("s"), Bytes(b"b"))), ANY_CHAR))))
    history: list[tuple[list[int], bool]] = []
    for _ in range(60):
        history.append((allowed(state), state.can_stop()))
        if rng.random() < 0.3:
            fork = state.fork()
            assert fork.accept_token(rng.choice(allowed(fork)))
            fork.rollback(min(len(history), 3))
        if rng.random() < 0.3:
            steps = rng.randrange(min(4, len(history)))
            state.rollback(steps)
            del history[len(history) - steps :]
            assert (allowed(state), state.can_stop()) == history.pop()
            history.append((allowed(state), state.can_stop()))
        assert not state.accept_bytes(b"a\xff")
        if rng.random() < 0.7 or not state.accept_bytes(b"ab"):
            assert state.accept_token(rng.choice(allowed(state)))


def test_a_token_may_be_meant_by_its_id_or_by_its_bytes() -> None:
    state = start(Choice((Sequence((Token(2), Bytes(b"b"))), literal("aba"), Sequence((Token(5), literal("é"))))))
    assert allowed(state) == [0, 2, 3, 5, 9]
    assert state.accept_token(2)
    assert allowed(state) == [0, 1, 3]
    assert state.forced_bytes(9) == b""
    fork = state.fork()
    assert state.accept_token(0)
    assert state.can_stop()
    state.rollback(1)
    assert state.accept_bytes(b"b")
    assert allowed(state) == []
    state.rollback(2)
    assert state.accept_token(5)
    assert state.forced_bytes(9) == "é".encode()
    assert state.forced_bytes(1) == b"\xc3"
    fork.rollback(1)
    assert allowed(fork) == [0, 2, 3, 5, 9]


def test_end_ids_and_ids_out_of_range_are_never_allowed() -> None:
    state = start(Choice((Token(END), Token(1000), literal("</s>"))))
    assert allowed(state) == []
    assert not state.accept_token(END)
    assert not state.accept_token(1000)
    assert state.accept_bytes(b"</s>")


def test_faults_are_named() -> None:
    with pytest.raises(InvalidGrammar):
        start(NOTHING)
    small = Limits(work=1000)
    state = start(Choice((Sequence((Bytes(b"a"), Reference("s"))), Bytes(b"a"))), small)
    with pytest.raises(LimitExceeded):
        state.accept_bytes(b"a" * 1000)
    assert not state.can_stop()
    assert state.accept_bytes(b"aa")
    assert start(optional(Bytes(b"a"))).can_stop()
