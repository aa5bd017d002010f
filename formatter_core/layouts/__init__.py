"""How chat models write reasoning, text and tool calls: layouts, which are data, and what reads and writes by them."""

from formatter_core.layouts.answer import ChatAnswer, ToolCall
from formatter_core.layouts.layout import Layout

__all__ = ["ChatAnswer", "Layout", "ToolCall"]
