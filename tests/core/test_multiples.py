"""`Multiples`: the plain decimals that are multiples of a step, read alike by every grammar engine and the parser."""

from __future__ import annotations

import json
import random
import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import Compiler, Limits, Vocabulary, formats
from formatter_core.errors import InvalidGrammar, UnsupportedSchema
from formatter_core.formats.json_schema import SchemaWarning
from formatter_core.grammar import Grammar, Multiples
from formatter_core.testing.automaton import Automaton

BYTES = Vocabulary.of_bytes()
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
STEPS = st.sampled_from(
    [(1, 0), (7, 0), (12, 0), (1, -3), (96, 0), (7, -1), (12, -2), (1, 2), (7, 1), (25, 1), (125, 4), (999, 2)]
)
ENGINES = ["native", "kbnf"]


def is_multiple(text: str, step: Fraction) -> bool:
    return PLAIN.fullmatch(text) is not None and (Fraction(text) / step).denominator == 1


@st.composite
def decimals(draw: st.DrawFn, step: Fraction) -> str:
    """Often a multiple, in some spelling; or nearly one, or no decimal at all."""
    value = draw(st.integers(-2000, 2000)) * step
    if draw(st.booleans()):
        value += Fraction(draw(st.integers(-20, 20)), 10 ** draw(st.integers(0, 5)))
    text = format(Decimal(value.numerator) / value.denominator, "f")
    zeros = "0" * draw(st.integers(0, 2))
    text += zeros if "." in text else f".{zeros}" if zeros else ""
    return draw(st.sampled_from(["", "", "", "", "", "-", "0", "."])) + text


@given(st.data(), STEPS)
@settings(deadline=None, max_examples=300)
def test_the_automaton_accepts_multiples_and_nothing_else(data: st.DataObject, numbers: tuple[int, int]) -> None:
    step, places = numbers
    text = data.draw(decimals(Fraction(step) / Fraction(10) ** places))
    is_one = is_multiple(text, Fraction(step) / Fraction(10) ** places)
    assert Automaton(Multiples(step, places)).matches(text.encode()) == is_one
    before_the_point = len(text.partition(".")[0].lstrip("-"))
    for digits in (1, 3, 5):
        bounded = Automaton(Multiples(step, places, digits))
        assert bounded.matches(text.encode()) == (is_one and before_the_point <= digits)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "multipleOf": 4096},
        {"type": "integer", "multipleOf": 86_400},
        {"type": "integer", "multipleOf": 997, "minimum": 1},
        {"type": "number", "multipleOf": 12.5},
        {"type": "integer", "not": {"multipleOf": 4093}},
    ],
)
def test_a_model_that_writes_digits_without_end_is_stopped(schema: dict[str, object]) -> None:
    formatter = Compiler(BYTES, engine="native").compile(formats.json_schema(schema)).formatter()
    rng, text = random.Random(1), ""
    while digits := [chr(token) for token in formatter.allowed_tokens() if chr(token).isdigit() and chr(token) != "."]:
        text += rng.choice([digit for digit in digits if text or digit != "0"])
        formatter.accept_token(ord(text[-1]))
    assert 18 <= len(text) <= 20
    value = Fraction(text)
    assert ("not" in schema) != (value % Fraction(str(schema.get("multipleOf", 4093))) == 0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"type": "integer", "multipleOf": 360, "minimum": 1}, ["360", "36000", "720.0"], ["0", "36", "350", "1e3"]),
        ({"type": "number", "multipleOf": 0.7}, ["0.7", "-2.1", "7", "49.00"], ["0.07", "1", "0.77"]),
        ({"type": "integer", "multipleOf": 4096, "maximum": 9000}, ["8192", "-4096", "0"], ["12288", "4095"]),
        ({"type": "integer", "not": {"anyOf": [{"multipleOf": 3}, {"multipleOf": 7}]}}, ["1", "10"], ["0", "9", "14"]),
        ({"type": "number", "oneOf": [{"multipleOf": 3}, {"multipleOf": 7}]}, ["9", "14"], ["21", "5", "1.5"]),
        ({"type": "number", "multipleOf": 6, "not": {"multipleOf": 4}}, ["6", "18"], ["12", "24", "4"]),
        ({"type": ["integer", "null"], "multipleOf": 11}, ["null", "22"], ["12", "nul"]),
    ],
)
def test_engines_enforce_steps(engine: str, schema: dict[str, object], valid: list[str], invalid: list[str]) -> None:
    compiled = Compiler(BYTES, engine=engine).compile(formats.json_schema(schema, spelling="any"))
    for text in (*valid, *invalid):
        formatter = compiled.formatter()
        taken = formatter.accept_tokens(list(text.encode()))
        assert (taken == len(text) and formatter.can_stop) is (text in valid), text
        assert compiled.parse(text).is_complete is (text in valid), text


