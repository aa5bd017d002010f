"""`Result.missing` names the keys that an object still needs."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import pytest

from formatter_core import Compiler, FormatterBuilder, Vocabulary, formats, parse
from formatter_core.errors import IncompleteResult


@dataclass
class Item:
    name: str
    price: float


ORDERED = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"$ref": "#/$defs/inner"}},
    "required": ["a", "b"],
    "additionalProperties": False,
    "$defs": {"inner": {"type": "object", "properties": {"x": {}, "y": {}}, "required": ["x", "y"]}},
}
ANY_SPELLING = formats.json_schema(ORDERED, spelling="any")
ANY_ORDER = formats.json_schema(ORDERED, key_order="any")


@pytest.mark.parametrize(
    ("format", "text", "message"),
    [
        (ORDERED, "{}", 'missing the keys "a" and "b"'),
        (ORDERED, '{"a": 1}', 'missing the key "b"'),
        (ORDERED, '{"a": 1', 'missing the key "b"'),
        (ORDERED, '{"a": 1, "', 'missing the key "b"'),
        (ORDERED, '{"a": 1, "b": ', '`b` is not finished: expected `"`'),
        (ORDERED, '{"a": 1, "b": "x"', "output ended too early: expected `\\n`, ` `, `}` or `,`"),
        (ANY_SPELLING, '{"a": 1 , \n}', 'missing the key "b"'),
        (ORDERED, '{"a": 1, "b": "}{\\"", "c": {"x": {"b": [{}]}}}', 'missing the key "y" in `inner`'),
        (ORDERED, '{"b": "x", "a": 1}', 'the key "a" must come before "b"; key_order="any" takes keys in any order'),
        (ORDERED, '{"a": 1, "c": {}, "b": "x"}', 'the key "b" must come before "c"; key_order="any"'),
        (ORDERED, '{"b": "x"}', 'missing the key "a"'),
        (ORDERED, '{"c": {"x": 1, "y": 2}}', 'missing the keys "a" and "b"'),
        (ORDERED, '{"b": "x", "c": {', 'missing the keys "a" and "b"'),
        (ORDERED, '{"a": 1, "a": 1}', 'the key "a" comes a second time'),
        (ANY_SPELLING, '{"\\u0061": 1, "bb": "x"}', 'there is no key "bb"'),
        (ORDERED, '{"a": 1, "b": "x", "d": 1}', 'there is no key "d"'),
        (ORDERED, '{"a": "1"}', "expected `-` or `0`–`9` in `a`"),
        (ORDERED, '{"a": 1, "b": "x", "c": ["x"]}', "expected `{` in `inner`"),
        (ORDERED, '{"a" 1}', "expected `:`"),
        (ANY_ORDER, '{"b": "x"}', 'missing the key "a"'),
        (ANY_ORDER, '{"b": "x", "d": 1}', 'there is no key "d"'),
        (
            list[Item],
            '[{"name": "x", "price": 1}, {"price": 1, "name": "x"}]',
            'the key "name" must come before "price"',
        ),
        (formats.sequence("say {", list[Item]), 'say {[{"name": "x"}]', 'missing the key "price"'),
        (Item, "[]", "expected `{`"),
    ],
)
def test_a_text_that_stops_matching_because_of_a_key(format, text, message) -> None:
    assert message in str(parse(formats.as_format(format), text).missing)
    assert message in str(Compiler(Vocabulary.of_bytes()).compile(format).parse(text).missing)


def test_keys_are_shown_as_they_are_written_and_not_all_of_thousands() -> None:
    names = [f"größe {number}" for number in range(3000)]
    many: dict[str, Any] = {"type": "object", "properties": {name: {} for name in names}, "required": names}
    many["additionalProperties"] = False
    missing = str(parse(many, "{}").missing)
    assert 'missing the keys "größe 0", "größe 1", ' in missing
    assert missing.endswith('"größe 19" and 2,980 more')
    assert r'there is no key "\ud800\"\u202e"' in str(parse(many, '{"\\ud800\\"\u202e": 1}').missing)
    assert str(parse(many, f'{{"{"x" * 10**6}": 1}}').missing).endswith(f'there is no key "{"x" * 100}…"')


def test_in_a_hole() -> None:
    b = FormatterBuilder()
    b.append("Item: ", b.json(Item, name="item"), ".")
    assert 'missing the key "price"' in str(parse(b, 'Item: {"name": "x"}.').missing)


def test_a_text_that_does_not_match_is_not_to_be_continued() -> None:
    with pytest.raises(IncompleteResult, match="did not constrain it") as caught:
        _ = parse(Item, '{"name": "x"}').value
    assert caught.value.position == 12
    assert "continue" not in str(caught.value)
    with pytest.raises(IncompleteResult) as caught:
        _ = parse(Item, '{"name": "x"', ended="length").value
    assert caught.value.position is None


def test_what_is_said_is_true() -> None:
    """Documents with one key taken out, added or moved, at any depth: the same key is named."""
    rng = random.Random(0)
    for _ in range(60):
        schema, document = _random_object(rng, 3)
        inner, path = document, [*range(rng.randrange(3))]
        for _ in path:
            deeper = [value for value in inner.values() if isinstance(value, dict) and value]
            inner = rng.choice(deeper) if deeper else inner
        if not inner:
            continue
        assert parse(formats.json_schema(schema), json.dumps(document)).is_complete
        kept = dict(inner)
        name = rng.choice([*inner])
        del inner[name]
        assert f'missing the key "{name}"' in str(parse(formats.json_schema(schema), json.dumps(document)).missing)
        inner.clear()
        inner.update({"none": kept} | kept)
        assert 'there is no key "none"' in str(parse(formats.json_schema(schema), json.dumps(document)).missing)
        inner.clear()
        inner.update({name: kept[name]} | kept)
        if [*inner] != [*kept]:
            first = next(iter(kept))
            assert f'"{first}" must come before "{name}"' in str(
                parse(formats.json_schema(schema), json.dumps(document)).missing
            )


def _random_object(rng: random.Random, depth: int) -> tuple[dict[str, Any], dict[str, Any]]:
    schema: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    document: dict[str, Any] = {}
    for name in rng.sample("abcdef{}", rng.randint(1, 4)):
        if depth and rng.random() < 0.5:
            schema["properties"][name], document[name] = _random_object(rng, depth - 1)
        else:
            schema["properties"][name], document[name] = (
                {"type": ["string", "null"]},
                rng.choice(['{"a": 1', "}", None]),
            )
    schema["required"] = [*document]
    return schema, document
