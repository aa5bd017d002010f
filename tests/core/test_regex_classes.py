"""The algebra of character sets, and the Unicode tables against Python's own data."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core.syntax.regex import classes

sets = st.lists(
    st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 40)).map(lambda pair: (pair[0], min(sum(pair), 0x10FFFF))),
    max_size=6,
).map(classes.ranges_of)


def members(ranges: classes.Ranges) -> set[int]:
    return {code for low, high in ranges for code in range(low, high + 1)}


@given(sets, sets)
@settings(max_examples=100, deadline=None)
def test_the_algebra_is_that_of_sets(left: classes.Ranges, right: classes.Ranges) -> None:
    one, other = members(left), members(right)
    assert members(classes.union(left, right)) == one | other
    assert members(classes.intersection(left, right)) == one & other
    assert members(classes.difference(left, right)) == one - other
    assert members(classes.symmetric_difference(left, right)) == one ^ other
    assert classes.negation(classes.negation(left)) == left
    assert classes.union(left, classes.negation(left)) == classes.ALL
    assert classes.intersection(left, classes.negation(left)) == classes.NONE


def test_surrogates_belong_to_no_set() -> None:
    assert classes.single(0xD800) == classes.NONE
    assert classes.ranges_of([(0xD000, 0xE100)]) == ((0xD000, 0xD7FF), (0xE000, 0xE100))
    assert classes.negation(classes.NONE) == classes.ALL


@pytest.mark.parametrize(
    "name", ["lu", "ll", "lt", "lm", "lo", "mn", "nd", "nl", "pc", "pd", "sc", "sm", "zs", "cc", "cf"]
)
def test_categories_agree_with_python_where_it_knows_the_character(name: str) -> None:
    found = members(classes.category(name) or ())
    assigned = {code for code in found if unicodedata.category(chr(code)) != "Cn"}
    expected = {code for code in range(0x110000) if unicodedata.category(chr(code)).lower() == name}
    assert len(assigned ^ expected) <= 2  # Unicode moves a character to another category once in many years


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (classes.perl_word, r"\w"),
        (classes.perl_digit, r"\d"),
        (classes.perl_space, r"\s"),
        (lambda: classes.category("l"), r"\p{L}"),
        (lambda: classes.category("lc"), r"\p{LC}"),
        (lambda: classes.category("mark"), r"\p{M}"),
        (lambda: classes.script("cyrillic"), r"\p{sc=Cyrillic}"),
        (lambda: classes.script("zyyy", extensions=True), r"\p{scx=Common}"),
        (lambda: classes.binary("emoji"), r"\p{Emoji}"),
        (lambda: classes.binary("assigned"), r"\p{Assigned}"),
    ],
)
def test_named_sets_agree_with_the_package_they_were_made_from(ours: object, theirs: str) -> None:
    assert callable(ours)
    text = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)
    assert members(ours()) == {ord(character) for character in regex.findall(theirs, text)}


def test_unknown_names_are_none() -> None:
    assert classes.category("xx") is None
    assert classes.category("x") is None
    assert classes.script("klingon") is None
    assert classes.binary("shiny") is None


def test_simple_case_folding() -> None:
    def folded(text: str) -> str:
        return "".join(map(chr, sorted(members(classes.fold(classes.ranges_of((ord(one), ord(one)) for one in text))))))

    assert folded("k") == "Kk\u212a"
    assert folded("S") == "Ss\u017f"
    assert folded("i") == "Ii"
    assert folded("\u0130\u0131") == "\u0130\u0131"
    assert folded("σ") == "Σςσ"
    assert "ẞ" in folded("ß")
    assert folded("1-\n") == "\n-1"
    assert folded("\U00010400") == "\U00010400\U00010428"
    assert classes.fold(classes.ALL) == classes.ALL
    assert members(classes.fold_ascii(classes.ranges_of([(0x41, 0x43), (0x212A, 0x212A)]))) == {*b"ABCabc", 0x212A}


def test_folding_agrees_with_python_for_characters_that_fold_to_one() -> None:
    for code in range(0x20000):
        character = chr(code)
        target = character.casefold()
        if len(target) == 1 and target != character:
            assert ord(target) in members(classes.fold(classes.single(code))), hex(code)


def test_importing_the_readers_decodes_no_tables() -> None:
    code = "import sys, formatter_core.syntax.regex; print('formatter_core.syntax.regex.tables' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
