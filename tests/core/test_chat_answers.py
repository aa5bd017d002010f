"""Chat answers: what a layout allows, what it reads and what it writes cannot disagree."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from formatter_core import ChatAnswer, ChatDeltas, Compiler, Layout, Limits, ToolCall, Vocabulary, check, formats, parse
from formatter_core.errors import FormatterError, InvalidArgument, InvalidFormat, LimitExceeded, UnsupportedLayout
from formatter_core.formats.json_schema import JsonSchemaFormat

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
CHOOSE = {
    "type": "function",
    "function": {
        "name": "choose-one",
        "parameters": {
            "type": "object",
            "properties": {
                "kind": {"enum": ["a b", "c"]},
                "note": {"type": ["string", "null"]},
                "of": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["kind", "note"],
            "additionalProperties": False,
        },
    },
}
TOOLS = [WEATHER, CHOOSE]
CALL = ToolCall("get_weather", {"city": "Paris", "days": 3})
OTHER = ToolCall("choose-one", {"kind": "a b", "note": None, "of": ["</tool>", "é"]})
LAYOUTS = [Layout.named(name) for name in Layout.names()]
each_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)


def answers(layout: Layout) -> list[ChatAnswer]:
    """Make one answer for each combination of parts that the layout can write."""
    assert layout.calls is not None
    found = [ChatAnswer(content="Hello."), ChatAnswer(tool_calls=(CALL,)), ChatAnswer(tool_calls=(OTHER,))]
    if layout.calls.parallel:
        found.append(ChatAnswer(tool_calls=(CALL, OTHER, CALL)))
    if layout.calls.after_text:
        found.append(ChatAnswer(content="Let me look.", tool_calls=(CALL,)))
    if layout.reasoning is not None:
        found += [ChatAnswer("Well: <b> & {", each.content, each.tool_calls) for each in found]
    return found


def texts_before_calls(layout: Layout, end: str) -> list[ChatAnswer]:
    """Calls after a text that ends so, and the same text alone."""
    found = [ChatAnswer(content=f"Let me look.{end}")]
    if layout.calls is not None and layout.calls.after_text:
        found.append(ChatAnswer(content=f"Let me look.{end}", tool_calls=(CALL,)))
    return found


def with_markers(layout: Layout) -> Vocabulary:
    """Bytes, and each marker as a special token."""
    special = {marker: 257 + index for index, marker in enumerate(layout.markers)}
    return Vocabulary([*Vocabulary.of_bytes().tokens, *[None] * len(special)], [256], special)


def tokens_of(layout: Layout, vocabulary: Vocabulary, text: str) -> list[int]:
    """A text of a layout in such a vocabulary."""
    return [
        token
        for piece, is_marker in layout.pieces(text)
        for token in ([vocabulary.special_tokens[piece]] if is_marker else piece.encode())
    ]


class TestWhatIsWrittenIsRead:
    @each_layout
    def test_every_kind_of_answer(self, layout: Layout) -> None:
        format = formats.chat_answer(layout, tools=TOOLS)
        for answer in answers(layout):
            text = layout.render(answer)
            assert parse(format, text).value == answer, text

    @each_layout
    def test_data_and_back(self, layout: Layout) -> None:
        assert Layout.from_json(json.loads(json.dumps(layout.to_json()))) == layout
        format = formats.chat_answer(layout, tools=TOOLS, tool_choice="required", reasoning="off")
        again = formats.from_json(json.loads(json.dumps(format.to_json())))
        assert again.key() == format.key()

    @each_layout
    def test_markers_are_special_tokens_where_the_vocabulary_has_them(self, layout: Layout) -> None:
        special = with_markers(layout)
        compiled = Compiler(special).compile(formats.chat_answer(layout, tools=TOOLS))
        for answer in answers(layout):
            formatter = compiled.formatter()
            ids = tokens_of(layout, special, layout.render(answer))
            assert formatter.accept_tokens([*ids, 256]) == len(ids) + 1
            assert formatter.result("end").value == answer
            assert compiled.parse(layout.render(answer)).value == answer


def walk(formatter: Any, rng: random.Random, layout: Layout | None = None) -> str | None:
    """A random text through the masks, mostly of letters and of what layouts are made of; None where it grows long."""
    likely = set(b'abc <>/{}[]":,\n=_0|')
    regions = [] if layout is None else [each for each in (layout.reasoning, layout.content, layout.calls) if each]
    ends = [each.close.encode() for each in regions if each.close]
    for _ in range(1_500):
        for token in rng.choice(ends) if ends and rng.random() < 0.03 else b"":
            if token in formatter.allowed_tokens():
                formatter.accept_token(token)
        allowed = formatter.allowed_tokens()
        if 256 in allowed and (len(allowed) == 1 or rng.random() < 0.15):
            return str(formatter.text)
        text = [token for token in allowed if token != 256]
        common = [token for token in text if token in likely]
        formatter.accept_token(rng.choice(common if common and rng.random() < 0.97 else text))
    return None


class TestRandomWalks:
    @each_layout
    def test_what_the_masks_allow_is_read_and_stands_for_itself(self, layout: Layout) -> None:
        rng = random.Random(layout.name)
        compiler, read = Compiler(Vocabulary.of_bytes()), 0
        for _ in range(20):
            choice = rng.choice(["auto", "required", "none", "get_weather"])
            reasoning = "off" if layout.reasoning is None else rng.choice(["auto", "required", "off"])
            format = formats.chat_answer(
                layout, tools=TOOLS, tool_choice=choice, parallel=rng.random() < 0.5, reasoning=reasoning
            )
            text = walk(compiler.compile(format).formatter(), rng, layout)
            if text is None:
                continue
            read += 1
            answer = parse(format, text).value
            assert (answer.reasoning is None) or reasoning != "off"
            assert not (answer.tool_calls and choice == "none")
            assert answer.tool_calls or choice in ("auto", "none")
            assert len(answer.tool_calls) <= 1 or format.parallel
            for region in (answer.reasoning, answer.content):
                assert region is None or "tool_call>" not in region or not layout.markers
            if answer == ChatAnswer(answer.reasoning):
                continue
            again = parse(formats.chat_answer(layout, tools=TOOLS), layout.render(answer)).value
            assert again.tool_calls == answer.tool_calls
        assert read > 1


class TestWhatIsNotAllowed:
    @pytest.mark.parametrize(
        "text",
        [
            '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>',  # a required argument is missing
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": 1}}\n</tool_call>',
            '<tool_call>\n{"name": "get_weathers", "arguments": {"city": "a"}}\n</tool_call>',
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "</tool_call>"}}\n</tool_call>',
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "a"}}',
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "a"}}\n</tool_call>' * 2,
            "a </tool_call> b",
        ],
    )
    def test_calls_as_json(self, text: str) -> None:
        assert not parse(formats.chat_answer("hermes", tools=TOOLS), text).is_complete

    def test_a_marker_stands_in_json_only_in_escapes(self) -> None:
        text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "\\u003c/tool_call>"}}\n</tool_call>'
        assert parse(formats.chat_answer("hermes", tools=TOOLS), text).value.tool_calls[0].arguments == {
            "city": "</tool_call>"
        }

    @pytest.mark.parametrize(
        "inside",
        [
            "<parameter=days>\n3\n</parameter>\n",
            "<parameter=city>\na\n</parameter>\n<parameter=days>\nx\n</parameter>\n",
            "<parameter=city>\na\n</parameter>\n<parameter=city>\nb\n</parameter>\n",
            "<parameter=city>\na</parameter>b\n</parameter>\n",
            "<parameter=town>\na\n</parameter>\n",
        ],
    )
    def test_calls_with_parameters(self, inside: str) -> None:
        text = f"<tool_call>\n<function=get_weather>\n{inside}</function>\n</tool_call>"
        assert not parse(formats.chat_answer("qwen3-coder", tools=TOOLS), text).is_complete

    def test_one_call_where_one_is_allowed(self) -> None:
        two = Layout.named("hermes").render(ChatAnswer(tool_calls=(CALL, CALL)))
        assert parse(formats.chat_answer("hermes", tools=TOOLS), two).is_complete
        assert not parse(formats.chat_answer("hermes", tools=TOOLS, parallel=False), two).is_complete

    def test_text_that_begins_as_a_call_does_where_calls_have_no_marker(self) -> None:
        format = formats.chat_answer("llama3-json", tools=TOOLS)
        assert parse(format, 'About {"name": "get_weather", "parameters": 1').value.content is not None
        assert not parse(format, ' \n{"name": "get_weather", "parameters": 1').is_complete
        pythonic = formats.chat_answer("llama4-pythonic", tools=TOOLS)
        assert parse(pythonic, "[1] says so").value.content is not None
        assert not parse(pythonic, '[other_tool(city="Paris")]').is_complete

    def test_arguments_of_several_lines_where_readers_look_at_one(self) -> None:
        text = Layout.named("deepseek-v3").render(ChatAnswer(tool_calls=(CALL,)))
        format = formats.chat_answer("deepseek-v3", tools=TOOLS)
        assert parse(format, text).is_complete
        assert not parse(format, text.replace('{"', '{\n"', 1)).is_complete


class TestReasoning:
    def test_auto_required_off(self) -> None:
        text = "<think>\nHm.\n</think>\n\nYes."
        for reasoning, with_it, without in (("auto", 1, 1), ("required", 1, 0), ("off", 0, 1)):
            format = formats.chat_answer("qwen3", reasoning=reasoning)  # type: ignore[arg-type]
            assert parse(format, text).is_complete == bool(with_it)
            assert parse(format, "Yes.").is_complete == bool(without)

    def test_a_prompt_that_has_opened_it(self) -> None:
        layout = Layout.named("deepseek-r1")
        assert layout.opens_reasoning("<｜Assistant｜><think>\n")
        assert not layout.opens_reasoning("<｜Assistant｜>")
        format = formats.chat_answer(layout, reasoning_is_open=True, content=int)
        assert parse(format, "Six times seven.\n</think>\n\n42").value == ChatAnswer("Six times seven.", 42)

    def test_a_prompt_that_has_ended_it(self) -> None:
        layout = Layout.named("qwen3")
        for prompt in ("<think>\n\n</think>\n\n", "user<think>\nHm.\n</think>"):
            assert layout.closes_reasoning(prompt)
            assert formats.chat_answer(layout, reasoning="required").after(prompt).reasoning == "off"
        for prompt in ("", "<think>\n", "<think>Hm.</think>Yes.", "<think>a</think>b<tool_call></think>"):
            assert not layout.closes_reasoning(prompt)
        assert not Layout.named("harmony").closes_reasoning("<|start|>user<|message|>x<|end|><|start|>assistant")

    def test_a_compiler_reads_the_end_of_the_prompts_tokens(self) -> None:
        compiler = Compiler(Vocabulary.of_bytes())
        compiled = compiler.compile(formats.chat_answer("qwen3", reasoning="required", content=int))
        for prompt, answer in (("Hi", "<think>\nA\n</think>\n\n1"), ("<think>\n", "A\n</think>\n\n1"),
                               ("x" * 90 + "<think>\n\n</think>\n\n", "1")):  # fmt: skip
            after = compiler.after_prompt(compiled, list(prompt.encode()))
            assert after.parse(answer).value.content == 1
        plain = compiler.compile(int)
        assert compiler.after_prompt(plain, [1]) is plain
        assert compiler.after_prompt(compiled, list(b"Hi")) is compiled  # which nothing is compiled for


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

    @pytest.mark.parametrize("layout", Layout.names())
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
    def test_a_faulty_schema_is_told_alike_in_every_layout(self, layout: str, schema: Any, told: str) -> None:
        parameters = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
        tool = {"type": "function", "function": {"name": "faulty", "parameters": parameters}}
        with pytest.raises(InvalidFormat) as caught:
            Compiler(Vocabulary.of_bytes()).compile(formats.chat_answer(layout, tools=[tool]))
        assert "'faulty'" in str(caught.value)
        assert told in str(caught.value)

    @pytest.mark.parametrize("layout", [each.name for each in LAYOUTS if each.calls and not each.calls.strips])
    @pytest.mark.parametrize("text", [" x", "    if x:\n", "\n\nx", "\tx\r\n", "\u00a0x\u3000", " ", "\n", ""])
    def test_a_text_argument_keeps_the_blanks_at_its_edges(self, layout: str, text: str) -> None:
        written = Layout.named(layout).render(ChatAnswer(tool_calls=(ToolCall("get_weather", {"city": text}),)))
        answer = parse(formats.chat_answer(layout, tools=TOOLS), written).value
        assert answer.tool_calls == (ToolCall("get_weather", {"city": text}),)

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


#: Bytes after the end of its name for which a call still may be text, with tool_choice="auto".
LOOKS_LIKE_TEXT = {"llama4-pythonic": len("(")}
COMPILER = Compiler(Vocabulary.of_bytes())


def streamed(format: Any, text: str) -> tuple[ChatAnswer, list[int]]:
    """A text's deltas put together, and after how many bytes each call's first one came."""
    formatter, stream, starts = COMPILER.compile(format).formatter(), ChatDeltas(), []
    said: dict[str, str] = {}
    calls: list[list[str]] = []
    for count, token in enumerate([*text.encode(), 256], 1):
        formatter.accept_token(token)
        for delta in stream.of(formatter.events()):
            for key in delta.keys() & {"content", "reasoning_content"}:
                said[key] = said.get(key, "") + delta[key]
            for part in delta.get("tool_calls", ()):
                if part["index"] == len(calls):
                    calls.append(["", ""])
                    starts.append(count)
                calls[part["index"]][0] += part["function"].get("name", "")
                calls[part["index"]][1] += part["function"]["arguments"]
    made = tuple(ToolCall(name, json.loads(arguments)) for name, arguments in calls)
    return ChatAnswer(said.get("reasoning_content"), said.get("content"), made), starts


class Said(NamedTuple):
    """Deltas put together."""

    reasoning: str
    content: str
    calls: tuple[tuple[str, str], ...]

    def after(self, deltas: list[dict[str, Any]]) -> Said:
        reasoning, content, calls = self
        for delta in deltas:
            reasoning += delta.get("reasoning_content", "")
            content += delta.get("content", "")
            for part in delta.get("tool_calls", ()):
                known = calls[part["index"]] if part["index"] < len(calls) else ("", "")
                function = part["function"]
                call = known[0] + function.get("name", ""), known[1] + function["arguments"]
                calls = (*calls[: part["index"]], call)
        return Said(reasoning, content, calls)


def _is_allowed(answer: ChatAnswer, choice: str) -> bool:
    if choice in ("auto", "none"):
        return choice == "auto" or not answer.tool_calls
    names = {call.name for call in answer.tool_calls}
    return bool(names) and answer.content is None and (choice == "required" or names == {choice})


class TestDeltas:
    @pytest.mark.parametrize("choice", ["auto", "required", "get_weather", "none"])
    @each_layout
    def test_a_call_comes_as_soon_as_it_is_certain_and_all_deltas_are_the_answer(
        self, layout: Layout, choice: str
    ) -> None:
        format = formats.chat_answer(layout, tools=TOOLS, tool_choice=choice)
        late = LOOKS_LIKE_TEXT.get(layout.name, 0) if choice == "auto" else 0
        for answer in [
            *answers(layout),
            *(a for end in ("\n", "\n\n", " \n") for a in texts_before_calls(layout, end)),
        ]:
            if not _is_allowed(answer, choice):
                continue
            text = layout.render(answer)
            made, starts = streamed(format, text)
            assert made == answer == parse(format, text).value
            at = len((answer.reasoning or "") + (answer.content or "")) if answer.tool_calls else 0
            for call, start in zip(answer.tool_calls, starts, strict=True):
                at = text.index(call.name, at) + len(call.name)
                assert start <= len(text[:at].encode()) + late, text

    @each_layout
    def test_of_a_random_answer(self, layout: Layout) -> None:
        rng, read = random.Random(layout.name), 0
        for number in range(8):
            format = formats.chat_answer(layout, tools=TOOLS, tool_choice=["auto", "required"][number % 2])
            text = walk(COMPILER.compile(format).formatter(), rng, layout)
            if text is not None:
                answer, read = parse(format, text).value, read + 1
                made, _ = streamed(format, text)
                assert (made.reasoning, made.content) == (answer.reasoning, answer.content), text
                assert made.tool_calls == answer.tool_calls, text
        assert read

    @pytest.mark.parametrize("parallel", [True, False])
    @each_layout
    def test_a_stream_that_is_cut_anywhere_has_said_what_the_whole_one_says(
        self, layout: Layout, parallel: bool
    ) -> None:
        format, special = formats.chat_answer(layout, tools=TOOLS, parallel=parallel), with_markers(layout)
        compiled, rng = Compiler(special).compile(format), random.Random(layout.name)
        for answer in answers(layout):
            if len(answer.tool_calls) > 1 and not parallel:
                continue
            ids = tokens_of(layout, special, layout.render(answer))
            formatter, stream, said = compiled.formatter(), ChatDeltas(), [Said("", "", ())]
            while ids:  # in one mask or several, as drafts and forced text come
                count = rng.choice([1, 1, 2, 5])
                assert formatter.accept_tokens(ids[:count]) == len(ids[:count])
                del ids[:count]
                said.append(said[-1].after(stream.of(formatter.events())))
            whole = said[-1]
            assert [name for name, _ in whole.calls] == [call.name for call in answer.tool_calls]
            assert [json.loads(text) for _, text in whole.calls] == [call.arguments for call in answer.tool_calls]
            assert (whole.reasoning, whole.content) == (answer.reasoning or "", answer.content or "")
            for cut in said:
                assert whole.reasoning.startswith(cut.reasoning)
                assert whole.content.startswith(cut.content)
                assert cut.calls[:-1] == whole.calls[: len(cut.calls[:-1])]
                for (name, text), (whole_name, whole_text) in zip(cut.calls, whole.calls, strict=False):
                    assert name == whole_name
                    assert whole_text.startswith(text)

    def test_what_was_sent_cannot_be_taken_back(self) -> None:
        formatter = Compiler(Vocabulary.of_bytes()).compile(formats.chat_answer("hermes")).formatter()
        stream = ChatDeltas()
        formatter.accept_tokens(list(b"abc"))
        stream.of(formatter.events())
        formatter.rollback(2)
        with pytest.raises(InvalidArgument, match="taken back"):
            stream.of(formatter.events())


class TemplateTokenizer:
    """The part of a tokenizer that renders turns: by a layout, in place of a chat template."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def apply_chat_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
        written = "<|user|>" + messages[0]["content"] + "<|assistant|>"
        for turn in messages[1:]:
            calls = [
                ToolCall(call["function"]["name"], call["function"]["arguments"]) for call in turn.get("tool_calls", ())
            ]
            thought = turn.get("reasoning_content") if self._layout.reasoning else None
            written += self._layout.render(ChatAnswer(thought, turn["content"] or None, tuple(calls)))
        return written


