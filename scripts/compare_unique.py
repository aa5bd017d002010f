"""Compare random schemas that need memory with what `jsonschema` says of documents.

They have `uniqueItems`, `minProperties`, `contains`, and `not` about the values of extra keys.

`compare_random.py unique` does so for many schemas, and `benchmarks/json_schema.py --cases memory` asks other engines.

A document that `jsonschema` refuses and the format accepts is a wrong accept; the reverse is a wrong reject, unless it
has a number that is not a plain decimal, or an object in which an extra key occurs twice.

Then each schema is walked under tight budgets with tokens that are pieces of its documents: a mask must hold just the
tokens that are accepted one by one. If a sequence has end ids of its own that are also text, every allowed token must
leave another one, to the end.
"""

from __future__ import annotations

import collections
import json
import random
from collections.abc import Iterable
from typing import Any

from jsonschema import Draft202012Validator

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.errors import BudgetTooSmall, DeadEnd, InvalidGrammar, UnsatisfiableSchema, UnsupportedSchema

_TEXTS = ["", "a", "b", "ab", "abc", "é", "/", '"', "\n", "😀", "1", "true"]
_NUMBERS = [0, -0.0, 1, 1.0, 2, -1, 1.5, 10, 100, 0.25]
_SCALARS: list[Any] = [None, True, False, *_NUMBERS, *_TEXTS]


def random_schema(rng: random.Random) -> dict[str, Any]:
    """Draw a schema with one of the keywords; equal for equal states of `rng`."""
    return _object(rng) if rng.random() < 0.35 else _array(rng)


def documents(schema: dict[str, Any], rng: random.Random, count: int) -> list[str]:
    """Draw texts of documents, many of them valid or nearly so."""
    return [_written(_document(schema, rng), rng) for _ in range(count)]


def compare_schemas(seeds: Iterable[int], count: int = 20) -> dict[str, Any]:
    """Compare the schema of each seed with so many documents: counts, and the differences."""
    compiler = Compiler(Vocabulary.of_bytes(), engine="native")
    found = sum((compare(compiler, seed, count) for seed in seeds), collections.Counter[str]())
    return {**dict(sorted(found.items())), "differences": [name for name in found if name.startswith("wrong")]}


def compare(compiler: Compiler, seed: int, count: int) -> collections.Counter[str]:
    """Count the outcomes of one schema and its documents; wrong ones are named with schema and text."""
    rng = random.Random(seed)
    schema = random_schema(rng)
    found: collections.Counter[str] = collections.Counter(schemas=1)
    validator = Draft202012Validator(schema)
    try:
        compiled = compiler.compile(formats.json_schema(schema, key_order="any", spelling="any"))
    except UnsupportedSchema as error:
        found[f"refused: {error.keyword}"] += 1
        return found
    except (UnsatisfiableSchema, InvalidGrammar):
        found["unsatisfiable"] += 1
        for text in documents(schema, rng, count):
            if validator.is_valid(json.loads(text)):
                found[f"wrong: unsatisfiable {json.dumps(schema)} {text}"] += 1
        return found
    for text in documents(schema, rng, count):
        valid = validator.is_valid(json.loads(text))
        accepted = compiled.parse(text).is_complete
        masked = _by_masks(compiled, text)
        found["documents"] += 1
        found["valid"] += valid
        if accepted != masked:
            found[f"wrong: parser {accepted}, masks {masked} {json.dumps(schema)} {text}"] += 1
        if accepted and not valid:
            found[f"wrong: accepted {json.dumps(schema)} {text}"] += 1
        if valid and not accepted:
            found["rejected though valid"] += 1
            if not _may_be_rejected(text):
                found[f"wrong: rejected {json.dumps(schema)} {text}"] += 1
    found["dead ends"] += sum(not _walk_ends(compiled, rng, validator) for _ in range(3))
    rng = random.Random(seed)
    random_schema(rng)
    try:
        masks, faults = walk_within(schema, pieces(schema, rng), rng, most=4)
    except BudgetTooSmall:
        found["no budget suffices"] += 1
        return found
    found["masks within budgets"] += masks
    masks, dead_ends = search_within(schema, rng, most=4, masks=100)
    found["masks with own end ids"] += masks
    found.update(f"wrong: {fault} {json.dumps(schema)}" for fault in faults + dead_ends)
    return found


def pieces(schema: dict[str, Any], rng: random.Random) -> list[bytes]:
    """Return every byte, and pieces of documents of a schema."""
    found = {bytes([byte]) for byte in range(256)} | {b'"a","a"', b'","b","b"', b",1,1", b": 1", b'"}', b'"]', b"[1,1"}
    for text in documents(schema, rng, 6):
        for _ in range(20):
            start = rng.randrange(len(text))
            found.add(text[start : start + rng.randint(2, 9)].encode())
    return sorted(found)


