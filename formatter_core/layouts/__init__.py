"""Read and write reasoning, text and tool calls as chat models do, by layouts, which are data."""

from formatter_core.layouts.answer import ChatAnswer, ToolCall
from formatter_core.layouts.layout import Layout

__all__ = ["ChatAnswer", "Layout", "ToolCall"]
