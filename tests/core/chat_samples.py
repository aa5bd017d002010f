"""Tools, layouts and answers for the tests of chat answers, and texts of theirs: written, drawn and streamed."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from formatter_core import ChatAnswer, ChatDeltas, Compiler, Layout, ToolCall, Vocabulary

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
