"""Sets of characters in patterns: their algebra, and the Unicode tables against Python's own data."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
import regex

from formatter_core.errors import InvalidRegex
from formatter_core.grammar import NOTHING, Bytes, Chars
from formatter_core.syntax.regex import parse_ecma, parse_rust

SCALAR_VALUES = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
EVERY_CHARACTER = "".join(map(chr, SCALAR_VALUES))


def members(pattern: str) -> set[int]:
    """The characters that a pattern in Rust syntax matches."""
    node = parse_rust(pattern)
    if isinstance(node, Bytes):
        return {ord(node.value.decode())}
    assert isinstance(node, Chars) or node == NOTHING
    ranges = node.ranges if isinstance(node, Chars) else ()
    assert all(one[1] + 1 < other[0] for one, other in pairwise(ranges))
    return {code for low, high in ranges for code in range(low, high + 1)}


def text_of(pattern: str) -> str:
    return "".join(map(chr, sorted(members(pattern))))


PAIRS = [
    ("a-f", "d-k"),
    (r"\w", r"\p{Greek}"),
    (r"\x{D000}-\x{E100}", r"\x{D7FF}\x{E000}"),
    ("[^a]", r"\s"),
    (".", r"\n"),
]
CLASSES = r"\w \d \s \p{L} \p{LC} \p{M} \p{sc=Cyrillic} \p{scx=Common} \p{Emoji} \p{Assigned}"


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_the_algebra_is_that_of_sets(left: str, right: str) -> None:
    one, other = members(f"[{left}]"), members(f"[{right}]")
    assert members(f"[{left}{right}]") == one | other
    assert members(f"[{left}&&{right}]") == one & other
    assert members(f"[{left}--{right}]") == one - other
    assert members(f"[{left}~~{right}]") == one ^ other
    assert members(f"[^{left}]") == set(SCALAR_VALUES) - one


def test_surrogates_belong_to_no_set() -> None:
    assert parse_rust(r"[\x{D000}-\x{E100}]") == Chars(((0xD000, 0xD7FF), (0xE000, 0xE100)))
    assert parse_rust(r"[^\s\S]") == NOTHING
    assert parse_ecma(r"^\ud800$") == NOTHING


@pytest.mark.parametrize(
    "name", ["lu", "ll", "lt", "lm", "lo", "mn", "nd", "nl", "pc", "pd", "sc", "sm", "zs", "cc", "cf"]
)
def test_categories_agree_with_python_where_it_knows_the_character(name: str) -> None:
    found = {code for code in members(rf"\p{{gc={name}}}") if unicodedata.category(chr(code)) != "Cn"}
    expected = {code for code in SCALAR_VALUES if unicodedata.category(chr(code)).lower() == name}
    assert len(found ^ expected) <= 2  # Unicode moves a character to another category once in many years


@pytest.mark.parametrize("pattern", CLASSES.split())
def test_named_sets_agree_with_the_package_they_were_made_from(pattern: str) -> None:
    assert members(pattern) == {ord(character) for character in regex.findall(pattern, EVERY_CHARACTER)}


@pytest.mark.parametrize("pattern", [r"\p{xx}", r"\pX", r"\p{sc=Klingon}", r"\p{Shiny}", r"\p{Cs}", r"\p{L&}"])
def test_unknown_names_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegex, match="is not a known general category, script or binary property"):
        parse_rust(pattern)


def test_names_are_matched_loosely() -> None:
    assert members(r"\p{Is_Greek}") == members(r"\p{script = grek}") == members(r"\p{ GREEK }")
    assert members(r"\p{letter}") == members(r"\pL") == members(r"\p{General-Category=L}")


def test_simple_case_folding() -> None:
    assert text_of("(?i)k") == "Kk\u212a"
    assert text_of("(?i)S") == "Ss\u017f"
    assert text_of("(?i)i") == "Ii"
    assert text_of("(?i)[\u0130\u0131]") == "\u0130\u0131"
    assert text_of("(?i)σ") == "Σςσ"
    assert "ẞ" in text_of("(?i)ß")
    assert text_of(r"(?i)[1\-\n]") == "\n-1"
    assert text_of("(?i)\U00010400") == "\U00010400\U00010428"
    assert text_of("(?i-u)[A-C]") == "ABCabc"


def test_folding_agrees_with_python_for_characters_that_fold_to_one() -> None:
    folding = [code for code in range(0x20000) if len(target := chr(code).casefold()) == 1 and target != chr(code)]
    for code in folding:
        assert ord(chr(code).casefold()) in members(f"(?i)\\x{{{code:x}}}"), hex(code)
