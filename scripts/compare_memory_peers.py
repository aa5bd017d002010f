"""Schemas that need memory, by several engines: what each refuses, and which documents it judges wrongly.

    PYTHONPATH=.:integrations PYTHON -m scripts.compare_memory_peers --schemas 300 --output peers.json

PYTHON is that of the environment of the benchmarks. The schemas are those of `compare_unique`, the documents too,
judged by `jsonschema`; for key order, objects of 2 to 12 named keys that come in any order. Tokens are single bytes.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from benchmarks.cases import Case
from benchmarks.data import byte_vocabulary
from benchmarks.engines import build
from benchmarks.harness import ChildError, in_child
from formatter_core import Compiler, formats
from scripts.compare_unique import documents, random_schema

_PEERS = ("llguidance", "xgrammar")
_CPU_SECONDS = 10
_TYPES: dict[str, list[Any]] = {"integer": [0, 17], "string": ["", "abc"], "boolean": [True, False]}

Judge = Callable[[Any, list[str]], list[bool]]


def by_formatter(compiler: Compiler, key_order: Any, schema: Any, texts: list[str]) -> list[bool]:
    """Our verdicts, token by token."""
    compiled = compiler.compile(formats.json_schema(schema, key_order=key_order))
    verdicts = []
    for text in texts:
        formatter = compiled.formatter()
        tokens = list(text.encode())
        verdicts.append(formatter.accept_tokens(tokens) == len(tokens) and formatter.can_stop)
    return verdicts


def by_peer(engine: Any, schema: Any, texts: list[str]) -> list[bool]:
    """A peer's verdicts, by its masks."""
    start = engine.compile(Case("schema", (), schema=schema))
    verdicts = []
    for text in texts:
        sequence = start()

        def takes(token: int, sequence: Any = sequence) -> bool:
            sequence.mask()
            return bool(sequence.accept(token))

        verdicts.append(all(takes(token) for token in text.encode()) and bool(sequence.complete()))
    return verdicts


def with_memory(count: int) -> Iterator[tuple[str, Any, list[str]]]:
    """Schemas by what they are about, with documents."""
    for seed in range(count):
        rng = random.Random(seed)
        schema = random_schema(rng)
        texts = documents(schema, rng, 20)
        words = json.dumps(schema)
        yield (
            next(word for word in ("uniqueItems", "oneOf", "not", "anyOf", "minProperties") if word in words),
            schema,
            texts,
        )


def in_any_order(count: int) -> Iterator[tuple[str, Any, list[str]]]:
    """Objects of named keys, with documents that have them in any order."""
    for seed in range(count):
        rng = random.Random(seed)
        names = [f"key {number}" for number in range(rng.randint(2, 12))]
        types = {name: rng.choice(list(_TYPES)) for name in names}
        required = [name for name in names if rng.random() < 0.5]
        schema = {
            "type": "object",
            "properties": {name: {"type": kind} for name, kind in types.items()},
            "required": required,
            "additionalProperties": False,
        }
        texts = []
        for _ in range(10):
            keys = [name for name in names if name in required or rng.random() < 0.5]
            texts.append(json.dumps({name: rng.choice(_TYPES[types[name]]) for name in rng.sample(keys, len(keys))}))
        yield "key order", schema, texts


def main() -> None:
    """Run the comparison and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=int, default=300)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    vocabulary, encode = byte_vocabulary()
    compiler = Compiler(vocabulary, engine="native")
    judges: dict[str, Judge] = {
        f"formatter-core, {order}": partial(by_formatter, compiler, order) for order in ("schema", "any")
    }
    versions = {}
    for name in _PEERS:
        engine = build(name, vocabulary, encode)
        if engine is not None:
            judges[name] = partial(by_peer, engine)
            versions[name] = engine.version
    found: dict[str, dict[str, collections.Counter[str]]] = {}
    for about, schema, texts in [*with_memory(given.schemas), *in_any_order(given.schemas // 3)]:
        validator = Draft202012Validator(schema)
        valid = [validator.is_valid(json.loads(text)) for text in texts]
        for name, judge in judges.items():
            counts = found.setdefault(about, {}).setdefault(name, collections.Counter())
            counts["schemas"] += 1
            try:
                verdicts = in_child(partial(judge, schema, texts), _CPU_SECONDS)
            except ChildError as error:
                counts["time-out" if str(error) == "time-out" else "refused"] += 1
                continue
            wrong = [accepted and not right for accepted, right in zip(verdicts, valid, strict=True)]
            rejected = [right and not accepted for accepted, right in zip(verdicts, valid, strict=True)]
            counts["wrong accept"] += any(wrong)
            counts["wrong reject"] += any(rejected)
            counts["documents"] += len(texts)
            counts["documents wrongly accepted"] += sum(wrong)
            counts["documents wrongly rejected"] += sum(rejected)
    text = json.dumps({"versions": versions, "found": found}, indent=1, ensure_ascii=False)
    if given.output:
        given.output.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
