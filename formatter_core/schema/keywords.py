"""The keywords of JSON Schema: where their subschemas are, since which draft they exist, and what else they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = [
    "ANNOTATIONS",
    "DIALECTS",
    "IN_PLACE",
    "IN_PLACE_ORDER",
    "LATEST",
    "OF_LISTS",
    "OF_OBJECTS",
    "OF_ONE",
    "SINCE",
    "TYPES",
    "draft_named",
    "escaped",
    "known",
    "subschemas",
]

#: `$schema` without a "#" at its end -> the draft. 2019 and 2020 stand for 2019-09 and 2020-12.
DIALECTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
LATEST = 2020

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

#: Keywords whose value is a schema, a list of schemas, or an object of schemas (some may be either of two).
OF_ONE = frozenset(
    [
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
OF_LISTS = frozenset(["allOf", "anyOf", "items", "oneOf", "prefixItems"])
OF_OBJECTS = frozenset(["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"])

#: Constraints and references -> the first draft that has them. Drafts from 2019-09 on keep the older spellings.
SINCE = {
    **dict.fromkeys(
        [
            "$ref",
            "additionalItems",
            "additionalProperties",
            "allOf",
            "anyOf",
            "definitions",
            "dependencies",
            "enum",
            "exclusiveMaximum",
            "exclusiveMinimum",
            "format",
            "items",
            "maxItems",
            "maxLength",
            "maxProperties",
            "maximum",
            "minItems",
            "minLength",
            "minProperties",
            "minimum",
            "multipleOf",
            "not",
            "oneOf",
            "pattern",
            "patternProperties",
            "properties",
            "required",
            "type",
            "uniqueItems",
        ],
        4,
    ),
    **dict.fromkeys(["const", "contains", "propertyNames"], 6),
    **dict.fromkeys(["if", "then", "else"], 7),
    **dict.fromkeys(
        [
            "$defs",
            "dependentRequired",
            "dependentSchemas",
            "maxContains",
            "minContains",
            "unevaluatedItems",
            "unevaluatedProperties",
            "$recursiveRef",
        ],
        2019,
    ),
    **dict.fromkeys(["prefixItems", "$dynamicRef"], 2020),
}

ANNOTATIONS = frozenset(
    [
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "$vocabulary",
        "$comment",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
    ]
)


#: Keywords that apply further schemas to the same value, in the order of application: differences last, so that what
#: is known by then keeps them small.
IN_PLACE_ORDER = {
    keyword: place
    for place, keyword in enumerate(
        [
            "enum",
            "const",
            "$ref",
            "$dynamicRef",
            "$recursiveRef",
            "allOf",
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
            "anyOf",
            "not",
            "if",
            "then",
            "else",
            "oneOf",
            "unevaluatedProperties",
            "unevaluatedItems",
        ]
    )
}
IN_PLACE = frozenset(IN_PLACE_ORDER)


def known(keyword: str) -> bool:
    """Whether the specifications define this keyword."""
    return keyword in SINCE or keyword in ANNOTATIONS


def draft_named(schema: Any, default: int) -> int:
    """Return the draft that a schema names; the default if it names none that we know."""
    name = schema.get("$schema") if isinstance(schema, dict) else None
    return DIALECTS.get(name.rstrip("#"), default) if isinstance(name, str) else default


def subschemas(schema: dict[str, Any], pointer: str) -> Iterator[tuple[Any, str]]:
    """Yield the schemas that stand in a schema as keywords have them, with their pointers."""
    for keyword, value in schema.items():
        if isinstance(value, dict):
            if keyword in OF_OBJECTS:
                for name, child in value.items():
                    yield child, f"{pointer}/{keyword}/{escaped(name)}"
            elif keyword in OF_ONE:
                yield value, f"{pointer}/{keyword}"
        elif isinstance(value, list) and keyword in OF_LISTS:
            for index, child in enumerate(value):
                yield child, f"{pointer}/{keyword}/{index}"


def escaped(step: str) -> str:
    """Write a step of a JSON Pointer."""
    return step.replace("~", "~0").replace("/", "~1") if "~" in step or "/" in step else step
