"""Tools: the shapes in which they come, which are enforced, and what becomes of one whose schema is not supported."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import pytest

from formatter_core import ChatAnswer, ChatDeltas, Compiler, Layout, ToolCall, Vocabulary, check, formats, parse
from formatter_core.errors import InvalidArgument, InvalidFormat

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
UNSUPPORTED = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}, "required": ["x"]}
BROKEN = {"type": "object", "properties": {"x": {"$ref": "#/definitions/none"}}}
#: Their arguments' names stand twice, so that those of a loose call are names that the schema has.
NAMES_TWICE = {"minimax-m3"}
DIGITS = {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}
FREE: dict[str, Any] = {"some": "text", "n": 5, "deep": {"k": [1, None, {"a": "b"}]}, "is": True}
each_layout = pytest.mark.parametrize(
    "layout", [Layout.named(name) for name in Layout.names()], ids=lambda each: each.name
)


def tool(name: str, schema: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema, **more}}


def free(layout: Layout) -> dict[str, Any]:
    """Arguments of a loose call of a tool whose schema has the key `x`."""
    return {"x": 5} if layout.name in NAMES_TWICE else FREE


def written(layout: Layout, name: str, arguments: dict[str, Any]) -> str:
    return layout.render(ChatAnswer(tool_calls=(ToolCall(name, arguments),)))


def documented(city: str) -> None:
    """Looks the weather up."""


@dataclass
class Undocumented:
    city: str


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (tool("f", description="Says it."), "Says it."),
        ({"type": "function", "name": "f", "description": "Says it.", "parameters": SCHEMA}, "Says it."),
        ({"name": "f", "description": "Says it.", "inputSchema": SCHEMA}, "Says it."),
        ({"type": "custom", "name": "f", "description": "Says it."}, "Says it."),
        ({"type": "custom", "name": "f", "description": "Says it.", "format": DIGITS}, "Says it."),
        (documented, "Looks the weather up."),
        (Undocumented, ""),
        (tool("f"), ""),
        (tool("f", description=None), ""),
    ],
)
def test_models_are_told_what_a_tool_does(given: Any, told: str) -> None:
    format = formats.chat_answer("hermes", tools=[given])
    shown = format.tools[0].to_prompt()["function"]
    assert shown["description"] == told
    again = formats.from_json(json.loads(json.dumps(format.to_json())))
    assert again.tools[0].description == told
    other = formats.chat_answer("hermes", tools=[{**tool("f"), "function": {"name": "f", "description": "Other."}}])
    assert other.key() != format.key()  # so that a cache never shows one's description for the other's


def test_a_description_that_is_no_text() -> None:
    with pytest.raises(InvalidFormat, match="description of the tool 'f' is 5; give text"):
        formats.chat_answer("hermes", tools=[tool("f", description=5)])


@pytest.mark.parametrize(
    "given",
    [
        tool("f"),
        {"type": "function", "name": "f", "parameters": SCHEMA, "strict": True},
        {"name": "f", "description": "MCP", "inputSchema": SCHEMA, "annotations": {}},
        {"name": "f", "description": "Anthropic", "input_schema": SCHEMA},
        {"type": "custom", "name": "f", "input_schema": SCHEMA},
    ],
)
def test_the_shapes_in_which_tools_come(given: dict[str, Any]) -> None:
    if given.get("type") == "custom" and "input_schema" in given:
        given = {**given, "type": "function"}
    format = formats.chat_answer("hermes", tools=[given])
    hermes = Layout.named("hermes")
    assert parse(format, written(hermes, "f", {"city": "Rome"})).value.tool_calls == (ToolCall("f", {"city": "Rome"}),)
    assert not parse(format, written(hermes, "f", {"city": 1})).is_complete
    again = formats.from_json(json.loads(json.dumps(format.to_json())))
    assert again.key() == format.key()


@pytest.mark.parametrize(
    ("choice", "allows"),
    [
        ({"type": "function", "function": {"name": "f"}}, {"f"}),
        ({"type": "function", "name": "f"}, {"f"}),
        ({"type": "tool", "name": "g"}, {"g"}),
        ({"type": "any"}, {"f", "g"}),
        ({"type": "none"}, {""}),
        ({"type": "auto"}, {"", "f", "g"}),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]}, {"g"}),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
            {"", "f"},
        ),
    ],
)
def test_what_an_object_in_tool_choice_allows(choice: Any, allows: set[str]) -> None:
    format = formats.chat_answer("hermes", tools=[tool("f"), tool("g")], tool_choice=choice)
    texts = {name: written(Layout.named("hermes"), name, {"city": "Rome"}) for name in ("f", "g")} | {"": "Hello."}
    assert {name for name, text in texts.items() if parse(format, text).is_complete} == allows


@pytest.mark.parametrize(
    "choice", [{}, {"type": "tools"}, {"type": "function", "name": "h"}, {"type": "allowed_tools", "tools": [5]}]
)
def test_an_object_in_tool_choice_that_means_nothing(choice: Any) -> None:
    with pytest.raises(InvalidArgument, match="tool_choice"):
        formats.chat_answer("hermes", tools=[tool("f")], tool_choice=choice)


class TestNamesOfArguments:
    """Readers of a layout without JSON take a name up to the text that follows it in the layout."""

    @pytest.mark.parametrize(
        ("layout", "name"),
        [
            *[("qwen3-coder", name) for name in ("a>b", "", " a", "a\t", "</parameter>")],
            *[("deepseek-v4", name) for name in ('a"b', "", "\na")],
            *[("kimi-k3", name) for name in ('a"b', "")],
            *[("minimax-m2", name) for name in ('a"b', " a")],
            *[("minimax-m3", name) for name in ("a>b", "a ")],
            *[("glm-4.7", name) for name in ("a<b", "", "a ")],
            *[("lfm2", name) for name in ("a-b", "1a", "")],
            ("gemma4", "a:b"),
        ],
    )
    def test_one_that_readers_would_end_elsewhere_makes_its_tool_unsupported(self, layout: str, name: str) -> None:
        schema = {"type": "object", "properties": {name: {"type": "string"}}}
        with pytest.raises(InvalidFormat, match="the tool 'bad' cannot be used"):
            check(formats.chat_answer(layout, tools=[tool("bad", schema), tool("f")]))

    @each_layout
    def test_whatever_stands_there_a_list_is_never_refused_whole(self, layout: Layout) -> None:
        names = ["", " a", 'a"b', "a>b", "a<b", "a:b", "a=b", "1a", "x", *layout.markers]
        schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
        format = formats.chat_answer(layout, tools=[tool("bad", schema), tool("f")], on_unsupported_tool="loose")
        assert [each.status for each in format.tool_coverage()][1] == "enforced"
        (call,) = _calls(format, written(layout, "bad", {"x": "some text"}))
        assert call.arguments == {"x": "some text"}


class TestOneBadTool:
    @pytest.mark.parametrize("schema", [UNSUPPORTED, BROKEN], ids=["unsupported", "broken"])
    @each_layout
    def test_loose(self, layout: Layout, schema: Any) -> None:
        tools = [tool("good"), tool("bad", schema)]
        format = formats.chat_answer(layout, tools=tools, tool_choice="required", on_unsupported_tool="loose")
        given = free(layout)
        (call,) = parse(format, written(layout, "bad", given)).value.tool_calls
        assert (call.name, call.arguments, call.is_enforced) == ("bad", given, False)
        assert parse(format, written(layout, "bad", {})).value.tool_calls == (ToolCall("bad", {}),)
        (call,) = parse(format, written(layout, "good", {"city": "Rome"})).value.tool_calls
        assert call.is_enforced
        assert not parse(format, written(layout, "good", {})).is_complete
        good, bad = format.tool_coverage()
        assert (good.status, bad.status) == ("enforced", "loose")
        assert "/properties/x" in bad.reason

    @each_layout
    def test_drop(self, layout: Layout) -> None:
        tools = [tool("good"), tool("bad", UNSUPPORTED)]
        format = formats.chat_answer(layout, tools=tools, on_unsupported_tool="drop")
        assert parse(format, written(layout, "good", {"city": "Rome"})).is_complete
        assert "bad" not in {call.name for call in _calls(format, written(layout, "bad", {"x": [1]}))}
        assert [each.status for each in format.tool_coverage()] == ["enforced", "dropped"]
        again = formats.from_json(json.loads(json.dumps(format.to_json())))
        assert again.key() == format.key()

    def test_error_names_the_tool_and_what_to_pass(self) -> None:
        format = formats.chat_answer("hermes", tools=[tool("good"), tool("bad", UNSUPPORTED)])
        with pytest.raises(InvalidFormat, match=r"'bad'.*uniqueItems.*on_unsupported_tool"):
            check(format)

    def test_nothing_is_left(self) -> None:
        tools = [tool("bad", UNSUPPORTED)]
        free = formats.chat_answer("hermes", tools=tools, on_unsupported_tool="drop")
        assert parse(free, "Hello.").is_complete
        assert not parse(free, written(Layout.named("hermes"), "bad", {"x": []})).is_complete
        required = formats.chat_answer("hermes", tools=tools, on_unsupported_tool="drop", tool_choice="required")
        with pytest.raises(InvalidFormat, match="every tool"):
            check(required)

    @each_layout
    def test_loose_calls_stream(self, layout: Layout) -> None:
        format = formats.chat_answer(layout, tools=[tool("bad", UNSUPPORTED)], on_unsupported_tool="loose")
        formatter, stream, given = Compiler(Vocabulary.of_bytes()).compile(format).formatter(), ChatDeltas(), ""
        for token in [*written(layout, "bad", free(layout)).encode(), 256]:
            formatter.accept_token(token)
            for delta in stream.of(formatter.events()):
                given += "".join(part["function"]["arguments"] for part in delta.get("tool_calls", ()))
        assert json.loads(given) == free(layout)


PATCH = """start: begin hunk+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
hunk: add | delete | update
add: "*** Add File: " filename LF line+
delete: "*** Delete File: " filename LF
update: "*** Update File: " filename LF move? change?
filename: /(.+)/
line: "+" /(.*)/ LF
move: "*** Move to: " filename LF
change: (context | changed)+ eof?
context: ("@@" | "@@ " /(.+)/) LF
changed: ("+" | "-" | " ") /(.*)/ LF
eof: "*** End of File" LF
%import common.LF
"""
GRAMMARS = {
    "lark": (
        PATCH,
        '*** Begin Patch\n*** Add File: a "b"\\c\n+it\'s é\n+\tx = {"a": [1]}\n*** End Patch',
        "*** Begin Patch\n+x\n",
    ),
    "regex": (r"SELECT [^;\n]+\n?(;)?", "SELECT 'a', \"b\"\n;", "select 1"),
}


class TestCustomTools:
    @pytest.mark.parametrize("syntax", GRAMMARS)
    @each_layout
    def test_the_text_of_a_call_follows_the_tools_grammar(self, layout: Layout, syntax: str) -> None:
        definition, good, bad = GRAMMARS[syntax]
        grammar = {"type": "grammar", "syntax": syntax, "definition": definition}
        given = {"type": "custom", "name": "edit", "description": "Edits.", "format": grammar}
        nested = {
            "type": "custom",
            "custom": {"name": "edit", "description": "Edits.", "format": {"type": "grammar", "grammar": grammar}},
        }
        format = formats.chat_answer(layout, tools=[given, tool("f")], tool_choice="required")
        (call,) = _calls(format, written(layout, "edit", {"input": good}))
        assert (call.name, call.arguments, json.loads(call.json)) == ("edit", {"input": good}, {"input": good})
        assert call.is_enforced
        assert not _calls(format, written(layout, "edit", {"input": bad}))
        assert not _calls(format, written(layout, "edit", {"input": good, "more": "x"}))
        assert _calls(format, written(layout, "f", {"city": "Rome"}))
        again = formats.from_json(json.loads(json.dumps(format.to_json())))
        assert again.key() == format.key()
        assert formats.chat_answer(layout, tools=[nested]).tools == formats.chat_answer(layout, tools=[given]).tools

    @each_layout
    def test_one_without_a_grammar_takes_any_text(self, layout: Layout) -> None:
        format = formats.chat_answer(layout, tools=[{"type": "custom", "name": "say", "format": {"type": "text"}}])
        (call,) = _calls(format, written(layout, "say", {"input": "Hello."}))
        assert call.arguments == {"input": "Hello."}

    @pytest.mark.parametrize("syntax", GRAMMARS)
    @pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "gemma4", "lfm2", "lfm2.5", "minimax-m3", "kimi-k3"])
    def test_random_texts_are_read_as_they_were_written(self, name: str, syntax: str) -> None:
        grammar = {"type": "grammar", "syntax": syntax, "definition": GRAMMARS[syntax][0]}
        layout, rng = Layout.named(name), random.Random(name)
        format = formats.chat_answer(layout, tools=[{"type": "custom", "name": "edit", "format": grammar}],
                                     tool_choice="edit", reasoning="off", parallel=False)  # fmt: skip
        own = Compiler(Vocabulary.of_bytes()).compile(
            formats.regex(GRAMMARS["regex"][0]) if syntax == "regex" else formats.lark(PATCH)
        )
        compiled = Compiler(Vocabulary.of_bytes()).compile(format)
        likely, read = set(b"abc \n'\"\\*+@-;<>{}"), 0
        for _ in range(5):
            formatter = compiled.formatter()
            for step in range(3_000):
                allowed = formatter.allowed_tokens()
                if 256 in allowed:
                    break
                common = [token for token in allowed if token in likely]
                # After a while what the grammar's own literals begin with is what leads to its end.
                some = common if common and rng.random() < 0.8 - step / 5_000 else [*allowed]
                formatter.accept_token(rng.choice(some))
            else:
                continue
            (call,) = _calls(format, formatter.text)
            assert own.parse(call.arguments["input"]).is_complete
            again = _calls(format, written(layout, "edit", call.arguments))
            assert again == (call,)
            read += 1
        assert read

    @pytest.mark.parametrize(
        ("format", "told"),
        [
            ({"type": "grammar", "syntax": "abnf", "definition": "x"}, "'edit'"),
            ({"type": "grammar", "syntax": "lark"}, "'edit'"),
            ("text", "'edit'"),
            ({"type": "grammar", "syntax": "lark", "definition": "start: x"}, "'edit'"),
            ({"type": "grammar", "syntax": "regex", "definition": "(a"}, "'edit'"),
        ],
    )
    def test_a_faulty_grammar_names_its_tool(self, format: Any, told: str) -> None:
        with pytest.raises(InvalidFormat, match=told):
            check(formats.chat_answer("hermes", tools=[{"type": "custom", "name": "edit", "format": format}]))

    def test_it_may_be_chosen(self) -> None:
        given = [{"type": "custom", "name": "edit"}, tool("f")]
        choice = {"type": "custom", "custom": {"name": "edit"}}
        format = formats.chat_answer("hermes", tools=given, tool_choice=choice)
        assert _calls(format, written(Layout.named("hermes"), "edit", {"input": "x"}))
        assert not _calls(format, written(Layout.named("hermes"), "f", {"city": "Rome"}))


def _calls(format: Any, text: str) -> tuple[ToolCall, ...]:
    result = parse(format, text)
    return result.value.tool_calls if result.is_complete else ()


class TestStrict:
    @pytest.mark.parametrize("strict", [True, False, None])
    @pytest.mark.parametrize("not_strict", ["enforce", "loose"])
    def test_each_tool_by_itself(self, strict: bool | None, not_strict: Any) -> None:
        given = tool("f") if strict is None else tool("f", strict=strict)
        for name in ("hermes", "qwen3-coder", "gemma4", "llama4-pythonic"):
            layout = Layout.named(name)
            format = formats.chat_answer(layout, tools=[given, tool("g", strict=True)], not_strict=not_strict)
            is_free = not_strict == "loose" and not strict
            assert bool(_calls(format, written(layout, "f", FREE))) == is_free
            assert not _calls(format, written(layout, "g", FREE))

    def test_a_strict_that_is_neither(self) -> None:
        with pytest.raises(InvalidFormat, match="`strict`"):
            formats.chat_answer("hermes", tools=[tool("f", strict="yes")])


def test_options_reach_tools() -> None:
    date = {"type": "object", "properties": {"a": {"type": "string", "format": "date"}, "b": {"type": "integer"}}}
    for name in ("hermes", "qwen3-coder", "gemma4", "llama4-pythonic"):
        layout = Layout.named(name)
        text = written(layout, "f", {"a": "soon"})
        assert not _calls(formats.chat_answer(layout, tools=[tool("f", date)]), text)
        assert _calls(formats.chat_answer(layout, tools=[tool("f", date)], string_formats="annotate"), text)
    swapped = written(Layout.named("hermes"), "f", {"b": 1, "a": "2026-01-02"})
    assert not _calls(formats.chat_answer("hermes", tools=[tool("f", date)]), swapped)
    assert _calls(formats.chat_answer("hermes", tools=[tool("f", date)], key_order="any"), swapped)
    escaped = written(Layout.named("hermes"), "f", {"a": "2026-01-02"}).replace("2026", "\\u00326"[:6] + "026")
    assert not _calls(formats.chat_answer("hermes", tools=[tool("f", date)]), escaped)
    assert _calls(formats.chat_answer("hermes", tools=[tool("f", date)], spelling="any"), escaped)


@pytest.mark.parametrize("argument", ["on_unsupported_tool", "not_strict", "key_order", "string_formats", "spelling"])
def test_options_that_are_not_there(argument: str) -> None:
    with pytest.raises(InvalidArgument, match=argument):
        formats.chat_answer("hermes", tools=[tool("f")], **{argument: "maybe"})
