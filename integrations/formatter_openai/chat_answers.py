"""Chat answers at a chat endpoint: the server takes them apart, so they are put together again to be checked."""

from __future__ import annotations

from typing import Any

from formatter_core.formats.chat_answer import ChatAnswerFormat
from formatter_openai.wire import Choice

__all__ = ["AnswerParts", "tool_arguments"]


def tool_arguments(format: ChatAnswerFormat) -> dict[str, Any]:
    """Return the request arguments for the tools, and for which of them may be called."""
    if not format.tools or format.tool_choice == "none":
        return {}
    named = format.tool_choice not in ("auto", "required")
    choice: Any = {"type": "function", "function": {"name": format.tool_choice}} if named else format.tool_choice
    # Servers of this endpoint show a custom tool as a function with one text; its grammar is checked here.
    tools = [tool.to_json() if tool.text is None else tool.to_prompt() for tool in format.tools]
    arguments = {"tools": tools, "tool_choice": choice}
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
        """Write the turn in the format's layout.

        Raises:
            MalformedAnswer: the arguments of a call are not JSON.
            UnsupportedLayout: the layout has no place for what the server sent.
        """
        calls = ((name, arguments) for _, (name, arguments) in sorted(self._calls.items()))
        return self._format.rejoined(self._reasoning, self._content, calls)
