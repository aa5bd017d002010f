"""Grammars in KBNF accept the right texts and capture the right parts."""

from __future__ import annotations

import pytest

from formatter_core.grammar import EMPTY, Bytes, Capture, Choice, Grammar, Reference, Repeat, Sequence
from formatter_core.parsing.captures import Match
from formatter_core.syntax.kbnf import parse_kbnf
from tests.core.native_parse import parse

LANGUAGES = [
    # rules
    ('start ::= "a";', ["a"], ["", "b", "aa"]),
    ('start = "a";', ["a"], ["b"]),
    ('start::="a";', ["a"], ["b"]),
    ('start ::= x; x = "b"; start ::= "a";', ["a", "b"], ["ab"]),
    ('start ::= later; later ::= "x";', ["x"], [""]),
    ('start ::= _A1 b_2; _A1 ::= "1"; b_2 ::= "2";', ["12"], ["1", "2"]),
    ('unused ::= "u"; start ::= "a";', ["a"], ["u"]),
    ('start ::= "(" start ")" | "";', ["", "()", "((()))"], ["(", ")(", "(()"]),
    ('start ::= start "a" | "a";', ["a", "aaaa"], ["", "b"]),
    # concatenation and alternatives
    ('start ::= "a" "b", "c";', ["abc"], ["ab", "a,b"]),
    ('start ::= "a" "b" | "c" "d";', ["ab", "cd"], ["abd", "acd"]),
    ('start ::= "a"\r\n  | "b"\r\n  ;\r\n', ["a", "b"], ["", "ab"]),
    ('start ::=\n\t"a"\n\t"b"\n;', ["ab"], ["a"]),
    # terminals
    ("start ::= 'a\"b' \"c'd\";", ["a\"bc'd"], ["abcd"]),
    ('start ::= "";', [""], ["a"]),
    ('start ::= "a" | "";', ["", "a"], ["aa"]),
    ('start ::= "é世🎉";', ["é世🎉"], ["é", "世"]),
    ('start ::= "a\nb\tc\0";', ["a\nb\tc\0"], ["abc"]),
    (r'start ::= "\n\r\t\b\f\0\/\'\"\\";', ["\n\r\t\b\f\0/'\"\\"], ["n"]),
    (r'start ::= "\x41\xe9\u00e9\u{e9}\u{1F600}\u{0000041}";', ["Aééé😀A"], ["A"]),
    (r'start ::= "\ud83d\ude00\uD83D\uDE00";', ["😀😀"], ["😀"]),
    (r'start ::= "\101\7\18\400\377";', ["A\x07\x018 0ÿ"], ["A"]),
    (r'start ::= "\u{28}\u0022";', ['("'], ["("]),
    ('start ::= "(* no comment *)";', ["(* no comment *)"], [""]),
    ('start ::= "[" "{" "(" ")" ";" "|" "]";', ["[{();|]"], ["["]),
    # groups and repeats
    ('start ::= ("a" | "b") "c";', ["ac", "bc"], ["a", "c"]),
    ('start ::= ("(" "a" | "]");', ["(a", "]"], ["("]),
    ('start ::= ["a"] "b";', ["b", "ab"], ["aab", "a"]),
    ('start ::= {"a"} "b";', ["b", "aaab"], ["a"]),
    ('start ::= {"a" | "b" "c"};', ["", "abcbca"], ["b", "ac"]),
    ('start ::= "a"?;', ["", "a"], ["aa"]),
    ('start ::= "a"*;', ["", "aaa"], ["b"]),
    ('start ::= "a"+;', ["a", "aaa"], [""]),
    ('start ::= "a" ? "b" * "c" +;', ["c", "abbcc"], ["ab"]),
    ('start ::= ("a" "b")+;', ["ab", "abab"], ["aba", ""]),
    ('start ::= x+ ; x ::= "a" | "b";', ["abba"], ["", "c"]),
    ('start ::= "a"{2};', ["aa"], ["", "a", "aaa"]),
    ('start ::= "a"{2,};', ["aa", "aaaaa"], ["", "a"]),
    ('start ::= "a"{2,3};', ["aa", "aaa"], ["a", "aaaa"]),
    ('start ::= "a" { 0 , 1 } "b";', ["b", "ab"], ["aab"]),
    ('start ::= "a"{0};', [""], ["a"]),
    ('start ::= ("a" | "b"){2} {"c"};', ["ab", "bbcc"], ["a", "abab"]),
    ('start ::= "a"{"b"};', ["a", "abb"], ["aa", "b"]),
    ('start ::= {"a"}{2};', ["", "aaa"], ["b"]),
    ('start ::= (("a"*)*)+;', ["", "aaaa"], ["b"]),
    ('start ::= "a"*? "b"{1,2}? "c"?? "d"+?;', ["bd", "aabbcddd"], ["b"]),
    # comments
    ('(* one *) start (* two *) ::= (* three *) "a" (* four *), "b" (* five *) ; (* six *)', ["ab"], ["a"]),
    ('(* outer (* inner *) "quotes\' are nothing here; *) start ::= "a";', ["a"], [""]),
    ('start ::= ("a"(**)"b")*(*x*);', ["", "ab"], ["a"]),
    ('(* 世 🎉 *) start ::= "a"; (***)', ["a"], [""]),
    # regexes
    ('start ::= #"a+b";', ["ab", "aaab"], ["b", "abab"]),
    ("start ::= #'[\"]';", ['"'], ["a"]),
    (r'start ::= #"\\d+";', ["0", "42", "٣"], ["", "x"]),
    (r'start ::= #"\d+\.\d{2}";', ["1.50"], ["1x50", "1.5"]),
    (r'start ::= #"[\w\-]+\s\$\(\)";', ["a-b $()"], ["a b"]),
    (r'start ::= #"\\\\";', ["\\"], ["\\\\"]),
    (r'start ::= #"\"\u0022\\u0022\x22\\x22";', ['"""""'], ['"']),
    (r'start ::= #"\u{2e}";', [".", "x"], ["\n"]),
    (r'start ::= #"\ud83d\ude00+";', ["😀😀"], [""]),
    (r'start ::= #"\n\t\0\/";', ["\n\t\0/"], ["n"]),
    (r'start ::= #"\101";', ["A"], ["1"]),
    ('start ::= #".";', ["a", "é", "🎉", "\0"], ["", "\n", "ab"]),
    ('start ::= #"(?i)k";', ["k", "K", "\u212a"], ["q"]),
    ('start ::= #"";', [""], ["a"]),
    ('start ::= #"a*" #"b*";', ["", "aab", "b"], ["ba"]),
    ('start ::= #"[^\n]{2,4}" "\n";', ["ab\n", "日本語です"[:4] + "\n"], ["a\n"]),
    # #e: as soon as it matches it ends, and it is never empty
    ('start ::= #"x*" #e"a+" "b";', ["ab", "xab"], ["aab", "xb"]),
    ('start ::= #e"a*" "b";', ["ab"], ["b", "aab"]),
    ('start ::= #e".*\n";', ["\n", "abc\n"], ["a\n\n", "abc", ""]),
    ('start ::= #e"a|ab";', ["a"], ["ab", ""]),
    # #ex: one or more characters without a match
    ('start ::= #ex"\n\n" "\n\n";', ["abc\n\n", "a\nb\n\n", "\n\n\n"], ["\n\n", "a\n\nb\n\n"]),
    ('start ::= #ex"[0-9]";', ["abc", "é\n"], ["", "a1", "1"]),
    ('start ::= #ex"end" "end" | "-";', ["abend", "-"], ["end", "endend"]),
    # #substrs: a run of whole characters of a text
    ('start ::= #substrs"abcabd";', ["", "abc", "cab", "abd", "abcabd"], ["ac", "abdc"]),
    ("start ::= #substrs'é世' \"!\";", ["!", "é!", "世!", "é世!"], ["世é!"]),
    ('start ::= "-" #substrs"ab" "-" #substrs"vw";', ["--", "-ab-v"], ["-v-"]),
    (r'start ::= #substrs"a\nb";', ["\n", "a\nb"], ["n"]),
    # captures never change what is accepted
    ('start ::= n:"a" m:("b" | "c")* o : x; x ::= "x";', ["ax", "abcx"], ["bx"]),
]


