"""JSON Schema to grammar: load the schema, bring it to a normal form, lower that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from formatter_core.errors import InvalidSchema, LimitExceeded, UnsatisfiableSchema, UnsupportedSchema
from formatter_core.grammar import Grammar
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.schema.coverage import Coverage, CoverageEntry, coverage_of
from formatter_core.schema.keywords import known
from formatter_core.schema.load import Loader
from formatter_core.schema.lower import lower
from formatter_core.schema.normal import Normalizer
from formatter_core.schema.report import Dropped, Refusals
from formatter_core.schema.whitespace import Whitespace, as_whitespace

__all__ = ["Coverage", "CoverageEntry", "Dropped", "Whitespace", "lower_schema", "schema_coverage"]


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
    _check_known(schema)
    refusals = Refusals(lenient=on_unsupported == "warn")
    blanks = as_whitespace(whitespace)
    try:
        loader = Loader(schema, limits, registry)
        normalizer = Normalizer(loader, limits, refusals, string_formats == "enforce")
        return lower(loader, normalizer, refusals, blanks, key_order == "any", limits)
    except RecursionError as error:
        raise LimitExceeded("depth", limits.depth, "the nesting of the schema") from error
    finally:
        if dropped is not None:
            dropped.extend(refusals.dropped)


def schema_coverage(
    schema: Any,
    *,
    whitespace: str | Whitespace = "flexible",
    key_order: str = "schema",
    string_formats: str = "enforce",
    registry: Mapping[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Coverage:
    """What becomes of each keyword of a schema; nothing is refused by an error.

    Raises:
        InvalidSchema: not a schema.
        LimitExceeded: within `limits` there is no answer.
    """
    refused: list[Dropped] = []
    options: dict[str, Any] = {"whitespace": whitespace, "key_order": key_order, "string_formats": string_formats}
    try:
        lower_schema(schema, on_unsupported="warn", registry=registry, limits=limits, dropped=refused, **options)
    except UnsupportedSchema as error:
        refused.append(Dropped(error.pointer, error.keyword, error.reason))
    except UnsatisfiableSchema:
        pass
    return coverage_of(Loader(schema, limits, registry), refused, string_formats == "enforce")


def _check_known(schema: Any) -> None:
    if isinstance(schema, dict) and schema and not any(map(known, schema)):
        raise InvalidSchema(
            "none of its keys is a keyword of JSON Schema, so it is probably an example; use formats.example(value)"
        )
