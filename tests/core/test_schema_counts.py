"""Random schemas that count inside of keywords that negate and choose, judged by the `jsonschema` package."""

from __future__ import annotations

from .random_schemas import compare
from .schema_judge import Judge

#: `scripts/compare_schemas.py` judges more.
SEEDS = range(400)


def test_counts_are_judged_as_jsonschema_judges_them() -> None:
    report = compare(SEEDS, Judge)
    assert report.differences == []
    assert report.schemas >= 0.7 * len(SEEDS)
    assert 0.2 * report.documents <= report.valid <= 0.8 * report.documents
    counted = ("contains", "minContains", "maxContains", "minItems", "maxItems", "minProperties", "maxProperties")
    around = ("not", "oneOf", "if", "allOf", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties")
    for keyword in (*counted, *around, "multipleOf", "minLength", "maxLength", "uniqueItems"):
        assert report.keywords[keyword] >= 5, keyword
