"""Measure reading results: captures of whole outputs, and events while they are written.

    python3.11 dev.py bench captures            # writes captures.json

Times are CPU milliseconds, the median of the rounds. `result` is `Formatter.result()` with its captures, of a text that
was accepted token by token; `parse` is the parse of a whole text alone. `events` is one call of `Formatter.events()`
after each token of four bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.data import of_chunks
from benchmarks.harness import aim, markdown, medians, seconds_of, take_turns
from formatter_core import Compiler, Formatter, FormatterBuilder, formats
from formatter_core.engine.native_parser import NativeParser
from formatter_core.errors import LimitExceeded
from formatter_core.formats import as_format
from formatter_core.limits import DEFAULT_LIMITS

#: Our targets, in milliseconds.
RESULT, EVENTS, AMBIGUOUS, UNTIL = 1.0, 0.02, 50.0, 50.0
TOKEN_BYTES = 4
OPTIONS: dict[str, dict[str, Any]] = {"--rounds": {"type": int, "default": 5}}
SMOKE = {"rounds": 1}


def holes(count: int) -> tuple[FormatterBuilder, str]:
    """Make lines with a hole each."""
    b = FormatterBuilder()
    for number in range(count):
        b.append(f"{number}: ", b.regex("[a-z ]{0,80}", name=f"hole{number}"), ".\n")
    return b, "".join(f"{number}: some text of this kind here and there.\n" for number in range(count))


def document(items: int) -> tuple[FormatterBuilder, str]:
    """Make a JSON document in a hole."""
    item = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "n": {"type": "integer"}, "tags": {"items": {"type": "string"}}},
        "required": ["name", "n", "tags"],
        "additionalProperties": False,
    }
    b = FormatterBuilder()
    b.append("Answer: ", b.json({"type": "array", "items": item}, name="answer"), ".")
    value = [{"name": f"item {number} é", "n": number, "tags": ["a", "bc"]} for number in range(items)]
    return b, f"Answer: {json.dumps(value)}."


def two_holes(length: int) -> tuple[FormatterBuilder, str]:
    """Make two holes that could be cut anywhere."""
    b = FormatterBuilder()
    return b.append(b.string(name="one"), b.string(name="other")), "x" * length


def pairs(count: int) -> tuple[Any, str]:
    """Make a list by left recursion, with captures in captures."""
    grammar = 'start ::= item | start "," item; item ::= pair:(#"(?P<k>[a-z]+)=(?P<v>[0-9]+)");'
    return formats.kbnf(grammar), ",".join(["abc=123"] * count)


CASES: dict[str, tuple[Any, str]] = {
    "70 holes, 3 kB": holes(70),
    "JSON in a hole, 3 kB": document(50),
    "a list of pairs, 3 kB": pairs(380),
    "two ambiguous holes, 500 bytes": two_holes(500),
    "two ambiguous holes, 4,000 bytes": two_holes(4000),
    "until, 100,000 bytes": (formats.until("</think>"), "x" * 100_000 + "</think>"),
    "ambiguous everywhere, 400 bytes": (formats.kbnf('start ::= start start | "a";'), "a" * 400),
}
#: Cases whose results and events are read.
STREAMED = ("70 holes, 3 kB", "JSON in a hole, 3 kB", "a list of pairs, 3 kB")


def until_limit(task: Callable[[], Any]) -> Callable[[], Any]:
    """Make a task that may end at a limit, which counts too."""

    def run() -> None:
        with contextlib.suppress(LimitExceeded):
            task()

    return run


def parse_tasks() -> dict[str, Callable[[], float]]:
    """Make a task of each parse."""
    tasks = {}
    for name, (format, text) in CASES.items():
        grammar, data = as_format(format).to_grammar(DEFAULT_LIMITS).grammar, [text.encode()]
        native = NativeParser(grammar, DEFAULT_LIMITS)
        tasks[f"parse, {name}"] = seconds_of(until_limit(partial(native.captures, data)))
    return tasks


def captures_of(formatter: Formatter) -> object:
    """Read the captures of a finished sequence."""
    return formatter.result().captures


def stream_tasks() -> dict[str, Callable[[], float]]:
    """Make tasks that read the result of a whole text, and the events of each token."""
    tasks = {}
    for name in STREAMED:
        format, text = CASES[name]
        vocabulary, tokens = of_chunks(text.encode(), TOKEN_BYTES)
        compiled = Compiler(vocabulary, engine="native").compile(format)
        whole = compiled.formatter()
        whole.accept_tokens([*tokens, vocabulary.end_ids[0]])
        tasks[f"result, {name}"] = seconds_of(partial(captures_of, whole))

        def events(compiled: Any = compiled, tokens: list[int] = tokens) -> float:
            formatter = compiled.formatter()
            task = seconds_of(formatter.events)
            return sum(task() for token in tokens if formatter.accept_tokens([token])) / len(tokens)

        tasks[f"events a token, {name}"] = events
    return tasks


def measure(options: argparse.Namespace) -> dict[str, Any]:
    found = take_turns({**parse_tasks(), **stream_tasks()}, options.rounds)
    return {"rounds": options.rounds, "milliseconds": medians(found, 1000)}


def show(found: dict[str, Any]) -> str:
    times = found["milliseconds"]
    aims = [aim(f"result, {name}: ms", times[f"result, {name}"], RESULT) for name in STREAMED]
    aims += [aim(f"events a token, {name}: ms", times[f"events a token, {name}"], EVENTS) for name in STREAMED]
    aims.append(aim("two holes: ms", times["parse, two ambiguous holes, 4,000 bytes"], AMBIGUOUS))
    aims.append(aim("until: ms", times["parse, until, 100,000 bytes"], UNTIL))
    return "\n".join([markdown(["what", "ms"], [(name, f"{time:.3f}") for name, time in times.items()]), "", *aims])
