"""How values are written outside of JSON objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

__all__ = ["ValueStyle", "written_value"]

ValueStyle: TypeAlias = Literal["plain", "python", "delimited"]


def written_value(value: Any, style: ValueStyle = "plain", quote: str = "") -> str:
    """A value as text: see `Calls.values`."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if style == "python" else quote + value + quote
    if style == "plain" or isinstance(value, (int, float)) or value is None:
        return str(value) if style == "python" else json.dumps(value, ensure_ascii=False)
    gap = " " if style == "python" else ""
    if isinstance(value, Mapping):
        keys = sorted(value, key=str.lower) if style == "delimited" else list(value)
        named = {key: key if style == "delimited" else json.dumps(key, ensure_ascii=False) for key in keys}
        members = (f"{named[key]}:{gap}{written_value(value[key], style, quote)}" for key in keys)
        return "{" + f",{gap}".join(members) + "}"
    return "[" + f",{gap}".join(written_value(item, style, quote) for item in value) + "]"
