"""The official JSON Schema test suite, and MaskBench schemas: nothing is accepted or rejected wrongly."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from formatter_core.errors import FormatterError, InvalidSchema, LimitExceeded, UnsatisfiableSchema, UnsupportedSchema
from formatter_core.limits import Limits

from .schema_judge import Judge

DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
}


def _registry(suite: Path) -> dict[str, Any]:
    remotes = suite / "remotes"
    return {
        f"http://localhost:1234/{path.relative_to(remotes).as_posix()}": json.loads(path.read_text("utf-8"))
        for path in remotes.rglob("*.json")
    }


#: Of these formats we allow a part.
PARTLY_ALLOWED = [{"$schema": DRAFTS["draft2020-12"], "format": name} for name in ("hostname", "idn-hostname", "regex")]
PARTLY_ALLOWED += [{"format": "hostname"}]


def _wrong(group: dict[str, Any], judge: Judge | None) -> list[str]:
    """The descriptions of the tests that are judged wrongly; without a judge everything is rejected."""
    found = []
    for test in group["tests"]:
        try:
            json.dumps(test["data"], ensure_ascii=False).encode()
        except UnicodeEncodeError:
            continue
        accepted = judge is not None and judge.accepts_value(test["data"])
        if accepted != test["valid"] and not (test["valid"] and group["schema"] in PARTLY_ALLOWED):
            found.append(f"{group['description']}: {test['description']}")
    return found


def _run(files: list[Path], dialect: str, registry: dict[str, Any], string_formats: str) -> tuple[int, int, list[str]]:
    groups = compiled = 0
    wrong: list[str] = []
    for file in files:
        for group in json.loads(file.read_text("utf-8")):
            groups += 1
            schema = group["schema"]
            if isinstance(schema, dict):
                schema = {"$schema": dialect, **schema}
            judge = None
            try:
                # In any spelling: the documents have numbers such as 1.0 where the schema wants an integer.
                judge = Judge(schema, registry=registry, string_formats=string_formats, spelling="any")
            except UnsatisfiableSchema:
                pass
            except (UnsupportedSchema, LimitExceeded):
                continue
            compiled += 1
            wrong += [f"{file.name}: {each}" for each in _wrong(group, judge)]
    return groups, compiled, wrong


@pytest.mark.parametrize("draft", DRAFTS)
def test_required_tests_of_the_official_suite(draft: str, shared: Path) -> None:
    suite = shared / "json-schema-test-suite"
    files = sorted((suite / "tests" / draft).glob("*.json"))
    groups, compiled, wrong = _run(files, DRAFTS[draft], _registry(suite), "annotate")
    assert wrong == []
    assert compiled >= 0.9 * groups


@pytest.mark.parametrize("draft", ["draft2020-12", "draft4"])
def test_format_tests_of_the_official_suite(draft: str, shared: Path) -> None:
    suite = shared / "json-schema-test-suite"
    files = sorted((suite / "tests" / draft / "optional" / "format").glob("*.json"))
    assert files
    assert _run(files, DRAFTS[draft], {}, "enforce")[2] == []


def test_a_sample_of_maskbench(shared: Path) -> None:
    wrong, compiled, seen = [], 0, 0
    with gzip.open(shared / "maskbench" / "maskbench_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for number, line in enumerate(lines) if number % 240 == 7]
    for case in cases:
        seen += 1
        try:
            judge = Judge(case["schema"], limits=Limits(work=2_000_000))
        except (UnsupportedSchema, UnsatisfiableSchema, InvalidSchema, LimitExceeded):
            continue
        compiled += 1
        for test in case["tests"]:
            text = json.dumps(test["data"], ensure_ascii=False)
            if len(text) < 1500 and not test["valid"] and _accepts(judge, text):
                wrong.append(case["id"])
    assert wrong == []
    assert compiled >= 0.9 * seen


def _accepts(judge: Judge, text: str) -> bool:
    try:
        return judge.accepts(text)
    except FormatterError:
        return False
