"""The coverage report: which keywords of a schema are enforced, and why the rest are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from formatter_core.errors import InvalidSchema, LimitExceeded
from formatter_core.limits import Limits
from formatter_core.schema.keywords import LATEST, draft_named, keywords, subschemas
from formatter_core.schema.refusals import Dropped, reason_of_null
from formatter_core.schema.string_formats import left_out, name_in

__all__ = ["Coverage", "CoverageEntry", "coverage_of"]

#: Minimum similarity (0 to 1) of an unknown keyword to a known one that we suggest.
_ALIKE = 0.8


@dataclass(frozen=True, slots=True)
class CoverageEntry:
    """The report on one keyword of one subschema. `status` is "enforced", "annotation", "refused" or "unknown"."""

    pointer: str
    keyword: str
    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The status of each keyword, in the order of the schema. `str()` gives a table."""

    entries: tuple[CoverageEntry, ...]

    def with_status(self, status: str) -> tuple[CoverageEntry, ...]:
        """Return the entries of one status."""
        return tuple(entry for entry in self.entries if entry.status == status)

    def __str__(self) -> str:
        rows = [("pointer", "keyword", "status", "reason")]
        rows += [(entry.pointer or "#", entry.keyword, entry.status, entry.reason) for entry in self.entries]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = (
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
            for row in rows
        )
        return "\n".join(lines)


def coverage_of(schema: Any, refused: Iterable[Dropped], enforce_formats: bool, limits: Limits) -> Coverage:
    """Make the report on a schema; `refused` lists the parts that cannot be enforced.

    Raises:
        InvalidSchema: a keyword in it is null.
        LimitExceeded: it has too many schemas.
    """
    reasons = {(entry.pointer, entry.keyword): entry.reason for entry in refused}
    entries: list[CoverageEntry] = []
    for count, (inner, pointer, draft) in enumerate(_schemas(schema), 1):
        if count >= limits.nodes:
            raise LimitExceeded("nodes", limits.nodes, "the schema")
        for keyword, value in inner.items():
            reason = reasons.pop((pointer, keyword), None)
            if reason is not None:
                entries.append(CoverageEntry(pointer, keyword, "refused", reason))
            elif value is None and keyword in keywords().since and keyword != "const":
                reason = reason_of_null(keyword)
                raise InvalidSchema(reason, pointer=pointer, keyword=keyword)
            else:
                entries.append(CoverageEntry(pointer, keyword, *_status(inner, keyword, draft, enforce_formats)))
    entries += [CoverageEntry(pointer, keyword, "refused", why) for (pointer, keyword), why in reasons.items()]
    return Coverage(tuple(entries))


def _schemas(schema: Any) -> Iterator[tuple[dict[str, Any], str, int]]:
    """Yield a schema and every schema written inside it, parents first, with their pointers and drafts."""
    stack = [(schema, "", draft_named(schema, LATEST))]
    while stack:
        inner, pointer, draft = stack.pop()
        if not isinstance(inner, dict):
            continue
        identifier = inner.get("id" if draft == 4 else "$id")
        if isinstance(identifier, str) and not identifier.startswith("#") and not (draft <= 7 and "$ref" in inner):
            draft = draft_named(inner, draft)
        yield inner, pointer, draft
        stack.extend(reversed([(child, path, draft) for child, path in subschemas(inner, pointer)]))


def _status(schema: dict[str, Any], keyword: str, draft: int, enforce_formats: bool) -> tuple[str, str]:
    value, known = schema[keyword], keywords()
    if keyword in known.annotations or keyword in ("$defs", "definitions"):
        return "annotation", ""
    if keyword == "nullable" and value is True:
        return "unknown", 'OpenAPI 3.0 has it, and JSON Schema ignores it; add "null" to `type` or a branch to `anyOf`'
    if keyword not in known.since:
        near = get_close_matches(keyword, [*known.since, *sorted(known.annotations)], 1, _ALIKE)
        return "unknown", f"did you mean `{near[0]}`?" if near else ""
    if draft <= 7 and "$ref" in schema and keyword != "$ref":
        return "annotation", f"draft {draft} ignores keywords beside `$ref`"
    if known.since[keyword] > draft:
        return "unknown", f"draft {draft} does not have it"
    if keyword == "format":
        return _status_of_format(value, draft, enforce_formats)
    return "enforced", _without_effect(schema, keyword)


def _status_of_format(name: Any, draft: int, enforce_formats: bool) -> tuple[str, str]:
    if not enforce_formats:
        return "annotation", 'string_formats is "annotate"'
    if not isinstance(name, str) or name not in keywords().formats:
        return "annotation", "JSON Schema does not define this format"
    return "enforced", left_out(name_in(name, draft)) or ""


def _without_effect(schema: dict[str, Any], keyword: str) -> str:
    """Explain why an enforced keyword obviously has no effect."""
    partners = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
    partner = partners.get(keyword)
    return f"no effect without `{partner}`" if partner is not None and partner not in schema else ""
