"""Show a chat answer while it is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from formatter_core.formats.protocol import Converter, Lowered
from formatter_core.formats.unfinished import ChosenPart, NamedParts, TextSoFar, WhenComplete
from formatter_core.grammar import EMPTY, Grammar
from formatter_core.layouts import ChatAnswer, ToolCall
from formatter_core.parsing.captures import Match

__all__ = ["call_so_far", "turn_so_far", "written_call"]

_NAMES = {"tool_call": "tool_calls"}
_CALL_NAMES = {"tool_name": "name", "tool_arguments": "arguments"}


def turn_so_far(content: Lowered | None, calls: Mapping[str, Lowered], call: Converter, repeats: bool) -> NamedParts:
    """Return how to show a turn: as a `ChatAnswer` of the text so far; as JSON data, a dict with its fields' names.

    Args:
        content: the format of the final text; None for free text.
        calls: for each kind of call, the result of `call_so_far` or `written_call`.
        call: converts a complete call.
        repeats: whether there may be several thoughts.
    """
    made = {
        "reasoning": _text(),
        "content": _text() if content is None else content,
        "tool_call": Lowered(_NOTHING, value=call, unfinished=ChosenPart(calls)),
    }
    several = frozenset({"tool_call", "reasoning"} if repeats else {"tool_call"})
    return NamedParts(made, several, _NAMES, _answer)


def call_so_far(arguments: Lowered) -> Lowered:
    """Show a call whose arguments are one JSON value: its name, and the arguments so far."""
    name = Lowered(_NOTHING, unfinished=WhenComplete())  # part of a name may be another tool's name
    parts = {"tool_name": name, "tool_arguments": arguments}
    return Lowered(_NOTHING, unfinished=NamedParts(parts, frozenset(), _CALL_NAMES))


def written_call(call: Converter) -> Lowered:
    """Show a call whose arguments are written one by one, once it is complete."""

    def value(match: Match) -> dict[str, Any]:
        found = call(match)
        return {"name": found.name, "arguments": found.arguments}

    return Lowered(_NOTHING, value=value, unfinished=WhenComplete())


#: A dummy grammar: the real one is that of the format around these parts.
_NOTHING = Grammar({"part": EMPTY}, "part")


def _text() -> Lowered:
    return Lowered(_NOTHING, unfinished=TextSoFar())


def _answer(found: Mapping[str, Any]) -> ChatAnswer:
    thoughts = found.get("reasoning", ())
    reasoning = thoughts if isinstance(thoughts, str) else "\n".join(filter(None, thoughts))
    content = found.get("content")
    return ChatAnswer(reasoning or None, None if content == "" else content, tuple(_calls(found.get("tool_calls", ()))))


def _calls(found: Iterable[Any]) -> Iterable[ToolCall]:
    for call in found:
        if isinstance(call, ToolCall):
            yield call
        elif "name" in call:
            yield ToolCall(call["name"], call.get("arguments", {}))
