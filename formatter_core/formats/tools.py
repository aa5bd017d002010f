"""Read tools: what a model may call, and with which arguments."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from formatter_core.errors import FormatterError, InvalidArgument, InvalidFormat
from formatter_core.errors.arguments import shown
from formatter_core.formats.json_schema import JsonSchemaFormat, json_schema
from formatter_core.formats.notations import NotationFormat, lark
from formatter_core.formats.python_type import PythonTypeFormat, python_type
from formatter_core.formats.regex import RegexFormat
from formatter_core.limits.turns import give_way

__all__ = ["Tool", "as_tools", "chosen_tools"]

#: Letters, digits and the characters that tool servers add; nothing that a layout could take for a marker.
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")

#: The only argument of a tool that takes text, under the name that servers use.
_OF_TEXT = {
    "type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": False,
}  # fmt: skip
#: The place of the arguments' schema: in OpenAI's API, in MCP, and in Anthropic's API.
_SCHEMAS = ("parameters", "inputSchema", "input_schema")


@dataclass(frozen=True)
class Tool:
    """A tool that a model may call.

    Attributes:
        name: the name of the tool.
        arguments: the format of its arguments as one JSON object.
        strict: whether the author of the tool wants its schema enforced; None if that is not given.
        text: the format of the only argument, `input`, of a custom tool with a grammar; None for other tools.
        description: what the tool does, for the model.
    """

    name: str
    arguments: JsonSchemaFormat | PythonTypeFormat
    strict: bool | None = None
    text: NotationFormat | RegexFormat | None = None
    description: str = ""

    @property
    def json(self) -> JsonSchemaFormat:
        """Return the format of the arguments as JSON, without their Python type."""
        return self.arguments if isinstance(self.arguments, JsonSchemaFormat) else self.arguments.schema

    @property
    def schema(self) -> dict[str, Any]:
        """Return the schema of the arguments."""
        return self.json.schema if isinstance(self.json.schema, dict) else {}

    def key(self) -> Hashable:
        text = None if self.text is None else self.text.key()
        return self.name, self.arguments.key(), self.strict, text, self.description

    def to_prompt(self) -> dict[str, Any]:
        """Return the tool for chat templates: always as a function; some templates need its description."""
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}

    def to_json(self) -> dict[str, Any]:
        """Return the tool in the form of OpenAI's APIs."""
        told = {"name": self.name, **({"description": self.description} if self.description else {})}
        if self.text is not None:
            is_regex = isinstance(self.text, RegexFormat)
            definition = self.text.pattern if isinstance(self.text, RegexFormat) else self.text.text
            grammar = {"type": "grammar", "syntax": "regex" if is_regex else "lark", "definition": definition}
            return {"type": "custom", **told, "format": grammar}
        strict = {} if self.strict is None else {"strict": self.strict}
        return {"type": "function", "function": {**told, "parameters": self.schema, **strict}}


def as_tools(tools: Iterable[Any], options: Mapping[str, Any]) -> tuple[Tool, ...]:
    """Read tools in the form of an API (OpenAI's two forms, MCP's, Anthropic's), or callables and types.

    Args:
        tools: the tools.
        options: the options of `json_schema` for the arguments.

    Raises:
        InvalidFormat: an item is none of these, or has a name that no layout can write or that another tool has.
    """
    given = None
    with suppress(TypeError):
        given = None if isinstance(tools, (str, Mapping)) else iter(tools)
    if given is None:
        raise InvalidFormat(f"tools is {shown(tools)}; give a list of tools")
    made = tuple(_as_tool(tool, index, options) for index, tool in enumerate(given))
    for name, count in Counter(tool.name for tool in made).items():
        if count > 1:
            raise InvalidFormat(f"{count} tools are named {name!r}; give each its own name")
    return made


def chosen_tools(choice: Mapping[str, Any], tools: tuple[Tool, ...]) -> tuple[str, tuple[Tool, ...]]:
    """Return what an object in `tool_choice` means: the choice in one word, and the tools that may be called.

    OpenAI's API has `{"type": "function", "function": {"name": …}}` or `{"type": "function", "name": …}`, and
    `allowed_tools` with a mode; Anthropic's has "auto", "any", "none" and `{"type": "tool", "name": …}`.

    Raises:
        InvalidArgument: the object is none of these, or names an unknown tool.
    """
    kind = choice.get("type")
    known = {tool.name: tool for tool in tools}
    if kind in ("auto", "any", "none"):
        return "required" if kind == "any" else str(kind), tools
    if kind in ("function", "tool", "custom"):
        return _name_in(choice, known), tools
    allowed = choice.get("allowed_tools", choice)
    if kind == "allowed_tools" and isinstance(allowed, Mapping) and isinstance(allowed.get("tools"), list):
        mode = allowed.get("mode", "auto")
        if mode in ("auto", "required"):
            return mode, tuple(known[_name_in(each, known)] for each in allowed["tools"])
    raise InvalidArgument(
        f'tool_choice is {shown(choice)}; give "auto", "required", "none", the name of a tool, '
        '{"type": "function", "function": {"name": ...}} or {"type": "allowed_tools", "allowed_tools": {"mode": ..., '
        '"tools": [...]}}',
        argument="tool_choice",
    )


