"""Errors say what went wrong and what to do: for each call the class, the facts, and words of the message."""

from __future__ import annotations

import copy
import inspect
import pickle
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from formatter_core import Compiler, Cursor, FormatterBuilder, Layout, Limits, Vocabulary, bitmask, formats
from formatter_core.errors import (
    FormatterError,
    IncompleteResult,
    InvalidArgument,
    InvalidBitmask,
    InvalidFormat,
    InvalidGrammar,
    InvalidRegex,
    InvalidSchema,
    InvalidValue,
    LimitExceeded,
    TokenRejected,
    UnsatisfiableSchema,
    UnsupportedSchema,
)
from tests.printed_errors import printed, said_twice
from tests.sampling import sampled

END = 256
VOCABULARY = Vocabulary.of_bytes()
COMPILER = Compiler(VOCABULARY)
TIME = {"type": "string", "format": "time", "maxLength": 3}


def row() -> Any:
    return bitmask.allocate(1, len(VOCABULARY))[0]


def cut(schema: Any, text: str, ended: Any) -> Any:
    formatter = COMPILER.compile(schema).formatter()
    formatter.accept_bytes(text.encode())
    return formatter.result(ended).value


def with_hole(schema: Any) -> FormatterBuilder:
    builder = FormatterBuilder()
    return builder.append("a", builder.json(True), builder.json(schema))


def overlapping_patterns(count: int) -> dict[str, Any]:
    return {"patternProperties": {f"a{index}": {"const": index} for index in range(count)}}


def many_exclusive(count: int) -> dict[str, Any]:
    return {"oneOf": [{"properties": {f"p{n}": {"type": "integer"}}, "required": [f"p{n}"]} for n in range(count)]}


def too_long(length: int) -> dict[str, Any]:
    """No text has these lengths, which only long automata show."""
    patterns = ["^(..)*$", "^(...)*$", "^(.{5})*.$", "^(.{7})*.$", f"^.{{0,{length + 3}}}$"]
    return {"type": "string", "minLength": length, "allOf": [{"pattern": pattern} for pattern in patterns]}


def chain(length: int) -> dict[str, Any]:
    return {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(length)} | {str(length): True}


def contradicting(schema: Any, *pointers: str) -> tuple[Any, ...]:
    return lambda: COMPILER.compile(schema), UnsatisfiableSchema, {"pointers": pointers}, [*pointers, "relax"]


def two_holes() -> FormatterBuilder:
    b = FormatterBuilder()
    return b.append(b.regex("a", name="x"), b.regex("b", name="x"))


@dataclass
class Refusing:
    def __post_init__(self) -> None:
        raise ValueError("never")


ONLY_A = {"type": "object", "properties": {"a": {}}, "required": ["b"], "additionalProperties": False}
REFERENCE = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/A"}},
    "required": ["a"],
    "$defs": {"A": {"type": "string", "minLength": 4, "maxLength": 3}},
}

