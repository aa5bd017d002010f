"""Tools: what a model may call, and with which arguments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from formatter_core.errors import FormatterError, InvalidFormat
from formatter_core.errors.arguments import shown
from formatter_core.formats.json_schema import JsonSchemaFormat, json_schema
from formatter_core.formats.python_type import PythonTypeFormat, python_type
from formatter_core.schema import Spelling

__all__ = ["Tool", "as_tools"]

#: Letters, digits and what servers of tools add; nothing that a layout could take for a marker.
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


@dataclass(frozen=True)
class Tool:
    """A tool's name, and the format of its arguments as one JSON object."""

    name: str
    arguments: JsonSchemaFormat | PythonTypeFormat

    @property
    def json(self) -> JsonSchemaFormat:
        """The format of the arguments as JSON, without the type that they may have."""
        return self.arguments if isinstance(self.arguments, JsonSchemaFormat) else self.arguments.schema

    @property
    def schema(self) -> dict[str, Any]:
        """The schema of the arguments."""
        return self.json.schema if isinstance(self.json.schema, dict) else {}


def as_tools(tools: Iterable[Any], spelling: Spelling = "canonical") -> tuple[Tool, ...]:
    """Tools as OpenAI's API has them, or callables and types, whose arguments have this spelling.

    Raises:
        InvalidFormat: one is neither, has a name that no layout can write, or the name of another one.
    """
    given = None
    with suppress(TypeError):
        given = None if isinstance(tools, (str, Mapping)) else iter(tools)
    if given is None:
        raise InvalidFormat(f"tools is {shown(tools)}; give a list of tools")
    made = tuple(_as_tool(tool, index, spelling) for index, tool in enumerate(given))
    for name, count in Counter(tool.name for tool in made).items():
        if count > 1:
            raise InvalidFormat(f"{count} tools are named {name!r}; give each its own name")
    return made


def _as_tool(tool: Any, index: int, spelling: Spelling) -> Tool:
    if isinstance(tool, Tool):
        return tool
    if isinstance(tool, Mapping):
        function = tool.get("function")
        if tool.get("type") != "function" or not isinstance(function, Mapping):
            raise InvalidFormat(
                f"tool {index} is {shown(tool)}; write it as "
                '{"type": "function", "function": {"name": ..., "parameters": {...}}}'
            )
        name, parameters = function.get("name"), function.get("parameters")
        _check_name(name, index)
        schema = parameters or {"type": "object"}
        if not isinstance(schema, Mapping):
            raise InvalidFormat(f"the parameters of the tool {name!r} are {shown(parameters)}; give a JSON Schema")
        if "type" not in schema:
            schema = {"type": "object", **schema}
        return Tool(str(name), _of_tool(str(name), json_schema, dict(schema), spelling))
    name = getattr(tool, "__name__", None)
    _check_name(name, index)
    return Tool(str(name), _of_tool(str(name), python_type, tool, spelling))


def _of_tool(name: str, make: Any, argument: Any, spelling: Spelling) -> Any:
    try:
        return make(argument, spelling=spelling)
    except FormatterError as error:
        raise InvalidFormat(f"the tool {name!r} cannot be used: {error}") from None


def _check_name(name: Any, index: int) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidFormat(
            f"tool {index} is named {shown(name)}; a name has 1 to 128 of the characters A-Z a-z 0-9 _ . / -"
        )
