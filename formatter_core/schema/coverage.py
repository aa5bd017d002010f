"""The coverage report: which keywords of a schema are enforced, and why others are not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from formatter_core.schema.keywords import ANNOTATIONS, SINCE
from formatter_core.schema.load import Loader, Location
from formatter_core.schema.report import Dropped
from formatter_core.schema.string_formats import DEFINED, left_out, name_in

__all__ = ["Coverage", "CoverageEntry", "coverage_of"]

#: Minimum similarity (0 to 1) of an unknown keyword to a known one that we suggest.
_ALIKE = 0.8


@dataclass(frozen=True, slots=True)
class CoverageEntry:
    """One keyword of one subschema. `status` is "enforced", "annotation", "refused" or "unknown"."""

    pointer: str
    keyword: str
    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The status of each keyword, in the order of the schema. `str()` gives a table."""

    entries: tuple[CoverageEntry, ...]

    def with_status(self, status: str) -> tuple[CoverageEntry, ...]:
        """The entries of one status."""
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


def coverage_of(loader: Loader, refused: Iterable[Dropped], enforce_formats: bool) -> Coverage:
    """The report on the schema of a loader; `refused` is what lowering could not enforce."""
    reasons = {(entry.pointer, entry.keyword): entry.reason for entry in refused}
    entries: list[CoverageEntry] = []
    for location in loader.all_locations():
        for keyword in location.schema:
            reason = reasons.pop((location.pointer, keyword), None)
            if reason is not None:
                entries.append(CoverageEntry(location.pointer, keyword, "refused", reason))
            else:
                status, why = _status(location, keyword, enforce_formats)
                entries.append(CoverageEntry(location.pointer, keyword, status, why))
    entries += [CoverageEntry(pointer, keyword, "refused", why) for (pointer, keyword), why in reasons.items()]
    return Coverage(tuple(entries))


def _status(location: Location, keyword: str, enforce_formats: bool) -> tuple[str, str]:
    draft = location.resource.draft
    if keyword in ANNOTATIONS or keyword in ("$defs", "definitions"):
        return "annotation", ""
    if keyword == "nullable" and location.schema[keyword] is True:
        return "unknown", 'OpenAPI 3.0 has it, and JSON Schema ignores it; add "null" to `type` or a branch to `anyOf`'
    if keyword not in SINCE:
        near = get_close_matches(keyword, [*SINCE, *ANNOTATIONS], 1, _ALIKE)
        return "unknown", f"did you mean `{near[0]}`?" if near else ""
    if draft <= 7 and "$ref" in location.schema and keyword != "$ref":
        return "annotation", f"draft {draft} ignores keywords beside `$ref`"
    if SINCE[keyword] > draft:
        return "unknown", f"draft {draft} does not have it"
    if keyword == "format" and not enforce_formats:
        return "annotation", 'string_formats is "annotate"'
    if keyword == "format" and location.schema[keyword] not in DEFINED:
        return "annotation", "JSON Schema does not define this format"
    if keyword == "format":
        return "enforced", left_out(name_in(location.schema[keyword], draft)) or ""
    return "enforced", _without_effect(location.schema, keyword)


def _without_effect(schema: dict[str, Any], keyword: str) -> str:
    """Why an enforced keyword obviously has no effect."""
    partners = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
    partner = partners.get(keyword)
    return f"no effect without `{partner}`" if partner is not None and partner not in schema else ""
