"""A search for the keywords that make a schema unsatisfiable: it removes other keywords and checks the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, TypeAlias

from formatter_core.errors import UnsatisfiableSchema, UnsupportedSchema
from formatter_core.errors.pointers import pointer_to, unescaped
from formatter_core.limits import Limits
from formatter_core.schema.keywords import LATEST, draft_named, keywords
from formatter_core.schema.string_formats import left_out, name_in

__all__ = ["why_empty"]

#: Maximum times that we lower the schema; a schema with more keywords is not searched.
_MAX_CHECKS = 80
_MAX_KEYWORDS = 400
#: Below these, removing a keyword allows less, not more; so they are removed as a whole.
_NEGATING = frozenset(["not", "oneOf", "if", "then", "else"])
#: Removing these keywords, or keywords below them, changes the meaning of other keywords; annotations have no effect.
_FIXED = frozenset(["$defs", "definitions", "minContains"])
_ENTANGLED = frozenset(["unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef", "$id", "id"])

_Path: TypeAlias = tuple[str | int, ...]


def why_empty(
    schema: Any, limits: Limits, is_empty: Callable[[Any, Limits], bool], *, exactly: bool
) -> UnsatisfiableSchema | UnsupportedSchema:
    """Make the error that names the contradicting keywords of a schema that is empty, if we find them.

    Args:
        schema: JSON data of a schema that no document satisfies.
        limits: those within which we know that.
        is_empty: whether nothing is valid for a schema, within limits.
        exactly: whether a grammar engine has also checked strings and numbers; what leaves no value may then be that a
            format is allowed in part.
    """
    small = replace(
        limits, nodes=min(limits.nodes, 50_000), states=min(limits.states, 5000), work=min(limits.work, 2_000_000)
    )

    def is_empty_soon(schema: Any) -> bool:
        return is_empty(schema, small)

    pointers = _contradicting(schema, is_empty_soon) if is_empty_soon(schema) else ()
    if not pointers:
        reason = "its keywords contradict each other, but finding out which ones takes too long; relax one of them"
        return UnsatisfiableSchema(reason)
    if len(pointers) == 1:
        return UnsatisfiableSchema(f"`{pointers[0]}` leaves no value; relax it", pointers=pointers)
    named = " and ".join([", ".join(pointers[:-1]), pointers[-1]])
    for pointer in pointers if exactly else ():
        part = _left_out_at(schema, pointer)
        if part is not None:
            reason = f"{named} leave no value, since {part}; relax one of them"
            return UnsupportedSchema(reason, pointer=pointer.removesuffix("/format"), keyword="format")
    return UnsatisfiableSchema(f"{named} contradict each other; relax one of them", pointers=pointers)


def _left_out_at(schema: Any, pointer: str) -> str | None:
    """Say what is left out of the format that the keyword at a pointer names, if that is one allowed in part."""
    value = schema
    for step in pointer[1:].split("/"):
        value = value[int(step) if isinstance(value, list) else unescaped(step)]
    is_format = pointer.endswith("/format") and isinstance(value, str)
    return left_out(name_in(value, draft_named(schema, LATEST))) if is_format else None


def _contradicting(schema: Any, is_empty: Callable[[Any], bool]) -> tuple[str, ...]:
    """Return JSON pointers of a minimal set of keywords that no document satisfies together.

    `type` is not named if several others remain. Empty if the search would take too long.

    Args:
        schema: JSON data of a schema that no document satisfies.
        is_empty: tells whether no document satisfies a schema.
    """
    if not isinstance(schema, dict) or sum(1 for _ in _keywords(schema)) > _MAX_KEYWORDS:
        return ()
    search = _Search(schema, is_empty)
    kept = search.needed([(keyword,) for keyword in schema if not _is_fixed(keyword)])
    if search.checks > _MAX_CHECKS:
        return ()
    others = [path for path in kept if path[-1] != "type"]
    return tuple(map(_pointer, others if len(others) > 1 else kept))


class _Search:
    def __init__(self, schema: dict[str, Any], is_empty: Callable[[Any], bool]) -> None:
        self.checks = 0
        self._schema = schema
        self._is_empty = is_empty
        self._left_out: set[_Path] = set()
        keywords = set(_keywords(schema))
        self._is_entangled = not keywords.isdisjoint(_ENTANGLED)
        self._follows_references = keywords.isdisjoint(_NEGATING)
        self._followed: set[str] = set()

    def needed(self, paths: Sequence[_Path]) -> list[_Path]:
        """Remove as many of these keywords, and of those inside them, as possible; returns those that remain."""
        if not paths or self._can_be_left_out(paths):
            return []
        if len(paths) > 1:
            half = len(paths) // 2
            return self.needed(paths[:half]) + self.needed(paths[half:])
        below = [] if self._is_entangled else list(self._below(paths[0]))
        return (below and self.needed(below)) or [paths[0]]

    def _can_be_left_out(self, paths: Sequence[_Path]) -> bool:
        self.checks += 1
        if self.checks > _MAX_CHECKS:
            return False
        wanted = self._left_out | set(paths)
        if not self._is_empty(_without(self._schema, wanted, ())):
            return False
        self._left_out = wanted
        return True

    def _below(self, path: _Path) -> Iterator[_Path]:
        """Return the keywords of the schemas directly below a keyword, or at the target of a reference."""
        value: Any = self._schema
        for step in path:
            value = value[step]
        if path[-1] == "$ref" and isinstance(value, str) and value.startswith("#/") and self._follows_references:
            target = tuple(map(unescaped, value[2:].split("/")))
            if value not in self._followed and len(target) == 2 and target[0] in ("$defs", "definitions"):
                self._followed.add(value)
                child = self._schema.get(target[0], {}).get(target[1])
                if isinstance(child, dict):
                    yield from ((*target, keyword) for keyword in child if not _is_fixed(keyword))
            return
        for inner, child in _schemas(str(path[-1]), value):
            if isinstance(child, dict):
                yield from ((*path, *inner, keyword) for keyword in child if not _is_fixed(keyword))


def _schemas(keyword: str, value: Any) -> Iterator[tuple[_Path, Any]]:
    """Return the schemas in a keyword's value that allow more if keywords are removed from them."""
    if keyword in _NEGATING:
        return
    if isinstance(value, dict) and keyword in keywords().objects:
        yield from (((name,), child) for name, child in value.items())
    elif isinstance(value, list) and keyword in keywords().lists:
        yield from (((index,), child) for index, child in enumerate(value))
    elif isinstance(value, dict) and keyword in keywords().one:
        yield (), value


