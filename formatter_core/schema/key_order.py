"""The order of an object's named keys: its own `properties`, then what a left-to-right walk over its schemas adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from formatter_core.schema.keywords import IN_PLACE
from formatter_core.schema.load import TRUE, Loader, Location
from formatter_core.schema.shapes import Goal
from formatter_core.schema.spelling import has_spelling

__all__ = ["KeyOrder"]


class KeyOrder:
    """Walks schemas, each once."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._known: dict[int, tuple[dict[str, None], dict[str, None]]] = {}

    def names(self, goal: Goal) -> tuple[str, ...]:
        """The named keys of a goal: those of `properties` and listed objects in the walk's order, then the others."""
        named: dict[str, None] = {}
        late: dict[str, None] = {}
        for literal in goal:
            first, second = self._walk(abs(literal))
            named.update(first)
            late.update(second)
        named.update(late)
        return tuple(filter(has_spelling, named))

    def _walk(self, literal: int) -> tuple[dict[str, None], dict[str, None]]:
        known = self._known.get(literal)
        if known is not None or literal == TRUE:
            return known or ({}, {})
        named: dict[str, None] = {}
        late: dict[str, None] = {}
        self._known[literal] = (named, late)
        location = self._loader.location(literal)
        only_reference = location.resource.draft <= 7 and "$ref" in location.schema
        for keyword in ["$ref"] if only_reference else sorted(location.schema, key="properties".__ne__):
            value = location.get(keyword)
            if keyword == "properties":
                named.update(dict.fromkeys(_names(value)))
            elif keyword == "required":
                late.update(dict.fromkeys(_names(value)))
            elif keyword in ("enum", "const"):
                for listed in (value or ()) if keyword == "enum" else [value]:
                    named.update(dict.fromkeys(listed) if isinstance(listed, dict) else {})
            elif keyword in IN_PLACE and value is not None:
                for child in self._children(location, keyword, value, late):
                    first, second = self._walk(abs(child))
                    named.update(first)
                    late.update(second)
        return named, late

    def _children(self, location: Location, keyword: str, value: Any, late: dict[str, None]) -> Iterator[int]:
        child = self._loader.child
        if keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            yield self._loader.resolve(location, keyword)
        elif keyword in ("allOf", "anyOf", "oneOf"):
            yield from (child(location, keyword, index) for index in range(len(value)))
        elif keyword in ("not", "if", "then", "else"):
            yield child(location, keyword)
        elif keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, wanted in value.items():
                late[name] = None
                if isinstance(wanted, list):
                    late.update(dict.fromkeys(_names(wanted)))
                else:
                    yield child(location, keyword, name)


def _names(value: Any) -> Iterator[str]:
    """The names that a keyword gives; nobody has checked a keyword of objects where the type excludes them."""
    return (name for name in value if isinstance(name, str)) if isinstance(value, (dict, list)) else iter(())
