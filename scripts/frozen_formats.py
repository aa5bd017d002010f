"""Write down what the compiler makes of many formats, and compare a later compiler with that.

    python scripts/frozen_formats.py freeze FILE --schemas 250 --seed 1
    python scripts/frozen_formats.py compare FILE

The formats are real schemas, those of the official suite and random ones, in both spellings and key orders, and formats
that hold them: types, holes, alternatives, lists, tools of several layouts. Of each, FILE holds digests of

- the verdict: "compiled", or the error with its message and fields, and warnings;
- the coverage report;
- the program, byte for byte;
- a walk: the masks, and the explanations of refused tokens, along random texts of the format, and the values of texts.

Equal walks of different programs mean that the same language is written in another way. `compare` fails where anything
but a program differs; it prints where programs do. FILE lies outside of the repository, in `../shared` or elsewhere.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import hashlib
import itertools
import json
import os
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Union

import numpy as np

from formatter_core import Compiler, FormatterBuilder, Vocabulary, formats
from formatter_core.errors import FormatterError
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.schema import Whitespace
from tests.core.random_schemas import random_case

SHARED = Path(os.environ.get("FORMATTER_SHARED", Path(__file__).resolve().parents[2] / "shared"))
DRAFTS = "draft4", "draft7", "draft2019-09", "draft2020-12"
LAYOUTS = "qwen3", "llama3-json", "mistral-v11", "deepseek-v3.1", "qwen3-coder", "gemma4"
LONGEST_SCHEMA = 20_000
STEPS, WALKS = 120, 2
PROGRAMS_SHOWN = 5
CLOSING = frozenset(b'"}],:0')
FACTS = "pointer", "keyword", "pointers", "position", "limit"


class Case(NamedTuple):
    """Hold a format by its name, and whether it has a coverage report."""

    name: str
    make: Callable[[], Any]
    coverage: bool = False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["freeze", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--schemas", type=int, default=250, help="how many of each of the three kinds")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("always")
    if options.action == "freeze":
        with gzip.open(options.file, "wt", encoding="utf-8") as out:
            out.write(json.dumps({"schemas": options.schemas, "seed": options.seed}) + "\n")
            for case in cases(options.schemas, options.seed):
                out.write(json.dumps([case.name, facts_of(case)]) + "\n")
        return 0
    with gzip.open(options.file, "rt", encoding="utf-8") as lines:
        given = json.loads(next(lines))
        return compared(map(json.loads, lines), cases(given["schemas"], given["seed"]))


def compared(frozen: Iterator[Any], now: Iterator[Case]) -> int:
    """Print what differs; 1 if anything but programs does."""
    found: Counter[str] = Counter()
    total = 0
    for (name, before), case in zip(frozen, now, strict=True):
        if case.name != name:
            raise SystemExit(f"the formats are others than those of the file, from {name!r} on")
        after = facts_of(case)
        total += 1
        for fact in sorted(before.keys() | after.keys()):
            if before.get(fact) != after.get(fact):
                found[fact] += 1
                if fact != "program" or found[fact] <= PROGRAMS_SHOWN:
                    print(f"{fact} of {name}: {before.get(fact)} before, {after.get(fact)} now")
    print(f"{total} formats; differences: {dict(found) or 'none'}")
    return 1 if found.keys() - {"program"} else 0


def facts_of(case: Case) -> dict[str, str]:
    """Return the facts that are compared of a format."""
    found: dict[str, str] = {}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            format = case.make()
            if case.coverage:
                found["coverage"] = digest(str(format.coverage()))
            compiled = COMPILER.compile(format)
        except FormatterError as error:
            facts = [repr(getattr(error, fact, None)) for fact in FACTS]
            found["verdict"] = f"{type(error).__name__}: {digest(str(error), *facts)}"
            return found
        found["verdict"] = f"compiled {digest(*sorted(str(each.message) for each in told))}"
    program = compiled.program
    found["program"] = digest(program.data, repr((program.nodes, program.names, program.regions)))
    found["walk"] = walk(compiled, case.name)
    return found


def walk(compiled: CompiledFormat[Any], seed: str) -> str:
    """Compute a digest of masks, explanations and values along random texts."""
    rng, whole = random.Random(seed), hashlib.sha256()
    row = np.zeros(VOCABULARY.words, dtype=np.int32)
    for _ in range(WALKS):
        formatter = compiled.formatter()
        for step in range(STEPS):
            formatter.fill_bitmask(row)
            whole.update(row.tobytes())
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
            if step == STEPS // 2:
                refused = rng.choice([token for token in range(128) if token not in allowed] or [0])
                whole.update(formatter.explain(refused).encode())
            closing = [token for token in allowed if token in CLOSING or token in VOCABULARY.end_ids]
            chosen = rng.choice(closing if closing and rng.random() < 0.6 else allowed)
            formatter.accept_token(chosen)
            if formatter.is_finished:
                whole.update(value_of(formatter).encode("utf-8", "replace"))
                break
    return whole.hexdigest()[:16]


def value_of(formatter: Any) -> str:
    try:
        result = formatter.result("end")
        return repr((result.value, [(one.name, one.value, one.start, one.end) for one in result.spans]))
    except FormatterError as error:
        return repr(error)


def digest(*parts: str | bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass"))
        whole.update(b"\0")
    return whole.hexdigest()[:16]


def cases(count: int, seed: int) -> Iterator[Case]:
    """Yield all formats, in an order that depends on the arguments alone."""
    rng = random.Random(seed)
    schemas = [*sampled(rng, count, maskbench()), *sampled(rng, count, suite())]
    firsts = rng.sample(range(44_000), count)
    schemas += [(f"random {first}", random_case(first)[0]) for first in firsts]
    for name, schema in schemas:
        for spelling, key_order in itertools.product(("canonical", "any"), ("schema", "any")):
            yield json_case(f"{name} {spelling} {key_order}", schema, True, spelling=spelling, key_order=key_order)
        option: Any = rng.choice(
            [{"whitespace": "compact"}, {"string_formats": "annotate"}, {"whitespace": Whitespace(", ", ": ")}]
        )
        yield json_case(f"{name} warn", schema, False, on_unsupported="warn")
        yield json_case(f"{name} {option}", schema, False, **option)
    yield from composed(rng, schemas)
    yield from typed()


def json_case(name: str, schema: Any, coverage: bool, **options: Any) -> Case:
    return Case(name, partial(formats.json_schema, schema, **options), coverage)


def composed(rng: random.Random, schemas: list[tuple[str, Any]]) -> Iterator[Case]:
    """Yield formats that contain schemas."""
    for name, one in schemas[::2]:
        other_name, other = rng.choice(schemas)
        option: Any = rng.choice([{}, {}, {"spelling": "any"}, {"key_order": "any"}, {"on_unsupported": "warn"}])
        title = f"{name} and {other_name} {option}"
        for kind, make in (("one of", alternatives), ("text", holes), ("lists", lists)):
            yield Case(f"{kind} {title}", partial(made_of, make, one, other, option))
    for number, (name, one) in enumerate(schemas[::3]):
        layout = LAYOUTS[number % len(LAYOUTS)]
        tools = [
            {"name": f"tool{index}", "parameters": schema}
            for index, schema in enumerate([one, rng.choice(schemas)[1]])
            if isinstance(schema, dict)
        ]
        policy, choice = rng.choice(["error", "loose"]), rng.choice(["required", "auto", "required"])
        options: Any = {"tools": tools, "on_unsupported_tool": policy, "tool_choice": choice}
        yield Case(f"tools {layout} {name} {policy} {choice}", partial(formats.chat_answer, layout, **options))
        content = {"type": "json_schema", "json_schema": one}
        tag = {"type": "structural_tag", "format": {"type": "tag", "begin": "<a>", "content": content, "end": "</a>"}}
        yield Case(f"tag {name}", partial(formats.structural_tag, tag))
        yield Case(f"lark {name}", partial(formats.lark, f'start: "a" x | x\nx: %json {json.dumps(one)}\n'))


def made_of(make: Callable[[Any, Any], Any], one: Any, other: Any, option: Any) -> Any:
    """Make a format of two schemas with these options."""
    return make(formats.json_schema(one, **option), formats.json_schema(other, **option))


def alternatives(one: Any, other: Any) -> Any:
    return formats.one_of(one, other)


def holes(one: Any, other: Any) -> Any:
    builder = FormatterBuilder()
    first = builder.format(one, name="one")
    builder.append("A ", first, ", ", builder.format(other, name="other"), " and ", first)
    return builder.append(".", builder.format(other))


def lists(one: Any, other: Any) -> Any:
    return formats.sequence(formats.repeat(one, 0, 3, separator=", "), formats.optional(other), one)


class _Point(NamedTuple):
    x: float
    label: str = ""


class _Fields(TypedDict, total=False):
    name: str
    points: list[_Point]
    more: dict[str, int | None]


@dataclasses.dataclass
class _Tree:
    value: int | str | None
    children: list[_Tree] = dataclasses.field(default_factory=list)


def typed() -> Iterator[Case]:
    """Yield Python types."""
    union = Union[_Point, _Fields, int]  # noqa: UP007 - what it is called in the file
    variants: tuple[Any, ...] = {}, {"spelling": "any"}, {"key_order": "any"}, {"whitespace": "compact"}
    types: tuple[Any, ...] = _Point, _Fields, _Tree, list[_Point], union, tuple[int, _Tree], int, dict[str, _Point]
    for tp in types:
        for options in variants:
            yield Case(f"type {tp} {options}", partial(formats.python_type, tp, **options))
        yield Case(f"type {tp} in a list", partial(listed, tp))


def listed(tp: Any) -> Any:
    return formats.repeat(formats.one_of(tp, "none"), separator="\n")


def sampled(rng: random.Random, count: int, given: Iterator[tuple[str, Any]]) -> list[tuple[str, Any]]:
    known = list(given)
    return rng.sample(known, min(count, len(known)))


def maskbench() -> Iterator[tuple[str, Any]]:
    """Yield the real schemas that are not very long."""
    with gzip.open(SHARED / "maskbench" / "maskbench_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if len(line) <= LONGEST_SCHEMA:
                yield f"maskbench {number}", json.loads(line)["schema"]


def suite() -> Iterator[tuple[str, Any]]:
    """Yield the schemas of the official suite."""
    for draft in DRAFTS:
        for path in sorted((SHARED / "json-schema-test-suite" / "tests" / draft).rglob("*.json")):
            for number, group in enumerate(json.loads(path.read_text("utf-8"))):
                yield f"{draft} {path.stem} {number}", group["schema"]


VOCABULARY = Vocabulary.of_bytes()
COMPILER = Compiler(VOCABULARY, engine="native", cache_bytes=0)

if __name__ == "__main__":
    sys.exit(main())
