"""Render turns with known parts by a chat template, and find the layout that agrees with them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

from formatter_core.errors import UnsupportedLayout
from formatter_core.layouts.answer import ChatAnswer, ToolCall

__all__ = [
    "CALLS", "QUESTION", "TEXT", "THOUGHT", "common_beginning", "common_length", "json_place",
    "layout_of", "messages_of", "rendered_id", "rendered_turn", "rendered_turns", "tail_of",
]  # fmt: skip

#: The known parts of the turns that are rendered.
CALLS = (ToolCall("get_weather", {"city": "Paris", "days": 3}), ToolCall("get_time", {"city": "Rome", "days": 5}))
QUESTION, TEXT, THOUGHT = "Some question.", "Some text.", "Some thought."
#: The output of a template that takes a list of parts for a text.
_AS_DATA = re.compile(r"[\"'{]type[\"']?: ?[\"']thinking[\"']")
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
    """The attributes of a layout that this module uses."""

    @property
    def name(self) -> str: ...
    @property
    def reasoning(self) -> Any: ...
    @property
    def calls(self) -> Any: ...
    def render(self, answer: ChatAnswer) -> str: ...
    def opens_reasoning(self, prompt: str) -> bool: ...
    def closes_reasoning(self, prompt: str) -> bool: ...
    def missing_blanks(self, prompt: str) -> str: ...


class _Turn(NamedTuple):
    """A turn with known parts: as a message, as an answer, and with the parts that its rendering shows."""

    name: str
    answer: ChatAnswer
    message: dict[str, Any]
    parts: tuple[str, ...]


def rendered_id(index: int) -> str:
    """Return the id of a call, of nine letters and digits, as Mistral's are."""
    return f"call{index + 1:05}"


