"""Random schemas that count inside of keywords that negate and choose, judged by the `jsonschema` package."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.sampling import sampled

from .random_schemas import compare
from .schema_judge import Judge, orders_of


class AnySpelling(Judge):
    """Judges in the spellings of `json.dumps`: a document may have 1.0."""

    def __init__(self, schema: Any, **options: Any) -> None:
        super().__init__(schema, spelling="any", **options)


@pytest.mark.parametrize("first", sampled([0, 100], 1))  # `scripts/compare_random.py schemas` judges more
def test_counts_are_judged_as_jsonschema_judges_them(first: int) -> None:
    report = compare(range(first, first + 100), AnySpelling)
    assert report.differences == []
    assert report.schemas >= 70
    assert 0.2 * report.documents <= report.valid <= 0.8 * report.documents
    counted = ("contains", "minContains", "maxContains", "minItems", "maxItems", "minProperties", "maxProperties")
    around = ("not", "oneOf", "if", "allOf", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties")
    for keyword in (*counted, *around, "multipleOf", "minLength", "maxLength", "uniqueItems"):
        assert report.keywords[keyword] >= 2, keyword


class AnyOrder(AnySpelling):
    """Judges with keys in any order, of which some are tried."""

    def __init__(self, schema: Any) -> None:
        super().__init__(schema, key_order="any")

    def accepts_value(self, value: Any, orders: int = 60, indent: int | None = None) -> bool:
        some = [*itertools.islice(orders_of(value), 0, 24, 5)] or [value]
        verdicts = {self.accepts(json.dumps(order, ensure_ascii=False, indent=indent)) for order in some}
        assert len(verdicts) == 1, f"the order of the keys matters: {value}"
        return verdicts.pop()


@pytest.mark.parametrize("first", sampled([400, 425], 1))
def test_counts_in_any_order(first: int) -> None:
    report = compare(range(first, first + 25), AnyOrder)
    assert report.differences == []
    assert report.schemas >= 15
