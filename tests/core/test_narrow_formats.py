"""The formats of which a part is allowed, since all of it is no regular language: `regex` and `idn-hostname`."""

from __future__ import annotations

import json
import random
import re
import warnings
from typing import Any

import pytest

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import UnsupportedSchema
from formatter_core.formats import json_schema
from formatter_core.syntax.regex import parse_ecma
from tests.core.schema_judge import Judge

REGEX: dict[str, Any] = {"type": "string", "format": "regex"}
IDN: dict[str, Any] = {"type": "string", "format": "idn-hostname"}

REGULAR_EXPRESSIONS = [
    "", "a|b|", r"([abc])+\s+$", r"^\d{3}-\d{4}$", r"^(?=.*\d)(?=.*[a-z])(?!.*\s).{8,}$", "((((a))))", "^.{1,4000}$",
    r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$", r"^([01]?\d|2[0-3]):[0-5]\d$", r"^\S(|(.|\n)*\S)$",
    r"[\u4e00-\u9fff]+", r"^#?([a-f0-9]{6}|[a-f0-9]{3})$", r"^v?\d+\.\d+\.\d+(?:-[\w.-]+)?$", r"^https?:\/\/",
    "[^\"\\\\]*?",    "[.-]", "[-.]", r"[\w\-]", r"\bword\b", "[ -~]", "[A-Za-zÀ-ÿ]", r"\x41\u00e9",
    "日本|é", "a{2}b{3,}c{4,5}?", "[a^]",
]  # fmt: skip
OTHER_TEXTS = [
    "(", ")", "^(abc]", "a**", r"\a", "(?P<n>a)", "(?P<n>a)(?P=n)", "(?i)abc", "[z-a]", r"[\w-z]", r"[a-\d]", "{", "}",
    "]", "[", "a{2,1}", "a{20,10}", "^*", r"\b+", "(?=a)*", r"\u12", r"\ud800", r"\_", r"\-", "x{,3}", "a{1}{2}", r"\Z",
]  # fmt: skip
LEFT_OUT = ["[]", "[^]", r"(a)\1", "(((((a)))))", "(?<=a)b", "(?<n>a)", r"\cA", r"\p{L}", r"\u{61}", r"\0", "[c-x]"]

HOSTS = ["a-1.b", "実例.com", "실례.테스트", "www.münchen.de", "παράδειγμα", "пример", "x" * 63, ".".join("abcdefgh")]
OTHER_HOSTS = [
    "", ".", "-a", "é-", "a..b", "a_b", "É", "aÉ", "〮실례", "e\u0301", "\u0903hello", "a·l", "א", "ü" * 56, "xn--X",
    "aé--b", "ab--é", "x" * 64, "a.", "a\u200db",
]  # fmt: skip
HOSTS_LEFT_OUT = ["xn--ihqwcrb4cv8a8dqg056pqjye", "παράδειγμαπαράδειγμα", "l·l", "अ", "a。b", "a.b.c.é"]


@pytest.mark.parametrize("spelling", ["canonical", "any"])
@pytest.mark.parametrize(
    ("schema", "kept", "lost"),
    [(REGEX, REGULAR_EXPRESSIONS, OTHER_TEXTS + LEFT_OUT), (IDN, HOSTS, OTHER_HOSTS + HOSTS_LEFT_OUT)],
    ids=["regex", "idn-hostname"],
)
def test_a_part_of_the_format_is_allowed(schema: Any, kept: list[str], lost: list[str], spelling: Any) -> None:
    judge = Judge(schema, spelling=spelling)
    assert [text for text in kept if not judge.accepts(json.dumps(text, ensure_ascii=False))] == []
    assert [text for text in lost if judge.accepts(json.dumps(text, ensure_ascii=False))] == []


@pytest.mark.parametrize("more", [{}, {"maxLength": 30}, {"pattern": r"^\^.*\$$"}], ids=json.dumps)
def test_random_texts_of_the_format_are_regular_expressions(more: dict[str, Any]) -> None:
    """Both for our reader of ECMA 262 and for Python, but for what ours refuses although it is one."""
    compiled = Compiler(Vocabulary.of_bytes()).compile({**REGEX, **more})
    rng = random.Random(str(more))
    read = 0
    for _ in range(150):
        text = _random_text(compiled.formatter(), rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's about `--`, `&&` and `[` in a class
            re.compile(text)
        parse_ecma(text)
        read += 1
    assert read == 150


def _random_text(formatter: Any, rng: random.Random) -> str:
    """Many characters with a meaning, and few others."""
    length = rng.randrange(40)
    while True:
        allowed = formatter.allowed_tokens()
        if formatter.can_stop:
            return str(json.loads(formatter.bytes))
        if len(formatter.bytes) > length:
            ends = [token for token in allowed if token in b'"' or (token in b"])}$" and rng.random() < 0.9)]
            allowed = ends or [token for token in allowed if chr(token).isalnum()] or allowed
        else:
            allowed = [token for token in allowed if token in rb"()[]\{},-|?*=!:0129azAZ^$xudb"] or allowed
        formatter.accept_token(rng.choice(allowed))


@pytest.mark.parametrize("schema", [REGEX, IDN])
def test_where_it_matters_what_is_left_out_the_schema_is_refused(schema: dict[str, Any]) -> None:
    for refused, pointer in [
        ({"not": schema}, "/not"),
        ({"oneOf": [schema, {"minLength": 2}]}, "/oneOf/0"),
        ({**schema, "enum": ["a", "("]}, ""),
    ]:
        with pytest.raises(UnsupportedSchema) as caught:
            Compiler(Vocabulary.of_bytes()).compile(refused)
        assert (caught.value.pointer, caught.value.keyword) == (pointer, "format")
    judge = Judge({**schema, "enum": ["a", "b"]})
    assert judge.accepts('"b"')


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({**REGEX, "pattern": r"^\(\?<"}, "look-behind"),
        ({"type": "string", "format": "hostname", "pattern": "^xn--"}, "Punycode"),
        ({**IDN, "pattern": "^é[^.]*$", "minLength": 50}, "12 characters"),
    ],
)
def test_where_only_what_is_left_out_is_valid_the_schema_is_refused(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedSchema, match=reason) as caught:
        Compiler(Vocabulary.of_bytes()).compile({"properties": {"a": schema}, "required": ["a"], "type": "object"})
    assert (caught.value.pointer, caught.value.keyword) == ("/properties/a", "format")


@pytest.mark.parametrize("name", ["regex", "idn-hostname"])
def test_the_coverage_says_what_is_left_out(name: str) -> None:
    (entry,) = json_schema({"format": name}).coverage().entries
    assert (entry.status, "left out" in entry.reason) == ("enforced", True)
