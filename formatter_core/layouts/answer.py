"""What a chat model answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["ChatAnswer", "ToolCall"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool.

    Attributes:
        name: the tool's name.
        arguments: as the tool's schema or type makes them.
        json: the arguments as JSON text, as they were written where the layout writes JSON.
        is_enforced: whether the tool's schema was enforced; not for a tool that is called loosely.
    """

    name: str
    arguments: Any
    json: str = field(default="", compare=False, repr=False)
    is_enforced: bool = field(default=True, compare=False, repr=False)


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
