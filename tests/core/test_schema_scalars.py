"""Scalars, by their values, which the `jsonschema` package judges."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from jsonschema.validators import validator_for

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.errors import (
    FormatterError,
    InvalidSchema,
    TokenRejected,
    UnsatisfiableSchema,
    UnsupportedSchema,
)

BYTES = Vocabulary.of_bytes()
_NAMES = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
MADE = [
    '{"type":"string","format":"of our own"}',
    '{"type":["null","string"],"format":"int32","maxLength":3}',
    '{"type":"integer","minimum":0,"maximum":65535}',
    '{"type":"integer","minimum":-3,"exclusiveMaximum":0}',
    '{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}',
    '{"type":"integer","minimum":0.5}',
    '{"type":["number","null"],"minimum":0,"maximum":1}',
    '{"type":"number","exclusiveMinimum":0.05,"exclusiveMaximum":90.909}',
    '{"type":"number","minimum":-1.50,"maximum":-0.0001}',
    '{"type":"number","minimum":2,"maximum":2}',
    '{"type":"number","minimum":3,"exclusiveMinimum":2,"maximum":10}',
    '{"type":["string","integer"],"maximum":-7}',
    '{"enum":[1,1.0,-2.50,"a",null,0,"ab",true]}',
    '{"type":"integer","enum":[1,2.5,3]}',
    '{"type":"string","pattern":"a"}',
    '{"type":"string","pattern":"^[a-z][A-Z0-9_-]*$"}',
    '{"type":"string","pattern":"^$|^(?:a|b{2,3}?)+c?$|d$"}',
    '{"type":"string","pattern":"^\\\\d{3}[\\\\s.\\\\-/][^\\\\w\\"]\\\\S.\\\\u00e9\\\\x41$"}',
    '{"type":["string","boolean"],"pattern":"^[\\\\u0000-\\\\uffff]{2}|\U0001f600[\U0001f600-\U0001f64f]","maxLength":9}',
    '{"type":"string","pattern":"^(a|bcd)*x{,3}]}{1}$","minLength":2}',
    '{"type":"string","pattern":".*"}',
    '{"enum":[true]}',
    '{"const":null}',
    '{"type":["null","string","boolean"],"format":"date-time"}',
    '{"type":"string","format":"email","minLength":3,"maxLength":254}',
    '{"type":"string","format":"date","pattern":"^2","maxLength":12}',
    '{"type":"string","allOf":[{"format":"uri"},{"pattern":"^https?://"}]}',
    '{"type":"string","allOf":[{"minLength":2},{"maxLength":4},{"description":"x","format":"of our own"}]}',
    '{"type":["number","string"],"enum":["a","abc",1,2.5],"anyOf":[{"maxLength":2},{"maximum":2}]}',
    '{"anyOf":[{"type":"integer","maximum":0},{"enum":["all",7]},{"type":"null"}]}',
    '{"anyOf":[{"type":"string","format":"uri"},{"type":"string","maxLength":0},{"type":"boolean"}]}',
    '{"oneOf":[{"const":"a"},{"const":"b"},{"type":"integer","minimum":1},{"const":0}]}',
    '{"type":"number","anyOf":[{"minimum":1},{}],"oneOf":[{"type":"string"},{"maximum":3.5}]}',
    *(json.dumps({"type": "string", "pattern": pattern}) for pattern in (
        "(?<!a)b", "(^a)*", "\\p{L}", "\\P{Script=Greek}", "\\u{41}\\ud83d\\ude00", "(?i:a)", "(?i)Straße",
        "(?x) a # b\n c", "(?P<n>a)", "\\Aa\\z", "^" + "(a)" * 40 + "$", "a{20000}", "(?:^|,)b",
        "\\bx", "^(?!a)", "^(?!.*foo)[a-z]+\\b-x$", "^((?!ab).)*$", "^(?=.*[0-9])(?=.*[a-z]).{8,}$", "[\\b]",
    )),
    '{"type":"string","pattern":"^(?!a|b$).+\\\\b","minLength":2,"maxLength":9}',
    '{"type":"object","patternProperties":{"^[a-z]+$":{"type":"null"}}}',
    '{"type":"object","patternProperties":{"x*":{"type":"null"}},"additionalProperties":false}',
]  # fmt: skip
#: Some of these are invalid.
RARE = [
    '{"type":"string","format":"date","maxLength":9}',
    '{"type":"string","format":"date","pattern":"^3"}',
    '{"type":"string","format":"iri"}',
    '{"type":"string","oneOf":[{"pattern":"a"},{"pattern":"b"}]}',
    '{"type":"string","anyOf":[{"pattern":"a"},{"pattern":"b"}]}',
    '{"type":"string","anyOf":[{"format":"uri","minLength":3},{"format":"time","minLength":3}]}',
    '{"type":"integer","allOf":[{"minimum":"1"}]}',
    '{"type":"integer","allOf":[{"pattern":"("}]}',
    '{"type":"integer","allOf":[3]}',
    '{"type":"integer","allOf":[{"minimum":1},{"maximum":0}]}',
    '{"type":"integer","not":{"maximum":3}}',
    '{"type":"string","format":3}',
    '{"type":"integer","minimum":1e40}',
    '{"type":"integer","minimum":"1"}',
    '{"type":"integer","minimum":3,"maximum":2}',
    '{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":1}',
    '{"type":"number","minimum":0,"multipleOf":0}',
    '{"type":"string","pattern":"^(a|bcd)$","minLength":2,"maxLength":2}',
    *(json.dumps({"type": "string", "pattern": pattern}) for pattern in (
        "(", ")", "[", "[]", "[b-a]", "a**", "^*", "a{2,1}", "\\", "\\Z", "\\1", "(?<n>a)\\k<n>",
        "(?=a)b", "\\B\\b", "\\ud83d", "\\c", "a$b", "[\\q]", "a{99999999}", "(?a)", "\\x4",
        "?",
    )),
]  # fmt: skip


VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 3.5, 4, 7, -3, -7, 0.5, 2.5, -2.5, -1.5, 1.25, 0.05, 0.06, 90.908, 90.909, 40,
    41, 65535, 65536, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**20, 0.0001, -0.0001, -1.51, 99,
    "", "a", "b", "ab", "abc", "bcd", "bb", "bbc", "all", "d", "A", "A\u00e9", "é", "Straße", "STRASSE",
    "a b", "ad9-", "x" * 9, "a" * 40, "2020-01-31", "https://x.y/", "me@example.com",
    "012-a\u00e9A", "b-x", "abc1defgh", "12:34:56Z", "  ", "{", "ab\u65e5", "9", "ffff", "aé", "\U0001f600",
]  # fmt: skip


def compiled_or_error(schema: Any) -> Any:
    try:
        return Compiler(BYTES, engine="native", cache_bytes=0).compile(formats.json_schema(schema, spelling="any"))
    except FormatterError as error:
        return error


def faults_of(text: str, draft: int = 2020) -> list[Any] | None:
    """The values that the format and the validator judge otherwise; None where one of them does not know the schema."""
    schema = json.loads(f'{{"$schema":"{_NAMES[draft]}",{text[1:]}')
    compiled = compiled_or_error(schema)
    validator = validator_for(schema)(schema)
    has_formats = '"format"' in text.replace('"format": "of our own"', "")  # which the validator only notes
    try:
        valid = list(map(validator.is_valid, VALUES))
    except Exception:  # noqa: BLE001 (its patterns are those of `re`)
        return None
    if isinstance(compiled, FormatterError):
        return None
    taken = [compiled.parse(json.dumps(value)).is_complete for value in VALUES]
    both = zip(VALUES, taken, valid, strict=True)
    wrong = [value for value, is_taken, is_valid in both if is_taken != is_valid and (is_taken or not has_formats)]
    # To the validator, letters and digits are Unicode's, to ECMA 262 those of ASCII.
    return [value for value in wrong if "\\\\" not in text or str(value).isascii()]


@pytest.mark.parametrize("text", MADE)
@pytest.mark.parametrize("draft", [6, 2020])
def test_values_of_scalars(text: str, draft: int) -> None:
    assert not faults_of(text, draft)


@pytest.mark.parametrize("bound", ["true", "false"])
def test_bounds_of_draft_4(bound: str) -> None:
    text = f'{{"type":"integer","minimum":1,"exclusiveMinimum":{bound},"maximum":40}}'
    assert faults_of(text, 4) == []
    wrong = json.loads(f'{{"$schema":"{_NAMES[4]}",{text.replace(bound, "3")[1:]}')
    assert isinstance(compiled_or_error(wrong), InvalidSchema)


@pytest.mark.parametrize("text", RARE)
def test_rare_and_invalid_scalars(text: str) -> None:
    found = compiled_or_error(json.loads(text))
    assert isinstance(found, (InvalidSchema, UnsupportedSchema, UnsatisfiableSchema)) or not faults_of(text)


def _number(choice: random.Random) -> str:
    digits = "".join(choice.choice("0012599") for _ in range(choice.randint(0, choice.choice([2, 4, 19]))))
    whole = str(choice.choice([0, 1, 9, 10, 99, choice.randint(0, 10 ** choice.randint(1, 20))]))
    return choice.choice(["", "-"]) + whole + (f".{digits}" if digits else "") + choice.choice([""] * 9 + ["e2"])


def _pattern(choice: random.Random, depth: int) -> str:
    atoms = ["a", "ab", "é", "\U0001f600", ".", "\\d", "\\W", "\\s", "\\.", "{", "^", "$"]
    atoms += ["[a-f\\d]", "[^\\w/]", "[\\ud000-\\uffff]"]
    found = ""
    for _ in range(choice.randint(0, 3)):
        atom = choice.choice(atoms) if depth == 0 or choice.random() < 0.7 else f"({_pattern(choice, depth - 1)})"
        found += atom + choice.choice([""] * 5 + ["*", "+", "?", "{2}", "{0,3}", "{1}", "+?", "{0}"])
    return found + (f"|{_pattern(choice, depth - 1)}" if depth and choice.random() < 0.4 else "")


def _combined(choice: random.Random, depth: int) -> dict[str, Any]:
    if depth == 0 or choice.random() < 0.3:
        said: list[dict[str, Any]] = [
            {"type": choice.choice(["null", "boolean", "integer", "number", "string", ["string", "null"]])},
            {"enum": choice.sample(["a", "ab", "", 1, 2, 2.5, None, True, False], choice.randint(1, 4))},
            {choice.choice(["minLength", "maxLength"]): choice.randint(0, 4), "type": "string"},
            {choice.choice(["minimum", "maximum", "exclusiveMinimum"]): choice.randint(0, 4)},
            {
                "format": "of our own",
                "minLength": choice.randint(0, 12),
            },
            {"pattern": choice.choice(["^a", "b$"]), "type": "string"},
        ]
        return choice.choice(said)
    found = choice.choice([{"type": ["string", "integer", "null"]}, {"type": "number"}, _combined(choice, 0)])
    names = choice.sample(["allOf", "anyOf", "oneOf"], choice.choice([1, 1, 2]))
    return found | {name: [_combined(choice, depth - 1) for _ in range(choice.randint(1, 3))] for name in names}


def test_random_combinations() -> None:
    choice = random.Random(12)
    seen = 0
    for _ in range(400):
        text = json.dumps(_combined(choice, 2))
        faults = faults_of(text)
        assert not faults, text
        seen += faults is not None and "Of" in text
    assert seen >= 50


def _is_valid(schema: dict[str, Any], text: str) -> bool:
    formatter = Compiler(Vocabulary.of_bytes(), engine="native").compile(schema).formatter()
    try:
        formatter.accept_bytes(text.encode())
    except TokenRejected:
        return False
    return formatter.can_stop


FORMATS = {
    "date-time": "2020-01-31T12:34:56Z",
    "date": "2020-01-31",
    "time": "12:34:56Z",
    "email": "me@example.com",
    "uri": "https://example.com/",
    "uuid": "01234567-89ab-cdef-0123-456789abcdef",
    "ipv4": "192.168.0.1",
    "ipv6": "2001:db8::1",
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_text_that_has_a_format(name: str) -> None:
    assert _is_valid({"type": "string", "format": name}, json.dumps(FORMATS[name]))


def test_const_says_nothing_in_draft_4() -> None:
    """Arrays and objects were refused."""
    schema = {"$schema": _NAMES[4], "minimum": 6, "allOf": [{"anyOf": [{"const": 1}, {"type": "string"}]}]}
    for text, expected in (("[1]", True), ("7", True), ('"a"', True), ("1", False)):
        assert _is_valid(schema, text) == expected


def test_random_bounds_and_patterns() -> None:
    choice = random.Random(11)
    seen = 0
    for _ in range(300):
        if choice.random() < 0.5:
            names = choice.sample(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], 2)
            said = "".join(f',"{name}":{_number(choice)}' for name in names)
            text = f'{{"type":"{choice.choice(["integer", "number"])}"{said}}}'
        else:
            pattern = choice.choice(["{}", "^{}$", "^(?:{})$", "^{}"]).replace("{}", _pattern(choice, 2))
            text = json.dumps({"type": "string", "pattern": pattern, "maxLength": choice.choice([3, 30])})
        faults = faults_of(text)
        assert not faults, text
        seen += faults is not None
    assert seen >= 100
