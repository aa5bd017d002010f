"""Schemas made to hang or to fill the memory: each ends in an answer or a named error, with little of either."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from formatter_core import Compiler, Limits, Vocabulary
from formatter_core.errors import LimitExceeded

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

resource = pytest.importorskip("resource", reason="this system cannot bound a process")

#: The bounds of a process that compiles all of them.
CPU_SECONDS, BYTES = 60, 2 << 30

A: dict[str, Any] = {"type": "integer"}


def _nested(levels: int, wrap: str) -> dict[str, Any]:
    schema = A
    for level in range(levels):
        if wrap == "properties":
            schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
        elif wrap == "items":
            schema = {"type": "array", "items": schema}
        elif wrap.endswith("Of"):
            schema = {wrap: [schema, {"minimum": level}]}
        else:
            schema = {wrap: schema}
    return schema


def _product(levels: int, outer: str, inner: str) -> dict[str, Any]:
    pairs = [
        {inner: [{"properties": {f"{side}{level}": A}, "required": [f"{side}{level}"]} for side in "ab"]}
        for level in range(levels)
    ]
    return {"type": "object", outer: pairs}


def _chain(length: int, close: bool) -> dict[str, Any]:
    rules: dict[str, Any] = {f"r{n}": {"$ref": f"#/$defs/r{n + 1}"} for n in range(length)}
    return {"$ref": "#/$defs/r0", "$defs": {**rules, f"r{length}": {"$ref": "#/$defs/r0"} if close else A}}


#: name: a schema, and how it may end: "" for an answer, or names of errors.
HOSTILE: dict[str, tuple[Any, str]] = {
    "1 MB of listed words": ({"enum": [f"word number {n} of very many" for n in range(40_000)]}, "|LimitExceeded"),
    "1 MB of descriptions": (
        {"properties": {f"p{n}": {"type": "string", "description": "x" * 1000} for n in range(1000)}},
        "",
    ),
    "1 MB of one word": ({"const": "x" * 1_000_000}, "|LimitExceeded"),
    "10,000 properties": ({"properties": {f"property {n}": A for n in range(10_000)}}, "|LimitExceeded"),
    "10,000 required properties": (
        {
            "properties": {f"p{n}": A for n in range(10_000)},
            "required": [f"p{n}" for n in range(10_000)],
            "additionalProperties": False,
        },
        "|LimitExceeded",
    ),
    "10,000 branches": ({"anyOf": [{"properties": {f"p{n}": A}} for n in range(10_000)]}, "|LimitExceeded"),
    "2,000 exclusive branches": (
        {"oneOf": [{"properties": {f"p{n}": A}, "required": [f"p{n}"]} for n in range(2000)]},
        "",
    ),
    "negated exclusive branches": (
        {"not": {"oneOf": [{"properties": {f"p{n}": A}, "required": [f"p{n}"]} for n in range(2000)]}},
        "|LimitExceeded",
    ),
    "a condition on exclusive branches": (
        {"if": {"oneOf": [{"required": [f"p{n}"]} for n in range(2000)]}, "then": {"required": ["a"]}},
        "|LimitExceeded",
    ),
    "exclusive branches of two properties": (
        {"oneOf": [{"properties": {f"{k}{n}": A for k in "pq"}, "required": [f"p{n}", f"q{n}"]} for n in range(200)]},
        "|LimitExceeded",
    ),
    "independent conditionals": (
        {"allOf": [{"if": {"required": [f"a{n}"]}, "then": {"required": [f"b{n}"]}} for n in range(200)]},
        "|LimitExceeded",
    ),
    "conditionals that cross": (
        {"allOf": [{"if": {"required": [f"p{n}"]}, "then": {"required": [f"p{n * 7 % 40}"]}} for n in range(40)]},
        "|LimitExceeded",
    ),
    **{
        f"200 levels of {wrap}": (_nested(200, wrap), "|LimitExceeded|UnsatisfiableSchema|UnsupportedSchema")
        for wrap in ("properties", "items", "allOf", "anyOf", "oneOf", "not", "additionalProperties", "contains")
    },
    "200,000 brackets": ("[" * 200_000, "InvalidFormat"),
    **{
        f"{outer} of {inner}": (_product(40, outer, inner), "|LimitExceeded|UnsupportedSchema")
        for outer in ("allOf", "anyOf", "oneOf")
        for inner in ("allOf", "anyOf", "oneOf")
    },
    "unevaluated below a product": (
        {**_product(12, "allOf", "anyOf"), "unevaluatedProperties": False},
        "|LimitExceeded|UnsupportedSchema",
    ),
    **{
        f"pattern {pattern}": ({"type": "string", "pattern": pattern, "maxLength": 600}, "|LimitExceeded")
        for pattern in (
            "^(a+)+$",
            "^(a|a|aa)*b$",
            "(x+x+)+y",
            "(.*a){20}",
            "^(([a-z])+.)+[A-Z]([a-z])+$",
            "^(a?){500}a{500}$",
            "(a|b)*a(a|b){20}",
            "((a{100}){100}){100}",
        )
    },
    "patterns that overlap": (
        {"patternProperties": {f"{chr(97 + n)}.*{chr(98 + n)}": {"minimum": n} for n in range(20)}},
        "|LimitExceeded",
    ),
    "many patterns": (
        {"patternProperties": {f"^x{n}.*a{n}": A for n in range(80)}},
        "|LimitExceeded",
    ),
    "counts": ({"type": "array", "items": A, "minItems": 10**12}, "LimitExceeded"),
    "counted kinds": (
        {"type": "array", "contains": {"const": 1}, "minContains": 3000, "maxContains": 4000},
        "|LimitExceeded",
    ),
    "large numbers": (
        {"type": "number", "minimum": 10**400, "multipleOf": 10**300 + 7},
        "|UnsupportedSchema|LimitExceeded",
    ),
    "a long chain of references": (_chain(5000, False), "|LimitExceeded"),
    "a long circle of references": (_chain(5000, True), "InvalidSchema|LimitExceeded"),
    "itself": ({"$ref": "#"}, "InvalidSchema"),
    "itself among others": ({"allOf": [{"$ref": "#"}, A]}, "InvalidSchema"),
    "two that are each other": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
        "InvalidSchema",
    ),
    "a list of lists of itself": ({"type": "array", "items": {"$ref": "#"}}, ""),
    "an endless document": (
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        "UnsatisfiableSchema",
    ),
}

#: Compiles each schema of its input and computes the first mask, and says how that ended.
CHILD = """
import json, resource, sys
from formatter_core import Compiler, Limits, Vocabulary
from formatter_core.errors import FormatterError
resource.setrlimit(resource.RLIMIT_CPU, (%d, %d))
resource.setrlimit(resource.RLIMIT_AS, (%d, %d))
vocabulary = Vocabulary.of_bytes()
compiler = Compiler(vocabulary, limits=Limits(work=1_000_000))
for name, text in json.load(sys.stdin):
    ended = ""
    try:
        assert compiler.compile(text).formatter().allowed_tokens()
    except FormatterError as error:
        ended = type(error).__name__
    print(json.dumps([name, ended]), flush=True)
"""


def test_hostile_schemas_end() -> None:
    texts = [(name, given if isinstance(given, str) else json.dumps(given)) for name, (given, _) in HOSTILE.items()]
    code = CHILD % (CPU_SECONDS, CPU_SECONDS, BYTES, BYTES)
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(texts), capture_output=True, text=True, check=False
    )
    ended = dict(map(json.loads, done.stdout.splitlines()))
    assert done.returncode == 0, (list(ended)[-1:], done.stderr[-2000:])
    unexpected = {name: how for name, how in ended.items() if how not in HOSTILE[name][1].split("|")}
    assert (list(ended), unexpected) == (list(HOSTILE), {})


def test_names_of_many_branches_are_counted_before_all_are_there() -> None:
    """Each of n branches has the n names of all, so that there are n² members: 16 million here."""
    branches = [{"properties": {f"p{n}": A}} for n in range(4000)]
    compiler = Compiler(Vocabulary.of_bytes(), limits=Limits(nodes=30_000), cache_bytes=0)
    with pytest.raises(LimitExceeded, match=r"Limits\.nodes"):
        compiler.compile({"anyOf": branches})
