"""Builders, results and events, what `compile` takes, and formats as JSON: what the other files do not show."""

from __future__ import annotations

import copy
import enum
import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest

from formatter_core import (
    Compiler,
    FormatterBuilder,
    HoleOpened,
    Limits,
    TextAdded,
    ValueCompleted,
    formats,
)
from formatter_core.errors import InvalidFormat

# --- The builder and results -------------------------------------------------------------------------------------

HOLES: dict[str, tuple[Callable[[FormatterBuilder, str | None], Any], str, Any]] = {
    "regex": (lambda b, name: b.regex("[0-9]+", name=name), "12", "12"),
    "choice": (lambda b, name: b.choice(["x", "xy"], name=name), "xy", "xy"),
    "substring_of": (lambda b, name: b.substring_of("aébc", name=name), "éb", "éb"),
    "json": (lambda b, name: b.json({"type": "array", "items": {"type": "boolean"}}, name=name), "[true]", [True]),
    "kbnf": (lambda b, name: b.kbnf('list ::= "(" list ")" | "";', start="list", name=name), "(())", "(())"),
    "integer": (lambda b, name: b.integer(minimum=1, maximum=20, name=name), "17", 17),
    "number": (lambda b, name: b.number(maximum=2, name=name), "1.5", 1.5),
    "string": (lambda b, name: b.string(pattern="[a-z]+", max_length=5, name=name), "word", "word"),
    "until": (lambda b, name: b.until("||", name=name), "a|b||", "a|b"),
    "format": (lambda b, name: b.format(formats.regex("q+"), name=name), "qq", "qq"),
}


@pytest.mark.contract(
    "`append` takes text as it is, and returns the builder", "every kind of hole, with a name or without"
)
@pytest.mark.parametrize("kind", HOLES)
def test_every_kind_of_hole(compiler: Compiler, kind: str) -> None:
    make, text, value = HOLES[kind]
    for name in (None, "it"):
        b = FormatterBuilder()
        assert b.append("\\d{", make(b, name), "}") is b
        assert b.append_line("$") is b
        result = compiler.compile(b).parse("\\d{" + text + "}$\n")
        assert result.is_complete
        assert dict(result.captures) == ({} if name is None else {"it": (value,)})
        assert not compiler.compile(b).parse("1" + text + "}$\n").is_complete


@pytest.mark.contract("an f-string works too")
def test_a_hole_in_an_f_string_belongs_to_its_builder(compiler: Compiler) -> None:
    b, other = FormatterBuilder(), FormatterBuilder()
    hole = b.integer(name="n")
    assert compiler.compile(b.append(f"<{hole}>{{}}")).parse("<5>{}").captures == {"n": (5,)}
    with pytest.raises(InvalidFormat):
        other.append(f"<{hole}>")
    with pytest.raises(InvalidFormat):
        other.append(hole)


@pytest.mark.contract("the same hole may stand in several places", "captures map a name to its values in order")
def test_the_same_hole_in_several_places(compiler: Compiler) -> None:
    b = FormatterBuilder()
    age = b.integer(name="age", minimum=0)
    b.append("Age ", age, ".").append_line(f" Again: {age}.")
    formatter = compiler.compile(b).formatter()
    formatter.accept_tokens(b"Age 5. Again: 17.\n")
    assert formatter.captures == {"age": (5, 17)}


@pytest.mark.contract("a result is short to look at")
def test_a_result_shows_no_grammar(compiler: Compiler) -> None:
    formatter = compiler.compile({"type": "object", "properties": {"a": {"type": "string"}}}).formatter()
    formatter.accept_bytes(b'{"a"')
    for shown in map(repr, (formatter.result("length"), formatter, formatter.compiled, formatter.events())):
        assert len(shown) < 500


@pytest.mark.contract("events open holes, add text, complete values")
def test_events_tell_the_whole_story(compiler: Compiler) -> None:
    b = FormatterBuilder()
    b.append("x=", b.integer(name="x"), " y=", b.choice(["é", "ab"], name="y"), ".")
    formatter = compiler.compile(b).formatter()
    told = []
    for byte in "x=12 y=é.".encode():
        formatter.accept_token(byte)
        told += formatter.events()
    x = [event for event in told if getattr(event, "name", "x") == "x"]
    assert x[0] == HoleOpened("x", 2)
    assert "".join(event.text for event in x if isinstance(event, TextAdded)) == "12"
    assert x[-1] == ValueCompleted("x", 12, 2, 4)
    assert told[-1] == ValueCompleted("y", "é", 7, 9)
    assert formatter.events() == []


