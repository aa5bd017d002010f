"""Every JSON spelling of characters, names and values, and no other."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core.grammar import Chars
from formatter_core.grammar.json_text import spell_chars
from formatter_core.testing.automaton import Automaton

from .schema_judge import Judge

SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
CODES = st.one_of(st.integers(0, 0x10FFFF), st.integers(0, 0x7F), st.sampled_from([0xD7FF, 0xE000, 0xFFFF, 0x10000]))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAMES = st.text(st.sampled_from('abé"\\😀/\n'), max_size=5)


def spellings(char: str) -> list[str]:
    """Every spelling of a character, two of each hexadecimal one."""
    units = char.encode("utf-16-be")
    codes = [units[index : index + 2].hex() for index in range(0, len(units), 2)]
    found = ["".join("\\u" + code for code in codes), "".join("\\u" + code.upper() for code in codes)]
    if char in SHORT:
        found.append(SHORT[char])
    if char >= " " and char not in '"\\':
        found.append(char)
    return found


@given(st.lists(st.tuples(CODES, CODES), min_size=1, max_size=3), CODES)
@settings(deadline=None, max_examples=150)
def test_spellings_of_a_character(pairs: list[tuple[int, int]], code: int) -> None:
    ranges = Chars.of((min(pair), max(pair)) for pair in pairs).ranges
    if not ranges or 0xD800 <= code <= 0xDFFF:
        return
    automaton = Automaton(spell_chars(ranges))
    for probe in (code, ranges[0][0], ranges[-1][1]):
        inside = any(low <= probe <= high for low, high in ranges)
        for spelling in spellings(chr(probe)):
            assert automaton.matches(spelling.encode()) == inside, spelling


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_names_and_listed_values_in_every_spelling(data: st.DataObject) -> None:
    name = data.draw(TEXTS)
    text = '"' + "".join(data.draw(st.sampled_from(spellings(char))) for char in name) + '"'
    assert json.loads(text) == name
    assert Judge({"type": "string"}, spelling="any").accepts(text)
    assert Judge({"const": name}, spelling="any").accepts(text)
    assert Judge({"not": {"const": name}, "type": "string"}, spelling="any").accepts(text) is False


@given(st.lists(NAMES, max_size=5), NAMES, st.data())
@settings(deadline=None, max_examples=150)
def test_other_names(names: list[str], name: str, data: st.DataObject) -> None:
    text = '"' + "".join(data.draw(st.sampled_from(spellings(char))) for char in name) + '"'
    others = {"type": "string", "not": {"enum": names}} if names else {"type": "string"}
    assert Judge(others, spelling="any").accepts(text) == (name not in names)
    if names:
        assert Judge({"enum": names}, spelling="any").accepts(text) == (name in names)


def test_long_names_stay_shallow() -> None:
    names = ["x" * length for length in range(1, 300)] + ["a" * 2000]
    judge = Judge({"type": "string", "not": {"enum": names}}, spelling="any")
    for text, expected in [("x" * 299, False), ("x" * 300, True), ("x" * 298 + "y", True)]:
        assert judge.accepts(json.dumps(text)) == expected
    assert not judge.accepts(json.dumps("a" * 2000))
    assert judge.accepts(json.dumps("a" * 1999))


def test_what_is_no_spelling() -> None:
    judge = Judge({"type": "string"})
    for text in (
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '"\\ud83d x"',
        '"\n"',
        '"\x1f"',
        '"\\x"',
        '"\\u12g4"',
        '"a',
        'a"',
        "'a'",
    ):
        assert not judge.accepts(text), text
    for text in ('"\x7f"', '"\u2028"', '"\\uFFFF"', '"\\uDBFF\\uDFFF"', '"\\u0000"'):
        assert judge.accepts(text), text


def test_a_large_list_of_values() -> None:
    values = [f"value-{number}" for number in range(1000)] + list(range(500))
    judge = Judge({"enum": values})
    assert judge.accepts('"value-999"')
    assert judge.accepts("499")
    assert not judge.accepts("499.0")
    assert not judge.accepts('"value-1000"')
    assert not judge.accepts("500")
