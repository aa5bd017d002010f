"""The public interface to JSON Schema: options, the coverage report, and explanations of unsatisfiable schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from formatter_core.errors import UnsatisfiableSchema, UnsupportedSchema
from formatter_core.grammar.json_text import Spelling
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.schema.contradiction import why_empty
from formatter_core.schema.coverage import Coverage, CoverageEntry, coverage_of
from formatter_core.schema.library import LibraryOptions, document, documents, is_unsatisfiable, not_enforced
from formatter_core.schema.refusals import Dropped
from formatter_core.schema.whitespace import Whitespace, WhitespaceName

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
    "contradiction_of",
    "schema_coverage",
    "why_unsatisfiable",
]

KeyOrder: TypeAlias = Literal["schema", "any"]
StringFormats: TypeAlias = Literal["enforce", "annotate"]
OnUnsupported: TypeAlias = Literal["error", "warn"]


def contradiction_of(schema: Any, error: UnsatisfiableSchema, **options: Any) -> UnsatisfiableSchema:
    """Make the error that names the contradicting keywords; return `error` if they are not found.

    Takes the options of `json_schema` and the limits with which the schema raised `error`.
    """
    why = why_empty(schema, options["limits"], _emptiness(exactly=False, **options), exactly=False)
    return why if isinstance(why, UnsatisfiableSchema) and why.pointers else error


def why_unsatisfiable(
    schema: Any, *, limits: Limits = DEFAULT_LIMITS, **options: Any
) -> UnsatisfiableSchema | UnsupportedSchema | None:
    """Make the error that names the contradicting keywords; return None if the schema is satisfiable.

    Takes the options of `json_schema`. A grammar engine also checks strings and numbers; if that leaves no value, the
    reason may be a string format that is allowed only in part.
    """
    is_empty = _emptiness(exactly=True, limits=limits, **options)
    return why_empty(schema, limits, is_empty, exactly=True) if is_empty(schema, limits) else None


def _emptiness(*, exactly: bool, limits: Limits, on_unsupported: OnUnsupported, **options: Any) -> Callable[..., bool]:
    """Make a function that tells whether no document is valid for a schema, as far as limits let it decide."""
    registry, lenient = documents(options["registry"]), on_unsupported == "warn"

    def is_empty(schema: Any, limits: Limits) -> bool:
        json = document(schema, registry)
        return is_unsatisfiable(json, _library_options(limits=limits, **options), lenient=lenient, exactly=exactly)

    return is_empty


def _library_options(
    *, spelling: Spelling, whitespace: Any, key_order: KeyOrder, string_formats: StringFormats, limits: Limits, **_: Any
) -> LibraryOptions:
    return LibraryOptions(whitespace, spelling, key_order == "any", string_formats == "enforce", "", (), limits)


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
    """Report which keywords of a schema are enforced. Unsupported keywords are reported, not raised.

    Raises:
        InvalidSchema: not a schema.
        LimitExceeded: lowering needs more than `limits` allow.
    """
    options: dict[str, Any] = {
        "spelling": spelling, "whitespace": whitespace, "key_order": key_order, "string_formats": string_formats,
        "registry": registry, "limits": limits,
    }  # fmt: skip
    refused = not_enforced(document(schema, documents(registry)), _library_options(**options))
    return coverage_of(schema, refused, string_formats == "enforce", limits)
