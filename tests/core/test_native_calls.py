"""The calls of steps, formats and sequences, by CPython and through ctypes: the same answers; errors for wrong ones."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest

from formatter_core import CompiledFormat, Compiler, Vocabulary, bitmask, formats
from formatter_core.engine import native, native_library, native_schema
from formatter_core.engine.native_calls import ctypes_calls, ctypes_making_calls, making_calls, step_calls
from formatter_core.errors import FormatterError, InvalidGrammar, LimitExceeded, TokenRejected
from formatter_core.grammar import Program
from formatter_core.limits import Limits

from .conftest import END, TOKENS

FORMATS = [
    formats.regex("(a|b|bc)*c?"),
    formats.choice(["a", "abc", "bca"]),
    formats.sequence(formats.regex("[ab]*", max_tokens=3), formats.regex("[bc]+")),
]


def test_cpython_calls_the_library_by_itself() -> None:
    library = native_library.load()
    kinds = {type(call) for call in [*step_calls(library), *making_calls(library)]}
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
    """Return the answer to a token without anything that depends on the vocabulary."""
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
    library = native_library.load()
    for call in [*step_calls(library), *making_calls(library)]:
        if call.__name__ not in ("read_json", "new_sequence") or not _fits(call.__name__, arguments):
            with pytest.raises((TypeError, SystemError, OverflowError)):
                call(*arguments)


def _fits(name: str, arguments: tuple[Any, ...]) -> bool:
    """Tell whether a call takes arguments of this kind."""
    return [*map(type, arguments)] == ([int] if name == "new_sequence" else [bytes, int])


SCHEMAS = [
    '{"type": "object", "properties": {"a": {"enum": ["x", "y\\u00e9"]}}, "$schema": "http://json-schema.org/schema#"}',
    '{"type": "object", "properties": {"a": {"not": {"type": "string"}}, "b": {"type": "integer"}}}',
    '{"type": "array", "items": {"multipleOf": 7}}',
    '{"type": "array", "items": {"minimum": 1e400}}',
    '{"$schema": "https://json-schema.org/draft/2019-09/schema", "type": "thing"}',
    '{"type": "string", "minLength": 3, "maxLength": 2}',
    "[]",
    "{",
    "",
]


@pytest.mark.parametrize("text", SCHEMAS)
def test_both_kinds_make_alike(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for kind in (making_calls, ctypes_making_calls):
        calls = kind(native_library.load())
        monkeypatch.setattr(native, "making_calls", lambda _, calls=calls: calls)
        monkeypatch.setattr(native_schema, "_library", lambda calls=calls: (native_library.load(), calls))
        read = native_schema.native_json(text)
        found.append([read and read.content, compiled_program(text)])
    assert found[0] == found[1]


def compiled_program(text: str) -> Program | str:
    try:
        return Compiler(Vocabulary(TOKENS, [END]), engine="native").compile(text).program
    except FormatterError as error:
        return str(error)


@pytest.mark.parametrize("kind", [making_calls, ctypes_making_calls])
def test_faults_are_errors(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "making_calls", kind)
    engine, vocabulary = native.NativeEngine(), Vocabulary(TOKENS, [END])
    with pytest.raises(InvalidGrammar, match="damaged"):
        engine.load(b"FCG5\xff", 0, 5, 0, vocabulary, Limits())
    program = formats.regex("a").to_grammar(Limits()).grammar.check(Limits()).data
    stored = b"data" + program
    begin, end = len(stored) - len(program), len(stored)
    stored += (int.from_bytes(stored, "little") % (2**32 - 5)).to_bytes(4, "little")
    assert engine.load(stored, begin, end, 0, vocabulary, Limits()).start().accept_token(ord("a"))
    for data, *place in ((b"Data" + stored[4:], begin, end), (stored, begin, end + 5), (stored, end, begin)):
        with pytest.raises(InvalidGrammar, match="damaged"):
            engine.load(data, *place, 0, vocabulary, Limits())
    with pytest.raises(LimitExceeded):
        engine.load(program, 0, len(program), 0, vocabulary, Limits(work=1))


def test_limits_may_be_of_any_size() -> None:
    limits = Limits(nodes=2**70, states=2**64, cache_bytes=2**63, work=2**100)
    compiler = Compiler(Vocabulary(TOKENS, [END]), engine="native", limits=limits)
    for format in [*FORMATS, {"type": "object"}, {"type": "array", "items": {"multipleOf": 7}}]:
        assert compiler.compile(format).formatter().allowed_tokens()