def accepts(grammar: Grammar, text: str) -> bool:
    return parse(grammar, text.encode()) is not None


@pytest.mark.parametrize(("source", "inside", "outside"), LANGUAGES, ids=[source for source, _, _ in LANGUAGES])
def test_language(source: str, inside: list[str], outside: list[str]) -> None:
    grammar = parse_kbnf(source)
    assert [text for text in inside if not accepts(grammar, text)] == []
    assert [text for text in outside if accepts(grammar, text)] == []


def test_substrs_never_cuts_a_character() -> None:
    assert parse(parse_kbnf('start ::= #substrs"é";'), b"\xa9") is None


def test_another_start_rule() -> None:
    grammar = parse_kbnf('start ::= "a"; other ::= "b" start;', start="other")
    assert accepts(grammar, "ba")
    assert not accepts(grammar, "a")


def test_values() -> None:
    grammar = parse_kbnf('start ::= "a" | b+ | ""; b ::= n:("é" b?);')
    assert grammar.start == "start"
    assert dict(grammar.rules) == {
        "start": Choice((Bytes(b"a"), Repeat(Reference("b"), 1), EMPTY)),
        "b": Capture("n", Sequence((Bytes("é".encode()), Repeat(Reference("b"), 0, 1)))),
    }


def test_redundant_groups_leave_no_trace() -> None:
    assert parse_kbnf('start ::= (((("a")) (("b"))));') == parse_kbnf('start ::= "a" "b";')


