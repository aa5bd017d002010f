"""The order of an object's named keys: its own `properties`, then what a left-to-right walk over its schemas adds.

Objects that are in some branches of a union have these branches' keys first, and in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from formatter_core.schema.keywords import IN_PLACE
from formatter_core.schema.load import TRUE, Loader, Location
from formatter_core.schema.shapes import Goal, ObjectSet
from formatter_core.schema.spelling import has_spelling

__all__ = ["KeyOrder"]

_BRANCHES = frozenset(["anyOf", "oneOf", "then", "else"])


class _Said(NamedTuple):
    """Names that a schema gives, which is in a branch of a union or not."""

    schema: int
    in_branch: bool
    names: tuple[str, ...]


class KeyOrder:
    """The named keys of a goal.

    Attributes:
        names: those of `properties` and listed objects in the walk's order, then the others.
    """

    def __init__(self, loader: Loader, goal: Goal) -> None:
        self._loader = loader
        self._named: list[_Said] = []
        self._late: list[_Said] = []
        self._walked: set[tuple[int, bool]] = set()
        for literal in goal:
            self._walk(abs(literal), False)
        self.names = _each_once([*self._named, *self._late])

    def of(self, objects: ObjectSet) -> tuple[str, ...]:
        """The named keys in the order that some of the goal's objects have them."""
        own = {id(part.origin) for part in objects.parts if part.origin is not None}
        named = sorted(self._named, key=lambda each: each.in_branch and each.schema not in own)
        return _each_once([*named, *self._late])

    def _walk(self, literal: int, in_branch: bool) -> None:
        if literal == TRUE or (literal, in_branch) in self._walked:
            return
        self._walked.add((literal, in_branch))
        location = self._loader.location(literal)
        schema = id(location.schema)

        def say(found: list[_Said], names: Iterable[str]) -> None:
            found.append(_Said(schema, in_branch, tuple(names)))

        only_reference = location.resource.draft <= 7 and "$ref" in location.schema
        for keyword in ["$ref"] if only_reference else sorted(location.schema, key="properties".__ne__):
            value = location.get(keyword)
            if keyword == "properties":
                say(self._named, _names(value))
            elif keyword == "required":
                say(self._late, _names(value))
            elif keyword in ("enum", "const"):
                for listed in (value or ()) if keyword == "enum" else [value]:
                    if isinstance(listed, dict):
                        say(self._named, listed)
            elif keyword in ("dependentRequired", "dependentSchemas", "dependencies") and value is not None:
                for name, wanted in value.items():
                    say(self._late, [name, *(_names(wanted) if isinstance(wanted, list) else ())])
                    if not isinstance(wanted, list):
                        self._walk(abs(self._loader.child(location, keyword, name)), in_branch)
            elif keyword in IN_PLACE and value is not None:
                for child in self._children(location, keyword, value):
                    self._walk(abs(child), in_branch or keyword in _BRANCHES)

    def _children(self, location: Location, keyword: str, value: Any) -> Iterator[int]:
        child = self._loader.child
        if keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            yield self._loader.resolve(location, keyword)
        elif keyword in ("allOf", "anyOf", "oneOf"):
            yield from (child(location, keyword, index) for index in range(len(value)))
        elif keyword in ("not", "if", "then", "else"):
            yield child(location, keyword)


def _each_once(said: Iterable[_Said]) -> tuple[str, ...]:
    return tuple(filter(has_spelling, dict.fromkeys(name for each in said for name in each.names)))


def _names(value: Any) -> Iterator[str]:
    """The names that a keyword gives; nobody has checked a keyword of objects where the type excludes them."""
    return (name for name in value if isinstance(name, str)) if isinstance(value, (dict, list)) else iter(())
