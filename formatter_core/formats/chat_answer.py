"""Define the format of a chat model's turn: reasoning, final text and tool calls, as a layout writes them."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from formatter_core.errors import InvalidArgument, MalformedAnswer, UnsupportedLayout
from formatter_core.errors.arguments import one_of, shown, whole_number
from formatter_core.formats.chat_grammar import (
    ChatTurn,
    NotStrict,
    OnUnsupportedTool,
    Reasoning,
    ToolCoverage,
    lowered_turn,
    tool_coverage,
)
from formatter_core.formats.coercion import as_format
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.formats.tools import as_tools, chosen_tools
from formatter_core.layouts import ChatAnswer, Layout, ToolCall
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.schema import KeyOrder, Spelling, StringFormats

__all__ = ["ChatAnswerFormat", "Reasoning", "ToolCoverage", "chat_answer"]

_CHOICES = ("auto", "required", "none")


@dataclass(frozen=True)
class ChatAnswerFormat(ChatTurn, Alternatives):
    """A turn of a chat model; its value is a `ChatAnswer`. `chat_answer` makes one."""

    def to_grammar(self, limits: Limits) -> Lowered:
        return lowered_turn(self, limits)

    def tool_coverage(self, limits: Limits = DEFAULT_LIMITS) -> tuple[ToolCoverage, ...]:
        """Return for each tool whether it is "enforced", "loose" or "dropped", and why.

        Raises:
            InvalidFormat: a tool is not supported, and `on_unsupported_tool` is "error".
        """
        return tool_coverage(self, limits)

    def after(self, prompt: str) -> ChatAnswerFormat:
        """Return the format for the rest of the same turn after a prompt, which may have opened or ended the reasoning.

        Raises:
            InvalidArgument: the prompt opens the reasoning, but `reasoning` is "off".
        """
        if self.reasoning_is_open:
            return self
        if self.layout.opens_reasoning(prompt):
            _check_open(self.reasoning)
            return replace(self, reasoning_is_open=True)
        reasoning: Reasoning = "off" if self.layout.closes_reasoning(prompt) else self.reasoning
        lead = self.layout.missing_blanks(prompt)
        is_same = (reasoning, lead) == (self.reasoning, self.lead)
        return self if is_same else replace(self, reasoning=reasoning, lead=lead)

    def rejoined(self, reasoning: str | None, content: str | None, calls: Iterable[tuple[str, str]] = ()) -> str:
        """Write a turn that a server has split into parts in the layout again, so that this format can parse it.

        Args:
            reasoning: the text of the reasoning.
            content: the final text.
            calls: the name and the arguments (as JSON text) of each call.

        Raises:
            MalformedAnswer: the arguments of a call are not JSON.
            UnsupportedLayout: the layout has no place for one of these parts.
        """
        made = tuple(self._call(name, arguments) for name, arguments in calls)
        own = reasoning if self.layout.reasoning is not None else None
        return self.layout.render(ChatAnswer(own or None, content or None, made))

    def _call(self, name: str, arguments: str) -> ToolCall:
        try:
            given = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise MalformedAnswer(f"the arguments of a call of {name!r} are not JSON", text=arguments) from error
        if not isinstance(given, dict):
            raise MalformedAnswer(f"the arguments of a call of {name!r} are not a JSON object", text=arguments)
        properties: Iterable[str] = next((t.schema.get("properties", {}) for t in self.tools if t.name == name), {})
        # The order of keys has no meaning in JSON, but a format has a fixed order.
        order = [key for key in properties if key in given]
        return ToolCall(name, {key: given[key] for key in [*order, *(key for key in given if key not in order)]})

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "chat_answer",
            "layout": self.layout.to_json(),
            "tools": [tool.to_json() for tool in self.tools],
            "tool_choice": self.tool_choice,
            "parallel": self.parallel,
            "reasoning": self.reasoning,
            "reasoning_is_open": self.reasoning_is_open,
            "content": None if self.content is None else self.content.to_json(),
            "max_reasoning_tokens": self.max_reasoning_tokens,
            "spelling": self.spelling,
            "key_order": self.key_order,
            "string_formats": self.string_formats,
            "on_unsupported_tool": self.on_unsupported_tool,
            "not_strict": self.not_strict,
            "lead": self.lead,
        }

    def key(self) -> Hashable:
        return (
            "chat_answer",
            self.layout,
            tuple(tool.key() for tool in self.tools),
            self.tool_choice,
            self.parallel,
            self.reasoning,
            self.reasoning_is_open,
            None if self.content is None else self.content.key(),
            self.max_reasoning_tokens,
            self.spelling,
            self.on_unsupported_tool,
            self.not_strict,
            self.lead,
        )


def chat_answer(
    layout: Layout | str,
    *,
    tools: Iterable[Any] = (),
    tool_choice: str | Mapping[str, Any] = "auto",
    parallel: bool = True,
    reasoning: Reasoning = "auto",
    reasoning_is_open: bool = False,
    content: Any = None,
    max_reasoning_tokens: int | None = None,
    spelling: Spelling = "canonical",
    key_order: KeyOrder = "schema",
    string_formats: StringFormats = "enforce",
    on_unsupported_tool: OnUnsupportedTool = "error",
    not_strict: NotStrict = "enforce",
) -> ChatAnswerFormat:
    """Return the format of a chat model's turn: reasoning, then text or tool calls, as `layout` writes them.

    Args:
        layout: a `Layout`, or the name of a built-in one.
        tools: the tools that the model may call, as in OpenAI's chat or Responses API, in MCP or in Anthropic's API; or
            callables and types, whose arguments are then typed. A custom tool takes one text, its argument `input`,
            which a Lark grammar or a regex may describe.
        tool_choice: "auto" (text, or calls, or text and then calls), "required" (only calls), "none" (only text), or
            the name of the only tool that may be called. It may also be an object from these APIs, such as OpenAI's
            `allowed_tools`.
        parallel: whether one turn may have several calls.
        reasoning: "auto" (the model may reason first), "required" or "off".
        reasoning_is_open: whether the prompt has already opened the reasoning; `Layout.opens_reasoning` tells.
        content: the format of the final text; None allows any text in which no marker of the layout occurs.
        max_reasoning_tokens: the maximum number of tokens of the reasoning and its closing literal; `formats.within`
            says which tokens count.
        spelling, key_order, string_formats: apply to the tools' arguments; see `json_schema`. If a layout writes each
            argument separately, the arguments may come in any order.
        on_unsupported_tool: what to do with a tool whose schema cannot be enforced: "error", "loose" (allow any
            arguments) or "drop" (forbid calling it). `tool_coverage()` and `ToolCall.is_enforced` report it.
        not_strict: whether tools without `"strict": true` are enforced ("enforce") or may have any arguments ("loose").

    Raises:
        UnsupportedLayout: the layout is unknown, or has no place for tools or for reasoning.
        InvalidFormat: a tool is invalid; the message names it.
        InvalidArgument: another argument is invalid.
    """
    chosen = layout if isinstance(layout, Layout) else Layout.named(layout)
    one_of(spelling, "spelling", get_args(Spelling))
    one_of(key_order, "key_order", get_args(KeyOrder))
    one_of(string_formats, "string_formats", get_args(StringFormats))
    one_of(on_unsupported_tool, "on_unsupported_tool", get_args(OnUnsupportedTool))
    one_of(not_strict, "not_strict", get_args(NotStrict))
    made = as_tools(tools, {"spelling": spelling, "key_order": key_order, "string_formats": string_formats})
    if isinstance(tool_choice, Mapping):
        tool_choice, made = chosen_tools(tool_choice, made)
    names = [tool.name for tool in made]
    if not isinstance(tool_choice, str) or tool_choice not in (*_CHOICES, *names):
        known = ", ".join(map(repr, (*_CHOICES, *names[:10])))
        raise InvalidArgument(f"tool_choice is {shown(tool_choice)}; give one of {known}", argument="tool_choice")
    if tool_choice == "required" and not made:
        raise InvalidArgument('tool_choice is "required", but there are no tools; give tools', argument="tools")
    if made and chosen.calls is None and tool_choice != "none":
        raise UnsupportedLayout(f"the layout {chosen.name} has no place for tool calls; leave `tools` out")
    one_of(reasoning, "reasoning", get_args(Reasoning))
    if chosen.reasoning is None and (reasoning == "required" or reasoning_is_open):
        raise UnsupportedLayout(f"the layout {chosen.name} has no reasoning; leave `reasoning` out")
    if reasoning_is_open:
        _check_open(reasoning)
    if max_reasoning_tokens is not None:
        max_reasoning_tokens = whole_number(max_reasoning_tokens, "max_reasoning_tokens", 1)
    final = None if content is None else as_format(content)
    return ChatAnswerFormat(
        chosen,
        made,
        tool_choice,
        bool(parallel),
        reasoning,
        bool(reasoning_is_open),
        final,
        max_reasoning_tokens,
        spelling,
        key_order,
        string_formats,
        on_unsupported_tool,
        not_strict,
    )


def _check_open(reasoning: Reasoning) -> None:
    if reasoning == "off":
        raise InvalidArgument('the prompt has opened the reasoning, so it cannot be "off"', argument="reasoning")
