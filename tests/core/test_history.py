"""Copies of a sequence share what they have in common, whatever happens to them afterwards."""

from __future__ import annotations

import tracemalloc
from array import array
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from formatter_core import Compiler, Cursor, Formatter, Vocabulary, formats
from formatter_core.errors import EngineUnavailable
from formatter_core.runtime.history import History

A, LETTERS = ord("a"), b"abcdefg"


class HistoryMachine(RuleBasedStateMachine):
    """Histories and copies of copies against plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[History[int], list[int]]] = [(History(array("q")), []), (History([]), [])]

    @rule(which=st.integers(0, 9), count=st.sampled_from([1, 2, 127, 128, 129, 300]), first=st.integers(0, 10**6))
    def append(self, which: int, count: int, first: int) -> None:
        history, model = self.pairs[which % len(self.pairs)]
        for item in range(first, first + count):
            history.tail.append(item)
            model.append(item)

    @rule(which=st.integers(0, 9), count=st.sampled_from([0, 1, 2, 127, 128, 129, 257, 10**6]))
    def drop(self, which: int, count: int) -> None:
        history, model = self.pairs[which % len(self.pairs)]
        count = min(count, len(model))
        history.drop(count)
        del model[len(model) - count :]

    @rule(which=st.integers(0, 9))
    def copy(self, which: int) -> None:
        history, model = self.pairs[which % len(self.pairs)]
        self.pairs = [*self.pairs, (history.copy(), list(model))][-10:]

    @rule(which=st.integers(0, 9))
    def clear(self, which: int) -> None:
        history, model = self.pairs[which % len(self.pairs)]
        history.clear()
        model.clear()

    @invariant()
    def they_agree(self) -> None:
        for history, model in self.pairs:
            assert list(history) == model
            assert list(reversed(history)) == model[::-1]
            assert len(history) == len(model)
            assert list(history.tail[-1:]) == model[-1:]


HistoryMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestHistory = HistoryMachine.TestCase


def grown(formatter: Formatter, length: int) -> Formatter:
    assert formatter.accept_tokens([LETTERS[number % 7] for number in range(length)]) == length
    return formatter


def memory_of(make: Callable[[], object]) -> int:
    """The bytes that Python's objects take while what was made is held."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        after = tracemalloc.get_traced_memory()[0]
        del made
        return after - before
    finally:
        tracemalloc.stop()


@pytest.fixture
def formatter(vocabulary: Vocabulary) -> Formatter:
    """On the native engine, whose forks are a pointer; what the other engines copy is theirs."""
    try:
        compiler = Compiler(vocabulary, engine="native")
    except EngineUnavailable as error:
        pytest.skip(str(error))
    return compiler.compile(formats.regex("[a-g]*")).formatter()


def test_a_fork_does_not_copy_the_steps(formatter: Formatter) -> None:
    grown(formatter, 30_000)
    formatter.fork()
    # A copy of the steps is 240 kB; 1.0 kB is the end of them, and the rest is the objects.
    assert memory_of(lambda: [formatter.fork() for _ in range(300)]) < 300 * 3_000


def test_a_fork_of_a_cursor_does_not_copy_the_kept_tokens(formatter: Formatter) -> None:
    cursor = Cursor(grown(formatter, 30_000))
    cursor.fork()
    assert memory_of(lambda: [cursor.fork() for _ in range(300)]) < 300 * 5_000


def test_forks_that_roll_back_and_go_on_share_what_came_before(formatter: Formatter) -> None:
    grown(formatter, 30_000)

    def change() -> list[Formatter]:
        forks = [formatter.fork() for _ in range(100)]
        for fork in forks:
            fork.rollback(200)
            grown(fork, 200)
        return [fork.fork() for fork in forks]

    change()
    assert memory_of(change) < 100 * 15_000


def test_a_sequence_that_is_forked_after_every_token_takes_no_more_for_it(formatter: Formatter) -> None:
    def go_on() -> Formatter:
        latest = formatter
        for _ in range(3_000):
            latest = latest.fork()
            latest.accept_token(A)
        return latest

    assert memory_of(go_on) < 3_000 * 30  # 8 bytes a step, and the blocks that keep them
    assert go_on().tokens == (A,) * 3_000


def test_byte_strings_and_tokens_are_taken_back_across_a_fork(formatter: Formatter) -> None:
    for number in range(400):
        if number % 3:
            formatter.accept_token(A)
        else:
            formatter.accept_bytes(b"bc")
    fork = formatter.fork()
    whole = formatter.bytes
    fork.rollback(250)
    assert (fork.tokens, fork.bytes) == ((A,) * 100, b"bcaa" * 50)
    fork.accept_bytes(b"g")
    assert fork.bytes == b"bcaa" * 50 + b"g"
    assert formatter.bytes == whole
    formatter.rollback(400)
    assert formatter.bytes == b""
    assert fork.fork().bytes == b"bcaa" * 50 + b"g"


def test_a_long_chain_of_forks_is_freed(formatter: Formatter) -> None:
    latest = grown(formatter, 300_000)
    for _ in range(1_000):
        latest = latest.fork()
        latest.accept_token(A)
    assert len(latest.tokens) == 301_000
