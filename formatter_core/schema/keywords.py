"""The keywords of JSON Schema: where their subschemas are, since which draft they exist, and what else they are."""

from __future__ import annotations

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
    "known",
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
