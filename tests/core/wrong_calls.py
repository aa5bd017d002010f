"""Calls of public names with arguments of wrong types and values, drawn at random from a seed."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from formatter_core.errors import FormatterError

__all__ = ["WRONG", "Call", "raw_errors"]


class Call(NamedTuple):
    """A public name, and how to make arguments that are right."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[], Sequence[Any]] = tuple
    options: Callable[[], dict[str, Any]] = dict


#: Values that are wrong nearly everywhere. Each is made anew for each call, because a call may change it.
WRONG: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: True,
    lambda: 0,
    lambda: 1,
    lambda: -1,
    lambda: 7,
    lambda: 2**31,
    lambda: 2**70,
    lambda: -(2**70),
    lambda: 10**400,
    lambda: 1.5,
    lambda: float("nan"),
    lambda: float("inf"),
    lambda: Decimal("NaN"),
    lambda: 1j,
    lambda: "",
    lambda: "x",
    lambda: "[",
    lambda: "a\ud800",
    lambda: "\0",
    lambda: b"",
    lambda: b"\xff",
    lambda: bytearray(b"a"),
    list,
    lambda: [None],
    lambda: ["a", 1],
    lambda: [[]],
    lambda: [-1, 2**70],
    lambda: (),
    dict,
    lambda: {"a": 1},
    lambda: {"type": 5},
    lambda: {1: 2},
    lambda: {"a"},
    lambda: object(),
    lambda: object,
    lambda: int,
    lambda: len,
    lambda: lambda *_: None,
    lambda: Ellipsis,
    lambda: range(3),
    lambda: iter([1, "x"]),
    lambda: np.zeros(1),
    lambda: np.zeros((2, 2), dtype=np.int32),
    lambda: np.zeros((1, 1, 1), dtype=np.int32),
    lambda: np.zeros(0, dtype=np.int32),
    lambda: np.array("x"),
    lambda: np.array(["x", None], dtype=object),
    lambda: np.int64(3),
    lambda: np.float32(3),
)


def raw_errors(calls: Sequence[Call], count: int, seed: int, wrong: Sequence[Callable[[], Any]] = WRONG) -> list[str]:
    """Make `count` wrong calls; what they raised that is not an error of ours, as text."""
    source = random.Random(seed)
    found = []
    for _ in range(count):
        call = source.choice(calls)
        arguments, options = list(call.arguments()), dict(call.options())
        places: list[tuple[Any, Any]] = [(arguments, place) for place in range(len(arguments))]
        places += [(options, name) for name in options]
        if not places:
            continue
        shown = {}
        for holder, place in source.sample(places, min(len(places), source.choice([1, 1, 1, 2]))):
            holder[place] = source.choice(wrong)()
            shown[place] = repr(holder[place])[:60]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call.function(*arguments, **options)
        except FormatterError as error:
            if not str(error):
                found.append(f"{call.name}({shown}): {type(error).__name__} without a message")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the test looks for
            found.append(f"{call.name}({shown}): {type(error).__name__}: {str(error)[:120]}")
    return found
