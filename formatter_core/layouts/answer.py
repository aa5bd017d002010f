"""What a chat model answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ChatAnswer", "ToolCall"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool: its name, and the arguments as the tool's schema or type makes them."""

    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A turn of a chat model.

    Attributes:
        reasoning: what stands in the reasoning region; None where there is none.
        content: the final text, or the value of the format that was asked for; None where there is none.
        tool_calls: the calls, in order.
    """

    reasoning: str | None = None
    content: Any = None
    tool_calls: tuple[ToolCall, ...] = ()