def test_items_that_differ_may_be_multiples() -> None:
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "integer", "multipleOf": 7}, "maxItems": 3}
    compiled = Compiler(BYTES, engine="native").compile(formats.json_schema(schema))
    assert compiled.parse("[7,14,0]").is_complete
    for text in ("[7,7]", "[7,7.0]", "[7,8]", "[0,-0]"):
        assert not compiled.parse(text).is_complete


def test_the_shortest_multiple_is_known() -> None:
    for step, least in (("360", 3), ("4093", 4), ("7", 1)):
        schema = json.dumps({"type": "integer", "multipleOf": int(step), "minimum": 1})
        assert Compiler(BYTES, engine="native").compile(formats.json_schema(schema)).min_bytes == least


def test_many_steps_at_once_take_no_more_states_than_their_least_common_multiple() -> None:
    steps = (3, 5, 7, 8, 24)
    schema = {
        "type": "integer",
        "minimum": 500,
        "multipleOf": 11,
        "allOf": [{"not": {"multipleOf": k}} for k in steps],
    }
    compiled = Compiler(BYTES, engine="native").compile(formats.json_schema(schema))
    for number in range(440, 2_000, 11):
        valid = number >= 500 and all(number % step for step in steps)
        assert compiled.parse(str(number)).is_complete is valid, number


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("step", ["5e9", "1e10", "12e30", "1e300", "2.5e-9", "1e-300"])
def test_steps_of_any_size_are_enforced_whose_digits_are_few(engine: str, step: str) -> None:
    compiled = Compiler(BYTES, engine=engine).compile(formats.json_schema(f'{{"type":"number","multipleOf":{step}}}'))
    for factor, valid in ((0, True), (1, True), (3, True), ("1.1", False), (-7, True), ("0.5", False)):
        value = Fraction(step) * Fraction(factor)
        whole, places = value.numerator, 0
        while value.denominator != 1:
            value, places = value * 10, places + 1
            whole = value.numerator
        digits = str(abs(whole)).zfill(places + 1)
        text = "-" * (whole < 0) + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)
        assert compiled.parse(text).is_complete is valid, factor


def test_two_huge_steps_are_refused_as_one_is() -> None:
    steps = [{"multipleOf": 10**2500 + 1}, {"multipleOf": 10**2400 + 7}]
    with pytest.raises(UnsupportedSchema, match="8192 states"):
        Compiler(BYTES).compile(formats.json_schema({"type": "integer", "allOf": steps}))


@pytest.mark.parametrize("step", [10**300 + 7, 8191 * 8191, 81.79])
def test_steps_with_too_many_states_are_refused(step: float) -> None:
    schema = {"type": "number", "multipleOf": step}
    with pytest.raises(UnsupportedSchema, match="8192 states"):
        Compiler(BYTES).compile(formats.json_schema(schema))
    with pytest.warns(SchemaWarning, match="multipleOf"):
        lenient = Compiler(BYTES).compile(formats.json_schema(schema, on_unsupported="warn"))
    assert lenient.parse("1.5").is_complete


def test_it_stands_only_in_terminals() -> None:
    with pytest.raises(InvalidGrammar, match="Multiples stands outside a Terminal"):
        Grammar({"a": Multiples(7, 0)}, "a").check(Limits())
