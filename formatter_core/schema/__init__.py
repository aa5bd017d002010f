"""JSON Schema to grammar: load the schema, bring it to a normal form, lower that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from formatter_core.engine.shortest import derives_nothing
from formatter_core.errors import (
    FormatterError,
    InvalidGrammar,
    InvalidSchema,
    LimitExceeded,
    UnsatisfiableSchema,
    UnsupportedSchema,
)
from formatter_core.grammar import Grammar
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.schema.contradiction import contradicting
from formatter_core.schema.coverage import Coverage, CoverageEntry, coverage_of
from formatter_core.schema.keywords import LATEST, known
from formatter_core.schema.load import Loader, draft_of
from formatter_core.schema.lower import lower
from formatter_core.schema.normal import Normalizer
from formatter_core.schema.report import Dropped, Refusals
from formatter_core.schema.spelling import Spelling
from formatter_core.schema.string_formats import left_out, name_in
from formatter_core.schema.tokens import tokens_of
from formatter_core.schema.whitespace import Whitespace, WhitespaceName, as_whitespace

__all__ = [
    "Coverage",
    "CoverageEntry",
    "Dropped",
    "KeyOrder",
    "OnUnsupported",
    "Spelling",
    "StringFormats",
    "Whitespace",
    "WhitespaceName",
    "lower_schema",
    "schema_coverage",
    "why_unsatisfiable",
]

KeyOrder: TypeAlias = Literal["schema", "any"]
StringFormats: TypeAlias = Literal["enforce", "annotate"]
OnUnsupported: TypeAlias = Literal["error", "warn"]


def lower_schema(
    schema: Any,
    *,
    spelling: Spelling = "canonical",
    whitespace: WhitespaceName | Whitespace = "flexible",
    key_order: KeyOrder = "schema",
    string_formats: StringFormats = "enforce",
    on_unsupported: OnUnsupported = "error",
    registry: Mapping[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    dropped: list[Dropped] | None = None,
) -> Grammar:
    """The grammar of a schema's valid documents, in the accepted spellings.

    `schema` is JSON data as `load.own_json` gives it. With `on_unsupported="warn"`, dropped keywords are added to
    `dropped`.

    Raises:
        InvalidSchema: not a schema.
        UnsupportedSchema: a keyword that cannot be enforced exactly.
        UnsatisfiableSchema: no document satisfies the schema.
        LimitExceeded: lowering needs more than `limits` allow.
    """
    options: dict[str, Any] = {
        "spelling": spelling, "whitespace": whitespace, "key_order": key_order, "string_formats": string_formats,
        "registry": registry,
    }  # fmt: skip
    try:
        return _lowered(schema, on_unsupported=on_unsupported, limits=limits, dropped=dropped, **options)
    except UnsatisfiableSchema as error:
        why = why_unsatisfiable(schema, on_unsupported=on_unsupported, limits=limits, **options)
        raise (why if isinstance(why, UnsatisfiableSchema) and why.pointers else error) from None


def why_unsatisfiable(
    schema: Any, *, limits: Limits = DEFAULT_LIMITS, exactly: bool = False, **options: Any
) -> UnsatisfiableSchema | UnsupportedSchema | None:
    """The error that names the contradicting keywords, if we find them; None if the schema is satisfiable.

    Takes the options of `lower_schema`. With `exactly` a grammar engine also checks strings and numbers; what leaves no
    value may then be that a format is allowed in part.
    """
    small = replace(
        limits, nodes=min(limits.nodes, 50_000), states=min(limits.states, 5000), work=min(limits.work, 2_000_000)
    )

    def is_empty(schema: Any, limits: Limits = small) -> bool:
        try:
            grammar = _lowered(schema, limits=limits, **options)
            return exactly and derives_nothing(grammar, limits)
        except (UnsatisfiableSchema, InvalidGrammar):
            return True
        except FormatterError:
            return False

    if not is_empty(schema, limits):
        return None
    pointers = contradicting(schema, is_empty) if is_empty(schema) else ()
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
    """What is left out of the format that the keyword at a pointer names, if it names one that is allowed in part."""
    value = schema
    for step in pointer[1:].split("/"):
        value = value[int(step) if isinstance(value, list) else step.replace("~1", "/").replace("~0", "~")]
    is_format = pointer.endswith("/format") and isinstance(value, str)
    return left_out(name_in(value, draft_of(schema, LATEST, ""))) if is_format else None


def _lowered(
    schema: Any,
    *,
    spelling: Spelling,
    whitespace: WhitespaceName | Whitespace,
    key_order: KeyOrder,
    string_formats: StringFormats,
    on_unsupported: OnUnsupported,
    registry: Mapping[str, Any] | None,
    limits: Limits,
    dropped: list[Dropped] | None = None,
) -> Grammar:
    _check_known(schema)
    refusals = Refusals(lenient=on_unsupported == "warn")
    tokens = tokens_of(as_whitespace(whitespace, spelling), spelling)
    try:
        loader = Loader(schema, limits, registry)
        normalizer = Normalizer(loader, limits, refusals, string_formats == "enforce")
        return lower(loader, normalizer, refusals, tokens, key_order == "any", limits)
    except RecursionError as error:
        raise LimitExceeded("depth", limits.depth, "the nesting of the schema") from error
    finally:
        if dropped is not None:
            dropped.extend(refusals.dropped)


def schema_coverage(
    schema: Any,
    *,
    spelling: Spelling = "canonical",
    whitespace: WhitespaceName | Whitespace = "flexible",
    key_order: KeyOrder = "schema",
    string_formats: StringFormats = "enforce",
    registry: Mapping[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Coverage:
    """Which keywords of a schema are enforced. Unsupported keywords are reported, not raised.

    Raises:
        InvalidSchema: not a schema.
        LimitExceeded: lowering needs more than `limits` allow.
    """
    refused: list[Dropped] = []
    options: dict[str, Any] = {
        "spelling": spelling, "whitespace": whitespace, "key_order": key_order, "string_formats": string_formats
    }  # fmt: skip
    try:
        _lowered(schema, on_unsupported="warn", registry=registry, limits=limits, dropped=refused, **options)
    except UnsupportedSchema as error:
        refused.append(Dropped(error.pointer, error.keyword, error.reason))
    except UnsatisfiableSchema:
        pass
    return coverage_of(Loader(schema, limits, registry), refused, string_formats == "enforce")


def _check_known(schema: Any) -> None:
    if isinstance(schema, dict) and schema and not any(map(known, schema)):
        raise InvalidSchema("no key is a JSON Schema keyword; give a schema, or in Python formats.example(value)")
