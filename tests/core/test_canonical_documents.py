"""Real documents in canonical spelling: what a careful writer writes passes, and nothing that is invalid does."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from formatter_core import CompiledFormat, Compiler, Vocabulary, formats
from formatter_core.errors import FormatterError, TokenRejected

#: Every so many-th schema of the file is read.
STRIDE = 61
COMPILER = Compiler(Vocabulary.of_bytes(), engine="native")
#: The separators of careful writers.
WRITINGS: list[dict[str, Any]] = [{"separators": (",", ":")}, {}, {"indent": 2}, {"indent": 4}]


def real_cases(shared: Path) -> list[dict[str, Any]]:
    path = shared / "maskbench" / "maskbench_dev.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in itertools.islice(lines, 0, None, STRIDE)]


def test_real_documents_in_canonical_spelling(shared: Path) -> None:
    """Each document that passes in any spelling passes in the canonical one; an invalid one in neither."""
    written = 0
    faults: list[tuple[Any, ...]] = []
    for case in real_cases(shared):
        compiled = formats_of(case["schema"])
        try:
            compiled("any", "schema")
        except FormatterError:
            continue
        for test in case["tests"]:
            for text in writings(case["schema"], test["data"]):
                written += 1
                orders = [order for order in ("schema", "any") if accepts(compiled("any", order), text)]
                canonical = [order for order in ("schema", "any") if accepts(compiled("canonical", order), text)]
                if test["valid"] and orders and not canonical:
                    whole = json.dumps(with_integers(test["data"]))  # an integer is not written as a float
                    if not accepts(compiled("canonical", orders[0]), whole):
                        faults.append(("wrong reject", case["id"], text))
                elif not test["valid"] and (orders or canonical) and not is_valid(case["schema"], test["data"]):
                    faults.append(("wrong accept", case["id"], text))
    assert not faults
    assert written > 150


def formats_of(schema: Any) -> Any:
    @cache
    def compiled(spelling: Any, key_order: Any) -> CompiledFormat[Any]:
        return COMPILER.compile(formats.json_schema(schema, spelling=spelling, key_order=key_order))

    return compiled


def accepts(compiled: CompiledFormat[Any], text: str) -> bool:
    formatter = compiled.formatter()
    try:
        formatter.accept_bytes(text.encode())
    except TokenRejected:
        return False
    return formatter.can_stop


def is_valid(schema: Any, document: Any) -> bool:
    return bool(jsonschema.validators.validator_for(schema)(schema).is_valid(document))


def writings(schema: Any, document: Any) -> Iterator[str]:
    """Write a document raw beyond ASCII, and with escapes too if the schema's names and listed texts are ASCII."""
    for options in WRITINGS:
        yield json.dumps(document, **options, ensure_ascii=False)
        if all(text.isascii() for text in listed(schema)):
            yield json.dumps(document, **options)


def listed(schema: Any) -> Iterator[str]:
    """Yield names of members, and texts, that stand anywhere in a schema other than in its annotations."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key not in ("title", "description", "$comment", "default", "examples") or isinstance(value, dict):
                yield key
                yield from listed(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from listed(item)
    elif isinstance(schema, str):
        yield schema


def with_integers(document: Any) -> Any:
    """Replace each float that is an integer."""
    if isinstance(document, dict):
        return {key: with_integers(value) for key, value in document.items()}
    if isinstance(document, list):
        return [with_integers(item) for item in document]
    return int(document) if isinstance(document, float) and document.is_integer() else document