@pytest.mark.contract("each limit is documented, with why it has its default")
def test_each_limit_is_documented() -> None:
    described = inspect.getdoc(Limits) or ""
    for name in ("nodes", "states", "cache_bytes", "repeat", "depth", "work", "forced_bytes", "max_top_n"):
        assert isinstance(getattr(Limits(), name), int)
        assert f"    {name}: " in described


# --- What compile takes ------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def add(first: int, second: int = 2) -> int:
    return first + second


@pytest.mark.contract(
    "a Format, a builder, a schema as dict, bool or text, a type", "python_type: generic aliases, unions, callables"
)
@pytest.mark.parametrize(
    ("given", "text", "value"),
    [
        (formats.regex("a+"), "aa", "aa"),
        (FormatterBuilder().append("text"), "text", {}),
        ({"type": "integer"}, "5", 5),
        ({}, "[1]", [1]),
        (True, "null", None),
        ('{"type": "integer"}', "5", 5),
        ("true", '"x"', "x"),
        (int, "5", 5),
        (list[bool], "[true, false]", [True, False]),
        (int | None, "null", None),
        (Colour, '"blue"', Colour.BLUE),
        (type(None), "null", None),
        (add, '{"first": 1, "second": 3}', {"first": 1, "second": 3}),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_what_compile_takes(compiler: Compiler, given, text: str, value: Any) -> None:
    result = compiler.compile(given).parse(text)
    assert result.is_complete
    assert result.value == value


def test_none_is_no_format(compiler: Compiler) -> None:
    for refuse in (compiler.compile, formats.optional, formats.as_format):
        with pytest.raises(InvalidFormat, match=r"type\(None\)"):
            refuse(None)


@pytest.mark.contract("other text is InvalidFormat, and names what to use")
@pytest.mark.parametrize("text", ["[a-z]+", 'start ::= "a";', "5", "[1, 2]", "", '{"type": ', "hello"])
def test_text_that_is_no_schema_names_what_to_use(compiler: Compiler, text: str) -> None:
    with pytest.raises(InvalidFormat, match=r"formats\.regex.*formats\.kbnf"):
        compiler.compile(text)


@pytest.mark.contract("formats go to JSON and back, captures included")
def test_captures_go_to_json_and_back(compiler: Compiler) -> None:
    b = FormatterBuilder()
    age = b.integer(name="age", minimum=0)
    inner = FormatterBuilder()
    inner.append("(", inner.choice(["é", "a"], name="inner"), ")")
    b.append("{", age, "} ", b.format(inner.build(), name="outer"), " ", b.regex("(?P<group>x+)y", name="r"), f" {age}")
    again = formats.from_json(json.loads(json.dumps(b.build().to_json())))
    text = "{5} (é) xxy 17"
    for format in (b, again):
        captures = compiler.compile(format).parse(text).captures
        assert captures["age"] == (5, 17)
        assert captures["inner"] == ("é",)
        assert captures["group"] == ("xx",)
    assert compiler.compile(again) is compiler.compile(b)


@pytest.mark.contract("copies of a formatter are forks")
def test_copies_of_a_formatter_go_their_own_way(compiler: Compiler) -> None:
    """Inference engines copy what they are given."""
    formatter = compiler.compile(formats.choice(["abc", "abd"])).formatter()
    formatter.accept_tokens(b"ab")
    for copied in (copy.copy(formatter), copy.deepcopy(formatter), copy.deepcopy([formatter])[0]):
        copied.accept_token(ord("d"))
        assert (formatter.text, copied.text) == ("ab", "abd")
        assert copied.compiled is formatter.compiled
    assert copy.deepcopy(formatter.compiled) is formatter.compiled


def test_events_after_a_reset_begin_again(compiler: Compiler) -> None:
    b = FormatterBuilder()
    b.append("x=", b.integer(name="x"), ".")
    formatter = compiler.compile(b).formatter()
    formatter.accept_tokens(b"x=12.")
    assert formatter.events()
    formatter.reset()
    (retracted,) = formatter.events()
    assert retracted.to <= 2
    formatter.accept_tokens(b"x=7.")
    assert formatter.events()[-1] == ValueCompleted("x", 7, 2, 3)
