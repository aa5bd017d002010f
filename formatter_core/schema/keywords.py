"""The keywords of JSON Schema, as the native library lists them: where their subschemas are, and what else they are."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from formatter_core.engine.native_calls import LibraryBytes
from formatter_core.engine.native_library import check, load
from formatter_core.errors.pointers import pointer_to

__all__ = ["LATEST", "TYPES", "Keywords", "draft_named", "keywords", "subschemas"]

LATEST = 2020
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


class Keywords(NamedTuple):
    """All keywords and dialects.

    Attributes:
        since: constraints and references, and the first draft that has them; 2019 means 2019-09, 2020 2020-12.
        annotations: keywords that do not constrain values.
        one, lists, objects: those whose value is a schema, a list of schemas, or an object of schemas.
        formats: the string formats that any draft of JSON Schema defines.
        dialects: `$schema` without a "#" at its end, and the draft.
    """

    since: Mapping[str, int]
    annotations: frozenset[str]
    one: frozenset[str]
    lists: frozenset[str]
    objects: frozenset[str]
    formats: frozenset[str]
    dialects: Mapping[str, int]


@cache
def keywords() -> Keywords:
    """List them, once."""
    found = LibraryBytes()
    check(load().fcn_schema_keywords(ctypes.byref(found)))
    lists: dict[str, frozenset[str]] = {}
    drafts: dict[str, dict[str, int]] = {"since": {}, "dialect": {}}
    for line in found.copied().decode().splitlines():
        name, *words = line.split()
        if name in drafts:
            drafts[name].update(dict.fromkeys(words[1:], int(words[0])))
        else:
            lists[name] = frozenset(words)
    return Keywords(since=drafts["since"], dialects=drafts["dialect"], **lists)


def draft_named(schema: Any, default: int) -> int:
    """Return the draft that a schema names; the default if it names none that we know."""
    name = schema.get("$schema") if isinstance(schema, dict) else None
    return keywords().dialects.get(name.rstrip("#"), default) if isinstance(name, str) else default


def subschemas(schema: dict[str, Any], pointer: str) -> Iterator[tuple[Any, str]]:
    """Yield the subschemas in a schema's keywords, with their pointers."""
    known = keywords()
    for keyword, value in schema.items():
        if isinstance(value, dict):
            if keyword in known.objects:
                for name, child in value.items():
                    yield child, pointer_to(f"{pointer}/{keyword}", name)
            elif keyword in known.one:
                yield value, f"{pointer}/{keyword}"
        elif isinstance(value, list) and keyword in known.lists:
            for index, child in enumerate(value):
                yield child, f"{pointer}/{keyword}/{index}"
