"""Patterns of Python's `re` as formats: the same texts as `fullmatch`, or a refusal that says why."""

from __future__ import annotations

import random
import re
import unicodedata

import pytest

from formatter_core import FormatterBuilder, check, formats, parse
from formatter_core.errors import FormatterError, InvalidRegex

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

#: patterns, and texts that try what is special about them
SAME = [
    (r"", ["", "a"]),
    (r"a|bc?", ["a", "b", "bc", "abc", "ac"]),
    (r"\w+@\w+\.com", ["é²@x.com", "a\u0301@x.com", "a_1@b.com", "@.com", "‿@x.com"]),
    (r"[\w.-]+", ["a-b.c", "²", "\u0301", "a b"]),
    (r"\s[\s\d]\S", ["\x1c\x1fa", " 5a", "\u20285 ", "\u200b5a", "\x85٣x"]),
    (r"\W\D\S", ["\u0301aa", "²aa", "- a", "-5a"]),
    (r"[^\W\d_]+", ["aé", "a5", "_", "²"]),
    (r"^a$", ["a", "a\n", "\na"]),
    (r"a|b$", ["a", "b", "b\n"]),
    (r"\Aa\Z", ["a", "a\n"]),
    (r"(\Aa\Z|b)", ["a", "b"]),
    (r"a{2,}b{,2}c{3}d{1,2}?e{,}", ["aabbcccdde", "aacccd", "acccd", "aabbbcccd"]),
    (r"x{}{a}{1,a}]}", ["x{}{a}{1,a}]}", "x"]),
    (r"x{ 2 }", ["x{ 2 }", "xx"]),
    (r"[]a-c]+[^]^-]", ["]b!", "a]", "c-", "]^"]),
    (r"[a&&b~~c||d[!--]", ["a", "&", "~", "|", "[", "#", "-", "c"]),
    (r"[-a\-b][+--]", ["-,", "--", "b+", "a."]),
    (r"\<\>\_\ \é\"", ['<>_ é"', ""]),
    (r"[\b\a]\x41\u00e9\U0001f600\t", ["\x08Aé😀\t", "\x07Aé😀\t"]),
    (r"a(?#a comment)*b", ["aab", "b", "a(b"]),
    (r"(?P<year>\d{4})-(?:\d\d)", ["2024-05", "٢٠٢٤-05", "2024-5"]),
    (r"(?s:.)(?-s:.)", ["\na", "a\n", "ab"]),
    (r"(?s)..", ["\n\n", "ab"]),
    (r"(?u)(?u:é).", ["éa", "é\n"]),
    (r"#\#~&-\&\~\-", ["#" * 2 + "~&-&~-"]),
    (r"(a*)*?b+?", ["aab", "b", "a"]),
    (r"(?=a)\w+(?!\n)", ["ab", "ba", "a"]),
    (r"(?!.*ab)[abc]*", ["acb", "cab", ""]),
    (r".(?<!b)a(?<=a).?", ["ca", "ba", "caa"]),
    (r"(?P<x>a+)(?=b\Z)b", ["aab", "aabb"]),
    (r".*\bé²\b.*", ["é²", "aé²", "a é²", "é²_", "é²\u0301", "-é²-"]),
]
REFUSED = [
    (re.compile(b"a"), "bytes"),
    (re.compile("a", re.IGNORECASE), "IGNORECASE"),
    (re.compile("(?i)a"), "IGNORECASE"),
    (re.compile("^a$", re.MULTILINE), "MULTILINE"),
    (re.compile("a b", re.VERBOSE), "VERBOSE"),
    (re.compile(r"\d", re.ASCII), "ASCII"),
    (re.compile("(?i:a)"), "flag"),
    (re.compile(r"(?a:\w)"), "flag"),
    (re.compile(r"a$\n"), r"\\Z"),
    (re.compile(r"(a$|b)\n?"), r"\\Z"),
    (re.compile(r"\Bword"), "3.14"),
    (re.compile(r"(?=a$)a"), r"\\Z"),
    (re.compile(r"(a)\1"), "back-reference"),
    (re.compile(r"(?P<x>a)(?P=x)"), "back-reference"),
    (re.compile(r"(a)?(?(1)b|c)"), "conditional"),
    (re.compile(r"\0"), "write the character"),
    (re.compile(r"[\07]"), "write the character"),
    (re.compile(r"\N{BULLET}"), "write the character"),
]