CASES: dict[str, tuple[Any, ...]] = {
    # unsatisfiable schemas
    "a format too long for maxLength": contradicting(TIME, "/format", "/maxLength"),
    "a format against a pattern": contradicting(
        {"type": "string", "format": "date", "pattern": "^x"}, "/format", "/pattern"
    ),
    "inside a required property": contradicting(
        {"type": "object", "properties": {"a": TIME}, "required": ["a"]},
        "/properties/a/format",
        "/properties/a/maxLength",
        "/required",
    ),
    "in a hole of a text": (lambda: COMPILER.compile(with_hole(TIME)), UnsatisfiableSchema, {}, ["/maxLength"]),
    "in a part of a sequence": (
        lambda: COMPILER.compile(formats.sequence(formats.regex("a"), TIME)), UnsatisfiableSchema, {}, ["/maxLength"],
    ),
    "bounds": contradicting({"type": "integer", "minimum": 5, "maximum": 3}, "/minimum", "/maximum"),
    "bounds in allOf": contradicting(
        {"allOf": [{"type": "integer", "minimum": 5}, {"maximum": 3}]}, "/allOf/0/minimum", "/allOf/1/maximum"
    ),
    "a name that may not be there": contradicting(ONLY_A, "/required", "/additionalProperties"),
    "in a definition": contradicting(REFERENCE, "/$defs/A/minLength", "/$defs/A/maxLength", "/required"),
    "an empty enum": (
        lambda: COMPILER.compile({"enum": []}), UnsatisfiableSchema,
        {"pointers": ("/enum",), "pointer": ""}, ["/enum", "relax"],
    ),
    "lengths that only long automata show": contradicting(
        too_long(3000), "/minLength", "/allOf/3/pattern", "/allOf/4/pattern"
    ),
    "the same in a part of a sequence": (
        lambda: COMPILER.compile(formats.sequence({"type": "string"}, too_long(3000))),
        UnsatisfiableSchema, {}, ["/minLength", "relax"],
    ),
    "a contradiction among too many keywords": (
        lambda: COMPILER.compile({"properties": {f"p{n}": {} for n in range(500)}, "allOf": [too_long(3000)]}),
        UnsatisfiableSchema, {"pointers": ()}, ["takes too long", "relax"],
    ),
    # bounds
    "patterns that overlap": (
        lambda: COMPILER.compile({"properties": {"x": overlapping_patterns(7)}}),
        LimitExceeded,
        {"is_fixed": True, "maximum": 64, "pointer": "/properties/x"},
        ["64 classes", "fixed bound", "at /properties/x", "`patternProperties`"],
    ),
    "items that are counted": (
        lambda: COMPILER.compile({"items": {"type": "array", "contains": {"const": 1}, "minContains": 9000}}),
        LimitExceeded,
        {"is_fixed": True, "maximum": 5000, "pointer": "/items"},
        ["5000 states", "fixed bound", "at /items", "minContains"],
    ),
    "alternatives that multiply": (
        lambda: COMPILER.compile({"$defs": {"x": many_exclusive(2000)}, "items": {"not": {"$ref": "#/$defs/x"}}}),
        LimitExceeded,
        {"limit": "work", "pointer": "/items"},
        ["at /items", "Limits.work", "fewer alternatives", "raise the limit"],
    ),
    "a chain of references": (
        lambda: COMPILER.compile({"$defs": chain(150), "$ref": "#/$defs/0"}),
        LimitExceeded,
        {"limit": "depth", "pointer": "/$defs/99"},
        ["at /$defs/99", "Limits.depth = 100"],
    ),
    "a limit that can be raised": (
        lambda: Compiler(VOCABULARY, limits=Limits(nodes=3)).compile({"type": "object"}),
        LimitExceeded,
        {"limit": "nodes", "maximum": 3, "is_fixed": False},
        ["Limits.nodes = 3", "raise"],
    ),
    "deep JSON text": (lambda: COMPILER.compile('{"not":' * 9999), LimitExceeded, {"is_fixed": True}, ["nesting"]),
    "an integer of 5,000 digits": (
        lambda: COMPILER.compile(f'{{"const": {"1" * 5000}}}'), InvalidSchema, {}, ["digits", "shorter"],
    ),
    # refusals
    "uniqueItems": (
        lambda: COMPILER.compile({"type": "array", "items": {"type": "object"}, "uniqueItems": True}),
        UnsupportedSchema,
        {"pointer": "", "keyword": "uniqueItems"},
        ['on_unsupported="warn"'],
    ),
    "a back-reference": (
        lambda: formats.regex(r"(a)\1").to_grammar(Limits()), InvalidRegex, {"position": 3}, ["back-reference"],
    ),
    "a fault in the second line": (
        lambda: formats.kbnf('start ::= "a"\n  | ;;').to_grammar(Limits()), InvalidGrammar, {"line": 2}, [],
    ),
    "properties that are a number": (
        lambda: COMPILER.compile({"items": {"properties": 5}}),
        InvalidSchema, {"pointer": "/items", "keyword": "properties"}, [],
    ),
    "a bound that is a text": (
        lambda: COMPILER.compile({"type": "number", "minimum": "x"}), InvalidSchema, {"keyword": "minimum"}, [],
    ),
    "a token that is not allowed": (
        lambda: COMPILER.compile(formats.regex("a" * 50)).formatter().accept_token(98),
        TokenRejected, {"token_id": 98, "position": 0}, [],
    ),
    "look-around": (
        lambda: COMPILER.compile(formats.lark("start: A\nA: /a(?=b)/")), InvalidGrammar, {"line": 2},
        ["`pattern`", "JSON Schema"],
    ),
    "a choice of formats": (
        lambda: formats.choice([formats.regex("a")]), InvalidFormat, {}, ["formats.one_of"],  # type: ignore[list-item]
    ),
    "two holes of one name": (
        lambda: COMPILER.compile(two_holes()), InvalidFormat, {}, ["'x'", "append it several times"],
    ),
    "a value that a type refuses": (
        lambda: COMPILER.compile(list[Refusing]).parse("[{}]").value, InvalidValue, {"pointer": "/0"},
        ["another sample", "greedy", "never"],
    ),
    "a choice of numbers": (lambda: formats.choice([1]), InvalidFormat, {}, ["str(option)", "enum"]),  # type: ignore[list-item]
    # outputs that are not complete
    "cut by its length": (
        lambda: cut({"type": "string"}, '"abc', "length"),
        IncompleteResult,
        {"text": '"abc', "ended": "length"},
        ['"abc', "4 characters", "expected", "raise max_new_tokens", "maxLength"],
    ),
    "cut by a stop string": (
        lambda: cut({"type": "string"}, '"abc', "stop_string"),
        IncompleteResult, {"ended": "stop_string"}, ["stop string"],
    ),
    "still going on": (lambda: cut({"type": "integer"}, "12", None), IncompleteResult, {"ended": None}, ["no end id"]),
    # wrong arguments
    "a number for a registry": (
        lambda: formats.json_schema({}, registry=1), InvalidArgument, {"argument": "registry"}, ["1", "dict"],  # type: ignore[arg-type]
    ),
    "a text among formatters": (
        lambda: bitmask.fill_batch([COMPILER.compile(True).formatter(), "x"], bitmask.allocate(2, 257)),  # type: ignore[list-item]
        InvalidArgument, {"argument": "formatters"}, ["'x'", "None"],
    ),
    "no bitmask": (
        lambda: bitmask.apply_inplace(np.zeros(9), None), InvalidBitmask, {}, ["None", "allocate"],  # type: ignore[arg-type]
    ),
    "ids of a text": (lambda: bitmask.allowed_ids("x"), InvalidBitmask, {}, ["'x'", "allocate"]),  # type: ignore[arg-type]
    "a value for a type": (lambda: formats.python_type({}), InvalidFormat, {}, ["{}", "json_schema"]),
    "a text for a token id": (
        lambda: COMPILER.compile(True).formatter().accept_token("x"), InvalidArgument, {}, ["'x'", "int"],  # type: ignore[arg-type]
    ),
    "a negative limit": (lambda: Limits(work=-1), InvalidArgument, {"argument": "Limits.work"}, ["-1", "from 0"]),
    "an unknown grammar engine": (
        lambda: Compiler(VOCABULARY, engine="fast"), InvalidArgument, {"argument": "engine"}, ["'fast'", "'native'"],
    ),
}  # fmt: skip


