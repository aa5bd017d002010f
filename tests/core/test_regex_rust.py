"""Rust syntax: what is accepted, what is refused and where, and what the nodes match."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import formatter_core
from formatter_core import formats
from formatter_core.errors import FormatterError, InvalidRegex, LimitExceeded
from formatter_core.grammar import Capture, Chars, Grammar, Node, Repeat, Sequence, Terminal, walk
from formatter_core.limits import Limits
from formatter_core.syntax.regex import as_terminal, escape, parse_rust
from formatter_core.testing.automaton import Automaton
from tests.core.native_parse import parse

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")


def matches(pattern: str, text: str) -> bool:
    return Automaton(parse_rust(pattern)).matches(text.encode())


def captures(pattern: str, text: str) -> list[tuple[str, str]]:
    found = parse(Grammar({"start": as_terminal(parse_rust(pattern))}, "start"), text.encode())
    assert found is not None
    return [(child.name, child.text) for child in found.children]


MATCHES = [
    # pattern, texts that match as a whole, texts that do not
    ("", [""], ["a"]),
    ("abc", ["abc"], ["ab", "abcd", "xabc"]),
    ("a|bc|", ["a", "bc", ""], ["b", "abc"]),
    ("a*", ["", "aaa"], ["b"]),
    ("a+?", ["a", "aaa"], [""]),
    ("ab{2,3}", ["abb", "abbb"], ["ab", "abbbb", "abab"]),
    ("a{ 2 }", ["aa"], ["a"]),
    ("a{2,}", ["aa", "aaaaa"], ["a"]),
    ("a{0}b", ["b"], ["ab"]),
    ("a**", ["", "aaa"], ["b"]),
    ("(?:a{2}){2}", ["aaaa"], ["aa", "aaa"]),
    ("é+", ["é", "éé"], ["e", "\u00e9\u0301"]),
    ("日本?", ["日", "日本"], ["本"]),
    ("😀{2}", ["😀😀"], ["😀"]),
    (".", ["a", "é", "😀", "\r", "\x00", "\u2028"], ["\n", "", "ab"]),
    ("(?s).", ["\n", "a"], [""]),
    ("(?R).", ["a"], ["\n", "\r"]),
    (r"\n\r\t\f\v\a", ["\n\r\t\f\v\a"], ["nrtfva"]),
    (r"\x41\x{1F600}\u00e9\u{e9}\U0001F600", ["A😀éé😀"], ["A"]),
    (r"\.\*\[\-\_\@\ \/", [".*[-_@ /"], ["a*[-_@ /"]),
    # classes
    ("[a-c]", ["a", "c"], ["d", ""]),
    ("[^a-c]", ["d", "\n", "é"], ["b"]),
    ("[]a]", ["]", "a"], ["b"]),
    ("[^]a]", ["b"], ["]", "a"]),
    ("[-a]", ["-", "a"], ["b"]),
    ("[a-]", ["-", "a"], ["b"]),
    ("[a-c-e]", ["b", "-", "e"], ["d"]),
    (r"[\]\-\\]", ["]", "-", "\\"], ["a"]),
    ("[a[b-d]e]", ["a", "c", "e"], ["f"]),
    ("[^a[b-d]]", ["e"], ["a", "c"]),
    ("[a-z&&[aeiou]]", ["e"], ["b", "E"]),
    ("[a-z&&^a]", ["a"], ["b", "^"]),
    ("[^a-z&&[aeiou]]", ["b", "E"], ["e"]),
    ("[a-z--[aeiou]]", ["b"], ["e"]),
    ("[a-c~~b-d]", ["a", "d"], ["b", "c"]),
    ("[a-z--b-y&&a]", ["a"], ["z"]),
    ("[a&&b]", [], ["a", "b", ""]),
    (r"[\d&&[^0-8]]", ["9", "٩"], ["0", "a"]),
    ("[[:alpha:]_]", ["a", "_"], ["é", "1"]),
    ("[[:^alpha:]]", ["1", "é"], ["a"]),
    ("[[:word:]--[:digit:]]", ["a", "_"], ["5", "-"]),
    ("[[:foo:]]", [":", "f", "o"], ["["]),
    # Unicode
    (r"\d", ["5", "٣"], ["a", "²"]),
    (r"\D", ["a", "²"], ["5", "٣"]),
    (r"\w+", ["aé_1٣中", "e\u0301", "\u200d"], ["-", " "]),
    (r"\s", [" ", "\u00a0", "\u2028", "\x85"], ["a", "\u200b"]),
    (r"\S", ["a"], [" ", "\u3000"]),
    (r"\pL", ["a", "é", "中"], ["1"]),
    (r"\PL", ["1"], ["a"]),
    (r"\p{Lu}", ["A", "É"], ["a"]),
    (r"\p{Uppercase_Letter}\p{lowercase letter}", ["Aa"], ["aA"]),
    (r"\p{Greek}\p{sc=Greek}\p{Script:grek}", ["αβγ"], ["abc"]),
    (r"\p{scx=Deva}", ["\u0964"], ["a"]),
    (r"\p{sc=Deva}", ["क"], ["\u0964"]),
    (r"\p{sc!=Greek}", ["a"], ["α"]),
    (r"\P{^Greek}", ["α"], ["a"]),
    (r"\p{isAlphabetic}\p{White_Space}\p{emoji}", ["a 😀"], ["1 😀"]),
    (r"\p{any}\p{ascii}", ["éa"], ["aé"]),
    (r"[\p{L}&&\p{ASCII}]", ["a"], ["é"]),
    # flags
    ("(?i)straße", ["STRAßE", "straẞe"], ["STRASSE"]),
    ("(?i)k[s]", ["K\u017f", "\u212aS"], ["ab"]),
    ("(?i)σ", ["Σ", "ς"], ["s"]),
    ("(?i)[^k]", ["a"], ["K", "\u212a", "k"]),
    (r"(?i)\p{Lu}", ["a", "A"], ["1"]),
    ("(?i)[a-c&&B]", ["b", "B"], ["a"]),
    ("(?i-u)k", ["K"], ["\u212a"]),
    ("a(?i)b|c", ["aB", "C"], ["AB"]),
    ("a(?i:b)c", ["aBc"], ["aBC"]),
    ("(?i:a(?-i)b)c", ["Abc"], ["aBc", "abC"]),
    (r"(?-u)\d\s\w", ["5 a"], ["٣ a", "5\u00a0a", "5 é"]),
    ("(?-u:a)é", ["aé"], ["a"]),
    ("(?U)a+", ["aaa"], [""]),
    ("(?x) a b # comment\n [ c d ] \\ # x\n", ["abc ", "abd "], ["ab c "]),
    ("(?x)a {2}", ["aa"], ["a"]),
    ("(?x: a ) b", ["a b"], ["ab"]),
    # anchors
    ("^abc$", ["abc"], ["ab"]),
    (r"\Aabc\z", ["abc"], ["ab"]),
    ("a|^b", ["a", "b"], ["ab"]),
    ("a^b", [], ["ab", "a", "b", "a^b"]),
    ("a$b", [], ["ab", "a$b"]),
    ("a*^b", ["b"], ["ab"]),
    ("a$b*", ["a"], ["ab"]),
    ("(?:^a|b)+", ["a", "abb", "b", "bb"], ["aa", "ba"]),
    ("(?:a|b$)*", ["", "aab", "b", "aa"], ["ba", "bb"]),
    ("(?:^|a)(?:$|b)", ["", "a", "b", "ab"], ["ba"]),
    ("(?:^a?){3}", ["a", ""], ["aa"]),
    ("^*a$+", ["a"], ["aa"]),
    ("(?:^^)*a", ["a"], [""]),
    ("x{0,2}(?:^|y)z", ["z", "yz", "xyz", "xxyz"], ["xz"]),
]


@pytest.mark.contract("regex: Rust syntax, whole text, refusals with their position")
@pytest.mark.parametrize(("pattern", "yes", "no"), MATCHES, ids=[repr(row[0]) for row in MATCHES])
def test_a_pattern_matches_whole_texts(pattern: str, yes: list[str], no: list[str]) -> None:
    automaton = Automaton(parse_rust(pattern))
    assert [text for text in yes if not automaton.matches(text.encode())] == []
    assert [text for text in no if automaton.matches(text.encode())] == []


LOOKING = [
    ("(?=a)[ab]+(?<=b)", ["ab", "aab"], ["a", "bb", "ba"]),
    ("(?!.*ab)[abc]*", ["acb", "c", ""], ["ab", "cab"]),
    (r"\w+ ?\bé+", ["a é", "_ éé"], ["aé", "é", "a é "]),
    (r".*\B.", ["ab", "--"], ["a", "a-", "é-"]),
    (r"(?-u:a\b)é", ["aé"], ["a", "é"]),
    ("(?:(?!-->).)*-->", ["-->", "a-->"], ["a--> -->", "a"]),
    ("(?x) (?= a ) . b # c", ["ab"], ["bb"]),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), LOOKING, ids=[repr(row[0]) for row in LOOKING])
def test_a_pattern_may_look_around_in_its_text(pattern: str, yes: list[str], no: list[str]) -> None:
    for text in yes + no:
        assert formatter_core.parse(formats.regex(pattern), text).is_complete == (text in yes), text
        assert formatter_core.parse(formats.string(pattern), text).is_complete == (text in yes), text


def test_named_groups_beside_assertions() -> None:
    found = formatter_core.parse(formats.regex(r"(?P<word>\w+)\b.*(?<!x)"), "ab c")
    assert found.captures == {"word": ("ab",)}
    for pattern in ("a(?=b)(?P<x>b)", "(?=(?P<x>a))a", "(?:(?!ab).)*(?P<x>ab)"):
        with pytest.raises(InvalidRegex, match="a named group cannot stand in a look-around") as caught:
            parse_rust(pattern, look_around=True)
        assert caught.value.position == pattern.index("(?=" if "(?=" in pattern else "(?!")


REFUSED = [
    # pattern, position, part of the reason
    ("(?=a)", 0, "look-around"),
    ("a(?!b)", 1, "look-around"),
    ("a(?<=b)", 1, "look-around"),
    ("a(?<!b)", 1, "look-around"),
    (r"ab\b", 2, "word boundary"),
    (r"\B", 0, "word boundary"),
    (r"\b{start}", 0, "word boundary"),
    (r"(a)\1", 3, "back-reference"),
    (r"\0", 0, "octal"),
    ("(?P=n)", 2, "flag"),
    ("(?m)^a", 4, "(?m)"),
    ("(?m:a$)", 5, "(?m)"),
    ("a(", 1, "not closed"),
    ("(?:a", 0, "not closed"),
    ("a)", 1, "closes no group"),
    ("[a", 0, "not closed"),
    ("a[[b]", 1, "not closed"),
    ("[]", 0, "not closed"),
    ("[a-", 0, "not closed"),
    ("*", 0, "nothing to repeat"),
    ("a|+", 2, "nothing to repeat"),
    ("(?)", 2, "flags"),
    ("(?i)*", 4, "nothing to repeat"),
    ("a{", 1, "repeat"),
    ("a{,5}", 1, "repeat"),
    ("a{}", 1, "repeat"),
    ("a{3,2}", 1, "minimum exceeds maximum"),
    ("[z-a]", 1, "ends before"),
    (r"[a-\d]", 1, "range"),
    (r"[\b]", 1, "class"),
    (r"a\q", 1, "escape"),
    ("\\é", 0, "escape"),
    ("a\\", 1, "escape"),
    (r"\x4", 0, "hexadecimal"),
    (r"\x{}", 0, "hexadecimal"),
    (r"\x{110000}", 0, "not a Unicode character"),
    (r"\uD800", 0, "not a Unicode character"),
    ("a\ud800", 1, "surrogate"),
    ("[\ud800]", 1, "surrogate"),
    (r"\p{foo}", 0, "property"),
    (r"\p{L", 0, "not closed"),
    (r"\pX", 0, "property"),
    ("(?z)a", 2, "flag"),
    ("(?ii)a", 3, "flag"),
    ("(?i-)a", 4, "flags"),
    ("(?P<>a)", 4, "name"),
    ("(?P<1>a)", 4, "name"),
    ("(?P<a-b>a)", 5, "name"),
    ("(?P<n>a)(?<n>b)", 11, "twice"),
    (r"(?-u)\W", 5, "(?-u)"),
    ("(?-u).", 5, "(?-u)"),
    ("(?-u)[^a]", 5, "(?-u)"),
    (r"(?-u)\xff", 5, "(?-u)"),
    (r"(?-u)\pL", 5, "(?-u)"),
]


@pytest.mark.contract("regex: Rust syntax, whole text, refusals with their position")
@pytest.mark.parametrize(("pattern", "position", "reason"), REFUSED, ids=[repr(row[0]) for row in REFUSED])
def test_a_fault_is_named_with_its_position(pattern: str, position: int, reason: str) -> None:
    with pytest.raises(InvalidRegex) as caught:
        parse_rust(pattern)
    assert caught.value.position == position
    assert caught.value.pattern == pattern
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("pattern", "limit"),
    [
        ("a{1000001}", "repeat"),
        ("a{99999999999999999999999999}", "repeat"),
        ("(" * 5000 + "a" + ")" * 5000, "depth"),
        ("(" * 5000, "depth"),
        ("[" * 5000, "depth"),
        ("a" + "*" * 5000, "depth"),
        ("(?:a|b" * 60 + ")*" * 60, "depth"),
    ],
)
def test_what_is_too_large_is_refused(pattern: str, limit: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        parse_rust(pattern)
    assert caught.value.limit == limit


def test_nodes_are_limited() -> None:
    with pytest.raises(LimitExceeded) as caught:
        parse_rust("a*b*" * 100, Limits(nodes=50))
    assert caught.value.limit == "nodes"


def test_equal_escapes_share_their_set() -> None:
    node = parse_rust(r"\pL" * 5000)
    assert isinstance(node, Sequence)
    assert len({id(item.ranges) for item in node.items if isinstance(item, Chars)}) == 1


def test_anchors_inside_nested_repeats_end_in_an_answer() -> None:
    pattern = "a"
    for _ in range(12):
        pattern = f"(?:^{pattern}|{pattern}b$|c){{2,}}"
    with pytest.raises(LimitExceeded):
        parse_rust(pattern, Limits(nodes=20_000))


def test_named_groups_become_captures_and_others_do_not() -> None:
    node = parse_rust("(?P<year>[0-9]{4})-(?<month>[0-9]{2})(x)(?:y)")
    assert [part.name for part in walk(node) if isinstance(part, Capture)] == ["year", "month"]
    assert not any(isinstance(part, Terminal) for part in walk(node))


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("(?P<a>x*)(?P<b>x*)", "xx", [("a", "xx"), ("b", "")]),
        ("(?P<a>x*?)(?P<b>x*)", "xx", [("a", ""), ("b", "xx")]),
        ("(?U)(?P<a>x*)(?P<b>x*?)", "xx", [("a", ""), ("b", "xx")]),
        ("(?P<a>x|xy)(?P<b>yz|z)", "xyz", [("a", "x"), ("b", "yz")]),
        ("(?P<a>^x)|(?P<b>x)", "x", [("a", "x")]),
        ("(?P<a>^$x)|(?P<b>x)", "x", [("b", "x")]),
        ("(?P<a>^|y)x", "x", [("a", "")]),
        ("(?:(?P<a>x|y$))*", "xxy", [("a", "x"), ("a", "x"), ("a", "y")]),
        ("^(?P<a>[a-z]+)$", "abc", [("a", "abc")]),
    ],
)
def test_captures_follow_the_written_order(pattern: str, text: str, expected: list[tuple[str, str]]) -> None:
    assert captures(pattern, text) == expected


def test_as_terminal_wraps_the_largest_parts_without_captures() -> None:
    def shape(node: Node) -> list[str]:
        return [type(part).__name__ for part in walk(node) if isinstance(part, (Terminal, Capture))]

    assert shape(as_terminal(parse_rust("ab[c-e]*"))) == ["Terminal"]
    assert shape(as_terminal(parse_rust("ab(?P<x>c)d*e"))) == ["Terminal", "Capture", "Terminal", "Terminal"]
    assert shape(as_terminal(parse_rust("(?:a|(?P<x>c)b)*"))) == ["Terminal", "Capture", "Terminal", "Terminal"]
    once = as_terminal(parse_rust("a(?P<x>c)"))
    assert as_terminal(once) == once


def test_lazy_and_greedy_are_kept() -> None:
    node = parse_rust("[a-z]{2,5}?")
    assert node == Repeat(Chars(((0x61, 0x7A),)), 2, 5, greedy=False)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
@settings(max_examples=100, deadline=None)
def test_an_escaped_text_matches_itself_only(text: str) -> None:
    assert matches(escape(text), text)
    assert not matches(escape(text), text + "x")


@given(st.text(st.sampled_from("ab^$.|()[]{}*+?\\-,:<>P=!&~ixu0129dwspL é\n"), max_size=14))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_pattern_or_a_named_error(text: str) -> None:
    with suppress(FormatterError):
        Automaton(parse_rust(text)).matches(b"ab")
