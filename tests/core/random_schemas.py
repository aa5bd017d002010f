"""Random schemas that count, inside of keywords that negate, choose, or ask what was evaluated; and documents.

`compare` judges our grammars by the `jsonschema` package. `scripts/compare_random.py schemas` does so for many schemas.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jsonschema import (
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
)
from jsonschema.validators import extend

from formatter_core.errors import FormatterError, LimitExceeded, UnsatisfiableSchema, UnsupportedSchema

__all__ = ["Judge", "Report", "compare", "random_case"]

VALIDATORS: dict[int, Any] = {
    4: Draft4Validator,
    6: Draft6Validator,
    7: Draft7Validator,
    # In draft 2019-09 `jsonschema` overlooks what a schema in `additionalProperties` evaluates.
    2019: extend(  # type: ignore[no-untyped-call]
        Draft201909Validator, {"unevaluatedProperties": Draft202012Validator.VALIDATORS["unevaluatedProperties"]}
    ),
    2020: Draft202012Validator,
}
NAMES = ("a", "b", "c", "aa")
#: For schemas of very many alternatives.
MANY_NAMES = tuple(f"k{number}" for number in range(12))
#: Fractions are exact in binary: `jsonschema` computes with floats.
SCALARS: tuple[Any, ...] = (0, 1, 2, 3, 4, 6, -2, 1.5, 2.0, "", "a", "ab", "abc", "b", None, True, False)
DOCUMENTS = 40
MUTATED = 8
#: Enough for every order of every document.
ORDERS = 5000


class Judge(Protocol):
    """Tells whether a value is accepted with its keys in some order."""

    def accepts_value(self, value: Any, orders: int) -> bool:
        """Tell whether it is in one of the first `orders` orders."""


@dataclass
class Report:
    """The outcome of a comparison.

    Attributes:
        schemas: those that were compiled, or have no document.
        documents: how many were judged; `valid`: how many of these `jsonschema` finds valid.
        refused: schemas that were refused, by error.
        keywords: schemas that have each keyword, of those that were compiled.
        differences: a seed, what is wrong, the schema and the document; the first of each schema.
    """

    schemas: int = 0
    documents: int = 0
    valid: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    keywords: Counter[str] = field(default_factory=Counter)
    differences: list[dict[str, Any]] = field(default_factory=list)


def compare(seeds: Iterable[int], judge_of: Callable[[Any], Judge]) -> Report:
    """Judge the schemas of these seeds."""
    report = Report()
    for seed in seeds:
        schema, validator, documents = random_case(seed)
        judge: Judge | None = None
        try:
            judge = judge_of(schema)
        except UnsatisfiableSchema:
            pass
        except (UnsupportedSchema, LimitExceeded) as error:
            keyword = getattr(error, "keyword", None) or getattr(error, "limit", "")
            report.refused[f"{type(error).__name__}: {keyword}"] += 1
            continue
        except FormatterError as error:
            report.differences.append({"seed": seed, "what": repr(error), "schema": schema})
            continue
        report.schemas += 1
        report.keywords.update(set(_keywords(schema)))
        for document in documents:
            expected = validator.is_valid(document)
            report.documents += 1
            report.valid += expected
            if (judge is not None and judge.accepts_value(document, ORDERS)) != expected:
                what = "wrong reject" if expected else "wrong accept"
                report.differences.append({"seed": seed, "what": what, "schema": schema, "document": document})
                break
    return report


def random_case(seed: int) -> tuple[Any, Any, list[Any]]:
    """A schema, its validator, and documents of which some are valid where that is not too rare."""
    source = random.Random(seed)
    draft = source.choice(list(VALIDATORS))
    maker = _Maker(source, draft)
    about = source.choice(["array", "array", "array", "object", "object", "object", "any", "wide"])
    names = MANY_NAMES if about == "wide" else NAMES
    made = maker.wide() if about == "wide" else maker.schema(about, source.choice((1, 1, 2, 3)))
    schema = {"$schema": VALIDATORS[draft].META_SCHEMA.get("$schema"), **made}
    validator = VALIDATORS[draft](schema)
    documents = [_document(source, names, about, 2) for _ in range(DOCUMENTS)]
    valid = [document for document in documents if validator.is_valid(document)]
    for document in valid[:MUTATED]:
        documents += itertools.islice(mutations(document, source, names), 4)
    return schema, validator, documents


def mutations(document: Any, source: random.Random, names: Sequence[str]) -> Iterator[Any]:
    """A document with one thing changed."""
    if isinstance(document, list):
        if document:
            place = source.randrange(len(document))
            yield document[:place] + document[place + 1 :]
            yield [*document[:place], document[place], *document[place:]]
            yield [*document[:place], source.choice(SCALARS), *document[place + 1 :]]
        yield [*document, source.choice(SCALARS)]
    elif isinstance(document, dict):
        yield {**document, source.choice(names): source.choice(SCALARS)}
        if len(document) < 3:
            yield {**document, source.choice(names): source.choice(SCALARS), "z": 0}
        for name in document:
            yield {other: value for other, value in document.items() if other != name}
            yield {**document, name: source.choice(SCALARS)}
    else:
        yield source.choice(SCALARS)
        yield document + "a" if isinstance(document, str) else [document]


def _document(source: random.Random, names: Sequence[str], about: str, depth: int) -> Any:
    kind = about.replace("wide", "object") if source.random() < 0.85 else source.choice(["array", "object", "scalar"])
    if kind == "any":
        kind = source.choice(["array", "object", "scalar"])
    if kind == "scalar" or depth == 0:
        return source.choice(SCALARS)
    inner = "scalar" if source.random() < 0.8 else "any"
    if kind == "array":
        few = source.sample(SCALARS, 2)
        return [
            source.choice(few) if source.random() < 0.6 else _document(source, names, inner, depth - 1)
            for _ in range(source.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)))
        ]
    found = source.sample(names, source.choice((0, 1, 1, 2, 2, 3)))
    return {name: _document(source, names, inner, depth - 1) for name in found}


def _keywords(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for keyword, value in schema.items():
            yield keyword
            yield from _keywords(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _keywords(item)


class _Maker:
    def __init__(self, source: random.Random, draft: int) -> None:
        self._source = source
        self._draft = draft
        self._kinds: dict[str, Callable[[str, int], dict[str, Any]]] = {
            "not": lambda about, depth: {"not": self.schema(about, depth)},
            "oneOf": lambda about, depth: {"oneOf": self._several(about, depth)},
            "anyOf": lambda about, depth: {"anyOf": self._several(about, depth)},
            "allOf": lambda about, depth: {"allOf": self._several(about, depth)},
            "if": self._conditional,
            "dependentSchemas": self._dependent,
            "dependencies": self._dependent,
            "unevaluatedItems": lambda _, depth: self._unevaluated("unevaluatedItems", "array", depth),
            "unevaluatedProperties": lambda _, depth: self._unevaluated("unevaluatedProperties", "object", depth),
        }

    def schema(self, about: str, depth: int) -> dict[str, Any]:
        """A schema about arrays, objects or anything."""
        source = self._source
        made = self._counts(about) if depth == 0 or source.random() < 0.4 else {}
        if depth:
            for kind in source.sample(self._allowed(about), source.choice((1, 1, 1, 2))):
                made.update(self._kinds[kind](about, depth - 1))
        if source.random() < 0.4 and about != "any":
            made["type"] = about
        return made

    def wide(self) -> dict[str, Any]:
        """A schema of objects whose alternatives, written out, would be very many."""
        source = self._source
        kinds: list[Callable[[], dict[str, Any]]] = [
            lambda: {"oneOf": [self._clause(name) for name in source.sample(MANY_NAMES, source.randint(9, 12))]},
            lambda: {"allOf": [{"anyOf": [self._clause() for _ in range(4)]} for _ in range(4)]},
        ]
        if self._draft >= 7:
            kinds.append(lambda: {"allOf": [{"if": self._clause(), "then": self._clause()} for _ in range(8)]})
        made = source.choice(kinds)()
        if source.random() < 0.2:
            made = {source.choice(["anyOf", "oneOf"]): [made, self._clause()]}
        if source.random() < 0.3:
            made.update(self._some({"maxProperties": self._count, "minProperties": lambda: self._count(1)}, 1))
        return made if source.random() < 0.3 else {"type": "object", **made}

    def _clause(self, name: str = "") -> dict[str, Any]:
        """Something about one property; seldom about another one too."""
        source = self._source
        name = name or source.choice(MANY_NAMES)
        made: dict[str, Any] = {"required": [name]} if source.random() < 0.9 else {}
        if source.random() < 0.5 or not made:
            made = {"properties": {name: self._item()}, **made}
        if source.random() < 0.03:
            made = {"not": made} if source.random() < 0.5 else {**made, "required": [source.choice(MANY_NAMES)]}
        return made

    def _allowed(self, about: str) -> list[str]:
        kinds = ["not", "not", "oneOf", "oneOf", "anyOf", "allOf"]
        if self._draft >= 7:
            kinds += ["if", "if"]
        if about != "array":
            kinds.append("dependentSchemas" if self._draft >= 2019 else "dependencies")
        if self._draft >= 2019:
            kinds += ["unevaluatedItems"] * (about != "object") + ["unevaluatedProperties"] * (about != "array")
        return list(dict.fromkeys(self._source.sample(kinds, len(kinds))))

    def _several(self, about: str, depth: int) -> list[Any]:
        return [self.schema(about, self._source.randint(0, depth)) for _ in range(self._source.choice((1, 2, 2, 3)))]

    def _conditional(self, about: str, depth: int) -> dict[str, Any]:
        made = {"if": self.schema(about, self._source.randint(0, depth))}
        for keyword in self._source.choice((["then"], ["else"], ["then", "else"])):
            made[keyword] = self.schema(about, self._source.randint(0, depth))
        return made

    def _dependent(self, about: str, depth: int) -> dict[str, Any]:
        keyword = "dependentSchemas" if self._draft >= 2019 else "dependencies"
        return {keyword: {self._source.choice(NAMES): self.schema(about, self._source.randint(0, depth))}}

    def _unevaluated(self, keyword: str, about: str, depth: int) -> dict[str, Any]:
        made = self.schema(about, depth) if self._source.random() < 0.5 else {}
        return {**made, keyword: self._item() if self._source.random() < 0.5 else False}

    def _counts(self, about: str) -> dict[str, Any]:
        if about == "any":
            about = self._source.choice(["array", "object", "number", "string"])
        if about == "array":
            return self._array()
        if about == "object":
            return self._object()
        return self._number() if about == "number" else self._string()

    def _some(self, made: dict[str, Callable[[], Any]], most: int) -> dict[str, Any]:
        chosen = self._source.sample(list(made), self._source.choice((1, 1, *range(1, most + 1))))
        return {keyword: make() for keyword, make in made.items() if keyword in chosen}

    def _item(self) -> Any:
        source = self._source
        listed = [source.choice(SCALARS) for _ in range(source.randint(1, 3))]
        options: list[Any] = [
            {"type": source.choice(["integer", "string", "null", "boolean", "number", "array", "object"])},
            {"enum": [value for place, value in enumerate(listed) if repr(value) not in map(repr, listed[:place])]},
            self._number(),
            self._string(),
            {"not": {"enum": [source.choice(SCALARS)]}},
            # `jsonschema` trips over booleans for `items` in draft 2019-09.
            True if self._draft not in (4, 2019) else {},
            False if self._draft not in (4, 2019) else {"not": {}},
        ]
        if source.random() < 0.1:
            return self.schema(source.choice(["array", "object"]), 1)
        return source.choice(options)

    def _count(self, most: int = 3) -> int:
        return self._source.randint(0, most)

    def _number(self) -> dict[str, Any]:
        made: dict[str, Callable[[], Any]] = {
            "multipleOf": lambda: self._source.choice([1, 2, 3, 0.5, 1.5]),
            "minimum": lambda: self._source.choice([0, 1, 1.5, 2]),
            "maximum": lambda: self._source.choice([1, 2, 3, 3.5]),
        }
        return self._some(made, 2)

    def _string(self) -> dict[str, Any]:
        made: dict[str, Callable[[], Any]] = {
            "minLength": lambda: self._count(2),
            "maxLength": lambda: self._count(2),
            "pattern": lambda: self._source.choice(["^a", "b$", "^(ab)*$"]),
        }
        return self._some(made, 2)

    def _array(self) -> dict[str, Any]:
        source = self._source
        several = "prefixItems" if self._draft == 2020 else "items"
        others = "items" if self._draft == 2020 else "additionalItems"
        made: dict[str, Callable[[], Any]] = {
            "minItems": self._count,
            "maxItems": self._count,
            several: lambda: [self._item() for _ in range(source.randint(1, 2))],
            others: self._item,
        }
        if self._draft < 2020 and source.random() < 0.5:
            del made[others]
            made["items"] = self._item
        if self._draft > 4:
            made["contains"] = self._item
        found = self._some(made, 3)
        if "contains" in found and self._draft >= 2019:
            for keyword in source.sample(["minContains", "maxContains"], source.randint(0, 2)):
                found[keyword] = self._count()
        if source.random() < 0.07:
            found["uniqueItems"] = True
            found[others if several in found else "items"] = {"enum": source.sample([0, 1, "a", None], 2)}
        if not isinstance(found.get("items"), list):
            found.pop("additionalItems", None)  # without effect; `jsonschema` trips over it
        return found

    def _object(self) -> dict[str, Any]:
        source = self._source
        made: dict[str, Callable[[], Any]] = {
            "minProperties": lambda: self._count(2),
            "maxProperties": self._count,
            "required": lambda: source.sample(NAMES, source.randint(1, 2)),
            "properties": lambda: {name: self._item() for name in source.sample(NAMES, source.randint(1, 3))},
            "patternProperties": lambda: {source.choice(["^a", "b", "^.$"]): self._item()},
            "additionalProperties": lambda: self._item() if source.random() < 0.4 else self._no(),
        }
        if self._draft > 4:
            made["propertyNames"] = lambda: source.choice([{"maxLength": 1}, {"pattern": "^a"}, {"enum": ["a", "b"]}])
        return self._some(made, 3)

    def _no(self) -> Any:
        return False
