"""Every fault of a KBNF text is reported with the place where it is, and hostile texts end within the limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import Bytes, Choice
from formatter_core.limits import Limits
from formatter_core.syntax.kbnf import parse_kbnf

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

FAULTS = [
    # source, line, column, part of the message
    ("", 1, 1, "no rule"),
    ("  \n (* nothing *) ", 2, 16, "no rule"),
    ('start ::= "a"', 1, 14, "`start` is not closed"),
    ('start ::= "a"\n', 2, 1, "`start` is not closed"),
    ('start ::= "a" b ::= "c";', 1, 15, "`start` is not closed before `b`"),
    ('start "a";', 1, 7, "expected `::="),
    ('start : "a";', 1, 7, "expected `::="),
    ('start := "a";', 1, 7, "expected `::="),
    ('"a" ::= "b";', 1, 1, "expected the name of a rule"),
    ('start ::= "a"; 5 ::= "b";', 1, 16, "expected the name of a rule"),
    ("start ::= ;", 1, 11, 'write ""'),
    ('start ::= "a" | ;', 1, 17, 'write ""'),
    ('start ::= | "a";', 1, 11, 'write ""'),
    ('start ::= "a" || "b";', 1, 16, 'write ""'),
    ('start ::= ("a" | );', 1, 18, 'write ""'),
    ("start ::= ();", 1, 12, 'write ""'),
    ("start ::= [];", 1, 12, 'write ""'),
    ("start ::= {};", 1, 12, 'write ""'),
    ('start ::= , "a";', 1, 11, "before `,`"),
    ('start ::= "a",;', 1, 15, "after `,`"),
    ('start ::= "a",,"b";', 1, 15, "before `,`"),
    ('start ::= "a", | "b";', 1, 16, "after `,`"),
    # undefined rules
    ("start ::= missing;", 1, 11, "`missing` is not defined"),
    ('start ::= "a";\nunused ::= "b"\n  missing;', 3, 3, "`missing` is not defined"),
    ('start ::= valeu; value ::= "a";', 1, 11, "did you mean `value`"),
    # groups
    ('start ::= ("a";', 1, 11, "not closed"),
    ('start ::= "x" ["a"', 1, 15, "not closed"),
    ('start ::= {("a" | "b") "c";', 1, 11, "not closed"),
    ('start ::= ("a" next ::= "b";', 1, 11, "not closed"),
    ('start ::= ("a"];', 1, 15, "does not close the `(` of line 1, column 11"),
    ('start ::= "a");', 1, 14, "closes no group"),
    ('start ::= "a"};', 1, 14, "closes no group"),
    # repeats
    ("start ::= *;", 1, 11, "`*` has nothing to repeat"),
    ('start ::= ("a" | ?);', 1, 18, "`?` has nothing to repeat"),
    ("start ::= {2};", 1, 11, "`{` has nothing to repeat"),
    ('start ::= "a", {2};', 1, 16, "`{` has nothing to repeat"),
    ('start ::= "a"**;', 1, 15, "repeats a repeat"),
    ('start ::= "a"+{2};', 1, 15, "repeats a repeat"),
    ('start ::= "a"*??;', 1, 16, "repeats a repeat"),
    ('start ::= "a"{2 "b"};', 1, 17, "expected the `}`"),
    ('start ::= "a"{2,3,4};', 1, 18, "expected the `}`"),
    ('start ::= "a"{2,b};', 1, 17, "expected the `}`"),
    ('start ::= "a"{3,2};', 1, 14, "minimum exceeds maximum"),
    ('start ::= "a"{,2};', 1, 15, "before `,`"),
    # captures
    ("start ::= n:;", 1, 13, "after `n` and `:`"),
    ('start ::= n: | "a";', 1, 14, "after `n` and `:`"),
    ("start ::= n:*;", 1, 13, "`*` has nothing to repeat"),
    ('start ::= n:m:"a";', 1, 13, "already names this"),
    ('start ::= "n":"a";', 1, 14, "expected a name before"),
    # literals
    ('start ::= "a;', 1, 11, "not closed"),
    ("start ::= 'a\";", 1, 11, "not closed"),
    ('start ::= #"a;', 1, 11, "not closed"),
    ('start ::= "a\\";', 1, 11, "not closed"),
    ('start ::= "a\n\n";\nx ::= "\n', 4, 7, "not closed"),
    (r'start ::= "ab\q";', 1, 14, r"unknown escape `\q`"),
    (r'start ::= "\d";', 1, 12, r"unknown escape `\d`"),
    ('start ::= "a\\\nb";', 1, 13, "unknown escape"),
    (r'start ::= "\x4";', 1, 12, r"unknown escape `\x`"),
    (r'start ::= "\u41";', 1, 12, r"unknown escape `\u`"),
    (r'start ::= "\u{}";', 1, 12, r"unknown escape `\u`"),
    (r'start ::= "\u{110000}";', 1, 12, "U+110000 is not a character"),
    (r'start ::= "a\ud83d";', 1, 13, "lone surrogate"),
    (r'start ::= "\u{dfff}";', 1, 12, "lone surrogate"),
    ('start ::= "a\ud83d";', 1, 13, "lone surrogate"),
    ('start ::= #"a\udc00";', 1, 14, "lone surrogate"),
    (r'start ::= #substrs"\d";', 1, 20, r"unknown escape `\d`"),
    ('start ::= #substrings"a";', 1, 11, "unknown prefix of a literal: `#substrings"),
    ('start ::= #E"a";', 1, 11, "unknown prefix of a literal: `#E"),
    # regexes
    ('start ::= #"a(b";', 1, 14, "invalid regex"),
    (r'start ::= #"é\\d[";', 1, 17, "invalid regex"),
    (r'start ::= #"(a)\1";', 1, 16, "invalid regex"),
    (r'start ::= #"(a)\\1";', 1, 16, "invalid regex"),
    (r'start ::= #"\bword";', 1, 13, "word boundary"),
    (r'start ::= #"\\bword";', 1, 13, "invalid regex"),
    ('start ::= #"(?=a)";', 1, 13, "invalid regex"),
    ('start ::= #"\n\n(?=a)";', 3, 1, "invalid regex"),
    ('start ::= #e"(?P<n>a)";', 1, 11, "takes no named group"),
    ('start ::= #ex"(?P<n>a)";', 1, 11, "takes no named group"),
    # comments and what is taken for one
    ('start ::= "a"; (* no end', 1, 16, "comment is not closed"),
    ('start ::= "a" (* (* one *) ;', 1, 15, "comment is not closed"),
    ('start ::= "a"; (*)', 1, 16, "comment is not closed"),
    ('start ::= "a"; # comment', 1, 16, "(* … *)"),
    ('// comment\nstart ::= "a";', 1, 1, "(* … *)"),
    # strays
    ('\ufeffstart ::= "a";', 1, 1, "byte order mark"),
    ('start ::= "a";\0', 1, 15, "U+0000"),
    ('start ::=\u00a0"a";', 1, 10, "plain spaces"),
    ("start ::= “a”;", 1, 11, "straight quotes"),
    ("start ::= 世;", 1, 11, "U+4E16"),
    ("start ::= 🎉;", 1, 11, "U+1F389"),
    ('start ::= <a>; a ::= "b";', 1, 11, "without < and >"),
    ('my-rule ::= "a";', 1, 3, "ASCII letters"),
    ("start ::= .;", 1, 11, '#"."'),
    ('start ::= except!("a");', 1, 17, "#ex"),
    ("start ::= 5;", 1, 11, "in quotes"),
    ("start ::= ::= a;", 1, 11, "found `::=`"),
    # lines and columns count characters, whatever the line break
    ('start ::= "🎉é" §;', 1, 16, "§"),
    ('start ::=\r\n  "a"\r\n  §;', 3, 3, "§"),
    ('start ::=\r  "a"\r  §;', 3, 3, "§"),
]


@pytest.mark.parametrize(("source", "line", "column", "part"), FAULTS, ids=[repr(case[0]) for case in FAULTS])
def test_fault(source: str, line: int, column: int, part: str) -> None:
    with pytest.raises(InvalidGrammar) as caught:
        parse_kbnf(source)
    assert part in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_the_first_fault_is_reported() -> None:
    with pytest.raises(InvalidGrammar, match="minimum exceeds maximum") as caught:
        parse_kbnf('start ::= "a"{3,2} | "unclosed;')
    assert caught.value.column == 14


def test_a_fault_is_shown_with_a_caret() -> None:
    with pytest.raises(InvalidGrammar) as caught:
        parse_kbnf('start ::= "a";\n\tx ::= "日本" @ "b";\ny ::= "c";')
    shown, caret = str(caught.value).splitlines()[-2:]
    assert shown == '     x ::= "日本" @ "b";'
    assert caret.index("^") == shown.index("@") + 2  # two wide characters stand before it


def test_the_shown_line_is_cut() -> None:
    with pytest.raises(InvalidGrammar) as caught:
        parse_kbnf("start ::= " + '"abc" ' * 10_000 + "§" + ' "abc"' * 10_000)
    shown, caret = str(caught.value).splitlines()[-2:]
    assert len(shown) < 100
    assert shown[caret.index("^")] == "§"


def test_a_fault_in_a_regex_is_placed_in_the_grammar() -> None:
    with pytest.raises(InvalidGrammar) as caught:
        parse_kbnf(r'start ::= "x" #"\u0061\n(?=b)";')
    assert (caught.value.line, caught.value.column) == (1, 25)


@pytest.mark.parametrize("start", ["missing", "", 5, None, []])
def test_undefined_start_rule(start: object) -> None:
    with pytest.raises(InvalidGrammar, match="start rule"):
        parse_kbnf('start ::= "a";', start=start)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [b'start ::= "a";', None, 5, ["start"]])
def test_not_a_text(text: object) -> None:
    with pytest.raises(InvalidGrammar, match="decode"):
        parse_kbnf(text)  # type: ignore[arg-type]


NESTED = [("(", ")"), ("[", "]"), ("{", "}")]


@pytest.mark.parametrize(("opening", "closing"), NESTED)
@pytest.mark.parametrize("closed", [True, False])
def test_deep_groups_are_refused(opening: str, closing: str, closed: bool) -> None:
    with pytest.raises(LimitExceeded) as caught:
        parse_kbnf(f'start ::= {opening * 5000}"a"{closing * 5000 * closed};')
    assert caught.value.limit == "depth"
    assert "line 1" in str(caught.value)


def test_deep_groups_are_read_where_the_limits_allow_them() -> None:
    deep = Limits(depth=10_000)
    flat = parse_kbnf('start ::= "a";')
    assert parse_kbnf(f'start ::= {"(" * 5000}"a"{")" * 5000};', limits=deep) == flat
    with pytest.raises(InvalidGrammar, match="not closed"):
        parse_kbnf(f'start ::= {"(" * 5000}"a";', limits=deep)
    parse_kbnf(f'start ::= {"[" * 3000}"a"{"]" * 3000};', limits=deep)


def test_deep_comments() -> None:
    parse_kbnf(f'{"(*" * 20_000}{"*)" * 20_000} start ::= "a";')
    with pytest.raises(InvalidGrammar, match="comment is not closed"):
        parse_kbnf("(*" * 20_000 + 'start ::= "a";')


def test_many_literals() -> None:
    grammar = parse_kbnf("start ::= " + " | ".join(f'"w{number}"' for number in range(20_000)) + ";")
    assert isinstance(grammar.rules["start"], Choice)
    assert grammar.rules["start"].items[19_999] == Bytes(b"w19999")


def test_many_rules() -> None:
    source = "".join(f'r{number} ::= "a" r{number + 1};\n' for number in range(20_000)) + "r20000 ::= r0;"
    assert len(parse_kbnf(source, start="r0").rules) == 20_001


def test_many_undefined_rules() -> None:
    with pytest.raises(InvalidGrammar, match="`x0` is not defined"):
        parse_kbnf("start ::= " + " ".join(f"x{number}" for number in range(20_000)) + ";")


def test_one_long_literal() -> None:
    text = "é\\n" * 200_000
    parse_kbnf(f'start ::= "{text}";')
    with pytest.raises(InvalidGrammar, match="not closed"):
        parse_kbnf(f'start ::= "{text};')


def test_long_names_are_cut_in_messages() -> None:
    name = "n" * 1_000_000
    for source in (
        f"{name} ::=",
        f"start ::= {name};",
        f"start {name}",
        f'start ::= #{name}"a";',
        f"start ::= {name}:;",
    ):
        with pytest.raises(InvalidGrammar) as caught:
            parse_kbnf(source)
        assert len(str(caught.value)) < 500
    with pytest.raises(InvalidGrammar) as caught:
        parse_kbnf('start ::= "a";', start=name)
    assert len(str(caught.value)) < 500


def test_large_repeats() -> None:
    parse_kbnf('start ::= "a"{0,100000} "b"{00000000000000000000003};')
    for source in ('start ::= "a"{0,1000001};', f'start ::= "a"{{{"9" * 10_000}}};', 'start ::= "a"{1000001,};'):
        with pytest.raises(LimitExceeded) as caught:
            parse_kbnf(source)
        assert caught.value.limit == "repeat"
        assert "line 1, column" in str(caught.value)


def test_too_many_nodes() -> None:
    with pytest.raises(LimitExceeded) as caught:
        parse_kbnf("start ::= " + '"a" ' * 100 + ";", limits=Limits(nodes=50))
    assert caught.value.limit == "nodes"


@pytest.mark.parametrize("source", ["start ::= start;", 'start ::= "a" start;', "start ::= a; a ::= b; b ::= a;"])
def test_rules_that_derive_nothing_are_no_fault_of_the_text(source: str) -> None:
    parse_kbnf(source)


PIECES = [
    "start",
    "x",
    "::=",
    "=",
    ";",
    "|",
    ",",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "?",
    "*",
    "+",
    "{2}",
    "{1,",
    ":",
    '"a"',
    "'b'",
]
PIECES += [
    '#"a*"',
    r'#"(?P<n>\d)"',
    '#e"a"',
    '#ex"b"',
    '#substrs"ab"',
    '"',
    "'",
    "#",
    "\\",
    "(*",
    "*)",
    "\n",
    "\r\n",
    "é",
    "🎉",
    "\0",
    " ",
]


def fault_of(text: str) -> InvalidGrammar | None:
    try:
        parse_kbnf(text)
    except InvalidGrammar as error:
        return error
    return None


def assert_in_place(fault: InvalidGrammar | None, text: str) -> None:
    if fault is not None and not fault.reason.startswith("the start rule"):
        assert fault.line is not None
        assert fault.column is not None
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        assert 1 <= fault.line <= len(lines)
        assert 1 <= fault.column <= len(lines[fault.line - 1]) + 1


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(["", "start ::= "]), st.sampled_from(["", ";"]))
def test_any_pieces_are_read_or_refused_in_their_place(pieces: list[str], before: str, after: str) -> None:
    text = before + "".join(pieces) + after
    assert_in_place(fault_of(text), text)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_characters_are_read_or_refused_in_their_place(characters: str) -> None:
    for text in (characters, f'start ::= "{characters}";', f"start ::= #'{characters}';"):
        assert_in_place(fault_of(text), text)
