"""Canonical spelling allows what a careful writer writes, and nothing that other spellings do not allow."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.errors import FormatterError, InvalidArgument, InvalidValue
from formatter_core.formats.json_values import read_value
from formatter_core.formats.openai_request import requested_format
from formatter_core.grammar import JsonText
from formatter_core.grammar.json_text import spell_chars, spelled
from formatter_core.testing.automaton import Automaton
from tests.sampling import sampled

from .random_schemas import random_case
from .schema_judge import Judge

BYTES = Vocabulary.of_bytes()

REVIEW: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "name": {"enum": ["Bob", "Zoë", "a/b", 'say "hi"\n\u0001']},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["title", "name"],
    "additionalProperties": False,
}


def written(title: str = '"t"', name: str = '"Bob"', rest: str = "") -> str:
    return f'{{"title":{title},"name":{name}{rest}}}'


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (written(), True),
        # Names and listed texts have one spelling.
        (r'{"\u0074itle":"t","name":"Bob"}', False),
        (written(name=r'"Bo\u0062"'), False),
        (written(name='"Zoë"'), True),
        (written(name=r'"Zo\u00eb"'), False),
        (written(name='"a/b"'), True),
        (written(name=r'"a\/b"'), False),
        (written(name=r'"say \"hi\"\n\u0001"'), True),
        (written(name=r'"say \"hi\"\u000a\u0001"'), False),
        (written(name=r'"say \u0022hi\"\n\u0001"'), False),
        # A character of a string stands for itself unless it must be escaped.
        (written(r'"\u0061"'), False),
        (written(r'"\/"'), False),
        (written('"/\x7f~"'), True),
        (written(r'"\u007f"'), False),
        (written(r'"\"\\\b\f\n\r\t"'), True),
        (written(r'"\u0022"'), False),
        (written(r'"\u000A"'), False),
        (written(r'"\u000b\u001F\u001f"'), True),
        (written('"é😀"'), True),
        (written(r'"\u00e9\u00E9\ud83d\uDE00"'), True),
        (written(r'"\ud83d"'), None),
        (written('"\n"'), None),
        # Blanks stand where writers put them.
        ('{"title" :"t","name":"Bob"}', False),
        ('{"title":"t" ,"name":"Bob"}', False),
        ('{"title"\n:"t","name":"Bob"}', False),
        ('{"title":\n"t","name":"Bob"}', False),
        ('{"title":  "t","name":"Bob"}', None),
        ('{"title": "t", "name": "Bob"}', True),
        ('{ "title": "t", "name": "Bob" }', True),
        ('{\n"title":"t",\n"name":"Bob"\n}', True),
        (written(rest=',"tags":[ ]'), True),
        (written(rest=',"tags":["a" ,"b"]'), False),
        (written(rest=',"tags":[\n        "a",\n        "b"\n    ]'), True),
        ('{  "title":"t","name":"Bob"}', None),
    ],
)
def test_a_text_in_both_spellings(text: str, canonical: bool | None) -> None:
    """None: in neither of them."""
    assert Judge(REVIEW).accepts(text) == bool(canonical)
    assert Judge(REVIEW, spelling="any").accepts(text) == (canonical is not None)


@pytest.mark.parametrize("indent", [None, 2, 4])
@pytest.mark.parametrize("separators", [None, (",", ":")])
def test_what_json_dumps_writes_is_canonical(indent: int | None, separators: Any) -> None:
    value = {"title": 'A \\ "b" \t é \u2028 😀 /', "name": "Zoë", "tags": ["x", "", "\x00\x7f"]}
    assert Judge(REVIEW).accepts(json.dumps(value, indent=indent, separators=separators, ensure_ascii=False))
    escaped = json.dumps({**value, "name": "Bob", "tags": ["\x00"]}, indent=indent, separators=separators)
    assert Judge(REVIEW).accepts(escaped)


@pytest.mark.parametrize(
    ("schema", "inside", "outside"),
    [
        ({"pattern": "^a/é$"}, ['"a/é"', r'"a/\u00e9"'], [r'"a\/é"', r'"\u0061/é"']),
        ({"pattern": r"^[\n\u0001-\u0003/]$"}, [r'"\n"', r'"\u0002"', '"/"'], [r'"\u000a"', r'"\/"']),
        ({"maxLength": 1}, ['"😀"', r'"\ud83d\ude00"', r'"\t"'], [r'"\u0009"', r'"\u0020"', '"ab"']),
        ({"minLength": 2}, [r'"a\u00e9"'], [r'"\u0061b"']),
        ({"format": "date"}, ['"2020-02-29"'], [r'"2020\u002d02-29"']),
        ({"not": {"enum": ["a", "é"]}}, ['"b"', '"aé"'], ['"a"', '"é"', r'"\u00e9"', r'"\u00E9"', r'"\u0062"']),
        ({"const": "é"}, ['"é"'], [r'"\u00e9"']),
    ],
)
def test_constrained_strings(schema: dict[str, Any], inside: list[str], outside: list[str]) -> None:
    judge, any_judge = (Judge({"type": "string", **schema}, spelling=each) for each in ("canonical", "any"))
    for text in inside:
        assert judge.accepts(text), text
        assert any_judge.accepts(text), text
    for text in outside:
        assert not judge.accepts(text), text


def test_other_keys_are_not_the_named_ones() -> None:
    judge = Judge({"properties": {"é": {"type": "null"}}, "additionalProperties": True})
    assert judge.accepts('{"é":null,"e":1}')
    for key in ("é", r"\u00e9", r"\u00E9"):
        assert not judge.accepts(f'{{"{key}":1}}')


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x7f"), max_size=5), st.booleans())
def test_spellings_of_texts(text: str, ensure_ascii: bool) -> None:
    written = json.dumps(text, ensure_ascii=ensure_ascii)
    assert Judge({"type": "string"}).accepts(written)
    assert Automaton(spelled(JsonText(text, "canonical"))).matches(written[1:-1].encode())
    assert not Judge({"type": "string", "not": {"const": text}}).accepts(written)
    assert Judge({"const": text}).accepts(written) == (written == json.dumps(text, ensure_ascii=False))


@settings(deadline=None)
@given(st.characters(exclude_categories=("Cs",)))
def test_canonical_characters_are_some_of_all_spellings(char: str) -> None:
    ranges = ((ord(char), ord(char)),)
    some, every = (Automaton(spell_chars(ranges, spelling)) for spelling in ("canonical", "any"))
    texts = [text for _, text in zip(range(40), some.texts(), strict=False)]
    assert texts
    assert all(map(every.matches, texts))
    assert all(json.loads(f'"{text.decode()}"', strict=False) == char for text in texts)
    if ord(char) < 0x10000:
        may_be_escaped = ord(char) > 0x7F or (ord(char) < 0x20 and char not in "\b\t\n\f\r")
        assert (f"\\u{ord(char):04x}".encode() in texts) == may_be_escaped


@pytest.mark.parametrize("first", sampled(range(0, 120, 20), 3))
def test_what_is_canonical_has_the_same_value_in_any_spelling(first: int) -> None:
    compiler = Compiler(BYTES, engine="native")
    walked = 0
    for seed in range(first, first + 20):
        schema = random_case(seed)[0]
        try:
            canonical = compiler.compile(formats.json_schema(schema))
            every = compiler.compile(formats.json_schema(schema, spelling="any"))
        except FormatterError:
            continue
        source = random.Random(seed)
        for _ in range(6):
            text = random_walk(canonical, source)
            if text is None:
                continue
            walked += 1
            result = every.parse(text)
            assert result.is_complete, (schema, text)
            try:
                value = read_value(text)
            except InvalidValue:  # a number that is too large
                continue
            assert repr(result.value) == repr(canonical.parse(text).value) == repr(value)
    assert walked > 20


def random_walk(compiled: Any, source: random.Random, longest: int = 300) -> bytes | None:
    """A random text that the masks allow; None where it has not ended in time."""
    formatter = compiled.formatter()
    text = bytearray()
    while len(text) < longest:
        allowed = formatter.allowed_tokens()
        ends = [token for token in allowed if token == 256 or bytes((token,)) in b'"]}']
        token = source.choice(ends if ends and source.random() < 0.2 + len(text) / 200 else allowed)
        formatter.accept_token(token)
        if token == 256:
            return bytes(text)
        text.append(token)
    return None


@pytest.mark.parametrize("missing", ["é", "~", "日", "😀"])
def test_a_vocabulary_that_cannot_spell_a_character_escapes_it(missing: str) -> None:
    """In names and listed texts, whatever stands around them."""
    left_out = set(missing.encode())
    vocabulary = Vocabulary([None if byte in left_out else bytes((byte,)) for byte in range(256)] + [None], [256])
    schema = {"properties": {f"a{missing}": {"const": f"{missing}b"}}, "required": [f"a{missing}"]}
    escape = "".join(f"\\u{ord(missing):04x}" if ord(missing) < 0x10000 else r"\ud83d\ude00")
    text = f'{{"a{escape}":"{escape}b"}}'
    compiled = Compiler(vocabulary, engine="native").compile(formats.json_schema(schema))
    formatter = compiled.formatter()
    formatter.accept_bytes(text.encode())
    assert formatter.can_stop
    assert compiled.parse(text).value == {f"a{missing}": f"{missing}b"}
    whole = Compiler(BYTES, engine="native").compile(formats.json_schema(schema))
    assert not whole.parse(text).is_complete
    assert whole.parse(json.dumps({f"a{missing}": f"{missing}b"}, ensure_ascii=False)).is_complete


def test_characters_of_a_registry_are_escaped_too() -> None:
    vocabulary = Vocabulary([bytes((byte,)) if byte < 0x80 else None for byte in range(256)] + [None], [256])
    format = formats.json_schema({"$ref": "https://example.com/e"}, registry={"https://example.com/e": {"const": "é"}})
    assert Compiler(vocabulary, engine="native").compile(format).formatter().forced_bytes() == b'"\\u00e9"'


def test_a_vocabulary_without_a_byte_spells_a_character_by_one_token() -> None:
    ascii_bytes = [bytes((byte,)) if byte < 0x80 else None for byte in range(256)]
    vocabulary = Vocabulary([*ascii_bytes, None, "é".encode()], [256])
    compiled = Compiler(vocabulary, engine="native").compile({"const": "é"})
    assert compiled.parse('"é"').is_complete
    assert compiled.formatter().forced_bytes() == '"é"'.encode()


@pytest.mark.parametrize("key", [b'"age"', b"age"])
def test_a_vocabulary_of_words_spells_names_by_its_words(key: bytes) -> None:
    """It spells neither their characters nor escapes."""
    tokens = [b"{", b"}", b'"', key, b":", b" ", b"1", b"4", None]
    schema = {"type": "object", "properties": {"age": {"enum": [41, 14]}}, "required": ["age"]}
    compiled = Compiler(Vocabulary(tokens, [8]), engine="native").compile(schema)
    assert compiled.min_tokens == (7 if key == b'"age"' else 9)
    formatter = compiled.formatter()
    formatter.accept_bytes(b'{"age": 4')
    assert formatter.allowed_tokens() == [6]
    assert formatter.forced_bytes().startswith(b"1")


def test_names_and_listed_texts_are_forced() -> None:
    formatter = Compiler(BYTES, engine="native").compile(formats.json_schema(REVIEW, whitespace="compact")).formatter()
    assert formatter.forced_bytes() == b'{"title":"'


def test_the_option_is_part_of_the_format() -> None:
    canonical, every = formats.json_schema(REVIEW), formats.json_schema(REVIEW, spelling="any")
    assert canonical.key() != every.key()
    for made in (canonical, every):
        data = made.to_json()
        assert formats.from_json(data) == made
    stored = canonical.to_json()
    del stored["spelling"]
    assert formats.from_json(stored) == every
    with pytest.raises(InvalidArgument, match="spelling"):
        formats.json_schema(REVIEW, spelling="odd")  # type: ignore[arg-type]


CLOSED: dict[str, Any] = {
    "properties": {
        "a": {
            "properties": {"b": {"items": {"type": "null"}, "type": "array"}},
            "additionalProperties": False,
            "type": "object",
        }
    },
    "additionalProperties": False,
    "type": "object",
}
TREE: dict[str, Any] = {"type": "array", "items": {"$ref": "#"}}


def nested(*spaces: int) -> str:
    first, second, third = ("\n" + " " * count for count in spaces)
    return f'{{{first}"a": {{{second}"b": [{third}null,{third}null{third}]{second}}}{first}}}'


@pytest.mark.parametrize(
    ("schema", "text", "canonical"),
    [
        (CLOSED, nested(4, 8, 12), True),
        (CLOSED, nested(0, 0, 0), True),
        (CLOSED, nested(5, 8, 12), False),
        (CLOSED, nested(4, 9, 12), False),
        (CLOSED, nested(4, 8, 13), False),
        (TREE, f"[\n{' ' * 64}[]]", True),
        (TREE, f"[\n{' ' * 65}[]]", None),
        ({"type": "object"}, f'{{\n    "a": [\n{" " * 64}1]}}', True),
        ({"type": "object"}, '{\n     "a": 1}', False),
        ({"type": "object", "additionalProperties": {"type": "null"}}, '{\n     "a": null}', False),
        ({"properties": {"a": {"$ref": "#/$defs/d"}, "b": {"items": {"$ref": "#/$defs/d"}}},
          "$defs": {"d": {"type": "array", "maxItems": 0}}}, f'{{"a": [\n{" " * 12}]}}', True),
        ({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True}, "[\n    1,\n    2\n]", True),
        ({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True}, "[\n     1]", False),
        ({"type": "array", "prefixItems": [{}], "contains": {"const": 1}, "maxContains": 2}, "[\n    1,\n    2]", True),
        ({"type": "array", "prefixItems": [{}], "contains": {"const": 1}, "maxContains": 2}, "[1,\n     2\n]", False),
    ],
)  # fmt: skip
def test_a_line_is_indented_by_its_depth(schema: dict[str, Any], text: str, canonical: bool | None) -> None:
    assert Judge(schema).accepts(text) == bool(canonical)
    assert Judge(schema, spelling="any").accepts(text) == (canonical is not None)


def test_a_request_to_a_server_names_its_spelling() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "review", "schema": REVIEW}}
    assert requested_format({"response_format": wanted}, None) == formats.json_schema(REVIEW)
    every = requested_format({"response_format": wanted, "spelling": "any"}, None)
    assert every == formats.json_schema(REVIEW, spelling="any")
    with pytest.raises(InvalidArgument, match="spelling"):
        requested_format({"response_format": wanted, "spelling": "wide"}, None)


@pytest.mark.parametrize("keyword", ["const", "enum"])
def test_a_listed_object_has_its_own_order_unless_any_is_asked_for(keyword: str) -> None:
    value = {"b": 1.0, "a": {"d": "x", "c": [True, None]}}
    schema = {keyword: value if keyword == "const" else [value, 5]}
    own, other = '{"b": 1, "a": {"d": "x", "c": [true, null]}}', '{"a": {"c": [true, null], "d": "x"}, "b": 1}'
    for spelling in ("canonical", "any"):
        assert Judge(schema, spelling=spelling).accepts(own)
        assert not Judge(schema, spelling=spelling).accepts(other)
        for text in (own, other):
            assert Judge(schema, spelling=spelling, key_order="any").accepts(text)
