"""Schemas and documents that the bytes of an input decide, by a small grammar: every input is a schema.

Bytes change one keyword, one name or one value each, and what is built ends soon once they are used up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz.decisions import Decisions

__all__ = ["DRAFTS", "build_document", "build_schema"]

#: The drafts, by the URI of `$schema`.
DRAFTS = {
    2020: "https://json-schema.org/draft/2020-12/schema",
    2019: "https://json-schema.org/draft/2019-09/schema",
    7: "http://json-schema.org/draft-07/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    4: "http://json-schema.org/draft-04/schema#",
}
_DEPTH = 3
_NAMES = ("a", "b", "c", "aa", "é")
_DEFINITIONS = ("one", "two")
_TYPES = ("string", "integer", "object", "array", "number", "null", "boolean")
#: Python's `re` reads these as ECMA 262 does, except for texts that end with a newline.
_PATTERNS = ("^a", "b$", "^(ab|c)*$", "[a-c]{2}", "^[^a]", "^.$", "é|x", "^$", "a.*b", r"^\d{1,2}$")
_FORMATS = ("date", "uuid", "ipv4", "email", "time", "hostname", "json-pointer", "unknown")
#: Fractions are exact in binary, because `jsonschema` computes with floats.
_NUMBERS = (0, 1, 2, 3, 7, -2, 10, 0.5, 2.5, -1.5, 2.0, 100)
_STRINGS = ("", "a", "ab", "abab", "b", "é", "c x", '"', "12")
_SCALARS: tuple[Any, ...] = (None, True, False, *_STRINGS, *_NUMBERS)


def build_schema(chosen: Decisions, draft: int) -> Any:
    """Return a schema of the draft that the input decides."""
    return _Builder(chosen, draft).document()


def build_document(chosen: Decisions, depth: int = 2) -> Any:
    """Return a document that the input decides, made of the names and values that schemas speak of."""
    kind = chosen.below(4) if depth else 0
    if kind == 1:
        return [build_document(chosen, depth - 1) for _ in range(chosen.below(4))]
    if kind == 2:
        return {chosen.choice(_NAMES): build_document(chosen, depth - 1) for _ in range(chosen.below(4))}
    return chosen.choice(_SCALARS)


class _Builder:
    def __init__(self, chosen: Decisions, draft: int) -> None:
        self._chosen = chosen
        self._draft = draft
        self._refers = self._refers_dynamically = False
        self._groups: tuple[Callable[[int], dict[str, Any]], ...] = (
            lambda _: {"type": self._type()},
            self._object,
            self._array,
            self._string,
            self._number,
            self._listed,
            self._several,
            lambda depth: {"not": self.schema(depth - 1)},
            self._conditional if draft >= 7 else self._several,
            self._reference,
        )

    def document(self) -> Any:
        """Return the whole schema; its definitions may refer to it and to each other."""
        made = self.schema(_DEPTH)
        if not isinstance(made, dict):
            return made
        keyword = "$defs" if self._draft >= 2019 else "definitions"
        if self._refers:
            made[keyword] = {name: self.schema(1) for name in _DEFINITIONS}
            if self._draft >= 2019 and isinstance(made[keyword]["two"], dict):
                made[keyword]["two"]["$anchor"] = "two"
        if self._refers_dynamically:
            made["$dynamicAnchor"] = "here"
        return {"$schema": DRAFTS[self._draft], **made}

    def schema(self, depth: int) -> Any:
        """Return a schema with some groups of keywords, or one that allows everything or nothing."""
        chosen = self._chosen
        if not chosen.is_left or depth < 0:
            return self._boolean(True)
        kind = chosen.below(16)
        if kind < 2 and depth < _DEPTH:
            return self._boolean(kind == 0)
        made: dict[str, Any] = {}
        for _ in range(1 if kind < 9 else 2 if kind < 14 else 3):
            made.update(chosen.choice(self._groups)(depth))
        return made

    def _boolean(self, value: bool) -> Any:
        # `jsonschema` trips over booleans in some places of draft 2019-09.
        if self._draft not in (4, 2019):
            return value
        return {} if value else {"not": {}}

    def _type(self) -> Any:
        chosen = self._chosen
        return chosen.choice(_TYPES) if chosen.below(4) else chosen.some(_TYPES, 3)

    def _listed(self, _: int) -> dict[str, Any]:
        chosen = self._chosen
        if self._draft >= 6 and chosen.below(3) == 0:
            return {"const": build_document(chosen)}
        values = [build_document(chosen, 1) for _ in range(1 + chosen.below(4))]
        return {"enum": [value for place, value in enumerate(values) if repr(value) not in map(repr, values[:place])]}

    def _several(self, depth: int) -> dict[str, Any]:
        chosen = self._chosen
        keyword = chosen.choice(("anyOf", "oneOf", "allOf"))
        return {keyword: [self.schema(depth - 1) for _ in range(1 + chosen.below(3))]}

    def _conditional(self, depth: int) -> dict[str, Any]:
        made = {"if": self.schema(depth - 1)}
        made.update({keyword: self.schema(depth - 1) for keyword in self._chosen.some(("then", "else"), 2)})
        return made

    def _reference(self, depth: int) -> dict[str, Any]:
        chosen = self._chosen
        self._refers = True
        folder = "$defs" if self._draft >= 2019 else "definitions"
        targets = [f"#/{folder}/{name}" for name in _DEFINITIONS]
        if depth < _DEPTH:
            targets.append("#")
        if self._draft >= 2019:
            targets.append("#two")
        if self._draft == 2020 and chosen.below(4) == 1:
            self._refers_dynamically = True
            return {"$dynamicRef": "#here"}
        return {"$ref": chosen.choice(targets)}

    def _number(self, _: int) -> dict[str, Any]:
        chosen = self._chosen
        made: dict[str, Any] = {}
        for keyword in chosen.some(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), 3):
            if keyword == "multipleOf":
                made[keyword] = chosen.choice((1, 2, 3, 0.5, 2.5, 7))
            elif keyword.startswith("exclusive") and self._draft == 4:
                made[keyword] = chosen.below(2) == 1
            else:
                made[keyword] = chosen.choice(_NUMBERS)
        if self._draft == 4:  # where a flag changes a bound, which must be there
            for keyword, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
                if keyword in made:
                    made.setdefault(bound, chosen.choice(_NUMBERS))
        return made

    def _string(self, _: int) -> dict[str, Any]:
        chosen = self._chosen
        made: dict[str, Callable[[], Any]] = {
            "minLength": lambda: chosen.below(4),
            "maxLength": lambda: chosen.below(6),
            "pattern": lambda: chosen.choice(_PATTERNS),
            "format": lambda: chosen.choice(_FORMATS),
        }
        return {keyword: made[keyword]() for keyword in chosen.some([*made], 3)}

    def _array(self, depth: int) -> dict[str, Any]:
        chosen = self._chosen
        several, others = ("prefixItems", "items") if self._draft == 2020 else ("items", "additionalItems")
        made: dict[str, Callable[[], Any]] = {
            "items": lambda: self.schema(depth - 1),
            "minItems": lambda: chosen.below(4),
            "maxItems": lambda: chosen.below(5),
            several: lambda: [self.schema(depth - 1) for _ in range(1 + chosen.below(3))],
            "uniqueItems": lambda: chosen.below(4) > 0,
        }
        made.setdefault(others, lambda: self.schema(depth - 1))
        if self._draft >= 6:
            made["contains"] = lambda: self.schema(depth - 1)
        if self._draft >= 2019:
            made["minContains"] = lambda: chosen.below(4)
            made["maxContains"] = lambda: chosen.below(4)
            made["unevaluatedItems"] = lambda: self.schema(depth - 1)
        found = {keyword: made[keyword]() for keyword in chosen.some([*made], 4)}
        if not isinstance(found.get("items"), list):
            found.pop("additionalItems", None)  # without effect; `jsonschema` trips over it
        return found

    def _object(self, depth: int) -> dict[str, Any]:
        chosen = self._chosen

        def schemas(keys: tuple[str, ...]) -> dict[str, Any]:
            return {key: self.schema(depth - 1) for key in chosen.some(keys, 3)}

        made: dict[str, Callable[[], Any]] = {
            "properties": lambda: schemas(_NAMES),
            "required": lambda: chosen.some(_NAMES, 2),
            "additionalProperties": lambda: self.schema(depth - 1) if chosen.below(2) else False,
            "patternProperties": lambda: schemas(_PATTERNS[:6]),
            "minProperties": lambda: chosen.below(4),
            "maxProperties": lambda: chosen.below(4),
        }
        if self._draft >= 6:
            made["propertyNames"] = lambda: self.schema(0)
        if self._draft >= 2019:
            made["dependentRequired"] = lambda: {chosen.choice(_NAMES): chosen.some(_NAMES, 2)}
            made["dependentSchemas"] = lambda: schemas(_NAMES)
            made["unevaluatedProperties"] = lambda: self.schema(depth - 1)
        else:
            made["dependencies"] = lambda: (
                schemas(_NAMES) if chosen.below(2) else {chosen.choice(_NAMES): chosen.some(_NAMES, 2)}
            )
        return {keyword: made[keyword]() for keyword in chosen.some([*made], 4)}
