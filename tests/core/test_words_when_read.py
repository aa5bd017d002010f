"""Messages that need a parse are computed when they are read, never within a step or a result."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from formatter_core import CompiledFormat, Compiler, Formatter, Vocabulary, formats, parse
from formatter_core.engine.native_parser import Following, Reading
from formatter_core.errors import DeadEnd, TokenRejected

END = 256
VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(256)), None], [END])


@pytest.fixture
def parsers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every reading of a text that begins from here on."""
    made: list[object] = []

    def counted(kind: type) -> Any:
        begin = kind.__init__

        def begin_counted(self: object, *arguments: Any) -> None:
            made.append(self)
            begin(self, *arguments)

        return begin_counted

    for kind in (Reading, Following):
        monkeypatch.setattr(kind, "__init__", counted(kind))
    return made


@pytest.fixture(scope="module")
def compiled() -> CompiledFormat:
    return Compiler(VOCABULARY).compile(formats.regex("n=(?P<n>[0-9]+);"))


def after(compiled: CompiledFormat, text: bytes) -> Formatter:
    formatter = compiled.formatter()
    formatter.accept_tokens(text)
    return formatter


def test_a_result_is_parsed_when_it_is_read(compiled: CompiledFormat, parsers: list[object]) -> None:
    going = after(compiled, b"n=12")
    cut, whole = going.result("length"), after(compiled, b"n=12;").result("end")
    assert (cut.is_complete, whole.is_complete, whole.missing, parsers) == (False, True, None, [])
    going.accept_token(ord("3"))  # what the sequence does afterwards changes nothing
    assert (cut.text, cut.captures) == ("n=12", {})
    assert "expected" in str(cut.missing)
    assert whole.captures == {"n": ("12",)}
    assert parsers


def test_a_rejection_in_a_batch_is_explained_when_it_is_read(compiled: CompiledFormat, parsers: list[object]) -> None:
    both = [after(compiled, b"n="), after(compiled, b"n=")]
    rows = np.zeros((2, VOCABULARY.words), dtype=np.int32)
    faults = Formatter.step_batch(both, [ord("x"), ord("7")], rows)
    with pytest.raises(TokenRejected) as alone:
        both[1].accept_token(ord("x"))
    assert parsers == []
    for fault, position in ((faults[0], 2), (alone.value, 3)):
        assert isinstance(fault, TokenRejected)
        assert (fault.token_id, fault.position) == (ord("x"), position)
    both[0].reset()
    assert "'n='" in faults[0].reason
    assert len(parsers) == 1
    again = pickle.loads(pickle.dumps(alone.value))
    assert (str(again), repr(again)) == (str(alone.value), repr(alone.value))
    assert "'n=7'" in str(again)


def test_a_dead_end_is_explained_when_it_is_read(parsers: list[object]) -> None:
    holes = Vocabulary([b"a", None], [1])
    formatter = Compiler(holes).compile(formats.regex("ab")).formatter()
    formatter.accept_token(0)
    del parsers[:]
    with pytest.raises(DeadEnd) as caught:
        formatter.allowed_tokens()
    assert (caught.value.text, parsers) == (b"a", [])
    assert "b" in caught.value.expected
    assert caught.value.expected in str(caught.value)
    assert len(parsers) == 1


PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.mark.parametrize(
    ("format", "text", "words"),
    [
        (PERSON, b'{"name":"B', "`name` is not finished (length limit): "),
        (formats.regex('"[^"\\\\]+"'), b'"', 'expected any character except `"` and `\\`'),
        (formats.regex("[^x]*;"), b"a", "expected any character except `x`"),
        (formats.regex("(?P<year>[0-9]{4})"), b"20", "output ended inside `year` (length limit): expected a digit"),
        (formats.regex("[a-c][0-9a-f]"), b"a", "output ended too early (length limit): expected `0`–`9` or `a`–`f`"),
        (formats.choice(["yes", "no"]), b"", "expected `n` or `y`"),
        (
            formats.kbnf('start ::= "a" b; b ::= "c" | "\\n";'),
            b"a",
            "in rule `b` (length limit): expected `c` or `\\n`",
        ),
        (formats.regex("é!"), "é".encode()[:1], "expected `\\xa9!`"),
        (formats.regex("(.|ab)+"), b"x", "it could go on, and no end id came"),
    ],
)
def test_a_cut_output_says_where_it_ended_and_what_was_expected(format: Any, text: bytes, words: str) -> None:
    missing = after(Compiler(VOCABULARY).compile(format), text).result("length").missing
    assert words in str(missing)


@pytest.mark.parametrize(
    ("schema", "text", "words"),
    [
        ({"properties": {"a": {"properties": {"b": {"type": "integer"}}}}}, '{"a": {"b": ', "`a.b` is not finished"),
        ({"properties": {"a": {"items": {"type": "string"}}}}, '{"a": [5', '`"` in an item of `a`'),
        ({"items": {"properties": {"b": {"type": "null"}}}}, '[{"b": 1', "expected `null` in `[].b`"),
        ({"additionalProperties": {"type": "boolean"}}, '{"x": 1', "in a value"),
        ({"$ref": "#/$defs/it", "$defs": {"it": {"type": "array"}}}, "[1", "in `it`"),
        ({"properties": {"a/b": {"type": "null"}}}, '{"a/b": 1', "expected `null` in `a/b`"),
    ],
)
def test_places_of_a_schema_are_named_as_its_values_are(schema: dict[str, Any], text: str, words: str) -> None:
    assert words in str(parse(_typed(schema), text).missing)


def _typed(schema: Any) -> Any:
    """The schema with a type wherever its keywords are for one."""
    if not isinstance(schema, dict):
        return schema
    kind = {} if "type" in schema or "$ref" in schema else {"type": "array" if "items" in schema else "object"}
    inner = {
        name: {key: _typed(value) for key, value in part.items()} if name in ("properties", "$defs") else _typed(part)
        for name, part in schema.items()
    }
    return {**kind, **inner}
