"""Define the answer of a chat model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["ChatAnswer", "ToolCall"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool.

    Attributes:
        name: the tool's name.
        arguments: the arguments, converted by the tool's schema or type.
        json: the arguments as JSON text; exactly as written, if the layout writes JSON.
        is_enforced: whether the tool's schema was enforced; false for a tool with loose arguments.
    """

    name: str
    arguments: Any
    json: str = field(default="", compare=False, repr=False)
    is_enforced: bool = field(default=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A turn of a chat model.

    Attributes:
        reasoning: the text of the reasoning region; None if there is none.
        content: the final text, or the value of the requested format; None if there is none.
        tool_calls: the calls, in order.
    """

    reasoning: str | None = None
    content: Any = None
    tool_calls: tuple[ToolCall, ...] = ()
