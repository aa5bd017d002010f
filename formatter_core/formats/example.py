"""Define JSON with the structure of an example."""

from __future__ import annotations

import json
from typing import Any

from formatter_core.errors import InvalidFormat
from formatter_core.formats.json_schema import JsonSchemaFormat, json_schema

__all__ = ["example"]


def example(value: Any) -> JsonSchemaFormat:
    """Return the format of JSON with the structure of `value`: dicts, lists, strings, numbers, booleans, None.

    A dict becomes an object with exactly its keys, all required, in this order. A list becomes any number of items,
    each with the structure of one of its items (anything if it is empty). A whole number becomes any integer, and a
    float any number.

    Raises:
        InvalidFormat: the value is not JSON data.
    """
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidFormat(f"the example is not JSON data: {error}") from None
    return json_schema(_schema(value))


def _schema(value: Any) -> dict[str, Any]:
    if value is None:
        return {"type": "null"}
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")):
        if isinstance(value, kind):
            return {"type": name}
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise InvalidFormat("the example is not JSON data: a dict has a key that is not a str")
        properties = {key: _schema(item) for key, item in value.items()}
        return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    seen: list[dict[str, Any]] = []
    for item in value:
        schema = _schema(item)
        if schema not in seen:
            seen.append(schema)
    if not seen:
        return {"type": "array"}
    return {"type": "array", "items": seen[0] if len(seen) == 1 else {"anyOf": seen}}
