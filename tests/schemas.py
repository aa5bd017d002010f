"""JSON Schemas that many tests use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def closed(properties: dict[str, Any], required: Sequence[str] | None = None) -> dict[str, Any]:
    """Make the schema of an object with these properties and no others; all are required unless they are named."""
    names = [*(properties if required is None else required)]
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
