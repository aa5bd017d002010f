"""JSON Schema to grammar: load the schema, bring it to a normal form, lower that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from formatter_core.errors import InvalidFormat, InvalidSchema
from formatter_core.grammar import Grammar
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.schema.keywords import known
from formatter_core.schema.load import Loader
from formatter_core.schema.lower import lower
from formatter_core.schema.normal import Normalizer
from formatter_core.schema.report import Dropped, Refusals
from formatter_core.schema.whitespace import Whitespace, as_whitespace

__all__ = ["Dropped", "Whitespace", "lower_schema"]


def lower_schema(
    schema: Any,
    *,
    whitespace: str | Whitespace = "flexible",
    key_order: str = "schema",
    string_formats: str = "enforce",
    on_unsupported: str = "error",
    registry: Mapping[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    dropped: list[Dropped] | None = None,
) -> Grammar:
    """The grammar of a schema's valid documents, in every spelling.

    `schema` is JSON data as `load.read_json` gives it. With `on_unsupported="warn"` the keywords that were dropped are
    added to `dropped`.

    Raises:
        InvalidSchema: not a schema.
        UnsupportedSchema: a keyword that cannot be enforced exactly.
        UnsatisfiableSchema: no document satisfies the schema.
        LimitExceeded: within `limits` there is no answer.
    """
    for name, value, choices in (
        ("key_order", key_order, ("schema", "any")),
        ("string_formats", string_formats, ("enforce", "annotate")),
        ("on_unsupported", on_unsupported, ("error", "warn")),
    ):
        if value not in choices:
            raise InvalidFormat(f"{name} is {value!r}; give one of {', '.join(map(repr, choices))}")
    if isinstance(schema, dict) and schema and not any(map(known, schema)):
        raise InvalidSchema(
            "none of its keys is a keyword of JSON Schema, so it is probably an example; use formats.example(value)"
        )
    refusals = Refusals(lenient=on_unsupported == "warn")
    loader = Loader(schema, limits, registry)
    normalizer = Normalizer(loader, limits, refusals, string_formats == "enforce")
    try:
        return lower(loader, normalizer, refusals, as_whitespace(whitespace), key_order == "any", limits)
    finally:
        if dropped is not None:
            dropped.extend(refusals.dropped)