class TestFromTokenizer:
    @each_layout
    def test_the_layout_that_its_template_writes(self, layout: Layout) -> None:
        assert Layout.from_tokenizer(TemplateTokenizer(layout)) == layout

    @pytest.mark.parametrize(
        ("layout", "change"),
        [
            ("qwen3", ("</think>\n\n", "</think>\n")),
            ("hermes", ("</tool_call>\n<tool_call>", "</tool_call>\n\n<tool_call>")),
            ("hermes", ("Some text.\n<tool_call>", "Some text.<tool_call>")),
            ("qwen3-coder", ("parameter", "arg")),
            ("glm-4.7", ("arg_", "item_")),
            ("nemotron-nano-v2", ("TOOLCALL", "TOOLS")),
            ("kimi-k2", ("tool_call", "call")),
            ("solar-open", ("tool_call:", "call:")),
        ],
    )
    def test_a_template_that_no_layout_writes_has_one_derived(self, layout: str, change: tuple[str, str]) -> None:
        named = Layout.named(layout)

        class Changed(TemplateTokenizer):
            def apply_chat_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
                return super().apply_chat_template(messages, **options).replace(*change)

        derived = Layout.from_tokenizer(Changed(named))
        assert derived.name == "derived"
        assert Layout.from_json(json.loads(json.dumps(derived.to_json()))) == derived
        tools = [
            {"type": "function", "function": {"name": "g", "parameters": WEATHER["function"]["parameters"]}},
            WEATHER,
        ]
        format = formats.chat_answer(derived, tools=tools)
        calls = (CALL, ToolCall("g", {"city": "Rome", "days": 5}))
        for answer in [
            ChatAnswer(None, "Some text."),
            *([ChatAnswer("Some thought.", "Some text.")] if named.reasoning else []),
            ChatAnswer(None, None, calls),
            *([ChatAnswer(None, "Some text.", calls[:1])] if named.calls and named.calls.after_text else []),
        ]:
            assert parse(format, named.render(answer).replace(*change)).value == answer

    @pytest.mark.parametrize(
        ("layout", "change", "told"),
        [
            ("hermes", ('"Rome"', '"Oslo"'), "not two calls: after"),
            ("hermes", ("Some text.", "<think>Some thought.</think>Some text."), "not text: the template writes"),
            (
                "deepseek-v3",
                ("<|assistant|>", "<|assistant|><seed:think>"),
                "the prompt opens reasoning as it does not",
            ),
        ],
    )
    def test_a_layout_that_writes_another_turn_otherwise_is_refused(
        self, layout: str, change: tuple[str, str], told: str
    ) -> None:
        class Changed(TemplateTokenizer):
            def apply_chat_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
                return super().apply_chat_template(messages, **options).replace(*change)

        with pytest.raises(UnsupportedLayout, match=told) as caught:
            Layout.from_tokenizer(Changed(Layout.named(layout)))
        assert "the layout " in str(caught.value)

    def test_a_derived_layout_takes_pythons_constants_where_its_template_prints_them(self) -> None:
        class Printing(TemplateTokenizer):
            def apply_chat_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
                written = super().apply_chat_template(messages, **options).replace("parameter", "arg")
                return written.replace("\ntrue\n", "\nTrue\n") if self.prints else written

            prints = True

        class Other(Printing):
            prints = False

        for kind in (Printing, Other):
            derived = Layout.from_tokenizer(kind(Layout.named("qwen3-coder")))
            assert derived.calls is not None
            assert derived.calls.python_constants == kind.prints

    def test_reasoning_that_the_prompt_opens(self) -> None:
        layout = Layout.named("qwen3.5")

        class Opening(TemplateTokenizer):
            def apply_chat_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
                written = super().apply_chat_template(messages, **options)
                return written + ("<think>\n" if options["add_generation_prompt"] else "")

        assert Layout.from_tokenizer(Opening(layout)) == layout

    def test_a_template_that_writes_no_known_calls(self) -> None:
        class Plain:
            def apply_chat_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
                return "".join(str(message["content"]) for message in messages)

        with pytest.raises(UnsupportedLayout, match=r"none of the \d+ layouts"):
            Layout.from_tokenizer(Plain())
        with pytest.raises(UnsupportedLayout, match="no chat template"):
            Layout.from_tokenizer(object())


