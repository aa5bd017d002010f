"""Numbers are written canonically by default, so that none goes on for ever, or in any spelling."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft202012Validator

from formatter_core import Compiler, FormatterBuilder, Vocabulary, formats
from formatter_core.errors import FormatterError, InvalidArgument

from .schema_judge import Judge

PLAIN = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?")
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "accepted", "refused"),
    [
        (INTEGER, ["0", "7", "-5", "9" * 20], ["-0", "1.0", "1e2", "01", "9" * 21, "-" + "9" * 21]),
        (
            NUMBER,
            ["0", "0.0", "12.50", "-0.01", "-1.0", "9" * 20, "0." + "0" * 20, "-0." + "0" * 19 + "1"],
            ["-0", "-0.0", "-0." + "0" * 20, "9" * 21, "0." + "0" * 21, "01", "1.", ".5", "+1"],
        ),
        (
            NUMBER,
            ["1e5", "-1E+5", "1.50e-7", "1e-07", "1e+16", "9.9e307", "1e308", "1.7976931348623157e+308", "5e-324"],
            ["0e5", "12e5", "0.1e5", "1e0", "1e05", "1e+05", "1e-007", "-0e1"],
        ),
        (NUMBER, ["1e-323"], ["1.7976931348623158e308", "2e308", "1e309", "1e999", "-1e309", "4e-324", "1e-325"]),
        ({"type": ["integer", "number"]}, ["1", "1.0", "1e5"], ["-0", "-0.0"]),
        ({}, ["1.0", "1e5", "[1,0.5]"], ["-0", "[-0.0]", '{"a":1e999}']),
        ({"enum": [1, 2.0, 12.50, -0.0]}, ["1", "2", "12.5", "0"], ["1.0", "2.0", "12.50", "-0", "-0.0", "0.0"]),
        ({"enum": [1e-7, 1.5e-9, 0.0001]}, ["1e-07", "1.5e-09", "0.0001"], ["0.0000001", "1e-7", "1E-07", "1e-4"]),
        ({"const": 1e22}, ["1" + "0" * 22], ["1e22", "1e+22"]),
        ('{"const": 0.1234567890123456789}', ["0.1234567890123456789"], ["0.12345678901234568"]),
        ('{"const": 1.0e-30}', ["1e-30"], ["0." + "0" * 29 + "1"]),
        ({"type": "number", "minimum": 0}, ["0", "0.0", "3.50", "9" * 20], ["-0", "-0.0", "-1", "1e5", "9" * 21]),
        ({"type": "number", "exclusiveMinimum": 0}, ["0.0001", "1"], ["0", "0.0", "0." + "0" * 20]),
        ({"type": "number", "minimum": -1, "maximum": 1}, ["-1", "-0.5", "1.00"], ["-0", "-0.0", "1.01", "1.001"]),
        ({"type": "number", "exclusiveMaximum": 0}, ["-0." + "0" * 19 + "1"], ["0", "-0", "-0.0", "-0." + "0" * 20]),
        ({"type": "integer", "minimum": 1, "maximum": 300}, ["1", "300"], ["0", "301", "1.0", "3e2"]),
        ({"type": "integer", "minimum": 10**25}, ["1" + "0" * 25, "9" * 26], ["9" * 25, "9" * 27]),
        ({"type": "integer", "exclusiveMinimum": 10**20 - 1}, ["1" + "0" * 20, "9" * 21], ["9" * 20, "9" * 22]),
        ({"type": "integer", "minimum": -(10**30), "maximum": 10**30}, ["1" + "0" * 30], ["1" + "0" * 29 + "01"]),
        ({"type": "number", "minimum": 0, "maximum": 1e308}, ["9" * 20], ["9" * 21, "1e300"]),
        ({"type": "number", "minimum": 1e308}, ["1" + "0" * 308, "17" + "0" * 307], ["18" + "0" * 307, "1e308"]),
        ({"type": "number", "minimum": -1.7976931348623157e308}, ["1e5", "-1e5", "1e308"], ["1e309", "9" * 21]),
        ({"type": "number", "minimum": 0.5, "maximum": 0.5}, ["0.5"], ["0.50", "5e-1"]),
        ('{"type": "number", "minimum": 1e-22, "maximum": 2e-22}', ["0." + "0" * 21 + "15"], ["0." + "0" * 20 + "1"]),
        ('{"type": "number", "minimum": 1e-300}', ["0." + "0" * 19 + "1"], ["0", "0." + "0" * 20]),
        ({"type": "number", "multipleOf": 0.01}, ["2.50", "2.5", "0.01"], ["0.005", "1e2", "-0", "0." + "0" * 21]),
        ({"type": "number", "multipleOf": 0.5, "minimum": 0, "maximum": 2}, ["1.50", "2.0", "2"], ["1.25", "2.5"]),
        ({"type": "integer", "multipleOf": 0.5, "minimum": 0, "maximum": 2}, ["1", "2"], ["1.0", "1.5"]),
        ({"type": "number", "multipleOf": 5}, ["10", "-5", "9" * 19 + "5"], ["10.0", "3", "-0", "9" * 20 + "5"]),
        ('{"type": "number", "multipleOf": 1e-25}', ["0." + "0" * 24 + "3"], ["0." + "0" * 25 + "3"]),
        ({"type": "integer", "multipleOf": 10**22}, ["0", "3" + "0" * 22], ["1" + "0" * 21]),
        ({"type": "number", "not": {"type": "integer"}}, ["1.5", "-0.10"], ["1", "1.0", "2.00", "1e5"]),
        ({"type": "number", "not": {"const": 0.5}}, ["0.51", "1.0"], ["0.5", "0.50", "5e-1"]),
        ({"type": "number", "not": {"minimum": 3}}, ["2.99", "-7"], ["3", "3.0"]),
        ({"type": "integer", "$schema": DRAFT_4}, ["2"], ["2.0", "-0"]),
        ({"type": "number", "not": {"type": "integer"}, "$schema": DRAFT_4}, ["2.0", "2.5"], ["2", "-0.0"]),
        ({"enum": [1, 2.5], "not": {"type": "integer"}, "$schema": DRAFT_4}, ["1.0", "2.5"], ["1", "1.00", "2.50"]),
        ({"type": "array", "items": {"enum": [1e-7, 3]}, "uniqueItems": True}, ["[1e-07,3]"], ["[3,3]"]),
    ],
    ids=str,
)
def test_canonical_numbers(schema: Any, accepted: list[str], refused: list[str]) -> None:
    canonical, every = Judge(schema), Judge(schema, spelling="any")
    for text in accepted:
        assert canonical.accepts(text), text
        assert every.accepts(text), text
    for text in refused:
        assert not canonical.accepts(text), text


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        (NUMBER, ["-0", "-0.0", "1e999", "12e05", "9" * 50, "1." + "0" * 50]),
        (INTEGER, ["-0", "1.0", "9" * 50]),
        ({"type": "number", "minimum": 0}, ["-0", "1.50", "9" * 50]),
        ({"enum": [1e-7, 2]}, ["1e-07", "0.0000001", "0.00000010", "2.00"]),
    ],
    ids=str,
)
def test_any_spelling_is_an_option(schema: Any, texts: list[str]) -> None:
    every = Judge(schema, spelling="any")
    assert all(map(every.accepts, texts))


def test_a_dict_and_a_text_of_one_schema_have_one_language() -> None:
    text = '{"enum": [1.0, 2, 3.10, 1E-7, 0.00000010, 5e3, 1e22]}'
    from_text, from_dict = Judge(text), Judge(json.loads(text))
    for written in ("1", "2", "3.1", "1e-07", "5000", "1" + "0" * 22, "1.0", "3.10", "5e3", "0.0000001"):
        assert from_text.accepts(written) == from_dict.accepts(written) == (written in _dumped(json.loads(text)))


def _dumped(schema: Any) -> list[str]:
    return [json.dumps(int(value) if value == int(value) else value) for value in schema["enum"]]


BOUNDS = st.one_of(
    st.none(),
    st.integers(-30, 30),
    st.decimals(-30, 30, places=2).map(float),
    st.sampled_from([0, 10**19, -(10**20), 99999999999999999999, 1e30, -1e308, 1e-25, 2**64, 1.7976931348623157e308]),
)
STEPS = st.sampled_from([None, None, 1, 2, 7, 0.5, 0.25, 0.01, 3.5, 12, 10**19])
SCHEMAS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": BOUNDS,
        "maximum": BOUNDS,
        "exclusiveMinimum": BOUNDS,
        "exclusiveMaximum": BOUNDS,
        "multipleOf": STEPS,
        "not": st.one_of(
            st.builds(lambda value: {"const": value}, st.integers(-5, 5)),
            st.builds(lambda step: {"multipleOf": step}, st.sampled_from([1, 2, 0.5])),
            st.builds(lambda bound: {"minimum": bound}, st.integers(-5, 25)),
        ),
    },
).map(lambda schema: {key: value for key, value in schema.items() if value is not None})
NUMBERS = st.one_of(
    st.integers(-40, 40).map(str),
    st.decimals(-35, 35, places=3).map(lambda value: format(value, "f")),
    st.from_regex(r"-?(0|[1-9][0-9]{0,21})(\.[0-9]{1,22})?", fullmatch=True),
    st.from_regex(r"-?[0-9](\.[0-9]{1,3})?[eE][+-]?[0-9]{1,3}", fullmatch=True),
)


def has_value(schema: dict[str, Any], value: Fraction) -> bool:
    """Tell whether a number follows the schema, in exact arithmetic."""
    exact = {key: Fraction(str(bound)) for key, bound in schema.items() if key not in ("type", "not")}
    other = schema.get("not")
    return (
        (schema.get("type") != "integer" or value.denominator == 1)
        and value >= exact.get("minimum", value)
        and value <= exact.get("maximum", value)
        and exact.get("exclusiveMinimum") != value != exact.get("exclusiveMaximum")
        and value >= exact.get("exclusiveMinimum", value)
        and value <= exact.get("exclusiveMaximum", value)
        and (value / exact.get("multipleOf", value or Fraction(1))).denominator == 1
        and (other is None or ("const" in other and value != other["const"]) or not _holds(other, value))
    )


def _holds(other: dict[str, Any], value: Fraction) -> bool:
    return value == other["const"] if "const" in other else has_value(other, value)


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, st.lists(NUMBERS, min_size=10, max_size=20))
def test_the_value_and_the_digits_decide(schema: dict[str, Any], texts: list[str]) -> None:
    try:
        canonical, every = Judge(schema), Judge(schema, spelling="any")
    except FormatterError:
        return
    validator = Draft202012Validator(json.loads(json.dumps(schema), parse_float=Decimal))
    step, bounds = schema.get("multipleOf"), set(schema) - {"type", "not", "multipleOf"}
    near = [Fraction(str(schema[name])) + Fraction(each, 100) for name in sorted(bounds) for each in (-1, 0, 1)]
    texts = [*texts, *(format(Decimal(value.numerator) / value.denominator, "f") for value in near)]
    for text in texts:
        found = PLAIN.fullmatch(text)
        taken = canonical.accepts(text)
        if taken:
            value = json.loads(text)
            assert math.isfinite(value)
            assert math.copysign(1, value) == 1 or value
            assert every.accepts(text)
            assert has_value(schema, Fraction(text))
            if step is None:  # of a Decimal there is no remainder if the quotient is long
                assert validator.is_valid(int(text) if "." not in text and "e" not in text.lower() else Decimal(text))
        elif found and has_value(schema, Fraction(text)) and len(found[2]) <= 20 and len(found[3] or "") <= 20:
            whole = Fraction(text).denominator == 1
            are_whole = schema["type"] == "integer" or (step is not None and Fraction(str(step)).denominator == 1)
            is_listed = len({schema.get(name) for name in ("minimum", "maximum")} - {None}) == 1
            assert (found[1] and not Fraction(text)) or (whole and are_whole and found[3]) or is_listed, text


@pytest.mark.parametrize("schema", [INTEGER, NUMBER, {"type": "number", "minimum": 0}, {}], ids=str)
def test_no_number_runs_away(schema: Any) -> None:
    compiled = Compiler(Vocabulary.of_bytes()).compile(formats.json_schema(schema))
    for start in (b"0.", b"9", b"-9", b"-0.", b"9.", b"9.9e"):
        for digit in b"0123456789":
            formatter = compiled.formatter()
            if formatter.accept_tokens(list(start)) < len(start):
                continue
            count = formatter.accept_tokens([digit] * 60)
            assert count <= 20
            assert formatter.can_stop or formatter.allowed_tokens()


def test_items_that_differ_are_plain_decimals() -> None:
    schema = {"type": "array", "items": NUMBER, "uniqueItems": True}
    compiled = Compiler(Vocabulary.of_bytes()).compile(formats.json_schema(schema))
    assert compiled.parse("[1,2.50]").is_complete
    assert not any(compiled.parse(text).is_complete for text in ("[1,1.0]", "[1e5]", "[-0]", "[2.5,2.50]"))


def test_integers_of_text_have_bounded_digits() -> None:
    builder = FormatterBuilder()
    builder.append("n = ", builder.integer(name="n"), ", x = ", builder.number(name="x"), ".")
    compiled = Compiler(Vocabulary.of_bytes()).compile(builder)
    assert compiled.parse("n = 12, x = -3.50.").value == {"n": 12, "x": -3.5}
    formatter = compiled.formatter()
    formatter.accept_bytes(b"n = 4")
    assert formatter.accept_tokens([ord("0")] * 218) == 19
    assert bytes(formatter.allowed_tokens()) == b","


@pytest.mark.parametrize(
    ("format", "accepted", "refused"),
    [
        (formats.integer(), ["0", "-1", "9" * 20], ["-0", "1.0", "9" * 21]),
        (formats.integer(spelling="any"), ["9" * 400], ["-0", "1.0"]),
        (formats.integer(10**25), ["1" + "0" * 25], ["1" + "0" * 24]),
        (formats.integer(0, 10**150), ["9" * 20], ["9" * 21]),
        (formats.number(), ["0.0", "1.50", "9" * 20], ["-0.0", "1e5", "9" * 21, "0." + "1" * 21]),
        (formats.number(spelling="any"), ["9" * 400, "0." + "1" * 50], ["-0", "1e5"]),
        (formats.number(0.5, 2), ["0.50", "2.0"], ["0.4", "2.01"]),
    ],
    ids=str,
)
def test_holes_of_text(format: Any, accepted: list[str], refused: list[str]) -> None:
    compiled = Compiler(Vocabulary.of_bytes()).compile(format)
    for text in (*accepted, *refused):
        assert compiled.parse(text).is_complete is (text in accepted), text


def test_what_was_stored_without_a_spelling_has_every_one() -> None:
    for made in (formats.integer(0, 5), formats.number(0)):
        stored = made.to_json()
        assert formats.from_json(stored) == made
        del stored["spelling"]
        assert formats.from_json(stored).to_json()["spelling"] == "any"
    with pytest.raises(InvalidArgument, match="spelling"):
        formats.integer(spelling="wide")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [2, 2.0])
def test_draft_4_tells_whole_numbers_by_their_spelling(value: float) -> None:
    schema = {"type": "integer", "$schema": DRAFT_4}
    assert Judge(schema).accepts(json.dumps(value)) == Draft4Validator(schema).is_valid(value)
