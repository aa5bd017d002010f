"""Chat answers at a chat endpoint: the server takes them apart, so they are put together again to be checked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from formatter_core import ChatAnswer, ToolCall
from formatter_core.errors import MalformedAnswer
from formatter_core.formats.chat_answer import ChatAnswerFormat
from formatter_openai.wire import Choice

__all__ = ["AnswerParts", "tool_arguments"]


def tool_arguments(format: ChatAnswerFormat) -> dict[str, Any]:
    """The arguments of a request that say which tools there are, and which of them may be called."""
    if not format.tools or format.tool_choice == "none":
        return {}
    named = format.tool_choice not in ("auto", "required")
    choice: Any = {"type": "function", "function": {"name": format.tool_choice}} if named else format.tool_choice
    arguments = {"tools": format.to_json()["tools"], "tool_choice": choice}
    return arguments if format.parallel else {**arguments, "parallel_tool_calls": False}


class AnswerParts:
    """Reasoning, text and tool calls of one output, while they arrive."""

    def __init__(self, format: ChatAnswerFormat) -> None:
        self._format = format
        self._reasoning = self._content = ""
        self._calls: dict[int, list[str]] = {}

    def add(self, choice: Choice) -> None:
        """Add what a choice of an answer, or a chunk of a stream, has of them."""
        self._reasoning += choice.reasoning
        self._content += choice.text
        for part in choice.calls:
            name_and_arguments = self._calls.setdefault(part.call, ["", ""])
            name_and_arguments[0] += part.name
            name_and_arguments[1] += part.arguments

    def text(self) -> str:
        """The turn as the format's layout writes it.

        Raises:
            MalformedAnswer: the arguments of a call are not JSON.
            UnsupportedLayout: the layout has no place for what the server sent.
        """
        layout = self._format.layout
        calls = tuple(self._call(*self._calls[index]) for index in sorted(self._calls))
        reasoning = self._reasoning if layout.reasoning is not None else ""
        return layout.render(ChatAnswer(reasoning or None, self._content or None, calls))

    def _call(self, name: str, arguments: str) -> ToolCall:
        try:
            given = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise MalformedAnswer(f"the arguments of a call of {name!r} are not JSON", text=arguments) from error
        if not isinstance(given, dict):
            raise MalformedAnswer(f"the arguments of a call of {name!r} are not a JSON object", text=arguments)
        properties: Iterable[str] = next(
            (tool.schema.get("properties", {}) for tool in self._format.tools if tool.name == name), {}
        )
        # The order of keys means nothing in JSON, and a format has one.
        order = [key for key in properties if key in given]
        return ToolCall(name, {key: given[key] for key in [*order, *(key for key in given if key not in order)]})
