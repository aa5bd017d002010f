"""Schemas inside of other formats: written by the library among their rules, they have the same texts and values."""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from formatter_core import Compiler, FormatterBuilder, Vocabulary, formats
from formatter_core.errors import InvalidGrammar, UnsatisfiableSchema
from formatter_core.formats.json_schema import JsonSchemaFormat, SchemaWarning
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import Choice, Grammar, Program, Reference, Schema
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.schema import library

VOCABULARY = Vocabulary.of_bytes()
#: Plain ones, some with any value inside or that refer to themselves, some with parts that need the algebra, one that
#: the library leaves.
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "integer"}, "b<": {}}, "required": ["a"]},
    {"type": "array", "items": {"enum": ["<tool_call>", "[TOOL_CALLS]", "x<", 1.5]}, "maxItems": 2},
    {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}, "v": True}}}},
    {"type": "object", "properties": {"k": {"type": "string", "pattern": "^[<-z]{2,9}$"}}, "required": ["k"]},
    {"type": "object", "properties": {"d": {"type": "string", "format": "uri"}, "e": {"const": "</tool_call>"}}},
    {"type": "object", "patternProperties": {"^<": {"type": "null"}}, "additionalProperties": {"type": "string"}},
    {"type": "object", "properties": {"m": {"multipleOf": 7, "type": "integer"}, "s": {"type": "string"}},
     "oneOf": [{"required": ["m"]}, {"required": ["s"]}]},
    {"type": "object", "minProperties": 2, "additionalProperties": {"type": "array", "items": {"type": "string"}}},
    {"type": "object", "properties": {"s": {"type": "string", "minLength": 1, "maxLength": 12}, "t": {"not": {}}}},
]  # fmt: skip
CLOSING = frozenset(b'"}],;<\\')
LAYOUTS = "hermes", "mistral-v11", "qwen3-coder", "llama3-json", "gemma4"


def holes(one: Any, other: Any) -> Format:
    builder = FormatterBuilder()
    first = builder.json(one, name="one")
    return builder.append("A ", first, " ", builder.json(other, name="other"), " ", first).build()


def lists(one: Any, other: Any) -> Format:
    return formats.sequence(formats.repeat(one, 0, 2, separator=";"), formats.optional(other), one)


MADE: list[Callable[[Any, Any], Format]] = [formats.one_of, holes, lists]


@dataclass(frozen=True)
class WithRules:
    """A format, whose schemas are rules that were read out of their programs."""

    format: Format

    def to_grammar(self, limits: Limits) -> Lowered:
        lowered = self.format.to_grammar(limits)
        return replace(lowered, grammar=lowered.grammar.lowered)

    def to_json(self) -> dict[str, Any]:
        return self.format.to_json()

    def key(self) -> Hashable:
        return "with rules", self.format.key()


def assert_same_masks(format: Format, seed: int, steps: int = 60) -> None:
    rng = random.Random(seed)
    compiler = Compiler(VOCABULARY, engine="native", cache_bytes=0)
    rows = np.zeros((2, VOCABULARY.words), dtype=np.int32)
    both = [compiler.compile(each).formatter() for each in (format, WithRules(format))]
    for _ in range(steps):
        for formatter, row in zip(both, rows, strict=True):
            formatter.fill_bitmask(row)
        assert (rows[0] == rows[1]).all(), both[0].text
        allowed = both[0].allowed_tokens()
        closing = [token for token in allowed if token in CLOSING or token in VOCABULARY.end_ids]
        chosen = rng.choice(closing if closing and rng.random() < 0.5 else allowed)
        for formatter in both:
            formatter.accept_token(chosen)
        if both[0].is_finished:
            results = [formatter.result("end") for formatter in both]
            assert results[0].value == results[1].value
            assert results[0].spans == results[1].spans
            return


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
@pytest.mark.parametrize("options", [{}, {"spelling": "any"}, {"whitespace": "compact"}], ids=str)
def test_the_library_writes_the_same_language(make: Callable[[Any, Any], Format], options: Any) -> None:
    for number, one in enumerate(SCHEMAS):
        other = SCHEMAS[(number + 2) % len(SCHEMAS)]
        format = make(formats.json_schema(one, **options), formats.json_schema(other, **options))
        for seed in range(3):
            assert_same_masks(format, seed)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spelling", ["canonical", "any"])
def test_arguments_of_tools_hold_no_marker(layout: str, spelling: Any) -> None:
    for number, one in enumerate(SCHEMAS):
        if one.get("type") != "object":
            continue
        tools = [{"name": "f", "parameters": one}, {"name": "g", "parameters": SCHEMAS[(number + 3) % len(SCHEMAS)]}]
        tools = [tool for tool in tools if tool["parameters"].get("type") == "object"]
        format = formats.chat_answer(
            layout, tools=tools, tool_choice="required", spelling=spelling, on_unsupported_tool="loose"
        )
        for seed in range(3):
            assert_same_masks(format, seed, 120)


