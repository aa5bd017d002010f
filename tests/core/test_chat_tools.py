"""Tools of chat answers: their schemas, faulty ones, and many of them."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from formatter_core import ChatAnswer, Compiler, Layout, Limits, ToolCall, Vocabulary, check, formats, parse
from formatter_core.errors import InvalidFormat, LimitExceeded
from formatter_core.formats.json_schema import JsonSchemaFormat
from tests.core.chat_samples import COMPILER, LAYOUTS, TOOLS, WEATHER, walk

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")


class TestTools:
    def test_callables_and_types_give_typed_arguments(self) -> None:
        def book(city: str, nights: int = 1) -> None:
            raise NotImplementedError("a tool is never called")

        text = '<tool_call>\n{"name": "book", "arguments": {"city": "Rome", "nights": 2}}\n</tool_call>'
        value = parse(formats.chat_answer("hermes", tools=[book]), text).value
        assert value.tool_calls == (ToolCall("book", {"city": "Rome", "nights": 2}),)

    @pytest.mark.parametrize(
        ("tool", "told"),
        [
            ({"type": "function", "function": {"name": "a<tool_call>"}}, "a<tool_call>"),
            ({"type": "function", "function": {"name": 'a"b'}}, "a name has 1 to 128"),
            ({"type": "function", "function": {"name": "a\nb"}}, "a name has 1 to 128"),
            ({"type": "function", "function": {"name": "x" * 129}}, "a name has 1 to 128"),
            ({"type": "function", "function": {}}, "None"),
            ({"name": "x"}, "write it as"),
            ({"type": "function", "function": {"name": "x", "parameters": [1]}}, "'x'"),
            ({"type": "function", "function": {"name": "x", "parameters": {"type": 1}}}, "'x'"),
            (7, "named None"),
        ],
    )
    def test_faulty_ones_are_named(self, tool: Any, told: str) -> None:
        with pytest.raises(InvalidFormat) as caught:
            Compiler(Vocabulary.of_bytes()).compile(formats.chat_answer("hermes", tools=[WEATHER, tool]))
        assert told in str(caught.value)

    def test_two_of_one_name(self) -> None:
        with pytest.raises(InvalidFormat, match="2 tools are named 'get_weather'"):
            formats.chat_answer("hermes", tools=[WEATHER, WEATHER])

    @pytest.mark.parametrize(
        ("schema", "told"),
        [
            ({"type": "string", "minLength": "x"}, "at /properties/x: `minLength`"),
            ({"type": "string", "pattern": 5}, "at /properties/x: `pattern`"),
            ({"type": "string", "pattern": "(a"}, "`pattern` at /properties/x"),
            ({"type": "string", "enum": ["\ud800"]}, "`enum` at /properties/x"),
            ({"type": 5}, "at /properties/x"),
            ({"anyOf": 5}, "at /properties/x: `anyOf`"),
            ({"type": "object", "properties": 5}, "at /properties/x: `properties`"),
            ({"type": "object", "required": 5}, "at /properties/x: `required`"),
            ({"type": "array", "items": {"type": "string", "minLength": "x"}}, "at /properties/x/items: `minLength`"),
            ({"type": "integer", "minimum": 3, "maximum": 2}, "/properties/x/minimum"),
        ],
    )
    def test_a_faulty_schema_is_told_alike_in_every_layout(self, schema: Any, told: str) -> None:
        parameters = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
        tool = {"type": "function", "function": {"name": "faulty", "parameters": parameters}}
        for layout in Layout.names():
            with pytest.raises(InvalidFormat) as caught:
                COMPILER.compile(formats.chat_answer(layout, tools=[tool]))
            assert "'faulty'" in str(caught.value), layout
            assert told in str(caught.value), layout

    @pytest.mark.parametrize("layout", [each.name for each in LAYOUTS if each.calls and not each.calls.strips])
    def test_a_text_argument_keeps_the_blanks_at_its_edges(self, layout: str) -> None:
        format = formats.chat_answer(layout, tools=TOOLS)
        for text in (" x", "    if x:\n", "\n\nx", "\tx\r\n", "\u00a0x\u3000", " ", "\n", ""):
            written = Layout.named(layout).render(ChatAnswer(tool_calls=(ToolCall("get_weather", {"city": text}),)))
            assert parse(format, written).value.tool_calls == (ToolCall("get_weather", {"city": text}),), text

    def test_where_readers_strip_them_no_blanks_are_written(self) -> None:
        data = Layout.named("glm-4.5").to_json()
        data["calls"]["strips"] = True
        layout = Layout.from_json(json.loads(json.dumps(data)))
        assert layout == Layout.from_json(layout.to_json())
        for text, good in (("x y", True), (" x", False), ("x\n", False)):
            written = layout.render(ChatAnswer(tool_calls=(ToolCall("get_weather", {"city": text}),)))
            assert parse(formats.chat_answer(layout, tools=TOOLS), written).is_complete == good
        parameters = {"type": "object", "properties": {"x": {"const": " x "}}, "required": ["x"]}
        tool = {"type": "function", "function": {"name": "faulty", "parameters": parameters}}
        with pytest.raises(InvalidFormat, match=r"'faulty'.* at /properties/x .*blanks around them"):
            check(formats.chat_answer(layout, tools=[tool]))

    @pytest.mark.parametrize("schema", [{"type": "string", "pattern": "</arg_value>"}])
    def test_an_argument_that_a_layout_cannot_write(self, schema: Any) -> None:
        parameters = {"type": "object", "properties": {"x": schema}}
        tool = {"type": "function", "function": {"name": "faulty", "parameters": parameters}}
        check(formats.chat_answer("glm-4.5", tools=[tool]))
        parameters["required"] = ["x"]
        with pytest.raises(InvalidFormat, match=r"'faulty'.* at /properties/x "):
            check(formats.chat_answer("glm-4.5", tools=[tool]))

    def test_an_optional_text_of_no_length(self) -> None:
        parameters = {"type": "object", "properties": {"x": {"type": "string", "minLength": 5, "maxLength": 2}}}
        tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
        check(formats.chat_answer("glm-4.5", tools=[tool]))

    def test_ten_thousand_tools(self) -> None:
        tools = [{**WEATHER, "function": {**WEATHER["function"], "name": f"tool_{i}"}} for i in range(10_000)]  # type: ignore[dict-item]
        with pytest.raises(LimitExceeded, match="an answer with 1000 tools, of which 'tool_0' has the largest schema"):
            Compiler(Vocabulary.of_bytes(), limits=Limits(nodes=1_000)).compile(
                formats.chat_answer("hermes", tools=tools[:1_000])
            )
        format = formats.chat_answer("hermes", tools=tools, tool_choice="tool_777")
        formatter = Compiler(Vocabulary.of_bytes()).compile(format).formatter()
        assert formatter.forced_bytes().startswith(b'<tool_call>\n{"name": "tool_777", "arguments": {')

    def test_a_tool_that_is_too_large_is_named(self) -> None:
        schema = {"type": "object", "properties": {"x": {"type": "array", "items": {"enum": [*range(50_000)]}}}}
        tool = {"type": "function", "function": {"name": "strange", "parameters": schema}}
        with pytest.raises(LimitExceeded, match="'strange'"):
            Compiler(Vocabulary.of_bytes(), limits=Limits(nodes=1_000)).compile(
                formats.chat_answer("llama4-pythonic", tools=[WEATHER, tool])
            )

    @pytest.mark.parametrize("layout", ["llama4-pythonic", "gemma4"])
    def test_terminals_of_values_are_shared_by_the_tools(self, layout: str) -> None:
        tools = [{**WEATHER, "function": {**WEATHER["function"], "name": f"tool_{i}"}} for i in range(300)]  # type: ignore[dict-item]
        compiled = Compiler(Vocabulary.of_bytes(), limits=Limits(nodes=30_000)).compile(
            formats.chat_answer(layout, tools=tools, tool_choice="required")
        )
        assert compiled.formatter().can_stop is False

    def test_texts_named_like_constants_stay_texts(self) -> None:
        parameters = {"type": "object", "properties": {"x": {"enum": ["true", True, None]}}, "required": ["x"]}
        tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
        answer = formats.chat_answer("llama4-pythonic", tools=[tool], tool_choice="required")
        compiled = Compiler(Vocabulary.of_bytes()).compile(answer)
        for written, value in [('"true"', "true"), ("True", True), ("None", None)]:
            assert compiled.parse(f"[f(x={written})]").value.tool_calls[0].arguments == {"x": value}
        assert not compiled.parse('[f(x="True")]').is_complete

    def test_a_refused_schema_leaves_the_others_usable(self) -> None:
        compiler = Compiler(Vocabulary.of_bytes())
        parameters = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}
        tool = {"type": "function", "function": {"name": "strange", "parameters": parameters}}
        with pytest.raises(InvalidFormat, match=r"'strange'.*uniqueItems"):
            compiler.compile(formats.chat_answer("hermes", tools=[WEATHER, tool]))
        assert compiler.compile(formats.chat_answer("hermes", tools=[WEATHER])).parse("Hello.").is_complete

    def test_threads_share_a_compiled_answer(self) -> None:
        compiled = Compiler(Vocabulary.of_bytes()).compile(formats.chat_answer("qwen3", tools=TOOLS))

        def work(seed: int) -> int:
            rng, read = random.Random(seed), 0
            for _ in range(3):
                text = walk(compiled.formatter(), rng)
                if text is not None:
                    assert compiled.parse(text).value == parse(compiled.format, text).value
                    read += 1
            return read

        with ThreadPoolExecutor(16) as pool:
            assert sum(pool.map(work, range(16))) > 8

    def test_a_tool_is_lowered_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lowered: list[object] = []
        lower = JsonSchemaFormat.to_grammar
        monkeypatch.setattr(JsonSchemaFormat, "to_grammar", lambda *given: [lowered.append(given[0]), lower(*given)][1])
        function = {"name": "once", "parameters": {"type": "object", "properties": {"only here": {"const": 4711}}}}
        tools = [WEATHER, {"type": "function", "function": function}]
        for names in (["hermes"], ["hermes"] * 3):
            lowered.clear()
            for name in names:
                compiled = Compiler(Vocabulary.of_bytes()).compile(formats.chat_answer(name, tools=tools))
                text = '<tool_call>\n{"name": "once", "arguments": {"only here": 4711}}\n</tool_call>'
                assert compiled.parse(text).value.tool_calls == (ToolCall("once", {"only here": 4711}),)
        assert not lowered
