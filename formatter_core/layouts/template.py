"""Which layout a chat template writes: found by rendering turns whose parts are known."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

from formatter_core.errors import UnsupportedLayout
from formatter_core.layouts.answer import ChatAnswer, ToolCall

__all__ = ["layout_of"]

_CALL = ToolCall("get_weather", {"city": "Paris", "days": 3})
_TEXT, _THOUGHT = "Some text.", "Some thought."
_USER = {"role": "user", "content": "Question."}
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather.",
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
    prompt, called, talked, thought = (_rendered(tokenizer, turn) for turn in (None, *_turns()))
    known = list(layouts)
    scores = {}
    for layout in known:
        if called is not None and layout.render(ChatAnswer(tool_calls=(_CALL,))) in called:
            scores[layout.name] = _agreement(layout, prompt or "", talked or "", thought or "")
    if not scores:
        shown = "nothing" if called is None else repr(called[-200:])
        raise UnsupportedLayout(
            f"the chat template writes a tool call as none of {', '.join(layout.name for layout in known)} does: it "
            f"rendered {shown}; describe it with Layout.from_json(data)"
        )
    best = max(scores.values())
    return next(layout for layout in known if scores.get(layout.name) == best)


def _turns() -> tuple[dict[str, Any], ...]:
    call = {"type": "function", "id": "call00001", "function": {"name": _CALL.name, "arguments": _CALL.arguments}}
    thought = dict.fromkeys(("reasoning_content", "reasoning", "thinking"), _THOUGHT)
    return (
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "assistant", "content": _TEXT, "tool_calls": [call]},
        {"role": "assistant", "content": _TEXT, **thought},
    )


def _rendered(tokenizer: Any, turn: dict[str, Any] | None) -> str | None:
    """A turn as the template writes it, or the prompt before one; None where the template refuses it."""
    needed = "Paris" if turn is not None and "tool_calls" in turn else ""
    for messages in [[_USER]] if turn is None else ([_USER, made] for made in _variants(turn)):
        text = _applied(tokenizer, messages, not turn)
        if text is not None and needed in text:
            return text
    return None


def _applied(tokenizer: Any, messages: list[dict[str, Any]], prompt: bool) -> str | None:
    try:
        return str(tokenizer.apply_chat_template(messages, tools=_TOOLS, tokenize=False, add_generation_prompt=prompt))
    except Exception:  # noqa: BLE001 - a template is a program of its own, and raises what it likes
        return None


def _variants(turn: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A turn as different templates ask for it: arguments as an object or as JSON text, no text as "" or as None."""
    contents = [turn["content"]] if turn["content"] else ["", None]
    for content in contents:
        for written in (lambda arguments: arguments, json.dumps):
            made = copy.deepcopy({**turn, "content": content})
            for call in made.get("tool_calls", ()):
                call["function"]["arguments"] = written(call["function"]["arguments"])
            yield made


def _agreement(layout: _Layout, prompt: str, talked: str, thought: str) -> int:
    """In how many parts a layout agrees, less those in which it does not."""
    parts = [_can_render(layout, ChatAnswer(None, _TEXT, (_CALL,)), talked)]
    if layout.reasoning is not None:
        parts.append(layout.opens_reasoning(prompt) or _can_render(layout, ChatAnswer(_THOUGHT, _TEXT), thought))
    return sum(1 if part else -1 for part in parts)


def _can_render(layout: _Layout, answer: ChatAnswer, text: str) -> bool:
    try:
        return layout.render(answer) in text
    except UnsupportedLayout:
        return False