def _without(schema: Any, left_out: set[_Path], path: _Path) -> Any:
    """Return the schema without these keywords; names and indices of subschemas stay, because references use them."""
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for keyword, value in schema.items():
        here = (*path, keyword)
        if here not in left_out:
            below = {inner: _without(child, left_out, (*here, *inner)) for inner, child in _schemas(keyword, value)}
        elif isinstance(value, (dict, list)) and keyword in ("properties", "patternProperties", "prefixItems"):
            below = {inner: True for inner, _ in _schemas(keyword, value)}
        else:
            continue
        made[keyword] = _replaced(value, below)
    return made


def _replaced(value: Any, below: dict[_Path, Any]) -> Any:
    if not below:
        return value
    if () in below:
        return below[()]
    if isinstance(value, list):
        return [below[index,] for index in range(len(value))]
    return {name: below[name,] for name in value}


def _keywords(schema: Any) -> Iterator[str]:
    """Yield every keyword at any depth."""
    stack = [schema]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            yield from each
            stack.extend(each.values())
        elif isinstance(each, list):
            stack.extend(each)


def _is_fixed(keyword: str) -> bool:
    return keyword in _FIXED or keyword in keywords().annotations


def _pointer(path: _Path) -> str:
    return reduce(pointer_to, path, "")
