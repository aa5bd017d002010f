"""Numbers are exact: in the JSON text of a schema, and in values that no float holds."""

from __future__ import annotations

import json
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import Compiler, FormatterBuilder, Vocabulary, formats
from formatter_core.errors import InvalidFormat, InvalidSchema, InvalidValue, LimitExceeded
from formatter_core.formats.json_values import read_exact, read_value, write_value
from formatter_core.formats.protocol import Format
from formatter_core.limits import DEFAULT_LIMITS
from formatter_core.testing.oracle import OracleEngine
from tests.core.native_parse import parse

LONG = st.from_regex(r"-?(0|[1-9][0-9]{0,30})\.[0-9]{1,30}", fullmatch=True)
SPELLED = st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,5})?", fullmatch=True)


@pytest.fixture
def compiler(vocabulary: Vocabulary) -> Compiler:
    return Compiler(vocabulary, engine=OracleEngine())  # numbers are no engine's business


def accepts(format: Format, text: str) -> bool:
    return parse(format.to_grammar(DEFAULT_LIMITS).grammar, text.encode()) is not None


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ('{"const": 0.12345678901234567890123}', "0.12345678901234567890123", "0.12345678901234568"),
        ('{"type": "integer", "maximum": 9007199254740993.0}', "9007199254740993", "9007199254740994"),
        ('{"type": "number", "maximum": 1e400}', "1" + "0" * 400, "1" + "0" * 400 + ".5"),
        ('{"enum": [1e-30]}', "0." + "0" * 29 + "1", "0"),
        ('{"const": 0e999999999}', "0", "1"),
    ],
)
def test_the_text_of_a_schema_is_read_exactly(compiler: Compiler, schema: str, good: str, bad: str) -> None:
    compiled = compiler.compile(formats.json_schema(schema, spelling="any"))
    assert compiled.parse(good).is_complete
    assert not compiled.parse(bad).is_complete


@settings(max_examples=60, deadline=None)
@given(LONG, st.sampled_from(["const", "maximum", "minimum", "enum"]))
def test_a_number_in_a_schema_accepts_itself_and_no_other(number: str, keyword: str) -> None:
    schema = f'{{"type": "number", "{keyword}": {f"[{number}]" if keyword == "enum" else number}}}'
    made = formats.json_schema(schema, spelling="any")
    assert accepts(made, number)
    step = Decimal(1).scaleb(-31)
    beyond = Context(prec=100).add(Decimal(number), -step if keyword == "minimum" else step)
    assert not accepts(made, format(beyond, "f"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[a-z]+", InvalidFormat),
        ('"a"', InvalidFormat),
        ("3", InvalidFormat),
        ('{"minimum": NaN}', InvalidSchema),
        ('{"minimum": 1e999999999999999999999999}', InvalidSchema),
        ('{"minimum": ' + "1" * 5000 + "}", InvalidSchema),
        ('{"minimum": 0.' + "1" * 5000 + "}", InvalidSchema),
        ('{"not": ' * 50_000 + "{}" + "}" * 50_000, LimitExceeded),
    ],
    ids=["a pattern", "a string", "a number", "NaN", "an exponent", "digits", "places", "deep"],
)
def test_other_text_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        formats.as_format(text)
    assert type(caught.value) is error


BUILDER = FormatterBuilder()
BUILDER.append(BUILDER.number(name="x", spelling="any"))


@pytest.mark.parametrize("text", ["10e71005", "-1E+400", "1" + "0" * 400 + ".5"])
@pytest.mark.parametrize("given", [{}, {"type": "number"}, Any], ids=["anything", "number", "Any"])
def test_a_number_too_large_for_a_float_is_a_decimal(compiler: Compiler, given: Any, text: str) -> None:
    value = compiler.compile(formats.as_format(given, spelling="any")).parse(text).value
    assert type(value) is Decimal
    assert value == Decimal(text)


def test_a_hole_too_large_for_a_float_is_a_decimal(compiler: Compiler) -> None:
    text = "1" + "0" * 400 + ".5"
    assert compiler.compile(BUILDER).parse(text).value == {"x": Decimal(text)}


def test_a_number_too_large_for_a_decimal_is_refused_when_it_is_read(compiler: Compiler) -> None:
    result = compiler.compile(formats.json_schema({}, spelling="any")).parse("[1e99999999999999999999]")
    assert result.is_complete
    with pytest.raises(InvalidValue, match="too large even for a Decimal"):
        _ = result.value


@settings(max_examples=200, deadline=None)
@given(SPELLED)
def test_numbers_are_read_as_json_reads_them_or_exactly(text: str) -> None:
    plain = json.loads(text)
    found = read_value(text.encode())
    if plain in (float("inf"), float("-inf")):
        assert (type(found), found) == (Decimal, Decimal(text))
    else:
        assert (type(found), found) == (type(plain), plain)
    exact = read_exact(text.encode())
    assert Decimal(write_value(exact)) == Decimal(text)
    assert float(exact) == float(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_exact_values_are_written_and_read_again(value: object) -> None:
    again = read_exact(write_value(value).encode())
    assert read_exact(write_value(again).encode()) == again
    assert json.loads(write_value(value), parse_float=Decimal) == value
