"""Layouts from chat templates and from data: derived, recognised, or refused with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formatter_core import ChatAnswer, Layout, ToolCall, formats, parse
from formatter_core.errors import FormatterError, InvalidArgument, InvalidFormat, UnsupportedLayout
from tests.core.chat_samples import CALL, WEATHER, each_layout

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")


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
