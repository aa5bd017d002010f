"""The calls of every step, as functions of CPython and through ctypes: the same answers; errors for wrong arguments."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest

from formatter_core import CompiledFormat, Compiler, Vocabulary, bitmask, formats
from formatter_core.engine import native, native_library
from formatter_core.engine.native_calls import ctypes_calls, step_calls
from formatter_core.errors import TokenRejected

from .conftest import END, TOKENS

if not native_library.is_available():
    pytest.skip("needs the native library", allow_module_level=True)

FORMATS = [
    formats.regex("(a|b|bc)*c?"),
    formats.choice(["a", "abc", "bca"]),
    formats.sequence(formats.regex("[ab]*", max_tokens=3), formats.regex("[bc]+")),
]


def test_cpython_calls_the_library_by_itself() -> None:
    kinds = {type(call) for call in step_calls(native_library.load())}
    assert (kinds == {type(len)}) == (sys.implementation.name == "cpython")


def compiled(calls: Any, format: Any) -> CompiledFormat:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "step_calls", calls)
        return Compiler(Vocabulary(TOKENS, [END]), engine="native").compile(format)


@pytest.mark.parametrize("format", FORMATS, ids=repr)
def test_both_kinds_answer_alike(format: Any) -> None:
    kinds = [compiled(calls, format) for calls in (step_calls, ctypes_calls)]
    rng = random.Random(0)
    for _ in range(100):
        pair = [one.formatter() for one in kinds]
        rows = [bitmask.allocate(1, len(TOKENS))[0] for _ in pair]
        while not pair[0].is_finished:
            for formatter, row in zip(pair, rows, strict=True):
                formatter.fill_bitmask(row)
            assert (rows[0] == rows[1]).all()
            token = rng.choice(range(len(TOKENS)) if rng.random() < 0.1 else pair[0].allowed_tokens())
            way = rng.choice(["accept_token", "step", "step_kept", "advance"])
            answers = [take(formatter, way, token, row) for formatter, row in zip(pair, rows, strict=True)]
            assert answers[0] == answers[1]
            assert (rows[0] == rows[1]).all()
            assert pair[0].tokens == pair[1].tokens


def take(formatter: Any, way: str, token: int, row: np.ndarray) -> Any:
    """What a token answers, as far as it does not tell one vocabulary from another."""
    try:
        if way == "step":
            return formatter.step(token, row)
        answer = getattr(formatter, way)(token)
    except TokenRejected as error:
        return str(error)
    return answer is None if way == "step_kept" else answer


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="other Pythons call through ctypes")
@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (1,),
        (1, 2),
        (b"", -1),
        (b"", 2**32),
        (b"", 2**80),
        (b"", "a"),
        (b"", None),
        (b"", 1.0),
        (b"", 1, 1),
        (None, 1),
    ],
    ids=repr,
)
def test_wrong_arguments_are_errors_of_python(arguments: tuple[Any, ...]) -> None:
    calls = step_calls(native_library.load())
    for call in calls:
        with pytest.raises((TypeError, SystemError, OverflowError)):
            call(*arguments)