def test_a_marker_in_an_argument_is_escaped() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["<tool_call>", "a<b"]}}, "required": ["a"]}
    answer = formats.chat_answer("hermes", tools=[{"name": "f", "parameters": schema}], tool_choice="required")
    compiled = Compiler(VOCABULARY, engine="native").compile(answer)
    whole = '<tool_call>\n{"name": "f", "arguments": {"a": "%s"}}\n</tool_call>'
    assert compiled.parse(whole % r"\u003ctool_call>").value.tool_calls[0].arguments == {"a": "<tool_call>"}
    assert compiled.parse(whole % "a<b").value.tool_calls[0].arguments == {"a": "a<b"}
    assert not compiled.parse(whole % "<tool_call>").is_complete
    assert not compiled.parse(whole % r"a\u003cb").is_complete


class Point(NamedTuple):
    x: int
    label: str = ""


@dataclasses.dataclass
class Line:
    points: list[Point]
    width: float | None = None


@pytest.mark.parametrize(
    ("format", "text", "value"),
    [
        (SCHEMAS[0], '{"a": 1}', {"a": 1}),
        (Point, '{"x": 1}', Point(1)),
        (Line, '{"points": [{"x": 1}], "width": 2.5}', Line([Point(1)], 2.5)),
        (formats.one_of(Point, SCHEMAS[0]), '{"a": 1}', {"a": 1}),
        (holes(Point, SCHEMAS[0]), 'A {"x": 3} {"a": 1} {"x": 4}', {"one": (Point(3), Point(4)), "other": {"a": 1}}),
        (formats.within(Point, 99), '{"x": 1}', Point(1)),
    ],
    ids=["a schema", "a type", "types in a type", "alternatives", "holes", "a budget"],
)
def test_values_need_no_rules(format: Any, text: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any, **__: Any) -> Any:
        raise AssertionError("the rules of a schema were read")

    monkeypatch.setattr(sys.modules[JsonSchemaFormat.__module__], "rules_of", read)
    compiled = Compiler(VOCABULARY, engine="native", cache_bytes=0).compile(format)
    formatter = compiled.formatter()
    formatter.accept_bytes(text.encode())
    formatter.accept_token(VOCABULARY.end_ids[0])
    result = formatter.result("end")
    assert result.value == value
    assert compiled.parse(text).value == value
    assert len(compiled.fingerprint) == 64


def test_the_start_rule_of_a_schema_keeps_its_name() -> None:
    lowered = holes(SCHEMAS[2], SCHEMAS[2]).to_grammar(DEFAULT_LIMITS).grammar.lowered
    assert "one.#/$defs/n" in lowered.rules
    assert "other.#/$defs/n" in lowered.rules
    lowered.check(DEFAULT_LIMITS)


def test_what_cannot_be_enforced_is_told_once() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a)\\1"}}}
    format = formats.one_of(formats.json_schema(schema, on_unsupported="warn"), "none")
    with pytest.warns(SchemaWarning) as told:
        compiled = Compiler(VOCABULARY, cache_bytes=0).compile(format)
    assert len(told) == 1
    assert compiled.parse('{"a": "c"}').value == {"a": "c"}


def test_a_schema_without_documents_says_why() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "maxProperties": 0}
    with pytest.raises(UnsatisfiableSchema, match="maxProperties"):
        Compiler(VOCABULARY).compile(formats.sequence("x", formats.json_schema(schema)))


def test_a_schema_is_the_whole_body_of_a_rule() -> None:
    (node,) = formats.json_schema({"type": "null"}).to_grammar(DEFAULT_LIMITS).grammar.rules.values()
    assert isinstance(node, Schema)
    with pytest.raises(InvalidGrammar, match="a rule of its own"):
        Grammar({"a": Choice((node, node))}, "a").check(DEFAULT_LIMITS)
    Grammar({"a": Choice((Reference("b"), Reference("b"))), "b": node}, "a").check(DEFAULT_LIMITS)


def test_equal_schemas_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []
    real = library.begun

    def counted(schema: Any, *given: Any, **named: Any) -> Any:
        begun.append(schema)
        return real(schema, *given, **named)

    monkeypatch.setattr(library, "begun", counted)
    schemas = [
        {"type": "object", "properties": {name: {"not": {"type": "null"}}}} for name in ("only here", "and here")
    ]
    tools = [
        {"type": "function", "function": {"name": f"tool{place}", "parameters": json.loads(json.dumps(schema))}}
        for place, schema in enumerate(schemas * 3)
    ]
    compiler = Compiler(VOCABULARY, cache_bytes=0)
    first = compiler.compile(formats.chat_answer("hermes", tools=tools)).program
    assert len(begun) <= 2 * len(schemas)  # with the markers of the layout, and perhaps without
    begun.clear()
    assert compiler.compile(formats.chat_answer("hermes", tools=tools)).program == first
    assert not begun


def test_threads_may_write_the_same_schemas() -> None:
    schemas = [{"type": "object", "properties": {f"of a thread {place}": {}}} for place in range(20)]
    tools: list[Any] = [
        {"type": "function", "function": {"name": f"tool{place}", "parameters": schema}}
        for place, schema in enumerate(schemas)
    ]
    orders = [tools[place:] + tools[:place] for place in range(8)]

    def program(order: list[Any]) -> Program:
        return Compiler(VOCABULARY, cache_bytes=0).compile(formats.chat_answer("hermes", tools=order)).program

    alone = [program(order) for order in orders]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(program, orders * 4)) == alone * 4