def messages_of(calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    """Return calls in the form of a message."""
    return [
        {"type": "function", "id": rendered_id(index), "function": {"name": call.name, "arguments": call.arguments}}
        for index, call in enumerate(calls)
    ]


def _turn(name: str, answer: ChatAnswer) -> _Turn:
    message: dict[str, Any] = {"content": answer.content or ""}
    if answer.tool_calls:
        message["tool_calls"] = messages_of(answer.tool_calls)
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


def layout_of(tokenizer: Any, layouts: Sequence[_LayoutT], known: Sequence[_LayoutT]) -> _LayoutT:
    """Return the layout that writes turns as a chat template does: text, a thought, one call, two calls, and mixtures.

    A turn that the template refuses, or in which it omits a part, does not count; the turn with one call does. The
    layout must agree with the `known` layouts about reasoning in the prompt.

    Raises:
        UnsupportedLayout: no layout agrees, or the tokenizer has no chat template.
    """
    if not hasattr(tokenizer, "apply_chat_template"):
        raise UnsupportedLayout(f"a {type(tokenizer).__name__} has no chat template; name a layout: Layout.named(...)")
    prompt, turns = rendered_turns(tokenizer)
    called = next(text for turn, text in turns if turn.name == "one call")
    alike = [layout for layout in layouts if called is not None and _writes(layout, _ONE_CALL, called, prompt)]
    if not alike:
        shown = "nothing" if called is None else repr(called[-200:])
        raise UnsupportedLayout(
            f"the chat template rendered {shown} for a tool call, which none of the {len(layouts)} layouts of "
            "Layout.names() writes; describe it with Layout.from_json(data)"
        )
    faults = {layout.name: _first_fault(layout, turns, prompt, known) for layout in alike}
    proven = [layout for layout in alike if faults[layout.name] is None]
    best = max(proven or alike, key=lambda layout: _agreements(layout, turns, prompt))  # the first of equals
    if not proven:
        raise UnsupportedLayout(
            f"the layout {best.name} writes tool calls as the chat template does, but {faults[best.name]}; "
            "describe it with Layout.from_json(data)"
        )
    return best


def rendered_turns(tokenizer: Any) -> tuple[str, list[tuple[_Turn, str | None]]]:
    """Return a prompt, and the turns to compare, each with the template's output."""
    prompt = rendered_turn(tokenizer, None) or ""
    return prompt, [(each, rendered_turn(tokenizer, each.message, each.answer.reasoning)) for each in _TURNS]


def _first_fault(
    layout: _Layout, turns: list[tuple[_Turn, str | None]], prompt: str, known: Iterable[_Layout]
) -> str | None:
    """Say what a layout writes differently from the chat template; return None if there is no difference."""
    for does, what in ((type(layout).opens_reasoning, "opens"), (type(layout).closes_reasoning, "ends")):
        if not does(layout, prompt) and any(does(other, prompt) for other in known):
            return f"the prompt {what} reasoning as it does not: {prompt[-40:]!r}"
    for turn, text in turns:
        if text is None or not _shows(text, turn.parts):
            continue
        if THOUGHT in turn.parts and layout.reasoning is None:
            return f"it has no reasoning, which the template writes for {turn.name}"
        if _has_place(layout, turn.answer, text) and not _writes(layout, turn.answer, text, prompt):
            return f"not {turn.name}: {_difference(layout.render(turn.answer), text)}"
    return None


def _shows(text: str, parts: Iterable[str]) -> bool:
    """Check that a rendered turn has all of its parts, in order."""
    at = text.rfind(QUESTION)
    return all((at := text.find(part, at + 1)) >= 0 for part in parts)


def _difference(written: str, text: str) -> str:
    """Describe where a text begins to differ from what a layout writes."""
    text = tail_of(text)
    if written in text:
        return f"the template writes {text[: text.index(written)][-60:]!r} before {written[:30]!r}"
    length = next(length for length in range(len(written), -1, -1) if written[:length] in text)
    at = text.find(written[:length]) + length if length else 0
    after = f"after {written[:length][-30:]!r} " if length else ""
    return f"{after}it writes {written[length : length + 30]!r}, and the template {text[at : at + 30]!r}"


def _agreements(layout: _Layout, turns: list[tuple[_Turn, str | None]], prompt: str) -> int:
    """Count the turns in which a layout agrees; reasoning in only the layout or only the template counts against it."""
    count = sum(text is not None and _writes(layout, turn.answer, text, prompt) for turn, text in turns)
    shows = any(text is not None and THOUGHT in text for _, text in turns)
    shows = shows or layout.opens_reasoning(prompt) or layout.closes_reasoning(prompt)
    return count - ((layout.reasoning is not None) != shows)


def _has_place(layout: _Layout, answer: ChatAnswer, text: str) -> bool:
    calls = layout.calls
    fits = len(answer.tool_calls) < 2 or bool(calls.parallel)
    if answer.content is None or not answer.tool_calls:
        return fits
    # Some templates show a text before calls as reasoning, although models write it in its own region.
    is_text = calls.preamble is None or calls.preamble.open + answer.content in text
    return fits and bool(calls.after_text) and is_text


def _writes(layout: _Layout, answer: ChatAnswer, text: str, prompt: str) -> bool:
    """Check that a layout writes an answer as this text after a prompt, which may have opened the reasoning."""
    if not _has_place(layout, answer, text):
        return False
    try:
        written = layout.render(answer)
    except UnsupportedLayout:
        return False
    tail = tail_of(text)
    ways = [written]
    if answer.tool_calls and layout.calls.optional_close:
        ways.append(written.removesuffix(layout.calls.close))
    if answer.reasoning is not None and layout.opens_reasoning(prompt):
        ways += [way.removeprefix(layout.reasoning.open) for way in ways]
    header = common_beginning(tail, tail_of(prompt))
    leads = [tail[len(header) : at] for way in ways if (at := tail.find(way)) >= 0]
    return any(lead in ("", layout.missing_blanks(prompt)) or _is_empty_thought(layout, lead) for lead in leads)


def _is_empty_thought(layout: _Layout, lead: str) -> bool:
    region = layout.reasoning
    if region is None:
        return False
    empty = (region.empty, region.open + region.close, region.open.strip() + region.close.strip(), region.close)
    return lead.strip() in {each.strip() for each in empty} - {""}


def tail_of(text: str) -> str:
    """Return the template's output after the question."""
    return text[text.rfind(QUESTION) + len(QUESTION) :]


def common_length(*texts: str) -> int:
    """Count the characters that the texts have in common at their beginning."""
    return next((at for at, each in enumerate(zip(*texts, strict=False)) if len(set(each)) > 1), min(map(len, texts)))


def common_beginning(*texts: str) -> str:
    """Return the common beginning of texts, without an unclosed tag: two different tags may begin alike."""
    common = texts[0][: common_length(*texts)]
    at = common.rfind("<")
    return common[:at] if at > common.rfind(">") else common


def rendered_turn(tokenizer: Any, turn: dict[str, Any] | None, thought: str | None = None) -> str | None:
    """Return a conversation that ends with a turn of these fields, as the template writes it; without a turn, a prompt.

    Templates take arguments as an object or as JSON text, a missing text as "" or as None, and a thought as a field or
    as a part of the text: the first combination that works is used. Return None if the template refuses all of them.
    """
    if turn is None:
        return _applied(tokenizer, [_USER], True)
    needed = "Paris" if "tool_calls" in turn else ""
    texts = (_applied(tokenizer, [_USER, made], False) for made in _variants(turn, thought))
    fitting = [text for text in texts if text is not None and needed in text and not _AS_DATA.search(text)]
    return next((text for text in fitting if (thought or "") in text), fitting[0] if fitting else None)


def _applied(tokenizer: Any, messages: list[dict[str, Any]], prompt: bool) -> str | None:
    try:
        return str(tokenizer.apply_chat_template(messages, tools=_TOOLS, tokenize=False, add_generation_prompt=prompt))
    except Exception:  # noqa: BLE001 - a template is a program of its own, and raises what it likes
        return None


def _variants(turn: dict[str, Any], thought: str | None) -> Iterator[dict[str, Any]]:
    contents: list[Any] = [turn["content"]] if turn["content"] else ["", None]
    if thought is not None:
        text = [{"type": "text", "text": turn["content"]}] if turn["content"] else []
        contents.append([{"type": "thinking", "thinking": thought}, *text])
    for content in contents:
        fields = ("reasoning_content", "reasoning", "thinking") if not isinstance(content, list) else ()
        for written in (lambda arguments: arguments, json.dumps):
            made = copy.deepcopy({"role": "assistant", **turn, "content": content})
            made |= dict.fromkeys(fields, thought) if thought is not None else {}
            for call in made.get("tool_calls", ()):
                call["function"]["arguments"] = written(call["function"]["arguments"])
            yield made


def json_place(text: str, arguments: Mapping[str, Any]) -> tuple[int, int] | None:
    """Find where a text has arguments as JSON."""
    decoder = json.JSONDecoder()
    for opening in re.finditer(r"\{", text):
        with suppress(ValueError):
            value, stop = decoder.raw_decode(text, opening.start())
            if value == arguments:
                return opening.start(), stop
    return None
