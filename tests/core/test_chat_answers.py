"""Chat answers: what a layout allows, what it reads and what it writes cannot disagree."""

from __future__ import annotations

import json
import random

import pytest

from formatter_core import ChatAnswer, Compiler, Layout, Vocabulary, formats, parse
from tests.core.chat_samples import (
    CALL,
    COMPILER,
    TOOLS,
    answers,
    each_layout,
    streamed,
    tokens_of,
    walk,
    with_markers,
)

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")


class TestWhatIsWrittenIsRead:
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


class TestRandomWalks:
    @each_layout
    def test_what_the_masks_allow_is_read_and_stands_for_itself(self, layout: Layout) -> None:
        rng, read = random.Random(layout.name), 0
        for _ in range(12):
            choice = rng.choice(["auto", "required", "none", "get_weather"])
            reasoning = "off" if layout.reasoning is None else rng.choice(["auto", "required", "off"])
            format = formats.chat_answer(
                layout, tools=TOOLS, tool_choice=choice, parallel=rng.random() < 0.5, reasoning=reasoning
            )
            text = walk(COMPILER.compile(format).formatter(), rng, layout)
            if text is None:
                continue
            read += 1
            answer = parse(format, text).value
            assert streamed(format, text)[0] == answer, text
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
