"""Read llguidance's options in a schema, `x-guidance`, as options of `json_schema` or as another schema."""

from __future__ import annotations

import re
from typing import Any

from formatter_core.errors import InvalidSchema, UnsupportedSchema
from formatter_core.errors.arguments import shown
from formatter_core.schema import Whitespace
from formatter_core.schema.keywords import keywords

__all__ = ["read_guidance"]

_KEY = "x-guidance"
#: Options that are rejected unless they have their defaults, with advice.
_REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "lenient": ((False,), "no keyword is ignored; remove what is not supported"),
    "whitespace_pattern": ((None,), "use `whitespace_flexible`, `item_separator` and `key_separator`"),
    "json_allowed_escapes": ((None,), "give the strings a `pattern`"),
    "json_allow_general_unicode_escapes": ((False,), 'read such texts with `spelling="any"`'),
}
_BOOLEANS = ("whitespace_flexible", "coerce_one_of")
_SEPARATORS = {"item_separator": ",", "key_separator": ":"}


def read_guidance(schema: Any) -> tuple[Any, dict[str, Any]]:
    """Return a schema without `x-guidance`, and the options of `json_schema` that replace it.

    Raises:
        InvalidSchema: `x-guidance` is not an object of llguidance's options.
        UnsupportedSchema: an option cannot be enforced.
    """
    if not isinstance(schema, dict) or _KEY not in schema:
        return schema, {}
    options = schema[_KEY]
    if not isinstance(options, dict):
        raise InvalidSchema(f"it is {shown(options)}; write an object of options", pointer=f"/{_KEY}")
    for name, value in options.items():
        if name in _REFUSED:
            defaults, remedy = _REFUSED[name]
            if not any(value is default for default in defaults):
                raise _unsupported(name, f"the value {shown(value)} is not enforced; {remedy}")
        elif name in _BOOLEANS and not isinstance(value, bool):
            raise InvalidSchema(f"it is {shown(value)}; write true or false", pointer=f"/{_KEY}/{name}")
        elif name in _SEPARATORS and not isinstance(value, str):
            raise InvalidSchema(f"it is {shown(value)}; write a pattern as a string", pointer=f"/{_KEY}/{name}")
        elif name not in _BOOLEANS and name not in _SEPARATORS:
            raise InvalidSchema("llguidance has no such option; leave it out", pointer=f"/{_KEY}/{name}")
    rest = {keyword: value for keyword, value in schema.items() if keyword != _KEY}
    if options.get("coerce_one_of"):
        _refuse_references(rest)
        rest = _coerced(rest)
    return rest, _whitespace(options)


def _whitespace(options: dict[str, Any]) -> dict[str, Any]:
    given = {name: options.get(name, mark) for name, mark in _SEPARATORS.items()}
    if options.get("whitespace_flexible", True):
        for name, pattern in given.items():
            if pattern != _SEPARATORS[name]:
                raise _unsupported(name, 'it is enforced beside `"whitespace_flexible": false` only; add that')
        return {}
    for name, pattern in given.items():
        if re.fullmatch(rf"[ \t\n\r]*{_SEPARATORS[name]}[ \t\n\r]*", pattern) is None:
            example = _SEPARATORS[name] + " "
            raise _unsupported(name, f"it is enforced as a text, not as a pattern; write one such as {example!r}")
    comma, colon = given.values()
    return {"whitespace": Whitespace(comma=comma, colon=colon, spaces=0, lines=False)}


def _unsupported(name: str, reason: str) -> UnsupportedSchema:
    return UnsupportedSchema(reason, pointer=f"/{_KEY}", keyword=name)


def _refuse_references(schema: Any) -> None:
    """Reject references into a `oneOf`, which moves to another place."""
    stack = [schema]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            if "/oneOf/" in str(each.get("$ref")):
                raise _unsupported("coerce_one_of", "a `$ref` leads into a `oneOf`; write `anyOf` instead of `oneOf`")
            stack.extend(each.values())
        elif isinstance(each, list):
            stack.extend(each)


def _coerced(schema: Any) -> Any:
    """Return the schema with `anyOf` instead of each `oneOf`."""
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for keyword, value in schema.items():
        name = "anyOf" if keyword == "oneOf" and "anyOf" not in schema else keyword
        made[name] = _inside(keyword, value)
    if "oneOf" in made:
        branches = {"anyOf": made.pop("oneOf")}
        others = made.get("allOf")
        made["allOf"] = [*others, branches] if isinstance(others, list) else [branches]
    return made


def _inside(keyword: str, value: Any) -> Any:
    """Return a keyword's value with the same change in its schemas."""
    if keyword in keywords().objects and isinstance(value, dict):
        return {name: _coerced(each) for name, each in value.items()}
    if keyword in keywords().lists and isinstance(value, list):
        return [_coerced(each) for each in value]
    return _coerced(value) if keyword in keywords().one else value
