"""Reports on the part of a format that a server enforces, and the part that only the check of its answers covers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Enforcement", "report_of"]

#: The party that enforces the sent format, by kind of server.
_WHO = {
    "openai": "the service",
    "vllm": "vLLM's structured outputs",
    "formatter_vllm": "formatter-core, in vLLM",
    "llama_cpp": "llama.cpp, in llama-cpp-python's server",
    "llama_server": "llama.cpp, in llama-server",
    "ollama": "llama.cpp, in Ollama",
    "lmstudio": "LM Studio (llama.cpp for GGUF models, Outlines for MLX)",
}
#: Servers whose schemas go through llama.cpp's converter (common/json-schema.cpp).
_CONVERTERS = ("llama_cpp", "llama_server", "ollama", "lmstudio")
#: Keywords that do not constrain a value, or that contain other schemas.
_SILENT = {
    "$schema", "$id", "$defs", "definitions", "$comment", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly", "type",
}  # fmt: skip
#: The further keywords that the converter reads, by type.
_READ = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "string": {"pattern", "minLength", "maxLength", "format"},
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
}
_READ_FORMATS = {"date", "time", "date-time", "uuid"}


@dataclass(frozen=True)
class Enforcement:
    """A report on how a format is enforced. Every answer is also checked against the whole format.

    Attributes:
        by: the party that enforces it.
        sent: the part that the server is sent: `"format"` (all of it), `"grammar"`, `"json_schema"`, `"regex"`,
            `"choice"`, `"tools"`, or `"nothing"`.
        is_exact: whether the server allows only texts of the format; None if that depends on the server.
        unenforced: the keywords of the schema that the server does not read, as JSON pointers.
    """

    by: str
    sent: str
    is_exact: bool | None
    unenforced: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.sent == "nothing":
            return "the server enforces nothing; formatter-core checks the answer"
        by = f"{self.by} enforces the {self.sent.replace('json_schema', 'JSON Schema')}"
        if self.unenforced:
            by += f" without {', '.join(self.unenforced)}"
        return f"{by}; formatter-core checks the answer"


def report_of(arguments: Mapping[str, Any], server: str) -> Enforcement:
    """Report what the arguments of a request make a server enforce.

    Args:
        arguments: as `enforcing` makes them.
        server: its kind.
    """
    who = _WHO[server]
    body = arguments.get("extra_body", {})
    if "vllm_xargs" in body:
        return Enforcement(who, "format", True)
    if "grammar" in body:
        return Enforcement(who, "grammar", True)
    if "structured_outputs" in body:
        (kind,) = body["structured_outputs"]
        return Enforcement(who, "json_schema" if kind == "json" else kind, None)
    wanted = arguments.get("response_format") or {}
    schema = wanted.get("json_schema", wanted).get("schema", body.get("json_schema"))
    if schema is not None:
        unread = tuple(_unread(schema, "#")) if server in _CONVERTERS else ()
        return Enforcement(who, "json_schema", False if unread else None, unread)
    if "tools" in arguments:
        return Enforcement(who, "tools", None)
    return Enforcement(who, "nothing", False)


def _unread(schema: Any, at: str) -> Iterator[str]:
    """Return the keywords that llama.cpp's converter does not read, as JSON pointers."""
    if not isinstance(schema, Mapping):
        return
    for group in ("$defs", "definitions"):
        for name, inner in (schema.get(group) or {}).items():
            yield from _unread(inner, f"{at}/{group}/{_escaped(name)}")
    read = set(_SILENT)
    alone = next((key for key in ("$ref", "oneOf", "anyOf", "const", "enum") if key in schema), None)
    if alone is not None:  # it reads no keyword beside these
        read |= {alone}
        if isinstance(schema[alone], list) and alone.endswith("Of"):
            for place, inner in enumerate(schema[alone]):
                yield from _unread(inner, f"{at}/{alone}/{place}")
    else:
        kinds = schema.get("type", [])
        for kind in [kinds] if isinstance(kinds, str) else kinds or _READ:
            read |= _READ.get(kind, set())
        read -= _unread_beside(schema)
        yield from _inner(schema, at)
    yield from (f"{at}/{_escaped(key)}" for key in schema if key not in read)


def _unread_beside(schema: Mapping[str, Any]) -> set[str]:
    """Yield the keywords of a type that are not read because of other keywords, or of their value."""
    unread: set[str] = set()
    pattern = schema.get("pattern")
    if pattern is not None:
        unread |= {"minLength", "maxLength", "format"}
        unread |= {"pattern"} if "(?" in str(pattern) else set()
    if schema.get("format") is not None:
        unread |= {"minLength", "maxLength"} if schema["format"] in _READ_FORMATS else {"format"}
    if "prefixItems" in schema:
        unread |= {"items", "minItems", "maxItems"}
    return unread


def _inner(schema: Mapping[str, Any], at: str) -> Iterator[str]:
    for name, inner in (schema.get("properties") or {}).items():
        yield from _unread(inner, f"{at}/properties/{_escaped(name)}")
    for key in ("items", "additionalProperties"):
        yield from _unread(schema.get(key), f"{at}/{key}")
    for place, inner in enumerate(schema.get("prefixItems") or ()):
        yield from _unread(inner, f"{at}/prefixItems/{place}")


def _escaped(key: str) -> str:
    return json.dumps(key)[1:-1].replace("~", "~0").replace("/", "~1")
