"""Compiling on threads beside a busy loop: equal contents once, refusals kept, cheap ones not behind costly ones."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import Future
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from formatter_core import Compiler, Limits, Vocabulary, formats
from formatter_core.errors import InvalidArgument, InvalidRegex, LimitExceeded, QueueFull
from formatter_core.runtime.background import BackgroundCompiler

TIME_OUT = 60


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """A clock for waiting times that stands still until a test sets `now`."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("formatter_core.runtime.background.monotonic", lambda: clock.now)
    return clock


class Made:
    """A content that a stand-in for a compiler makes."""


class Slow:
    """Makes every content as soon as the gate is open."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.gate = threading.Event()
        self.begun = threading.Event()

    def __call__(self, content: str) -> Made:
        self.calls.append(content)
        self.begun.set()
        assert self.gate.wait(TIME_OUT)
        return Made()


def result(future: Future[Any]) -> Any:
    return future.result(TIME_OUT)


def test_formats_are_compiled_and_refused() -> None:
    compiler = Compiler(Vocabulary.of_bytes())
    background = BackgroundCompiler(lambda pattern: compiler.compile(formats.regex(pattern)))
    made = result(background.submit("[a-z]{3}"))
    assert made.parse("abc").is_complete
    assert background.known("[a-z]{3}") is made is result(background.submit("[a-z]{3}"))
    for _ in range(2):
        with pytest.raises(InvalidRegex) as caught:
            result(background.submit("("))
        assert caught.value.position == 0
    with pytest.raises(InvalidRegex):
        background.known("(")


def test_equal_contents_are_made_once() -> None:
    slow = Slow()
    background = BackgroundCompiler(slow, threads=2)
    futures = [background.submit("a") for _ in range(5)]
    slow.gate.set()
    assert len({id(result(future)) for future in futures}) == 1
    assert slow.calls == ["a"]


def test_refusals_are_kept_as_many_as_are_allowed() -> None:
    calls = []

    def refuse(content: str) -> Made:
        calls.append(content)
        raise LimitExceeded("work", 1, content)

    background = BackgroundCompiler(refuse, refusals=2)
    for content in ("a", "b", "a", "c", "a", "b"):
        with pytest.raises(LimitExceeded, match=content):
            result(background.submit(content))
    assert calls == ["a", "b", "c", "b"]


def test_a_fault_of_ours_is_no_refusal() -> None:
    answers: list[Any] = [ZeroDivisionError("fault"), Made()]

    def make(_: str) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    background = BackgroundCompiler(make)
    with pytest.raises(ZeroDivisionError):
        result(background.submit("a"))
    assert isinstance(result(background.submit("a")), Made)


def held(slow: Slow, **options: Any) -> BackgroundCompiler[Any]:
    """A compiler whose only thread is busy until the gate is open."""
    background = BackgroundCompiler(slow, **options)
    background.submit("busy")
    assert slow.begun.wait(TIME_OUT)
    return background


def test_what_would_wait_too_long_is_refused_at_once_and_may_come_again(clock) -> None:
    """The content under way takes far longer than its length suggests."""
    slow = Slow()
    background = held(slow, max_wait=10)
    clock.now = 100.0
    with pytest.raises(QueueFull) as caught:
        background.submit("a")
    assert caught.value.queue_size == 0
    assert caught.value.wait_seconds is not None
    slow.gate.set()
    result(background.submit("busy"))
    while slow.calls == ["busy"]:
        with suppress(QueueFull):  # until the thread has noted that it is done
            result(background.submit("a"))
    assert slow.calls == ["busy", "a"]


def test_a_long_line_is_refused_only_for_the_time_that_it_takes(clock) -> None:
    slow = Slow()
    background = held(slow, max_wait=60)
    futures = [background.submit(f"content {number}") for number in range(500)]
    slow.gate.set()
    assert len({id(result(future)) for future in futures}) == 500


def test_the_last_in_line_is_turned_away_whoever_comes_last() -> None:
    slow = Slow()
    background = held(slow, queue_size=2)
    long = background.submit("x" * 9000)
    other = background.submit("y" * 500)
    short = background.submit("short")
    with pytest.raises(QueueFull, match="2 other formats"):
        result(long)
    slow.gate.set()
    result(other)
    result(short)
    assert slow.calls == ["busy", "short", "y" * 500]


def test_cheap_ones_that_come_all_the_time_pass_nobody_who_has_waited_long(clock) -> None:
    """Nor is it turned away for them."""
    slow = Slow()
    background = held(slow, max_wait=10)
    long = background.submit("x" * 60_000, client="long")
    clock.now = 6.0
    kept, refused = [], 0
    for number in range(100):  # more than 10 s of work
        try:
            kept.append(background.submit(f"short {number}", client=number))
        except QueueFull:
            refused += 1
    assert refused > 0
    slow.gate.set()
    result(long)
    assert slow.calls[:2] == ["busy", "x" * 60_000]
    for future in kept:
        future.exception(TIME_OUT)  # made, or turned away for one that was cheaper


def test_nobody_waits_much_longer_than_was_expected(clock) -> None:
    slow = Slow()
    background = held(slow, max_wait=10)
    waiting = background.submit("waiting")
    clock.now = 21.0
    with pytest.raises(QueueFull):
        background.submit("comes later, while the first is still under way")
    with pytest.raises(QueueFull, match="21 s"):
        result(waiting)
    assert slow.calls == ["busy"]
    slow.gate.set()


def test_who_waits_behind_what_takes_long_is_refused_in_time() -> None:
    """Nothing else comes, and what is under way does not end."""
    slow = Slow()
    background = held(slow, max_wait=0.1)
    waiting = background.submit("waiting")
    with pytest.raises(QueueFull):
        result(waiting)
    assert slow.calls == ["busy"]
    slow.gate.set()


def test_time_in_both_lines_counts(clock) -> None:
    slow, is_tried = Slow(), threading.Event()
    clock.now = 1.0

    def shortly(content: str) -> Made:
        if content == "waiting":
            clock.now = 9.0
            is_tried.set()
        raise LimitExceeded("steps", 1, "a format")

    background = held(slow, max_wait=10, try_shortly=shortly)
    waiting = background.submit("waiting")
    assert is_tried.wait(TIME_OUT)
    clock.now = 22.0
    background.submit("comes later")
    with pytest.raises(QueueFull, match="21 s"):
        result(waiting)
    slow.gate.set()


def test_what_has_waited_for_too_long_is_not_begun(clock) -> None:
    slow = Slow()
    background = held(slow, max_wait=10)
    waiting = background.submit("waiting")
    clock.now = 21.0
    slow.gate.set()
    with pytest.raises(QueueFull):
        result(waiting)
    assert slow.calls == ["busy"]


def test_clients_take_turns() -> None:
    slow = Slow()
    background = held(slow)
    many = [background.submit(f"many {number}", client="many") for number in range(20)]
    few = [background.submit(f"few {number}", client="few") for number in range(2)]
    slow.gate.set()
    for future in (*many, *few):
        result(future)
    assert {slow.calls.index(f"few {number}") for number in range(2)} <= set(range(1, 6)), slow.calls


def test_what_is_cheap_does_not_wait_for_what_is_not() -> None:
    slow = Slow()

    def make_shortly(content: str) -> Made:
        if content.startswith("slow"):
            raise LimitExceeded("work", 1, content)
        return Made()

    background = BackgroundCompiler(slow, try_shortly=make_shortly, queue_size=1)
    first = background.submit("slow 1")
    assert slow.begun.wait(TIME_OUT)
    second, kept = background.submit("slow 2"), [result(background.submit(content)) for content in "abc"]
    assert len(kept) == 3
    with pytest.raises(QueueFull):
        result(background.submit("slow 3"))
    slow.gate.set()
    result(first)
    result(second)


def test_short_contents_come_first() -> None:
    slow = Slow()
    background = BackgroundCompiler(slow, try_shortly=slow)
    futures = [background.submit("first")]
    assert slow.begun.wait(TIME_OUT)
    lengths = range(6000, 1000, -1000)
    futures += [background.submit("x" * length, client=length) for length in lengths]
    slow.gate.set()
    for future in futures:
        result(future)
    assert slow.calls[1:] == ["x" * length for length in reversed(lengths)]


def test_what_no_limit_changes_is_refused_shortly() -> None:
    def make_shortly(content: str) -> Made:
        raise LimitExceeded("depth", 1, content, is_fixed=True)

    with pytest.raises(LimitExceeded):
        result(BackgroundCompiler(Slow(), try_shortly=make_shortly).submit("a"))


def test_limits_say_what_is_cheap() -> None:
    vocabulary = Vocabulary.of_bytes()
    narrow, wide = Compiler(vocabulary, limits=Limits(nodes=100)), Compiler(vocabulary)
    background = BackgroundCompiler(wide.compile, try_shortly=narrow.compile)
    schema = '{"enum": [' + ", ".join(map(str, range(1000))) + "]}"
    assert result(background.submit(schema)).parse("7").value == 7


def test_what_nobody_holds_is_made_again() -> None:
    calls = []

    def make(content: str) -> Made:
        calls.append(content)
        return Made()

    background = BackgroundCompiler(make)
    result(background.submit("a"))
    gc.collect()
    assert background.known("a") is None
    result(background.submit("a"))
    assert calls == ["a", "a"]


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"queue_size": 0}, {"refusals": -1}, {"threads": True}])
def test_numbers_are_checked(wrong) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        BackgroundCompiler(str, **wrong)