def found(source: str, text: str) -> list[tuple[str, str]]:
    """Every capture of the preferred parse, outer ones first."""
    match = parse(parse_kbnf(source), text.encode())
    assert match is not None

    def below(of: Match) -> list[tuple[str, str]]:
        return [pair for child in of.children for pair in [(child.name, child.text), *below(child)]]

    return below(match)


CAPTURES = [
    ('start ::= "<" n:"a" ">";', "<a>", [("n", "a")]),
    ('start ::= n:#"[a-z]+" " " m:(#"[0-9]"+);', "ab 12", [("n", "ab"), ("m", "12")]),
    ('start ::= (n:"a")*;', "aaa", [("n", "a")] * 3),
    ('start ::= n:"a"*;', "aaa", [("n", "aaa")]),
    ('start ::= out:("(" in:("x" | "y") ")");', "(y)", [("out", "(y)"), ("in", "y")]),
    ('start ::= ["-" n:"a"] "b";', "b", []),
    ('start ::= word (", " word)*; word ::= w:#"[a-z]+";', "a, b", [("w", "a"), ("w", "b")]),
    (r'start ::= #"(?P<year>\d{4})-(?<month>\d{2})" "!";', "2024-05!", [("year", "2024"), ("month", "05")]),
    ('start ::= #"(?<a>x*?)(?<b>x*)";', "xx", [("a", ""), ("b", "xx")]),
    ('start ::= a:("x"*) b:("x"*);', "xx", [("a", "xx"), ("b", "")]),
    ('start ::= a:("x"*?) b:("x"*);', "xx", [("a", ""), ("b", "xx")]),
    ('start ::= a:("x"{0,2}?) b:("x"??) c:("x"?);', "xx", [("a", ""), ("b", "x"), ("c", "x")]),
    ('start ::= a:#"x*?" b:#"x*";', "xx", [("a", ""), ("b", "xx")]),
    ('start ::= a:#"x|xy" b:#"y?";', "xy", [("a", "x"), ("b", "y")]),
    ('start ::= a:#"xy|x" b:#"y?";', "xy", [("a", "xy"), ("b", "")]),
    ('start ::= a:#substrs"xyx" b:#"x*";', "xyx", [("a", "xyx"), ("b", "")]),
    ('start ::= first:("ab" | "a") second:("b" | "");', "ab", [("first", "ab"), ("second", "")]),
    ('start ::= first:("a" | "ab") second:("b" | "");', "ab", [("first", "a"), ("second", "b")]),
    ('start ::= a:"x"; start ::= b:"x";', "x", [("a", "x")]),
    ('start ::= n:#e"a+";', "a", [("n", "a")]),
]


@pytest.mark.parametrize(("source", "text", "expected"), CAPTURES)
def test_captures(source: str, text: str, expected: list[tuple[str, str]]) -> None:
    assert found(source, text) == expected