@pytest.mark.contract("each error is a FormatterError with its facts as fields")
@pytest.mark.parametrize("name", CASES)
def test_the_message_says_what_to_do_and_nothing_twice(name: str, caplog, recwarn) -> None:
    """Neither the messages of the error and its causes, which a traceback shows, nor logs and warnings repeat any."""
    call, kind, facts, words = CASES[name]
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert {name: getattr(caught.value, name) for name in facts} == facts
    message = str(caught.value)
    assert [word for word in words if word not in message] == []
    assert 20 < len(message) < 1000
    shown = [record.getMessage() for record in caplog.records] + [str(warning.message) for warning in recwarn]
    assert said_twice("\n".join(shown + printed(caught.value))) == set()


def test_nothing_is_said_twice() -> None:
    with pytest.raises(IncompleteResult) as caught:
        cut({"type": "integer"}, "12", "length")
    assert str(caught.value).count("no end id") == 1
    assert "ended" not in str(caught.value)


def test_the_text_so_far_is_cut_in_the_message_and_whole_in_the_error() -> None:
    with pytest.raises(IncompleteResult) as caught:
        cut({"type": "string"}, '"' + "a" * 5000, "length")
    assert caught.value.text == '"' + "a" * 5000
    assert len(str(caught.value)) < 800


UNSATISFIABLE: list[Callable[[random.Random], dict[str, Any]]] = [
    lambda source: {"type": "integer", "minimum": 5, "maximum": source.randint(0, 4)},
    lambda source: {"type": "string", "minLength": 5, "maxLength": source.randint(0, 4)},
    lambda source: {"type": "string", "format": source.choice(["date", "time", "uuid", "ipv6"]), "maxLength": 1},
    lambda source: {"type": "array", "minItems": 3, "maxItems": source.randint(0, 2)},
    lambda source: {"const": source.choice([1, "a", None]), "enum": [2, "b"]},
    lambda source: {"type": "string", "pattern": "^a", "const": "b"},
]
HARMLESS: list[dict[str, Any]] = [
    {"title": "t"}, {"properties": {"q": {"type": "string"}}}, {"maxProperties": 9}, {"description": "d"},
    {"not": {"const": "never"}}, {"anyOf": [True, {"type": "null"}]}, {"exclusiveMinimum": -1000}, {"maxItems": 99},
]  # fmt: skip


def wrapped(schema: dict[str, Any], source: random.Random) -> dict[str, Any]:
    """The schema inside others that need it, with keywords beside it that have nothing to do with it."""
    for _ in range(source.randint(0, 3)):
        way = source.randrange(4)
        if way == 0:
            schema = {"type": "object", "properties": {"a": schema, "b": {"type": "null"}}, "required": ["a"]}
        elif way == 1:
            schema = {"type": "array", "items": schema, "minItems": 1}
        elif way == 2:
            schema = {"allOf": [{"title": "t"}, schema]}
        else:
            schema = {"anyOf": [schema, {"type": "integer", "minimum": 1, "maximum": 0}]}
        schema = {**source.choice(HARMLESS), **schema} if source.random() < 0.5 else schema
    return schema


