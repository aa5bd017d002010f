"""`to_kbnf` is the inverse of `parse_kbnf`: same language, same captures, same preferences."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core.errors import FormatterError, InvalidGrammar, LimitExceeded
from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    EMPTY,
    NOTHING,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Substring,
    Terminal,
    Token,
    literal,
    optional,
)
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Match
from formatter_core.syntax.kbnf import parse_kbnf, to_kbnf
from tests.core.native_parse import parse

SAMPLES = [b"".join(letters) for length in range(5) for letters in itertools.product([b"a", b"b"], repeat=length)]


def judged(grammar: Grammar, text: bytes) -> Match | str | None:
    """The preferred parse; the kind of error where the grammar derives nothing at all."""
    try:
        return parse(grammar, text)
    except FormatterError as error:
        return type(error).__name__


def assert_same(first: Grammar, second: Grammar, samples: list[bytes]) -> None:
    for sample in samples:
        assert judged(first, sample) == judged(second, sample), sample


A, B, AB = Bytes(b"a"), Bytes(b"b"), Bytes(b"ab")
WITHOUT_AB = Intersection((Repeat(ANY_CHAR, 1), Complement(Sequence((ANY_TEXT, AB, ANY_TEXT)))))

EXPRESSIBLE: list[Node] = [
    EMPTY,
    Bytes(b""),
    AB,
    Choice((AB, A, EMPTY)),
    Choice((NOTHING, A)),
    Choice((A,)),
    Sequence((A,)),
    Sequence((A, Sequence((B, A)), EMPTY)),
    Sequence((Choice((A, B)), Choice((EMPTY, B)))),
    Choice((Sequence((A, B)), Choice((B, A)))),
    Repeat(Repeat(A, 1, 2), 0, None),
    Repeat(optional(A), 2, 2),
    Repeat(Repeat(A, 0, None, greedy=False), 0, 1),
    Repeat(Sequence((A, B)), 0, 0),
    Repeat(Choice((A, B)), 1, 3, greedy=False),
    Repeat(Capture("n", Choice((A, AB))), 0, None),
    Capture("n", Repeat(A)),
    Capture("größe", Sequence((A, Capture("b.c[0]", Terminal(Repeat(B)))))),
    Capture("n", Capture("m", A)),
    Capture("n", Sequence((A, Capture("m", optional(B))))),
    Sequence((Capture("n", Repeat(A, greedy=False)), Capture("m", Repeat(A)))),
    Sequence((Capture("n", Choice((AB, A))), Capture("m", Choice((B, EMPTY))))),
    Chars(((97, 97),)),
    Chars(((0, 96), (98, 0x10FFFF))),
    ANY_CHAR,
    Repeat(ANY_CHAR, 2),
    Terminal(AB),
    Terminal(EMPTY),
    Terminal(NOTHING),
    Terminal(Choice((Sequence((A, Repeat(Choice((A, EMPTY)), 2))), B, Repeat(Repeat(AB, 1), 0, 1)))),
    Terminal(Repeat(Sequence(()), 1)),
    Terminal(Shortest(Repeat(Choice((AB, B)), 1))),
    Terminal(Substring("abba")),
    Substring("abba"),
    Terminal(WITHOUT_AB),
    Terminal(Sequence((A, Substring("ab"), optional(B)))),
    Terminal(Repeat(Choice((Shortest(Repeat(A)), Sequence((B, WITHOUT_AB)))))),
    Sequence((Terminal(Repeat(A)), Reference("rest"), optional(Reference("rest")))),
]


@pytest.mark.parametrize("node", EXPRESSIBLE, ids=repr)
def test_values(node: Node) -> None:
    grammar = Grammar({"start": node, "rest": Choice((B, Sequence((A, Reference("rest")))))}, "start")
    assert_same(grammar, parse_kbnf(to_kbnf(grammar)), SAMPLES)


INEXPRESSIBLE: list[Node] = [
    Token(3),
    Bytes(b"\xff"),
    Terminal(Bytes(b"a\xc3")),
    Terminal(Sequence((A, Bytes(b"\xc3"), Bytes(b"\xa9")))),
    Terminal(Complement(A)),
    Terminal(Intersection((ANY_TEXT, Repeat(A)))),
    Terminal(Shortest(Substring("ab"))),
    Terminal(Shortest(Shortest(A))),
    Capture(".0", A),
    Capture("zwei Wörter", A),
    Capture("é", Reference("here")),
    Capture("é", Sequence((Capture("n", A), Capture("n", A)))),
]


@pytest.mark.parametrize("node", INEXPRESSIBLE, ids=repr)
def test_what_kbnf_cannot_express_is_named(node: Node) -> None:
    inner = node.item if isinstance(node, Terminal) else node
    with pytest.raises(InvalidGrammar) as caught:
        to_kbnf(Grammar({"here": Choice((A, node))}, "here"))
    assert "'here'" in str(caught.value)
    assert "KBNF cannot express" in str(caught.value)
    assert type(inner).__name__ in str(caught.value) or "Bytes" in str(caught.value)


def test_grammars_that_are_not_well_formed() -> None:
    with pytest.raises(InvalidGrammar, match="not defined"):
        to_kbnf(Grammar({"start": Reference("missing")}, "start"))
    node: Node = A
    for _ in range(200):
        node = Repeat(node)
    with pytest.raises(LimitExceeded):
        to_kbnf(Grammar({"start": node}, "start"))
    with pytest.raises(LimitExceeded):
        to_kbnf(Grammar({"start": Repeat(A, 9)}, "start"), Limits(repeat=8))


def test_rule_names() -> None:
    names = ["start", "a", "é", "è", "_", "_1", "1", "part 1.a", "part.1.a", "_part_1_a", ""]
    rules: dict[str, Node] = {name: literal(f"<{index}>") for index, name in enumerate(names)}
    rules["the root"] = Sequence(tuple(Reference(name) for name in names))
    text = to_kbnf(Grammar(rules, "the root"))
    grammar = parse_kbnf(text)
    assert len(grammar.rules) == len(rules)
    assert {"start", "a", "_1", "_part_1_a"} <= set(grammar.rules)
    assert parse(grammar, "".join(f"<{index}>" for index in range(len(names))).encode()) is not None


def test_the_text_is_readable() -> None:
    source = r"""
        start ::= key:#"[a-z_]\\w*" "=" (number | 'a "quoted" text' | #substrs"it's")+;
        number ::= #"-?\\d+(?:\\.\\d{1,3})?" [unit]; unit ::= #"[^\\n\\]]{2,}" | #e".*\\n" | #ex"\\n" | "";
    """
    assert to_kbnf(parse_kbnf(source)) == (
        r"""start ::= key:#"[_a-z]\\w*" "=" (number | 'a "quoted" text' | #substrs"it's")+;