def agrees(pattern: re.Pattern[str], text: str) -> bool:
    return parse(pattern, text).is_complete == (pattern.fullmatch(text) is not None)


@pytest.mark.filterwarnings("ignore:Possible nested set|Possible set:FutureWarning")
@pytest.mark.parametrize(("pattern", "texts"), SAME)
def test_a_pattern_of_python_matches_the_texts_that_fullmatch_does(pattern, texts) -> None:
    compiled = re.compile(pattern)
    for text in ["", *texts, *(text + "\n" for text in texts)]:
        assert agrees(compiled, text), text


def test_dotall() -> None:
    assert parse(re.compile("a.", re.DOTALL), "a\n").is_complete
    assert not parse(re.compile("a."), "a\n").is_complete


@pytest.mark.parametrize("pattern", [r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", ".", r"[^\w\s]"])
def test_classes_have_the_same_characters(pattern) -> None:
    compiled = re.compile(pattern)
    rng = random.Random(0)
    codes = [*range(0x3000), *(rng.randrange(0x3000, 0x110000) for _ in range(3000))]
    characters = [chr(code) for code in codes if unicodedata.category(chr(code)) not in ("Cs", "Cn")]
    recognised = formats.repeat(compiled, 1)  # one format for all, so that one parse judges many
    same = [character for character in characters if compiled.fullmatch(character)]
    assert parse(recognised, "".join(same[:1500])).is_complete
    others = [character for character in characters if not compiled.fullmatch(character)]
    for character in rng.sample(others, min(300, len(others))):
        assert not parse(compiled, character).is_complete, hex(ord(character))


@pytest.mark.parametrize(("pattern", "reason"), REFUSED)
def test_what_means_something_else_is_refused_with_the_reason(pattern, reason) -> None:
    with pytest.raises(InvalidRegex, match=reason):
        check(pattern)
    with pytest.raises(InvalidRegex, match=reason):
        formats.regex(pattern)


@pytest.mark.skipif(not hasattr(re, "NOFLAG"), reason="Python 3.11 has possessive repeats and atomic groups")
@pytest.mark.parametrize("pattern", ["a*+", "a++b", "a?+", "a{2}+", "(?>a)"])
def test_what_is_not_regular_is_refused(pattern) -> None:
    with pytest.raises(InvalidRegex):
        check(re.compile(pattern))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_random_patterns_are_the_same_or_refused() -> None:
    rng = random.Random(15)
    pieces = [
        *r"ab\n.^$|()[]{}*+?-,2&~<#",
        r"\d",
        r"\w",
        r"\s",
        r"\Z",
        r"\A",
        "(?:",
        "(?s:",
        "{1,2}",
        "[^",
        r"\]",
        r"\b",
        "(?=",
        "(?<!",
        "(?P<n>",
    ]
    same = 0
    for _ in range(4000):
        source = "".join(rng.choices(pieces, k=rng.randrange(1, 8)))
        try:
            pattern = re.compile(source)
        except (re.error, OverflowError):
            continue
        try:
            check(pattern)
        except FormatterError:
            continue
        same += 1
        for _ in range(6):
            text = "".join(rng.choices("ab2{}]\n^$-&<#,", k=rng.randrange(4)))
            assert agrees(pattern, text), (source, text)
    assert same > 300


def test_they_stand_in_builders_and_combinators() -> None:
    b = FormatterBuilder()
    b.append(b.regex(re.compile(r"\w+"), name="word"))
    assert parse(b, "é").value == {"word": "é"}
    assert parse(formats.sequence(re.compile("a+"), ["b", "c"]), "aac").value == ("aa", "c")