def at(schema: Any, pointer: str) -> tuple[Any, str]:
    *path, keyword = pointer[1:].split("/")
    for step in path:
        schema = schema[int(step)] if isinstance(schema, list) else schema[step]
    return schema, keyword


@pytest.mark.parametrize("seed", sampled(range(60), 20))
def test_without_one_of_the_keywords_there_is_a_document(seed: int) -> None:
    source = random.Random(seed)
    schema = wrapped(source.choice(UNSATISFIABLE)(source), source)
    with pytest.raises(UnsatisfiableSchema) as caught:
        COMPILER.compile(schema)
    assert caught.value.pointers
    for pointer in caught.value.pointers:
        relaxed = copy.deepcopy(schema)
        holder, keyword = at(relaxed, pointer)
        del holder[keyword]
        COMPILER.compile(relaxed)


@pytest.mark.parametrize("bound", ["1e-150", "-1e-300", "1.2345678901234567e-120", "1e150", "12345678901234567890" * 8])
@pytest.mark.parametrize("keyword", ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])
def test_numbers_of_many_digits_are_no_nesting(keyword: str, bound: str) -> None:
    COMPILER.compile(f'{{"type": "number", "{keyword}": {bound}}}')


SHARED = COMPILER.compile(int)


@pytest.mark.parametrize(
    "made",
    [COMPILER, SHARED, SHARED.formatter(), formats.python_type(int), Cursor(SHARED.formatter())],
    ids=lambda made: type(made).__name__,
)
def test_what_one_process_holds_is_not_pickled_but_copied(made: Any) -> None:
    with pytest.raises(InvalidArgument, match="cannot be pickled; send"):
        pickle.dumps(made)
    assert type(copy.deepcopy(made)) is type(copy.copy(made)) is type(made)


@pytest.mark.parametrize(
    "made", [VOCABULARY, Limits(), formats.regex("a"), formats.json_schema({}), formats.text("a")], ids=repr
)
def test_values_are_pickled(made: Any) -> None:
    again = pickle.loads(pickle.dumps(made))
    assert again.fingerprint == made.fingerprint if made is VOCABULARY else again == made


def test_a_limit_that_is_not_fixed_is_one_that_was_set() -> None:
    limits = Limits(nodes=500, states=300, work=20_000, repeat=50, depth=20)
    compiler = Compiler(VOCABULARY, limits=limits, cache_bytes=0)
    seen = set()
    for schema in [
        *(overlapping_patterns(count) for count in (2, 7)),
        {"type": "array", "contains": {"type": "null"}, "minContains": 40, "maxContains": 45},
        {"type": "string", "maxLength": 51},
        {"enum": [f"{number:05d}" for number in range(400)]},
        {"type": "object", "properties": {f"p{number}": {} for number in range(300)}},
        {"anyOf": [{"required": [f"p{number}"]} for number in range(40)]},
        {"allOf": [{"anyOf": [{"required": [f"p{a}{b}"]} for a in range(4)]} for b in range(6)]},
    ]:
        try:
            compiler.compile(schema)
        except LimitExceeded as error:
            seen.add(error.limit)
            assert error.is_fixed or getattr(limits, error.limit) == error.maximum
        except FormatterError:
            pass
    assert len(seen) > 1


UNIQUE = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}, "required": ["x"]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": UNIQUE}}
TAG = {"type": "json_schema", "json_schema": UNIQUE}


@pytest.mark.parametrize(
    ("make", "given"),
    [
        *((formats.chat_answer, (name,)) for name in Layout.names()),
        (formats.structural_tag, ({"format": TAG},)),
        (formats.structural_tag, ({"format": {**TAG, "style": "qwen_xml"}},)),
        (formats.lark, ('start: %json {"type": "array", "uniqueItems": true}',)),
    ],
)
def test_a_refusal_names_only_options_that_can_be_given_there(make: Any, given: tuple[Any, ...]) -> None:
    options = {"tools": [TOOL]} if make is formats.chat_answer else {}
    with pytest.raises(FormatterError) as caught:
        COMPILER.compile(make(*given, **options))
    message = str(caught.value)
    assert set(re.findall(r"(\w+)=", message)) <= set(inspect.signature(make).parameters)
    assert "emove it" in message


@pytest.mark.contract("a non-empty dict without a known keyword is InvalidSchema")
@pytest.mark.parametrize("schema", [{"name": "Ann"}, {"name": "Ann", "age": 5}, '{"name": "Ann"}'])
def test_advice_that_only_python_can_follow_says_so(schema: Any) -> None:
    with pytest.raises(InvalidSchema, match="give a schema, or in Python"):
        COMPILER.compile(schema)
