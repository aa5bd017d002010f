"""Deltas of chat answers: a call comes as soon as it is certain, and all of them make the answer."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

import pytest

from formatter_core import ChatAnswer, ChatDeltas, Compiler, Layout, Vocabulary, formats, parse
from formatter_core.errors import InvalidArgument
from tests.core.chat_samples import (
    TOOLS,
    answers,
    each_layout,
    streamed,
    texts_before_calls,
    tokens_of,
    with_markers,
)

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

#: Bytes after the end of its name for which a call still may be text, with tool_choice="auto".
LOOKS_LIKE_TEXT = {"llama4-pythonic": len("(")}


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
    @each_layout
    def test_a_call_comes_as_soon_as_it_is_certain_and_all_deltas_are_the_answer(self, layout: Layout) -> None:
        after_texts = [a for end in ("\n", "\n\n", " \n") for a in texts_before_calls(layout, end)]
        for choice in ("auto", "required", "get_weather", "none"):
            format = formats.chat_answer(layout, tools=TOOLS, tool_choice=choice)
            late = LOOKS_LIKE_TEXT.get(layout.name, 0) if choice == "auto" else 0
            for answer in (each for each in [*answers(layout), *after_texts] if _is_allowed(each, choice)):
                text = layout.render(answer)
                made, starts = streamed(format, text)
                assert made == answer == parse(format, text).value
                at = len((answer.reasoning or "") + (answer.content or "")) if answer.tool_calls else 0
                for call, start in zip(answer.tool_calls, starts, strict=True):
                    at = text.index(call.name, at) + len(call.name)
                    assert start <= len(text[:at].encode()) + late, text

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
