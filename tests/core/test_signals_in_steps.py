"""A signal's handler may raise an exception at any point of a call, and what was called goes on as before.

CPython runs handlers where a function begins and after each call of a function in C. Profilers are called at the same
points, and what they raise comes from the same place as what a handler raises. So each of these points is tried, but
none in finalizers: Python drops what is raised there.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

from formatter_core import Compiler, Formatter, FormatterBuilder, Vocabulary, bitmask, formats
from formatter_core.limits.collection import paused_collection

pytestmark = [
    pytest.mark.skipif(sys.implementation.name != "cpython", reason="handlers run as CPython runs them"),
    # An exception that is raised while a generator is closed is dropped, too.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COMPILER = Compiler(Vocabulary([*(bytes([n]) for n in range(256)), b"bc", None], end_ids=[257]))


class Stop(KeyboardInterrupt):
    """Raised by the handler of Ctrl-C."""


class TooLate(Exception):
    """Raised by the handler of an alarm that a program has set."""


def is_struck(call: Callable[[], object], point: int, error: type[BaseException]) -> bool:
    """Call a function and raise at the point with this number; return whether there is such a point."""
    seen = 0

    def strike(frame: FrameType, event: str, _: Any) -> None:
        nonlocal seen
        if event in ("call", "c_return") and frame is not here and frame.f_code.co_name != "__del__":
            seen += 1
            if seen == point:
                sys.setprofile(None)
                raise error

    here = sys._getframe()
    sys.setprofile(strike)
    try:
        call()
    except error:
        return True
    finally:
        sys.setprofile(None)
    return False


def points(prepare: Callable[[], Any], call: Callable[[Any], object], error: type[BaseException]) -> Iterator[Any]:
    """Make an object, call a function with it and raise at each point in turn; give the object each time."""
    for point in range(1, 10_000):
        made = prepare()
        was_struck = is_struck(lambda: call(made), point, error)  # noqa: B023 - it is called here
        yield made
        if not was_struck:
            assert point > 1
            return


def person() -> Formatter[Any]:
    builder = FormatterBuilder()
    builder.append("a", builder.regex("(bc)*", name="x"), ".")
    formatter = COMPILER.compile(builder).formatter(max_tokens=20)
    formatter.accept_token(ord("a"))
    return formatter


def row() -> Any:
    return bitmask.allocate(1, 258)[0]


STEPS: dict[str, Callable[[Formatter[Any]], object]] = {
    "accept_token": lambda formatter: formatter.accept_token(256),
    "step": lambda formatter: formatter.step(256, row()),
    "step with a wide row": lambda formatter: formatter.step(256, bitmask.allocate(1, 400)[0]),
    "advance": lambda formatter: formatter.advance(256),
    "step_kept": lambda formatter: formatter.step_kept(256),
    "accept_bytes": lambda formatter: formatter.accept_bytes(b"bc"),
    "accept_tokens": lambda formatter: formatter.accept_tokens([256, 256]),
    "count_valid": lambda formatter: formatter.count_valid([256, 256]),
    "rollback": lambda formatter: formatter.rollback(1),
    "reset": lambda formatter: formatter.reset(),
    "fill_bitmask": lambda formatter: formatter.fill_bitmask(row()),
    "allowed_tokens": lambda formatter: formatter.allowed_tokens(),
    "set_budget": lambda formatter: formatter.set_budget(30),
    "explain": lambda formatter: formatter.explain(256),
    "forced_bytes": lambda formatter: formatter.forced_bytes(),
    "must_stop": lambda formatter: formatter.must_stop,
    "captures": lambda formatter: formatter.captures,
    "events": lambda formatter: formatter.events(),
    "snapshot": lambda formatter: formatter.snapshot(),
    "result": lambda formatter: formatter.result(),
    "fork": lambda formatter: formatter.fork(),
}


def check(formatter: Formatter[Any]) -> None:
    """The formatter can be used, and is in the state of its text."""
    fresh = person()
    fresh.reset()
    fresh.accept_bytes(formatter.bytes)
    assert formatter.allowed_tokens() == fresh.allowed_tokens()
    formatter.accept_bytes(b"abc."[len(formatter.bytes) :] if len(formatter.bytes) < 3 else b".")
    assert formatter.result().value is not None
    assert [event for event in formatter.events() if type(event).__name__ == "ValueCompleted"]
    formatter.reset()
    assert formatter.allowed_tokens() == [ord("a")]


@pytest.mark.parametrize("error", [Stop, TooLate])
@pytest.mark.parametrize("name", STEPS)
def test_wherever_it_strikes_a_formatter_knows_its_text(name: str, error: type[BaseException]) -> None:
    for formatter in points(person, STEPS[name], error):
        check(formatter)


@pytest.mark.parametrize("error", [Stop, TooLate])
def test_wherever_it_strikes_all_formatters_of_a_batch_know_their_texts(error: type[BaseException]) -> None:
    def pair() -> list[Formatter[Any]]:
        return [person(), person(), person()]

    def step(formatters: list[Formatter[Any]]) -> object:
        return Formatter.step_batch(formatters, [256, None, ord("b")], bitmask.allocate(3, 258))

    for formatters in points(pair, step, error):
        for formatter in formatters:
            check(formatter)


def test_a_formatter_that_another_call_uses_is_not_given_back() -> None:
    """The first call goes on while others are refused, in the middle of a batch, too."""
    refused = 0

    def tokens(formatters: list[Formatter[Any]]) -> Iterator[int]:
        nonlocal refused
        with pytest.raises(Exception, match="only one thread"):
            formatters[1].allowed_tokens()
        errors = Formatter.step_batch(formatters, [256, 256, 256], rows := bitmask.allocate(3, 258))
        assert [*errors] == [1]
        assert not np.any(rows[1])
        refused += 1
        yield 256

    formatters = [person(), person(), person()]
    assert formatters[1].accept_tokens(tokens(formatters)) == 1
    assert refused == 1
    assert [formatter.bytes for formatter in formatters] == [b"abc"] * 3
    for formatter in formatters:
        check(formatter)


@pytest.mark.parametrize("kind", ["schema", "pattern"])
def test_wherever_it_strikes_a_compiler_and_the_collector_go_on(kind: str) -> None:
    compiler = Compiler(COMPILER.vocabulary)
    numbers = iter(range(10_000))

    def compile(number: int) -> object:
        form: Any = (
            {"type": "integer", "maximum": 17 + number} if kind == "schema" else formats.regex(f"17(x{number})?")
        )
        return compiler.compile(form).parse("17").is_complete

    assert gc.isenabled()
    for number in points(lambda: next(numbers), compile, Stop):
        assert gc.isenabled(), "the collector is paused for good"
        with paused_collection():
            assert not gc.isenabled(), "nobody can pause the collector any more"
        assert compile(number)
