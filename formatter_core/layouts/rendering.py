"""What a chat template writes: turns whose parts are known, rendered; and the layout that agrees with them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

from formatter_core.errors import UnsupportedLayout
from formatter_core.layouts.answer import ChatAnswer, ToolCall

__all__ = ["CALLS", "QUESTION", "TEXT", "THOUGHT", "layout_of", "rendered_turn"]

#: The parts of the turns that are rendered.
CALLS = (ToolCall("get_weather", {"city": "Paris", "days": 3}), ToolCall("get_time", {"city": "Rome", "days": 5}))
QUESTION, TEXT, THOUGHT = "Some question.", "Some text.", "Some thought."
_USER = {"role": "user", "content": QUESTION}
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": call.name,
            "description": "Ask.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where."},
                    "days": {"type": "integer", "description": "How long."},
                },
                "required": ["city"],
            },
        },
    }
    for call in CALLS
]


class _Layout(Protocol):
    """What is asked of a layout here."""

    @property
    def name(self) -> str: ...
    @property
    def reasoning(self) -> Any: ...
    def render(self, answer: ChatAnswer) -> str: ...
    def opens_reasoning(self, prompt: str) -> bool: ...


_LayoutT = TypeVar("_LayoutT", bound=_Layout)


def layout_of(tokenizer: Any, layouts: Iterable[_LayoutT]) -> _LayoutT:
    """The layout that agrees with a chat template in most parts; its calls must agree.

    Raises:
        UnsupportedLayout: none does, or the tokenizer has no chat template.
    """
    if not hasattr(tokenizer, "apply_chat_template"):
        raise UnsupportedLayout(f"a {type(tokenizer).__name__} has no chat template; name a layout: Layout.named(...)")
    prompt = _applied(tokenizer, [_USER], True)
    called, talked, thought = (rendered_turn(tokenizer, turn) for turn in _turns())
    known = list(layouts)
    scores = {}
    for layout in known:
        if called is not None and layout.render(ChatAnswer(tool_calls=CALLS[:1])) in called:
            scores[layout.name] = _agreement(layout, prompt or "", talked or "", thought or "")
    if not scores:
        shown = "nothing" if called is None else repr(called[-200:])
        raise UnsupportedLayout(
            f"the chat template rendered {shown} for a tool call, which none of the layouts "
            f"{', '.join(layout.name for layout in known)} writes; describe it with Layout.from_json(data)"
        )
    best = max(scores.values())
    return next(layout for layout in known if scores.get(layout.name) == best)


def _turns() -> tuple[dict[str, Any], ...]:
    call = {"type": "function", "id": "call00001", "function": {"name": CALLS[0].name, "arguments": CALLS[0].arguments}}
    thought = dict.fromkeys(("reasoning_content", "reasoning", "thinking"), THOUGHT)
    return (
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "assistant", "content": TEXT, "tool_calls": [call]},
        {"role": "assistant", "content": TEXT, **thought},
    )


def rendered_turn(tokenizer: Any, turn: dict[str, Any]) -> str | None:
    """A conversation that ends with this message, as the template writes it; None where the template refuses it.

    Templates ask for arguments as an object or as JSON text, and for no text as "" or as None: what works is taken.
    """
    needed = "Paris" if "tool_calls" in turn else ""
    for made in _variants(turn):
        text = _applied(tokenizer, [_USER, made], False)
        if text is not None and needed in text:
            return text
    return None


def _applied(tokenizer: Any, messages: list[dict[str, Any]], prompt: bool) -> str | None:
    try:
        return str(tokenizer.apply_chat_template(messages, tools=_TOOLS, tokenize=False, add_generation_prompt=prompt))
    except Exception:  # noqa: BLE001 - a template is a program of its own, and raises what it likes
        return None


def _variants(turn: dict[str, Any]) -> Iterator[dict[str, Any]]:
    contents = [turn["content"]] if turn["content"] else ["", None]
    for content in contents:
        for written in (lambda arguments: arguments, json.dumps):
            made = copy.deepcopy({**turn, "content": content})
            for call in made.get("tool_calls", ()):
                call["function"]["arguments"] = written(call["function"]["arguments"])
            yield made


def _agreement(layout: _Layout, prompt: str, talked: str, thought: str) -> int:
    """In how many parts a layout agrees, less those in which it does not."""
    parts = [_can_render(layout, ChatAnswer(None, TEXT, CALLS[:1]), talked)]
    if layout.reasoning is not None:
        parts.append(layout.opens_reasoning(prompt) or _can_render(layout, ChatAnswer(THOUGHT, TEXT), thought))
    return sum(1 if part else -1 for part in parts)


def _can_render(layout: _Layout, answer: ChatAnswer, text: str) -> bool:
    try:
        return layout.render(answer) in text
    except UnsupportedLayout:
        return False
