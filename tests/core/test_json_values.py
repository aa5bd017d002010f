"""Values of JSON text that Python's own reader gives up on."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.errors import FormatterError
from formatter_core.formats import json_values
from formatter_core.testing.oracle import OracleEngine

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@settings(max_examples=80, deadline=None)
@given(VALUES, st.sampled_from([None, 1]))
def test_the_reader_without_recursion_reads_what_json_reads(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert json_values._Reader(text).value() == value
    assert json_values.read_value(text.encode()) == value


def test_the_last_of_equal_keys_wins() -> None:
    assert json_values._Reader('{"a": 1, "b": [], "a": {}}').value() == {"a": {}, "b": []}


@pytest.fixture
def compiler(vocabulary: Vocabulary) -> Compiler:
    return Compiler(vocabulary, engine=OracleEngine())  # values are no engine's business


def test_deep_values(compiler: Compiler) -> None:
    depth = 3000
    value = compiler.compile({}).parse("[" * depth + '{"a": 1}' + "]" * depth).value
    for _ in range(depth):
        (value,) = value
    assert value == {"a": 1}


@pytest.mark.parametrize(
    "given", [{"type": "integer"}, int, formats.integer(spelling="any")], ids=["schema", "type", "hole"]
)
def test_numbers_of_many_digits(compiler: Compiler, given) -> None:
    assert compiler.compile(formats.as_format(given, spelling="any")).parse("-1" + "0" * 6000).value == -(10**6000)


@dataclasses.dataclass
class Link:
    next: Link | None = None


def test_objects_deeper_than_the_stack_are_refused_by_name(compiler: Compiler) -> None:
    compiled = compiler.compile(Link)
    assert compiled.parse('{"next":{}}').value == Link(Link())
    depth = sys.getrecursionlimit()
    result = compiled.parse('{"next":' * depth + "{}" + "}" * depth)
    assert result.is_complete
    with pytest.raises(FormatterError, match="nested deeper"):
        _ = result.value
