"""Arguments of a call, each written by a template of its own: text as it is, anything else as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from formatter_core.errors import UnsupportedSchema
from formatter_core.formats.json_schema import JsonSchemaFormat, json_schema
from formatter_core.grammar import Choice, Complement, Intersection, Node, literal
from formatter_core.schema import Spelling
from formatter_core.schema.plain_strings import plain_strings

__all__ = ["Parameter", "alternatives_of", "parameters_of", "properties_of", "split", "with_definitions"]

#: Those that are enforced, those that the others refer to, and annotations.
_OBJECT_KEYWORDS = frozenset(
    ("type", "properties", "required", "additionalProperties", "$defs", "definitions", "title", "description",
     "$schema", "$id", "$comment", "examples", "default", "strict")
)  # fmt: skip
_MOST_REFERENCES = 50
#: What text is not asked about.
_NOT_OF_TEXT = frozenset(
    ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minimum", "maximum",
     "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "properties", "required", "additionalProperties")
)  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One argument.

    Attributes:
        key: its name.
        required: whether it must be given.
        text: the regular language of its texts; None where it takes no text.
        other: its values that are not text, as JSON; None where there are none.
    """

    key: str
    required: bool
    text: Node | None
    other: JsonSchemaFormat | None


def parameters_of(schema: Mapping[str, Any], spelling: Spelling) -> tuple[Parameter, ...]:
    """The arguments of an object's schema, in its order. Only those that it names can be written.

    `spelling` is that of values that are not text.

    Raises:
        UnsupportedSchema: a keyword of the object, or a value that may be text or something else, that such a notation
            cannot tell apart.
    """
    return tuple(
        _parameter(schema, key, value, required, spelling) for key, value, required in properties_of(schema, "")
    )


def properties_of(schema: Mapping[str, Any], pointer: str) -> list[tuple[str, Any, bool]]:
    """The named properties of an object's schema, each with its schema and whether it is required.

    Raises:
        UnsupportedSchema: the object has another keyword.
    """
    for keyword in schema:
        if keyword not in _OBJECT_KEYWORDS:
            reason = "only `properties` and `required` are enforced where each argument is written separately"
            raise UnsupportedSchema(pointer=f"{pointer}/{keyword}", keyword=keyword, reason=reason)
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = schema.get("required", [])
    for key in required:
        if key not in properties:
            reason = f"the required argument {key!r} is not in `properties`"
            raise UnsupportedSchema(pointer=f"{pointer}/required", keyword="required", reason=reason)
    return [(key, value, key in required) for key, value in properties.items()]


def with_definitions(root: Mapping[str, Any], schema: Any) -> Any:
    """A part of a schema with what its references lead to."""
    definitions = {name: root[name] for name in ("$defs", "definitions") if name in root}
    return {**schema, **definitions} if isinstance(schema, Mapping) else schema


def _parameter(root: Mapping[str, Any], key: str, schema: Any, required: bool, spelling: Spelling) -> Parameter:
    pointer = f"/properties/{key}"
    texts: list[dict[str, Any]] = []
    others: list[Any] = []
    for alternative in alternatives_of(root, schema, pointer):
        for kind, part in split(alternative):
            (texts if kind == "text" else others).append(part)
    if len(texts) > 1 or (texts and any(part != {"type": "null"} for part in others)):
        raise UnsupportedSchema(
            pointer=pointer,
            keyword="type",
            reason="its value may be text or something else, and this layout writes both alike; give it one type",
        )
    text = plain_strings(texts[0], pointer) if texts else None
    if text is not None and others:
        text = Intersection((text, Complement(Choice((literal("null"), literal("None"))))))
    other = None
    if others:
        whole = with_definitions(root, others[0] if len(others) == 1 else {"anyOf": others})
        other = json_schema(whole, spelling=spelling)
    return Parameter(key, required, text, other)


def alternatives_of(root: Mapping[str, Any], schema: Any, pointer: str) -> list[Any]:
    """The schema itself, or what its references and unions stand for, as far as a type may be text."""
    found: list[Any] = []
    stack = [schema]
    steps = 0
    while stack:
        each = stack.pop()
        steps += 1
        if steps > _MOST_REFERENCES:
            raise UnsupportedSchema(pointer=pointer, keyword="$ref", reason="its references are circular")
        if not isinstance(each, Mapping):
            found.append(each)
            continue
        target = _target(root, each)
        if target is not None:
            stack.append(target)
            continue
        union = next((keyword for keyword in ("anyOf", "oneOf") if keyword in each), None)
        if union is not None and not (set(each) - {union, "title", "description", "default"}):
            stack.extend(reversed(each[union]))
            continue
        found.append(each)
    return found


def _target(root: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    reference = schema.get("$ref")
    if not isinstance(reference, str) or set(schema) - {"$ref", "title", "description", "default"}:
        return None
    parts = reference.split("/")
    if len(parts) != 3 or parts[0] != "#" or parts[1] not in ("$defs", "definitions"):
        return None
    return root.get(parts[1], {}).get(parts[2])


def split(schema: Any) -> list[tuple[str, Any]]:
    """A schema as one of texts and one of everything else."""
    if not isinstance(schema, Mapping):
        return [("text", {"type": "string"}), ("other", schema)] if schema is not False else []
    options = [schema["const"]] if "const" in schema else schema.get("enum")
    if options is not None:
        texts = [option for option in options if isinstance(option, str)]
        if len(texts) == len(options):
            return [("text", dict(schema))]
        if not texts:
            return [("other", schema)]
        return [("text", {**schema, "enum": texts}), ("other", {"enum": [o for o in options if o not in texts]})]
    types = schema.get("type")
    if types is None:
        return [("text", {"type": "string"}), ("other", schema)]
    names = [types] if isinstance(types, str) else list(types)
    if "string" not in names:
        return [("other", schema)]
    if names == ["string"]:
        return [("text", dict(schema))]
    rest = [name for name in names if name != "string"]
    other = {"type": "null"} if rest == ["null"] else {**schema, "type": rest}
    text = {keyword: value for keyword, value in schema.items() if keyword not in _NOT_OF_TEXT}
    return [("text", {**text, "type": "string"}), ("other", other)]
