"""Propose the smallest change of a format that allows what the model wanted, after trying it out."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from formatter_core import formats
from formatter_core.errors import FormatterError
from formatter_core.formats.protocol import Format
from formatter_core.grammar import as_text, without_specials
from formatter_core.limits import Limits
from formatter_core.parsing.expectation import quoted
from formatter_core.runtime.explanation import reader_of
from formatter_core.runtime.history import shared_length
from formatter_core.trace.steps import Step, shown_bytes

__all__ = ["Proposals"]

#: The advice for a schema keyword that forbids what the model wanted.
_ADVICE = {
    "raise or drop": ("maxLength", "maxItems", "maximum", "exclusiveMaximum", "maxProperties", "maxContains"),
    "lower or drop": ("minLength", "minItems", "minimum", "exclusiveMinimum", "minProperties", "minContains"),
    "add what is missing to": ("enum", "const"),
    "ask for fewer keys in": ("required", "dependentRequired"),
    "allow other keys in": ("additionalProperties", "unevaluatedProperties", "propertyNames"),
    "relax or drop": ("pattern", "format", "multipleOf", "uniqueItems", "contains", "not"),
    "allow another type in": ("type",),
}
_OPTIONS: tuple[tuple[str, Any, str], ...] = (
    ("whitespace", "flexible", 'let it use more whitespace: whitespace="flexible"'),
    ("whitespace", {"comma": None, "colon": None, "spaces": 16, "lines": True, "indent": 256},
     "let it use more whitespace: whitespace=Whitespace(spaces=16, indent=256)"),
    ("key_order", "any", 'let it choose the order of the keys: key_order="any"'),
    ("spelling", "any", 'let it spell JSON in every legal way: spelling="any"'),
)  # fmt: skip
_ADVICE_OF = {keyword: words for words, keywords in _ADVICE.items() for keyword in keywords}
_BEGINS = (
    "the model wants to begin with {}: ask in the prompt for nothing but the format, or allow text before it, as "
    "formats.sequence(formats.until(...), ...) does"
)
#: The maximum bytes of an output that are read again for each change, and the maximum changes tried for one trap.
_MAX_BYTES_READ_AGAIN = 4000
_MAX_CHANGES_TRIED = 60


class Proposals:
    """A search for changes of one format."""

    def __init__(self, format: Format, limits: Limits) -> None:
        self._limits = limits
        try:
            self._data: Any = json.loads(json.dumps(format.to_json()))
        except (TypeError, ValueError, FormatterError):  # a format of the user's own class
            self._data = None

    def of(self, step: Step, before: bytes) -> tuple[str, bool]:
        """Return a change that makes the format allow what the model wanted at a step, and whether it was tried out."""
        wanted = step.refused
        if wanted is None or (wanted.bytes is None and not wanted.is_end):
            return "show the format in the prompt", False
        if self._data is not None and len(before) <= _MAX_BYTES_READ_AGAIN:
            for number, (change, data) in enumerate(_changes(self._data, step.place)):
                if number == _MAX_CHANGES_TRIED:
                    break
                if self._allows(data, before + (wanted.bytes or b""), wanted.is_end):
                    return change, True
        if wanted.is_end:
            return "the model wants to stop here: make what follows optional, or ask for it in the prompt", False
        text = quoted(shown_bytes(wanted.bytes or b""))
        if not before:
            return _BEGINS.format(text), False
        return f"show the format in the prompt, or allow {text} here", False

    def _allows(self, data: Any, text: bytes, ends: bool) -> bool:
        """Return whether the format in `data` matches this text, or completions of it."""
        try:
            lowered = formats.from_json(data, type=Any).to_grammar(self._limits)
            reader = reader_of(without_specials(lowered.grammar, as_text), self._limits)
            return reader.append([text]) and (not ends or reader.can_stop())
        except FormatterError:
            return False


def _changes(data: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield formats that allow more, as JSON data, each with a description of the change; small changes first."""
    for path, found in _schema_formats(data, ()):
        for option, value, change in _OPTIONS:
            if found[option] != value:
                yield change, _changed(data, path, {option: value})
        for pointer, keys, keyword, words in sorted(_keywords(found["schema"]), key=lambda one: _far(place, one)):
            yield f"{words} `{keyword}` at {pointer}", _changed(data, (*path, "schema", *keys), {}, without=keyword)


def _schema_formats(data: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield the JSON Schema formats in the data of a format, with their paths."""
    if isinstance(data, dict) and data.get("type") == "json_schema":
        yield path, data
        return
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, item in items:
        yield from _schema_formats(item, (*path, key))


def _keywords(schema: Any) -> Iterator[tuple[str, tuple[Any, ...], str, str]]:
    """Yield each keyword that forbids something: its pointer, the keys that lead there, its name, and the advice."""
    stack: list[tuple[tuple[Any, ...], Any]] = [((), schema)]
    while stack:
        keys, part = stack.pop()
        if isinstance(part, dict):
            pointer = "#" + "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in keys)
            for keyword in part.keys() & _ADVICE_OF.keys():
                # A name like that of a keyword may be a property or a definition.
                if not keys or keys[-1] not in ("properties", "patternProperties", "$defs", "definitions"):
                    yield pointer, keys, keyword, _ADVICE_OF[keyword]
        items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        stack.extend(((*keys, key), item) for key, item in items)


def _far(place: str, change: tuple[str, tuple[Any, ...], str, str]) -> tuple[bool, int, int, str]:
    """Return a sort key: how far a change is from a place, and how much it changes. A keyword at the place itself comes
    first, then those around it, then the rest; allowing another type comes last.
    """
    pointer, _, keyword, _ = change
    here, there = (place if place.startswith("#") else "#").split("/"), pointer.split("/")
    steps = len(here) + len(there) - 2 * shared_length(here, there)
    return keyword == "type", steps, list(_ADVICE_OF).index(keyword), pointer


def _changed(data: Any, path: tuple[Any, ...], options: dict[str, Any], without: str | None = None) -> Any:
    """Return a copy of the data in which the object at the end of a path has other entries, or one less."""
    copied = part = copy.deepcopy(data)
    for key in path:
        part = part[key]
    part.update(options)
    part.pop(without, None)
    return copied