def walk_within(schema: dict[str, Any], tokens: list[bytes], rng: random.Random, *, most: int) -> tuple[int, list[str]]:
    """Walk at random under budgets of up to `most` tokens more than needed; return how many masks, and the faults."""
    compiler = Compiler(Vocabulary([*tokens, b"</s>"], [len(tokens)]), engine="native")
    compiled = compiler.compile(formats.json_schema(schema, key_order="any", spelling="any"))
    masks, faults = 0, []
    for budget in range(compiled.min_tokens, compiled.min_tokens + most):
        formatter = compiled.formatter(max_tokens=budget)
        while not formatter.is_finished:
            allowed = formatter.allowed_tokens()
            masks += 1
            accepted = [token for token in range(len(tokens) + 1) if formatter.count_valid([token])]
            if not allowed or allowed != accepted:
                differ = sorted(set(allowed) ^ set(accepted))
                faults.append(f"after {formatter.bytes!r} within {budget} tokens the mask is wrong about {differ}")
            if not accepted:
                break
            formatter.accept_token(rng.choice(accepted))
        if len(formatter.tokens) > budget:
            faults.append(f"{formatter.bytes!r} takes more than {budget} tokens")
    return masks, faults


def search_within(schema: dict[str, Any], rng: random.Random, *, most: int, masks: int) -> tuple[int, list[str]]:
    """Take every token that is allowed, the last ones first, until a budget has had so many masks; return as above.

    The vocabulary is small, and some of its tokens of text are end ids.
    """
    found = pieces(schema, rng)
    tokens = sorted({text for text in found if len(text) > 1 or text in b'[]{},:" ab01'})
    compiler = Compiler(Vocabulary([*tokens, b"</s>"], [len(tokens)]), engine="native")
    compiled = compiler.compile(formats.json_schema(schema, key_order="any", spelling="any"))
    end_ids = [len(tokens), *rng.sample(range(len(tokens)), rng.randint(1, 4))]
    try:
        compiled.formatter(end_ids, max_tokens=1)
        needed = 1
    except BudgetTooSmall as error:
        if error.needed is None:
            return 0, []
        needed = error.needed
    count, faults = 0, list[str]()
    for budget in range(needed, needed + most):
        formatter = compiled.formatter(end_ids, max_tokens=budget)
        left = masks
        untried: list[list[int]] = []
        while left and not faults:
            left -= 1
            try:
                allowed = formatter.allowed_tokens()
            except DeadEnd:
                faults.append(f"after {formatter.bytes!r} within {budget} tokens nothing may come")
                break
            texts = [token for token in allowed if token not in end_ids]
            untried.append(rng.sample(texts, len(texts)))
            while untried and not untried[-1]:
                untried.pop()
                formatter.rollback(min(len(untried), 1))
            if not untried:
                break
            formatter.accept_token(untried[-1].pop())
        count += masks - left
    return count, faults


def _by_masks(compiled: Any, text: str) -> bool:
    formatter = compiled.formatter()
    data = text.encode()
    return formatter.accept_tokens(list(data)) == len(data) and bool(formatter.can_stop)


def _walk_ends(compiled: Any, rng: random.Random, validator: Draft202012Validator) -> bool:
    """Tell whether a random walk never comes to a dead end and, if it ends, has made a valid document."""
    formatter = compiled.formatter()
    for _ in range(60):
        allowed = formatter.allowed_tokens()
        if not allowed:
            return False
        formatter.accept_token(rng.choice(allowed))
        if formatter.is_finished:
            try:
                return bool(validator.is_valid(json.loads(formatter.text)))
            except OverflowError:  # a number too large for the judge
                return True
    return True


def _may_be_rejected(text: str) -> bool:
    """Tell whether a document has an exponent, or an extra key twice: such spellings may be refused."""
    twice = False

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        twice |= len({key for key, _ in found}) < len(found)
        return dict(found)

    json.loads(text, object_pairs_hook=pairs)
    return twice or "e+" in text or "e-" in text


