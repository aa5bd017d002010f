"""ECMA 262 patterns as JSON Schema means them: found anywhere in the text."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core.errors import FormatterError, InvalidRegex, LimitExceeded
from formatter_core.grammar import ANY_TEXT, Bytes, Capture, Terminal, walk
from formatter_core.limits import Limits
from formatter_core.syntax.regex import parse_ecma
from formatter_core.testing.automaton import Automaton

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

FOUND = [
    # pattern, texts in which it is found, texts in which it is not
    ("", ["", "a"], []),
    ("b", ["b", "abc", "\nb\n"], ["", "ac"]),
    ("^b", ["b", "bc"], ["ab", "a\nb"]),
    ("b$", ["b", "ab"], ["bc", "b\n"]),
    ("^b$", ["b"], ["ab", "bc", ""]),
    ("^a|b$", ["ax", "xb", "ab"], ["xa", "bx"]),
    ("^(a|b$)", ["ax", "b"], ["bx", "xa"]),
    ("(^a|b)+c", ["ac", "abc", "xbc"], ["xac", "ba"]),
    ("a^b", [], ["ab", "a\nb"]),
    ("^$", [""], ["a", "\n"]),
    ("^$|^[0-9]+$", ["", "12"], ["a", "1a"]),
    ("^(?:)$", [""], ["a"]),
    ("^.$", ["a", "é", "😀", "\x85"], ["\n", "\r", "\u2028", "\u2029", "ab", ""]),
    ("^[^]$", ["a", "\n"], [""]),
    ("[]", [], ["", "a"]),
    # character classes
    (r"^\d\D$", ["1a", "1٣"], ["٣a", "11"]),
    (r"^\w+$", ["a_1"], ["é", "-"]),
    (r"^\W$", ["é", "-"], ["a"]),
    (r"^\s$", [" ", "\u00a0", "\ufeff", "\u2029", "\u3000", "\v"], ["\x85", "\u200b", "a"]),
    (r"^\S$", ["a", "\x85"], [" ", "\ufeff"]),
    (r"^[\w-]+$", ["a-b"], ["a b"]),
    (r"^[\d\s]$", ["1", "\u2028"], ["a"]),
    (r"^[^\d\s]$", ["a"], ["1", " "]),
    (r"^[\b]$", ["\x08"], ["b"]),
    ("^[a-c]$", ["b"], ["d"]),
    ("^[&&a]$", ["&", "a"], ["b"]),
    ("^[[a]$", ["[", "a"], ["b"]),
    (r"^\p{L}+$", ["aé中"], ["1"]),
    (r"^\p{Lu}\P{Lu}$", ["Éé"], ["éÉ"]),
    (r"^\p{Letter}\p{digit}\p{gc=Nd}\p{General_Category=Decimal_Number}$", ["a1٣5"], ["a1a5"]),
    (r"^\p{Script=Greek}\p{sc=Grek}\p{Script_Extensions=Greek}\p{scx=Grek}$", ["αβγδ"], ["abcd"]),
    (r"^\p{Emoji_Presentation}\p{ASCII}\p{Any}\p{White_Space}$", ["😀a\n "], ["aaa "]),
    (r"^[\p{L}\p{N}_]+$", ["é1_"], ["-"]),
    (r"^[^\p{L}]$", ["1"], ["a"]),
    # escapes
    (r"^\t\n\v\f\r\0\cJ\cj$", ["\t\n\v\f\r\0\n\n"], ["t"]),
    (r"^\x41\u0042\u{43}\u{1F600}$", ["ABC😀"], ["ABC"]),
    (r"^\ud83d\ude00$", ["😀"], ["a"]),
    (r"^[\ud83d\ude00-\ud83d\ude02]$", ["😁"], ["😃", "a"]),
    (r"\ud83d", [], ["😀", "a"]),
    (r"^\^\$\\\.\*\+\?\(\)\[\]\{\}\|\/$", [r"^$\.*+?()[]{}|/"], ["a"]),
    (r"^[\-\]\^\\]+$", ["-]^\\"], ["a"]),
    ("/", ["a/b"], ["ab"]),
    # quantifiers and groups
    ("^a{2}$", ["aa"], ["a", "aaa"]),
    ("^a{2,}b{1,2}?$", ["aab", "aaaabb"], ["ab", "aabbb"]),
    ("^(ab)+(?:cd)*(?<n>e)?$", ["ab", "ababcde"], ["cd"]),
    ("^(?i:straße)s$", ["STRAßEs"], ["straßeS"]),
    ("^(?i:a(?-i:b))$", ["Ab"], ["AB"]),
    ("^(?s:.).$", ["\na"], ["\n\n"]),
    (r"^(?i:[^k])$", ["a"], ["K", "\u212a"]),
    # malformed under `u`, read as in Annex B
    (r"^\-\_\@\:\#\ \é$", ["-_@:# é"], [r"\-"]),
    (r"^[\w\-\.\_]+$", ["a-._"], ["\\"]),
    (r"^[\w-.]+$", ["a-."], ["/"]),
    (r"^[.-\w]+$", ["a-."], ["/"]),
    ("^]}$", ["]}"], ["]"]),
    ("^{a}{,5}{1,2{$", ["{a}{,5}{1,2{"], ["a"]),
    ("^x{,2}$", ["x{,2}"], ["", "x", "xx"]),
    ("^(?=a)*b", ["b", "bc"], ["ab"]),
    ("^(?=a)+[ab]", ["ab"], ["b"]),
    # word boundaries
    (r"\bfoo\b", ["foo", "a foo!", "éfoo"], ["food", "_foo", "fo"]),
    (r"\Boo\B", ["xoox"], ["oo", "xoo", "oox"]),
    (r"^\b", ["a"], ["", "-a"]),
    (r"\b", ["-a-"], ["", "--"]),
    (r"^(\w+\b ?){2}$", ["ab cd", "abc d", "a b "], ["abc"]),
    (r"a*\b-", ["a-", "b-"], ["-", " -"]),
    # look-ahead
    ("^(?!foo)", ["", "fo", "xfoo"], ["foo", "food"]),
    ("^(?!foo$)", ["food", ""], ["foo"]),
    ("^(?=.*[0-9])(?=.*[a-z]).{3,}$", ["a1b", "1bc"], ["a1", "abc", "123"]),
    ("a(?=b)", ["ab", "aab"], ["a", "ba"]),
    ("a(?!b)", ["a", "aba"], ["ab"]),
    ("^(?!.*--)[a-z-]+$", ["a-b"], ["a--b", "A"]),
    ("^(?:(?!ab)[a-z])*$", ["", "ba", "acb"], ["ab", "cab"]),
    ("^((?!ab).)*$", ["ba", "a"], ["ab", "cabc"]),
    ("^((?!ab).)*;$", ["ba;", ";"], ["ab;", "ba"]),
    ("^(?:(?!b)[a-c])+-", ["ac-"], ["b-", "ab-", "-"]),
    ("^((?!mode)(?!Mode).)*$", ["", "mod", "my Mods"], ["mode", "a Mode", "Mode\n"]),
    (r"^(?:(?!ab)[\s\S])*$", ["", "b\na"], ["ab", "\nab"]),
    ("^(?:(?=a|b)(?!ab)[^]){2,}$", ["ba", "bbaa"], ["b", "ab", "bc"]),
    ("^(?:.(?!ab))*?$", ["ab", "bb"], ["bab"]),
    ("^(?:(?!ab)..)*$", ["", "aaba", "cabc"], ["ab", "aaab", "a"]),
    ("^(?:(?!ab).){1,100}$", ["b" * 100], ["", "b" * 101, "bab"]),
    (r"<!--(?:(?!-->)[\s\S])*-->", ["<!---->", "a<!-- b --> c"], ["<!--", "-->"]),
    ("^(?:(?!end).)*;", ["a;", "en;end;"], ["end;", ""]),
    ("^(?:(?!ab)[a-z])*(?:foo|quux)$", ["foo", "baquux"], ["abfoo", "fooo"]),
    (r"^(?:(?!ab)\w)*\b-", ["a-", "ba-"], ["-", "ab-"]),
    ("^(?:(?!a).)*bc", ["bc", "xbcbc"], ["abc"]),
    ("^(?:(?=a)b)*c", ["c"], ["bc", "ac"]),
    (r"^(?!\bfoo\b)[a-z ]+$", ["food", "a foo"], ["foo", "foo a"]),
    ("^(?=a(?!b))", ["ac", "a"], ["ab"]),
    ("^(?!)", [], ["", "a"]),
    ("x(?=$)", ["ax"], ["xa"]),
    ("^([a-z](?:(?!.*--)[a-z-]*[a-z])?)$", ["a", "a-b"], ["a--b", "a-"]),
    # from Python and Rust
    (r"\Afoo", ["foo", "foobar"], ["xfoo", "A", "Afoo"]),
    (r"foo\z|\Abar", ["foo", "xfoo", "barx"], ["foox", "foo\n", "xbar"]),
    ("^(?P<n>a)(?P<m>b)?$", ["a", "ab"], ["b"]),
    ("(?i)^ab(?-i:c)$", ["abc", "ABc"], ["abC"]),
    ("(?i)^[a-c]k$", ["Bk", "c\u212a"], ["dk"]),
    ("(?s)^.$", ["\n", "a"], [""]),
    ("(?x) ^ a b # both\n [ #] c $", ["ab c", "ab#c"], ["abc", "a b c"]),
    ("(?xi) ^a\\ b{2} $", ["a bb", "A BB"], ["abb"]),
    ("(?m)a.b", ["xacb"], ["a\nb"]),
    # look-behind of one character
    ("(?<=a)b", ["ab", "xab"], ["b", "cb"]),
    ("(?<!a)b", ["b", "cb"], ["ab"]),
    ("(?<=^|,)b", ["b", "a,b"], ["ab"]),
    (r"(?<![\w.])x+", ["x", "-x"], ["ax", ".x"]),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), FOUND, ids=[repr(row[0]) for row in FOUND])
def test_a_pattern_is_found(pattern: str, yes: list[str], no: list[str]) -> None:
    automaton = Automaton(parse_ecma(pattern))
    assert [text for text in yes if not automaton.matches(text.encode())] == []
    assert [text for text in no if automaton.matches(text.encode())] == []


REFUSED = [
    # pattern, position, part of the reason
    (r"a\012", 1, "octal escape"),
    (r"(a)\1", 3, "back-reference"),
    (r"(?<n>a)\k<n>", 7, "back-reference"),
    (r"[\1]", 1, "back-reference"),
    (r"foo\Z", 3, "escape"),
    (r"\a", 0, "escape"),
    (r"\c", 0, "escape"),
    (r"\xZZ", 0, "escape"),
    (r"\u12", 0, "escape"),
    (r"\u{110000}", 0, "not a Unicode character"),
    (r"\pL", 0, "property"),
    (r"\p{Greek}", 0, "property"),
    (r"a\p{Foo}", 1, "property"),
    (r"\p{Script=Foo}", 0, "property"),
    ("a\\", 1, "escape"),
    ("a(b", 1, "not closed"),
    ("a)", 1, "closes no group"),
    ("a[b", 1, "not closed"),
    ("*a", 0, "nothing to repeat"),
    ("^*", 1, "nothing to repeat"),
    (r"\b+", 2, "nothing to repeat"),
    ("{1}", 0, "nothing to repeat"),
    ("a**", 2, "nothing to repeat"),
    ("a{2,1}", 1, "minimum exceeds maximum"),
    ("[b-a]", 1, "ends before"),
    ("a(?i)b", 1, "at the beginning"),
    ("(?P=n)", 0, "group"),
    ("(?i)(?m)a", 4, "at the beginning"),
    ("(?m)^a", 4, "flag m"),
    ("(?<1>a)", 0, "group"),
    ("(?m:^a)", 4, "flag m"),
    ("(?<=ab)c", 0, "look-behind"),
    ("(?:(?!ax).)*bc", 11, "look-around"),
    (r"(?:(?!a)\w+)*$", 12, "look-ahead"),
    (r"(?:\b.)*$", 7, "look-ahead"),
    ("(?:(?!ab)[^]){1,65}c", 13, "look-around"),
]


@pytest.mark.parametrize(("pattern", "position", "reason"), REFUSED, ids=[repr(row[0]) for row in REFUSED])
def test_a_fault_is_named_with_its_position(pattern: str, position: int, reason: str) -> None:
    with pytest.raises(InvalidRegex) as caught:
        parse_ecma(pattern)
    assert caught.value.position == position
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("pattern", "limit"),
    [
        ("a{1000001}", "repeat"),
        ("(" * 5000 + ")" * 5000, "depth"),
        ("(?=" * 5000, "depth"),
        ("(?:" * 60 + "(?=a)b|c" + "|d)?" * 60, "depth"),
    ],
)
def test_what_is_too_large_is_refused(pattern: str, limit: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        parse_ecma(pattern)
    assert caught.value.limit == limit


def test_many_assertions_end_in_an_answer_within_the_limits() -> None:
    with pytest.raises(LimitExceeded):
        parse_ecma(r"(?:\ba?\B|b\b){3}" * 20, Limits(nodes=20_000))


def test_the_node_is_plain_and_small_where_the_pattern_is() -> None:
    assert parse_ecma("^abc$") == Bytes(b"abc")
    assert parse_ecma("a*") == ANY_TEXT
    assert not any(isinstance(part, (Capture, Terminal)) for part in walk(parse_ecma("(?<n>a)(?!b)")))


@given(st.text(st.sampled_from("ab^$.|()[]{}*+?\\-,:<=!ksbBwdpu1{L} é\n"), max_size=14))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_pattern_or_a_named_error(text: str) -> None:
    with suppress(FormatterError):
        Automaton(parse_ecma(text, Limits(nodes=20_000))).matches(b"ab")