def _name_in(choice: Any, known: Mapping[str, Tool]) -> str:
    function = choice.get("function", choice.get("custom", choice)) if isinstance(choice, Mapping) else choice
    name = function.get("name") if isinstance(function, Mapping) else function
    if not isinstance(name, str) or name not in known:
        names = ", ".join(map(repr, list(known)[:10]))
        raise InvalidArgument(f"tool_choice names the tool {shown(name)}; give one of {names}", argument="tool_choice")
    return name


def _as_tool(tool: Any, index: int, options: Mapping[str, Any]) -> Tool:
    give_way()
    if isinstance(tool, Tool):
        return tool
    if not isinstance(tool, Mapping):
        name = getattr(tool, "__name__", None)
        _check_name(name, index)
        return Tool(str(name), _of_tool(str(name), python_type, tool, options), description=_documentation(tool))
    function = next((tool[key] for key in ("function", "custom") if isinstance(tool.get(key), Mapping)), tool)
    written = [key for key in _SCHEMAS if key in function]
    kind = tool.get("type", "function" if written and function is tool else None)
    if kind not in ("function", "custom") or (function is tool and "name" not in tool):
        raise InvalidFormat(
            f"tool {index} is {shown(tool)}; write it as "
            '{"type": "function", "function": {"name": ..., "parameters": {...}}}'
        )
    name = function.get("name")
    _check_name(name, index)
    description = function.get("description")
    if not isinstance(description, str | None):
        raise InvalidFormat(f"the description of the tool {name!r} is {shown(description)}; give text")
    description = description or ""
    if kind == "custom" and not written:  # Anthropic's API calls tools with a schema "custom", too
        text = _grammar_of(str(name), function.get("format"))
        return Tool(str(name), json_schema(_OF_TEXT, **options), True, text, description)
    parameters = function[written[0]] if written else None
    schema = parameters or {"type": "object"}
    if not isinstance(schema, Mapping):
        raise InvalidFormat(f"the parameters of the tool {name!r} are {shown(parameters)}; give a JSON Schema")
    if "type" not in schema:
        schema = {"type": "object", **schema}
    strict = function.get("strict", tool.get("strict"))
    if not isinstance(strict, bool | None):
        raise InvalidFormat(f"`strict` of the tool {name!r} is {shown(strict)}; give true or false")
    return Tool(str(name), _of_tool(str(name), json_schema, dict(schema), options), strict, None, description)


def _documentation(tool: Any) -> str:
    """Return the docstring of a callable or a type, unless a dataclass made it."""
    text = inspect.getdoc(tool) if vars(tool).get("__doc__") or not isinstance(tool, type) else None
    return "" if text is None or text.startswith(f"{tool.__name__}(") else text


def _grammar_of(name: str, given: Any) -> NotationFormat | RegexFormat | None:
    """Return the grammar of a custom tool's text, in the form of OpenAI's Responses API or chat API."""
    if given is None or given == {"type": "text"}:
        return None
    grammar = given.get("grammar", given) if isinstance(given, Mapping) and given.get("type") == "grammar" else {}
    syntax, definition = (
        (grammar.get(key) for key in ("syntax", "definition")) if isinstance(grammar, Mapping) else "  "
    )
    if isinstance(definition, str) and syntax in ("lark", "regex"):
        return lark(definition) if syntax == "lark" else RegexFormat(definition)
    raise InvalidFormat(
        f"the format of the tool {name!r} is {shown(given)}; give "
        '{"type": "grammar", "syntax": "lark" or "regex", "definition": ...} or {"type": "text"}'
    )


def _of_tool(name: str, make: Any, argument: Any, options: Mapping[str, Any]) -> Any:
    try:
        return make(argument, **options)
    except FormatterError as error:
        raise InvalidFormat(f"the tool {name!r} cannot be used: {error}") from None


def _check_name(name: Any, index: int) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidFormat(
            f"tool {index} is named {shown(name)}; a name has 1 to 128 of the characters A-Z a-z 0-9 _ . / -"
        )