def _item(rng: random.Random) -> Any:
    return rng.choice(
        [
            {"type": "string"},
            {"type": "string", "minLength": 1},
            {"type": "string", "maxLength": rng.randint(0, 2)},
            {"type": "string", "pattern": rng.choice(["^[ab]$", "^a", "b+$", "^[ab]{1,2}$"])},
            {"type": "number"},
            {"type": "integer"},
            {"type": "integer", "minimum": 0, "maximum": rng.choice([1, 2, 10, 5000])},
            {"type": "number", "minimum": 1, "multipleOf": 0.5},
            {"enum": rng.sample(_SCALARS, rng.randint(1, 6))},
            {"type": ["string", "number", "null", "boolean"]},
            {"type": ["boolean", "null"]},
            {"anyOf": [{"type": "string", "minLength": 2}, {"type": "integer"}, {"const": "a"}]},
        ]
    )


def _array(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": _item(rng), "uniqueItems": rng.random() < 0.9}
    if rng.random() < 0.4:
        schema["minItems"] = rng.randint(1, 4)
    if rng.random() < 0.4:
        schema["maxItems"] = rng.randint(schema.get("minItems", 0), 5)
    if rng.random() < 0.15:
        schema["contains"] = _item(rng)
        if rng.random() < 0.3:
            schema["minContains"] = rng.randint(1, 2)
    if rng.random() < 0.1:
        schema = {"anyOf": [schema, {"type": "array", "items": {"type": "integer"}, "maxItems": 2}]}
    return schema


def _object(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "minProperties": rng.randint(0, 4)}
    if rng.random() < 0.5:
        schema["properties"] = {key: {"type": "integer"} for key in rng.sample(_TEXTS, rng.randint(1, 3))}
        schema["required"] = [key for key in schema["properties"] if rng.random() < 0.4]
    if rng.random() < 0.3:
        schema["patternProperties"] = {rng.choice(["^a", "^[ab]$", "b"]): {"type": rng.choice(["integer", "string"])}}
    if rng.random() < 0.3:
        schema["additionalProperties"] = rng.choice([False, {"type": "integer"}, {"type": "string"}])
    if rng.random() < 0.2:
        schema["maxProperties"] = rng.randint(1, 5)
    if rng.random() < 0.2:
        schema["propertyNames"] = rng.choice([{"maxLength": 1}, {"enum": _TEXTS[:4]}, {"pattern": "^[ab]"}])
    if rng.random() < 0.3:
        schema.update(_about_values(rng))
    return schema


def _about_values(rng: random.Random) -> dict[str, Any]:
    """Add a keyword that some extra key's value must break, or that just one of several schemas may meet."""

    def part() -> dict[str, Any]:
        wanted: dict[str, Any] = {"type": rng.choice(["integer", "string"])}
        if rng.random() < 0.5:
            return {"additionalProperties": wanted}
        return {"patternProperties": {rng.choice(["^a", "^[ab]$", "b", "^a$", "^[ab1]$"]): wanted}}

    keyword = rng.choice(["not", "oneOf", "anyOf"])
    if keyword == "not":
        return {"not": part()}
    return {keyword: [{"not": part()} if rng.random() < 0.5 else part() for _ in range(2)]}


def _document(schema: dict[str, Any], rng: random.Random) -> Any:
    if "type" not in schema:
        return _document(schema["anyOf"][0], rng)
    if schema["type"] == "object":
        keys = rng.sample(_TEXTS, rng.randint(0, 5))
        keys += [key for key in schema.get("required", ()) if rng.random() < 0.9]
        keys = rng.sample(keys := list(dict.fromkeys(keys)), len(keys))
        values: list[Any] = [1, 7, "a"]
        return [(key, rng.choice(values[:2] if rng.random() < 0.8 else values)) for key in keys]
    validator = Draft202012Validator(schema["items"])
    fitting = [value for value in _SCALARS if validator.is_valid(value)] or _SCALARS
    count = rng.randint(0, 5)
    differ = rng.random() < 0.6
    items = rng.sample(fitting, min(count, len(fitting))) if differ else rng.choices(fitting, k=count)
    if rng.random() < 0.2:
        items.append(rng.choice(_SCALARS))
    return items


def _written(document: Any, rng: random.Random) -> str:
    """Write a document as text, strings and numbers in one of their spellings; objects are lists of pairs."""
    if isinstance(document, list) and document and isinstance(document[0], tuple):
        pairs = list(document)
        if rng.random() < 0.15:
            pairs.append((pairs[-1][0], 3))
        return "{" + ", ".join(f"{_scalar(key, rng)}: {_scalar(value, rng)}" for key, value in pairs) + "}"
    return "[" + ", ".join(_scalar(value, rng) for value in document) + "]"


def _scalar(value: Any, rng: random.Random) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=rng.random() < 0.5) if rng.random() < 0.7 else _escaped(value)
    text = json.dumps(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.2:
        text += "0" if "." in text else ".0"
    return text


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    return '"' + "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2)) + '"'
