"""What a chat template writes: turns whose parts are known, rendered; and the layout that agrees with them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

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
    @property
    def calls(self) -> Any: ...
    def render(self, answer: ChatAnswer) -> str: ...
    def opens_reasoning(self, prompt: str) -> bool: ...


class _Turn(NamedTuple):
    """A turn whose parts are known: as a message, as an answer, and what its rendering shows."""

    name: str
    answer: ChatAnswer
    message: dict[str, Any]
    parts: tuple[str, ...]


def _turn(name: str, answer: ChatAnswer) -> _Turn:
    message: dict[str, Any] = {"role": "assistant", "content": answer.content or ""}
    if answer.reasoning is not None:
        message |= dict.fromkeys(("reasoning_content", "reasoning", "thinking"), answer.reasoning)
    if answer.tool_calls:
        message["tool_calls"] = [
            {"type": "function", "id": "call00001", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.tool_calls
        ]
    parts = (answer.reasoning, answer.content, *(call.name for call in answer.tool_calls))
    return _Turn(name, answer, message, tuple(part for part in parts if part is not None))


_ONE_CALL = ChatAnswer(tool_calls=CALLS[:1])
_TURNS = (
    _turn("text", ChatAnswer(None, TEXT)),
    _turn("a thought and text", ChatAnswer(THOUGHT, TEXT)),
    _turn("one call", _ONE_CALL),
    _turn("a thought and a call", ChatAnswer(THOUGHT, None, CALLS[:1])),
    _turn("two calls", ChatAnswer(tool_calls=CALLS)),
    _turn("text and a call", ChatAnswer(None, TEXT, CALLS[:1])),
)
_LayoutT = TypeVar("_LayoutT", bound=_Layout)


def layout_of(tokenizer: Any, layouts: Iterable[_LayoutT]) -> _LayoutT:
    """The layout that writes a few turns as a chat template does: text, a thought, one call, two calls, and mixtures.

    A turn that the template refuses, or in which it leaves out a part, does not count; the call does.

    Raises:
        UnsupportedLayout: there is none, or the tokenizer has no chat template.
    """
    if not hasattr(tokenizer, "apply_chat_template"):
        raise UnsupportedLayout(f"a {type(tokenizer).__name__} has no chat template; name a layout: Layout.named(...)")
    prompt = _applied(tokenizer, [_USER], True) or ""
    turns = [(each, rendered_turn(tokenizer, each.message)) for each in _TURNS]
    called = next(text for turn, text in turns if turn.name == "one call")
    known = list(layouts)
    alike = [layout for layout in known if called is not None and _writes(layout, _ONE_CALL, called, prompt)]
    if not alike:
        shown = "nothing" if called is None else repr(called[-200:])
        raise UnsupportedLayout(
            f"the chat template rendered {shown} for a tool call, which none of the layouts "
            f"{', '.join(layout.name for layout in known)} writes; describe it with Layout.from_json(data)"
        )
    faults = {layout.name: _first_fault(layout, turns, prompt, known) for layout in alike}
    proven = [layout for layout in alike if faults[layout.name] is None]
    best = max(proven or alike, key=lambda layout: _agreements(layout, turns, prompt))  # the first of the best
    if not proven:
        raise UnsupportedLayout(
            f"the layout {best.name} writes tool calls as the chat template does, but {faults[best.name]}; "
            "describe it with Layout.from_json(data)"
        )
    return best


def _first_fault(
    layout: _Layout, turns: list[tuple[_Turn, str | None]], prompt: str, known: Iterable[_Layout]
) -> str | None:
    """What a layout does not write as the chat template does; None if there is nothing."""
    if not layout.opens_reasoning(prompt) and any(other.opens_reasoning(prompt) for other in known):
        return f"the prompt opens reasoning as it does not: {prompt[-40:]!r}"
    for turn, text in turns:
        if text is None or not all(part in text for part in turn.parts):
            continue
        if THOUGHT in turn.parts and layout.reasoning is None:
            return f"it has no reasoning, which the template writes for {turn.name}"
        if _has_place(layout, turn.answer) and not _writes(layout, turn.answer, text, prompt):
            return f"not {turn.name}: {_difference(layout.render(turn.answer), text)}"
    return None


def _difference(written: str, text: str) -> str:
    """Where a text stops being what a layout writes."""
    text = text[text.rfind(QUESTION) + len(QUESTION) :]
    length = next(length for length in range(len(written), -1, -1) if written[:length] in text)
    at = text.find(written[:length]) + length if length else 0
    after = f"after {written[:length][-30:]!r} " if length else ""
    return f"{after}it writes {written[length : length + 30]!r}, and the template {text[at : at + 30]!r}"


def _agreements(layout: _Layout, turns: list[tuple[_Turn, str | None]], prompt: str) -> int:
    """In how many turns a layout agrees; reasoning in only one of the two counts against it."""
    count = sum(text is not None and _writes(layout, turn.answer, text, prompt) for turn, text in turns)
    shows = any(text is not None and THOUGHT in text for _, text in turns) or layout.opens_reasoning(prompt)
    return count - ((layout.reasoning is not None) != shows)


def _has_place(layout: _Layout, answer: ChatAnswer) -> bool:
    calls = layout.calls
    if answer.content is not None and answer.tool_calls and not calls.after_text:
        return False
    return len(answer.tool_calls) < 2 or bool(calls.parallel)


def _writes(layout: _Layout, answer: ChatAnswer, text: str, prompt: str) -> bool:
    """Whether a layout writes an answer as it stands in a text; the prompt may have opened the reasoning."""
    if not _has_place(layout, answer):
        return False
    try:
        written = layout.render(answer)
    except UnsupportedLayout:
        return False
    is_open = answer.reasoning is not None and layout.opens_reasoning(prompt)
    return written in text or (is_open and written.removeprefix(layout.reasoning.open) in text)


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
