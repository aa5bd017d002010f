"""Sentences for the keywords that the library refuses or drops, made from its codes (`schema/report.rs`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from formatter_core.engine.native_schema import Refused
from formatter_core.errors import (
    FormatterError,
    InvalidRegex,
    InvalidSchema,
    LimitExceeded,
    UnsatisfiableSchema,
    UnsupportedSchema,
)
from formatter_core.limits import Limits
from formatter_core.schema.data import brief, read_json, too_long
from formatter_core.schema.keywords import TYPES, keywords
from formatter_core.schema.string_formats import left_out
from formatter_core.syntax.regex import parse_ecma

__all__ = ["Dropped", "as_dropped", "error_of", "not_a_schema", "reason_of_null"]

#: The remedy for every refusal of what can be dropped, where options of a schema can be given.
_REMEDY = 'Remove it, or pass on_unsupported="warn" to ignore it'

#: By code; `{0}` is the first part.
_REASONS = {
    "NoKeyword": "no key is a JSON Schema keyword; give a schema, or in Python formats.example(value)",
    "Cycle": "this schema refers to itself for the same value; remove the cycle of references",
    "NoSuchAnchor": "nothing in the schema has the anchor of the reference {0!r}; correct it",
    "PointsAtNothing": "the reference {0!r} points at nothing; correct it",
    "UnknownDialect": "unknown dialect {0!r}; use one of {dialects}",
    "TooManyBranches": "beside an `unevaluated…` keyword it takes at most {0} branches",
    "SeveralAnchors": "several schemas declare the dynamic anchor {0!r}; use `$ref` instead",
    "BesideContains": "beside `contains` it depends on which items matched; remove one of them",
    "Repeated": "its negation is not context-free; remove the negation",
    "UniqueSteps": "it is enforced for scalars and up to {0} values, but items may be multiples of large steps",
    "UniqueStructures": "it is enforced for scalars and up to {0} values, but items may be arrays or objects that are "
    "not few",
    "UniqueCounted": "beside `prefixItems` or counted `contains` it is enforced for at most {0} listed values and for "
    "items of different types",
    "LargeSteps": "its multiples need more than {0} states; use a smaller step or narrower bounds",
    "Contradiction": "its keywords contradict each other; relax one of them",
    "False": "it is `false`, which allows nothing; use another schema",
}
#: The messages for exceeded bounds, with remedies, by code. A user's limit has its name; a fixed bound has what it
#: counts.
_SET = {
    "Nodes": ("nodes", "{0}", ""),
    "GrammarNodes": ("nodes", "{0}", ""),
    "Repeat": ("repeat", "{0} in the rule {1!r}", ""),
    "RuleDepth": ("depth", "the rule {0!r}", ""),
    "Work": (
        "work", "combining the alternatives of the schema", "use fewer alternatives and patterns that apply together"
    ),
}  # fmt: skip
_FIXED = {
    "CountStates": (
        "states of a count", "the count of an array's items", "lower minContains, maxContains, minItems or maxItems"
    ),
    "KeyClasses": (
        "classes of keys", "the set of overlapping key patterns",
        "give fewer `patternProperties`, or patterns that do not overlap"
    ),
    "NamedKeys": (
        "named keys", "the set of keys of which one has a certain value", "name them, or allow any number of keys"
    ),
    "Combinations": (
        "combinations of branches", "the `oneOf` over {property}", "use fewer branches, or tell them apart by a `const`"
    ),
    "Branches": (
        "combinations of branches", "the set of branches that {property} and others tell apart together",
        "require the property that tells them apart, or use fewer branches"
    ),
    "MemberSteps": (
        "steps", "the search for members that meet all conditions", "leave out what depends on several of them"
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dropped:
    """A keyword that is not enforced, and why."""

    pointer: str
    keyword: str
    reason: str


def as_dropped(refused: Refused) -> Dropped:
    """Say why a keyword is dropped."""
    return Dropped(refused.pointer or "", refused.keyword, _reason(refused.why, refused.parts))


def error_of(refused: Refused, limits: Limits, *, lenient: bool) -> FormatterError:
    """Make the error of a schema that is refused.

    Args:
        refused: why.
        limits: those that the schema was lowered with.
        lenient: whether keywords could be dropped.
    """
    kind, why, pointer, keyword, parts, _ = refused
    if kind == "Limit":
        return _limit(why, parts, limits, pointer)
    if kind == "Unsatisfiable":
        return UnsatisfiableSchema(_reason(why, parts))
    if kind == "Invalid":
        return InvalidSchema(_fault(why, keyword, parts), pointer=pointer or "", keyword=keyword or None)
    remedy = _REMEDY if kind == "Droppable" and not lenient else ""
    return UnsupportedSchema(_reason(why, parts), pointer=pointer or "", keyword=keyword, remedy=remedy)


def not_a_schema(value: Any) -> InvalidSchema:
    """Make the error for a value in the place of a schema."""
    return InvalidSchema(f"expected a schema (an object or a boolean), found {brief(value)}")


def reason_of_null(keyword: str) -> str:
    """Say what is wrong with a keyword whose value is null."""
    return f"`{keyword}` is null; leave it out, or give it a value"


def _fault(why: str, keyword: str, parts: Sequence[str]) -> str:
    """Say what is wrong with something that is no schema; values are parts as JSON."""
    if why == "NotASchema":
        return not_a_schema(read_json(parts[0])).reason
    if why == "IsNull":
        return reason_of_null(keyword)
    if why == "WrongValue":
        return f"`{keyword}` is {brief(read_json(parts[0]))}; give {parts[1]}"
    if why == "NoType":
        return f"{read_json(parts[0])!r} is not a JSON type; use one of {', '.join(TYPES)}"
    if why == "LongNumber":
        return too_long("a number").reason
    return _reason(why, parts)


def _reason(why: str, parts: Sequence[str]) -> str:
    if why == "Within":
        keyword, pointer, inner, *others = parts
        return f"{keyword} at {pointer}: {_reason(inner, others)}"
    if why == "PointsOutside":
        reference, uri = parts
        which = "it" if uri == reference else repr(uri)
        return f"the reference {reference!r} points outside the schema; pass a registry with a schema for {which}"
    if why == "Pattern":
        return _pattern_fault(parts[0])
    if why == "LoneSurrogate":
        return f"{read_json(parts[0])!r} contains a lone surrogate, which UTF-8 cannot encode"
    if why == "ListedLeftOut":
        return f"{left_out(parts[0])}, and {parts[1]!r}, which the schema lists, may be one; list others"
    if why == "OutsideFormat":
        return f"what is not in the format cannot be told, since {left_out(parts[0])}"
    return _REASONS[why].format(*parts, dialects=", ".join(keywords().dialects))


def _pattern_fault(pattern: str) -> str:
    try:
        parse_ecma(pattern)
    except (InvalidRegex, LimitExceeded) as error:
        return str(error)
    return f"the pattern {pattern!r} cannot be read"


def _limit(why: str, parts: Sequence[str], limits: Limits, pointer: str | None) -> LimitExceeded:
    options: dict[str, Any] = {"pointer": pointer}
    if why in _SET:
        limit, what, remedy = _SET[why]
        options |= {"remedy": remedy} if remedy else {}
        return LimitExceeded(limit, getattr(limits, limit), what.format(*parts), **options)
    if why in _FIXED:
        limit, what, remedy = _FIXED[why]
        of = f"the property {parts[1]!r}" if parts[1:] else "an unnamed key"
        return LimitExceeded(limit, int(parts[0]), what.format(property=of), is_fixed=True, remedy=remedy, **options)
    if why == "Depth":
        what, most = parts[0], int(parts[1])
        if limits.depth <= most:
            return LimitExceeded("depth", limits.depth, what, **options)
        return LimitExceeded("levels", most, what, is_fixed=True, **options)
    limit, maximum, what = parts
    return LimitExceeded(limit, int(maximum), what, **options)
