"""Random schemas and documents, judged as the `jsonschema` package judges them; also changed, indented, and deep."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from formatter_core.errors import LimitExceeded, UnsatisfiableSchema, UnsupportedSchema

from .schema_judge import Judge

NAMES = st.sampled_from(["a", "b", "ab", "c"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 12), st.sampled_from([0.5, 1.5, 2.25, -1.5]), st.text("abé", max_size=3)
)
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)


def _object(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=3)
    types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
    return st.one_of(
        _object(
            type=st.lists(types, min_size=1, max_size=3, unique=True), enum=st.lists(DOCUMENTS, min_size=1, max_size=4)
        ),
        _object(
            type=st.just("object"),
            properties=st.dictionaries(NAMES, inner, max_size=3),
            required=st.lists(NAMES, max_size=2, unique=True),
            additionalProperties=inner,
            patternProperties=st.dictionaries(st.sampled_from(["^a", "b", "^c$"]), inner, max_size=2),
            maxProperties=st.integers(0, 3),
            dependentRequired=st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=1),
            propertyNames=_object(maxLength=st.integers(1, 2), pattern=st.just("a")),
        ),
        _object(
            type=st.just("array"),
            items=inner,
            prefixItems=lists,
            minItems=st.integers(0, 2),
            maxItems=st.integers(0, 3),
            contains=inner,
            maxContains=st.integers(1, 2),
        ),
        _object(
            type=st.sampled_from(["integer", "number"]),
            minimum=st.sampled_from([-2, 0, 1.5]),
            exclusiveMaximum=st.sampled_from([2, 2.25, 10]),
            multipleOf=st.sampled_from([1, 2, 3, 0.5, 0.25]),
        ),
        _object(
            type=st.just("string"),
            minLength=st.integers(0, 2),
            maxLength=st.integers(1, 3),
            pattern=st.sampled_from(["^a", "b$", "é", "^(ab)*$"]),
        ),
        _object(anyOf=lists, allOf=lists, properties=st.dictionaries(NAMES, inner, max_size=2)),
        _object(oneOf=lists, type=types),
        st.fixed_dictionaries({"not": inner}, optional={"type": types}),
        st.fixed_dictionaries({"if": inner, "then": inner}, optional={"else": inner}),
        st.just({"$ref": "#/$defs/d"}),
    )


SCHEMAS = st.recursive(st.booleans() | st.just({}), _schemas, max_leaves=5)


#: So many levels are put around schemas and documents.
LEVELS = 12


def _wrapped(schema: Any) -> Any:
    """A schema below objects and arrays in turn."""
    for level in range(LEVELS):
        if level % 2:
            schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": 1}
        else:
            schema = {"type": "object", "properties": {"k": schema}, "required": ["k"], "additionalProperties": False}
    return schema


def _put_inside(document: Any) -> Any:
    """A document where `_wrapped` wants it."""
    for level in range(LEVELS):
        document = [document] if level % 2 else {"k": document}
    return document


def _mutations(document: Any) -> Iterator[Any]:
    """The document with one thing changed: left out, added, repeated, or replaced."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield {other: inner for other, inner in document.items() if other != key}
            for changed in itertools.islice(_mutations(value), 3):
                yield {**document, key: changed}
        yield {**document, "ab": 1}
    elif isinstance(document, list):
        if document:
            yield document[:-1]
            yield [*document, document[0]]
            yield from ([changed, *document[1:]] for changed in itertools.islice(_mutations(document[0]), 3))
        yield [*document, None]
    elif isinstance(document, str):
        yield from (document + "a", document[1:], None)
    elif document is None or isinstance(document, bool):
        yield from ("a", 0)
    else:
        yield from (document + 1, document + 0.25, str(document))


@given(SCHEMAS, _schemas(st.booleans()), st.lists(DOCUMENTS, min_size=5, max_size=12))
@settings(deadline=None, max_examples=70, suppress_health_check=list(HealthCheck))
def test_documents_are_judged_as_jsonschema_judges_them(schema: Any, shared: Any, documents: list[Any]) -> None:
    if isinstance(schema, bool):
        schema = {"allOf": [schema]}
    if "$ref" in json.dumps(shared):
        shared = {}
    definitions = {"$defs": {"d": shared}}
    validator = Draft202012Validator({**schema, **definitions})
    try:
        judge = Judge({**schema, **definitions})
        deep = Judge({**_wrapped(schema), **definitions})
    except UnsatisfiableSchema:
        assert not any(validator.is_valid(document) for document in documents)
        return
    except (UnsupportedSchema, LimitExceeded):
        return
    mutated = [changed for document in documents[:4] for changed in itertools.islice(_mutations(document), 4)]
    for document in documents + mutated:
        expected = validator.is_valid(document)
        assert judge.accepts_value(document) == expected, json.dumps([schema, shared, document])
        if expected or document in documents[:2]:
            inside = _put_inside(document)
            assert deep.accepts_value(inside, indent=4) == expected, json.dumps([schema, shared, document])
