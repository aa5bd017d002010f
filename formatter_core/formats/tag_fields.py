"""Check the fields of structural tags; errors have a JSON Pointer."""

from __future__ import annotations

from typing import Any

from formatter_core.errors import InvalidGrammar
from formatter_core.errors.arguments import shown
from formatter_core.grammar import Special, Token

__all__ = ["check_type", "count", "fields", "texts", "token", "tokens"]

_WORDS: dict[type, str] = {
    str: "a text", int: "a whole number", bool: "true or false", list: "an array", dict: "an object", type(None): "null"
}  # fmt: skip


def fields(data: Any, pointer: str, needed: dict[str, Any], others: dict[str, Any]) -> None:
    """Reject an object that lacks a field, or has a field that is unknown or has the wrong type."""
    if not isinstance(data, dict):
        raise InvalidGrammar(f"expected an object, found {shown(data)}", pointer=pointer)
    for name in needed:
        if name not in data:
            raise InvalidGrammar(f"the field `{name}` is missing; add it", pointer=pointer)
    known = {"type": str, **needed, **others}
    for name, value in data.items():
        if name not in known:
            raise InvalidGrammar(f"the field `{name}` is not known; use one of {', '.join(known)}", pointer=pointer)
        kinds = known[name] if isinstance(known[name], tuple) else (known[name],)
        if type(value) not in kinds:
            words = " or ".join(_WORDS[kind] for kind in kinds)
            raise InvalidGrammar(f"`{name}` is {words}, found {shown(value)}", pointer=f"{pointer}/{name}")


def check_type(data: dict[str, Any], pointer: str, expected: str) -> None:
    """Reject an object whose `type` is another one; `type` may be omitted."""
    if data.get("type", expected) != expected:
        reason = f"`type` is {shown(data['type'])}; write {expected!r}, or leave it out"
        raise InvalidGrammar(reason, pointer=f"{pointer}/type")


def texts(values: Any, pointer: str, *, empty: bool = False) -> list[str]:
    """Return the value if it is an array of texts; with `empty` the array may be empty."""
    if not isinstance(values, list) or not all(isinstance(each, str) and (each or empty) for each in values):
        raise InvalidGrammar(f"expected an array of non-empty texts, found {shown(values)}", pointer=pointer)
    return values


def count(value: int, pointer: str) -> int:
    """Return the value if it is not negative."""
    if value < 0:
        raise InvalidGrammar(f"expected a whole number from 0 up, found {value}", pointer=pointer)
    return value


def token(value: Any, pointer: str) -> Special | Token:
    """Return a special token by name or by id."""
    if isinstance(value, str) and value:
        return Special(value)
    if type(value) is not int or value < 0:
        raise InvalidGrammar(f"expected the name or the id of a special token, found {shown(value)}", pointer=pointer)
    return Token(value)


def tokens(values: list[Any], pointer: str) -> list[Special | Token]:
    """Return special tokens by name or by id."""
    return [token(value, f"{pointer}/{index}") for index, value in enumerate(values)]
