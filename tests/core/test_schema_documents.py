"""Random schemas and documents, judged as the `jsonschema` package judges them."""

from __future__ import annotations

import json
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


@given(SCHEMAS, _schemas(st.booleans()), st.lists(DOCUMENTS, min_size=5, max_size=12))
@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
def test_documents_are_judged_as_jsonschema_judges_them(schema: Any, shared: Any, documents: list[Any]) -> None:
    if isinstance(schema, bool):
        schema = {"allOf": [schema]}
    if "$ref" in json.dumps(shared):
        shared = {}
    schema = {**schema, "$defs": {"d": shared}}
    validator = Draft202012Validator(schema)
    try:
        judge = Judge(schema)
    except UnsatisfiableSchema:
        assert not any(validator.is_valid(document) for document in documents)
        return
    except (UnsupportedSchema, LimitExceeded):
        return
    for document in documents:
        assert judge.accepts_value(document) == validator.is_valid(document), json.dumps([schema, document])