number ::= #"-?\\d+(?:\\.\\d{1,3})?" unit?;
unit ::= #"[^\\n\\]]{2,}" | #e".*\\n" | #ex"\\n" | "";
"""
    )


def test_long_alternatives_stand_on_lines_of_their_own() -> None:
    words = [f"word {number}" for number in range(30)]
    grammar = Grammar({"start": Choice(tuple(literal(word) for word in words))}, "start")
    text = to_kbnf(grammar)
    assert len(text.splitlines()) == 30
    assert parse_kbnf(text) == grammar


def test_many_alternatives() -> None:
    grammar = Grammar({"start": Choice(tuple(literal(f"w{number}") for number in range(20_000)))}, "start")
    assert parse_kbnf(to_kbnf(grammar)) == grammar


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.text("\"'\\#nux{}0\n\r\t\0é🎉", max_size=8)
CODE_POINTS = st.integers(0, 0xD7FF) | st.integers(0xE000, 0x10FFFF) | st.integers(0, 0x7F)
RANGES = st.lists(st.tuples(CODE_POINTS, CODE_POINTS).map(sorted).map(tuple), min_size=1, max_size=6)


@settings(deadline=None)
@given(TEXTS)
def test_every_text_can_be_quoted(text: str) -> None:
    expected = literal(text) if text else EMPTY
    assert parse_kbnf(to_kbnf(Grammar({"start": literal(text)}, "start"))).rules["start"] == expected
    for node in (Terminal(Substring(text)), Terminal(Shortest(literal(text)))):
        if text:
            assert parse_kbnf(to_kbnf(Grammar({"start": node}, "start"))).rules["start"] == node


@settings(deadline=None)
@given(RANGES)
def test_every_class_can_be_written(ranges: list[tuple[int, int]]) -> None:
    node = Chars.of(ranges)
    (low, high), *others = node.ranges
    expected = node if low < high or others else literal(chr(low))
    assert parse_kbnf(to_kbnf(Grammar({"start": node}, "start"))).rules["start"] == Terminal(expected)


LITERALS = st.sampled_from(
    [
        '"a"',
        "'b'",
        '"ab"',
        '""',
        "x",
        '#"[ab]"',
        '#"[^a]"',
        '#"a*?b"',
        '#"(?:a|ab){1,2}"',
        '#"(?P<c>a|ab)(?<d>b?)"',
        '#e"a+b?|b"',
        '#ex"ab"',
        '#substrs"aba"',
        r'"\u{61}"',
        r'#"\x61|(?i)B"',
    ]
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    marks = st.sampled_from(["?", "*", "+", "{2}", "{1,}", "{0,2}", "??", "*?", "+?", "{1,2}?"])
    return st.one_of(
        st.tuples(inner, inner).map(" ".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} | {pair[1]})"),
        st.tuples(inner, marks).map(lambda pair: f"({pair[0]}){pair[1]}"),
        inner.map("[{}]".format),
        inner.map(lambda text: f"{{ {text} }}"),
        inner.map("n:({})".format),
    )


EXPRESSIONS = st.recursive(LITERALS, _larger, max_leaves=6)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(EXPRESSIONS, min_size=1, max_size=2), LITERALS, st.lists(st.sampled_from(SAMPLES), min_size=4, max_size=4)
)
def test_text_to_grammar_to_text(alternatives: list[str], rest: str, samples: list[bytes]) -> None:
    grammar = parse_kbnf(f'start ::= {" | ".join(alternatives)}; x ::= "b" | "a" {rest};')
    text = to_kbnf(grammar)
    again = parse_kbnf(text)
    assert_same(grammar, again, samples)
    assert to_kbnf(again) == text