class TestFaultyLayouts:
    @pytest.mark.parametrize("name", ["qwen9", "", None, 3])
    def test_a_name_that_is_not_there(self, name: Any) -> None:
        with pytest.raises(UnsupportedLayout, match=r"there are .*hermes"):
            Layout.named(name)

    @pytest.mark.parametrize("key", ["name", "source", "markers", "calls"])
    @pytest.mark.parametrize(
        "value", [None, 1, [], {"x": 1}, "<a><a", ["<a<", "<b"], ["<a>", ""], [1], {"templates": [[]]}]
    )
    def test_faulty_data(self, key: str, value: Any) -> None:
        data = Layout.named("hermes").to_json()
        data[key] = value
        try:
            Layout.from_json(data)
        except FormatterError:
            return
        assert (key, value) in [
            ("name", "<a><a"),
            ("source", []),
            ("source", ["<a<", "<b"]),
            ("source", ["<a>", ""]),
            ("markers", []),
            ("calls", None),
        ]

    @pytest.mark.parametrize("data", [None, 1, [], {}, "hermes", {**Layout.named("hermes").to_json(), "more": 1}])
    def test_what_is_no_layout(self, data: Any) -> None:
        with pytest.raises(InvalidFormat):
            Layout.from_json(data)

    def test_what_a_layout_has_no_place_for(self) -> None:
        with pytest.raises(UnsupportedLayout):
            formats.chat_answer("hermes", reasoning="required")
        with pytest.raises(UnsupportedLayout):
            Layout.named("llama3-json").render(ChatAnswer(tool_calls=(CALL, CALL)))
        for wrong in ({"tool_choice": "other"}, {"tool_choice": "required"}, {"reasoning": "maybe"}):
            with pytest.raises(InvalidArgument):
                formats.chat_answer("qwen3", **wrong)  # type: ignore[arg-type]
