"""Captures of the preferred parse: tables, and every parse of small grammars written out and compared."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice, product
from typing import Any, TypeAlias

import pytest

from formatter_core.errors import InvalidGrammar, LimitExceeded
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
from formatter_core.testing import preferred
from formatter_core.testing.automaton import Automaton
from tests.core import native_parse

Parser: TypeAlias = Callable[..., "Match | None"]


PARSERS = (preferred.parse, native_parse.parse)


@pytest.fixture(params=PARSERS, ids=["reference", "native"])
def parse(request: pytest.FixtureRequest) -> Parser:
    return request.param


A, B, C, COMMA = Bytes(b"a"), Bytes(b"b"), Bytes(b"c"), Bytes(b",")
S, T = Reference("s"), Reference("t")
AB = Chars.of([(0x61, 0x62)])


def seq(*items: Node) -> Sequence:
    return Sequence(items)


def alt(*items: Node) -> Choice:
    return Choice(items)


def cap(name: str, item: Node) -> Capture:
    return Capture(name, item)


def x(item: Node) -> Capture:
    return Capture("x", item)


def y(item: Node) -> Capture:
    return Capture("y", item)


def z(item: Node) -> Capture:
    return Capture("z", item)


def lazy(item: Node, minimum: int = 0, maximum: int | None = None) -> Repeat:
    return Repeat(item, minimum, maximum, greedy=False)


def regex(*items: Node) -> Terminal:
    return Terminal(Sequence(items))


def grammar(s: Node, **others: Node) -> Grammar:
    return Grammar({"s": s, **others}, "s")


def shown(match: Match) -> list[Any]:
    """The captures as [name, text, *captures inside]."""
    return [[child.name, child.data.decode(), *shown(child)] for child in match.children]


TABLE: list[tuple[str, Grammar, str, list[Any]]] = [
    ("no capture", grammar(A), "a", []),
    ("a choice of which one begins the other", grammar(x(alt(Bytes(b"ab"), Bytes(b"abc")))), "abc", [["x", "abc"]]),
    ("an earlier alternative", grammar(alt(x(A), y(A))), "a", [["x", "a"]]),
    ("a later alternative", grammar(alt(seq(x(A), B), y(A))), "a", [["y", "a"]]),
    ("greedy", grammar(seq(x(Repeat(A)), y(Repeat(A)))), "aa", [["x", "aa"], ["y", ""]]),
    ("lazy", grammar(seq(x(lazy(A)), y(Repeat(A)))), "aa", [["x", ""], ["y", "aa"]]),
    ("greedy, with something after it", grammar(seq(x(Repeat(AB)), B)), "abb", [["x", "ab"]]),
    ("empty text", grammar(seq(A, x(EMPTY), A)), "aa", [["x", ""]]),
    ("empty text at the end", grammar(seq(A, x(optional(B)))), "a", [["x", ""]]),
    ("nested", grammar(x(seq(A, y(B), z(cap("w", C))))), "abc",
     [["x", "abc", ["y", "b"], ["z", "c", ["w", "c"]]]]),
    ("met many times", grammar(Repeat(seq(x(Repeat(A, 1)), optional(COMMA)))), "aa,a,aaa",
     [["x", "aa"], ["x", "a"], ["x", "aaa"]]),
    ("one hole in two places", grammar(seq(T, COMMA, T), t=x(Repeat(AB))), "a,b", [["x", "a"], ["x", "b"]]),
    ("rounds are not empty", grammar(Repeat(x(Repeat(A)))), "aa", [["x", "aa"]]),
    ("rounds are empty below the minimum", grammar(Repeat(x(Repeat(A)), 2, 3)), "aa", [["x", "aa"], ["x", ""]]),
    ("no rounds", grammar(Repeat(x(optional(A)))), "", []),
    ("lazy until a comma", grammar(seq(x(Terminal(lazy(ANY_CHAR))), COMMA, y(Terminal(ANY_TEXT)))), "a,b,é",
     [["x", "a"], ["y", "b,é"]]),
    ("greedy until a comma", grammar(seq(x(Terminal(ANY_TEXT)), COMMA, y(Terminal(ANY_TEXT)))), "a,b,é",
     [["x", "a,b"], ["y", "é"]]),
    ("lazy outside a terminal", grammar(seq(x(lazy(ANY_CHAR)), COMMA, y(Repeat(ANY_CHAR)))), "é,b,c",
     [["x", "é"], ["y", "b,c"]]),
    ("choices inside a terminal", grammar(seq(x(Terminal(alt(A, Bytes(b"ab")))), y(Repeat(AB)))), "ab",
     [["x", "a"], ["y", "b"]]),
    ("a second choice inside a terminal", grammar(seq(x(Terminal(alt(A, Bytes(b"ab")))), COMMA)), "ab,", [["x", "ab"]]),
    ("order inside a terminal", grammar(seq(x(regex(alt(Bytes(b"ab"), A), optional(C))), y(Repeat(ANY_CHAR)))),
     "abc", [["x", "abc"], ["y", ""]]),
    ("a lazy tail inside a terminal", grammar(seq(x(regex(A, lazy(AB, 0, 2))), y(Repeat(AB)))), "abab",
     [["x", "a"], ["y", "bab"]]),
    ("a substring takes what it can", grammar(seq(x(Substring("abab")), y(Repeat(AB)))), "abaa",
     [["x", "aba"], ["y", "a"]]),
    ("shortest", grammar(seq(x(Terminal(Shortest(Repeat(A)))), y(Repeat(A)))), "aa", [["x", "a"], ["y", "a"]]),
    ("what is atomic takes the longest", grammar(seq(
        x(Terminal(Intersection((lazy(AB, 1), Complement(Bytes(b"abab")))))), y(Repeat(AB)))), "abab",
     [["x", "aba"], ["y", "b"]]),
    ("ambiguous", grammar(alt(seq(S, S), x(A))), "aaa", [["x", "a"], ["x", "a"], ["x", "a"]]),
    ("the left side first", grammar(alt(x(seq(S, S)), A)), "aaa", [["x", "aaa", ["x", "aa"]]]),
    ("the right side, where the left is short", grammar(alt(A, x(seq(S, S)))), "aaa", [["x", "aaa", ["x", "aa"]]]),
    ("left recursion", grammar(alt(seq(S, COMMA, x(A)), y(A))), "a,a,a", [["y", "a"], ["x", "a"], ["x", "a"]]),
    ("right recursion", grammar(alt(seq(x(A), COMMA, S), y(A))), "a,a,a", [["x", "a"], ["x", "a"], ["y", "a"]]),
    ("a rule that is itself", grammar(alt(S, x(A))), "a", [["x", "a"]]),
    ("a capture around oneself is never entered", grammar(alt(x(S), A)), "a", []),
    ("a cycle of two is gone round once", grammar(alt(x(T), A), t=alt(y(S), z(A))), "a", [["x", "a", ["z", "a"]]]),
    ("a cycle beside nothing", grammar(alt(seq(x(EMPTY), S), seq(S, y(Repeat(A, 1))), A)), "aaa",
     [["y", "a"], ["y", "a"]]),
    ("a cycle beside what only looks like one", grammar(alt(seq(T, x(S)), Bytes(b"ab")), t=alt(seq(A, T), EMPTY)),
     "aab", [["x", "ab"]]),
    ("characters of several bytes", grammar(seq(x(ANY_CHAR), y(Repeat(ANY_CHAR)))), "é😀x", [["x", "é"], ["y", "😀x"]]),
]  # fmt: skip


@pytest.mark.parametrize(("g", "text", "captures"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_table(parse: Parser, g: Grammar, text: str, captures: list[Any]) -> None:
    match = parse(g, text.encode())
    assert match is not None
    assert (match.name, match.start, match.end, match.text) == ("", 0, len(text.encode()), text)
    assert shown(match) == captures
    assert parse(g, [text.encode()]) == match


@pytest.mark.parametrize("data", [b"", b"b", b"aa", b"a\xff"])
def test_what_is_not_in_the_language_has_no_match(parse: Parser, data: bytes) -> None:
    assert parse(grammar(cap("x", A)), data) is None


def test_a_grammar_without_text_is_refused(parse: Parser) -> None:
    with pytest.raises(InvalidGrammar):
        parse(grammar(cap("x", NOTHING)), b"")


def test_tokens_stand_between_the_bytes(parse: Parser) -> None:
    g = grammar(seq(cap("x", Repeat(A)), Token(7), cap("y", alt(seq(Token(8), B), B)), cap("z", Repeat(Token(7)))))
    match = parse(g, [b"a", b"a", 7, 8, b"b", 7, 7])
    assert match is not None
    assert match.data == b"aab"
    assert [(c.name, c.start, c.end) for c in match.children] == [("x", 0, 2), ("y", 2, 3), ("z", 3, 3)]
    assert parse(g, b"aab") is None
    assert parse(g, [b"a", 8, b"b"]) is None
    assert parse(grammar(Terminal(ANY_TEXT)), [b"a", 7]) is None


def test_long_and_deep_texts() -> None:
    parse = native_parse.parse
    item = cap("x", Terminal(Repeat(AB, 1)))
    left = parse(grammar(alt(seq(S, COMMA, T), T), t=item), b",".join([b"ab"] * 5_000))
    assert left is not None
    assert len(left.children) == 5_000
    deep = parse(grammar(alt(cap("x", seq(Bytes(b"("), S, Bytes(b")"))), EMPTY)), b"(" * 5000 + b")" * 5000)
    depth = 0
    while deep is not None and deep.children:
        deep = deep.children[0]
        depth += 1
    assert depth == 5000
    right = parse(grammar(alt(seq(T, COMMA, S), T), t=item), b",".join([b"ab"] * 200))
    assert right is not None
    assert len(right.children) == 200
    both = parse(grammar(alt(seq(S, S), cap("x", A))), b"a" * 60)
    assert both is not None
    assert len(both.children) == 60
    free = parse(grammar(seq(cap("x", Terminal(lazy(ANY_CHAR))), COMMA, cap("y", Terminal(ANY_TEXT)))), b"ab," * 3000)
    assert free is not None
    assert [child.end for child in free.children] == [2, 9000]


def test_choosing_is_bounded_by_limits(parse: Parser) -> None:
    g = grammar(alt(seq(S, S), seq(S, S, S), cap("x", A)))
    assert parse(g, b"a" * 5) is not None
    with pytest.raises(LimitExceeded) as error:
        parse(g, b"a" * 60, Limits(work=2000))
    assert error.value.limit == "work"


# --- every parse, written out ---

Parse = tuple[tuple[int, ...], tuple[Any, ...]]  # the choices from the left, the captures
Inside = frozenset[str]
NOWHERE: Inside = frozenset()


def parses(rules: dict[str, Node], text: bytes, node: Node, start: int, end: int, inside: Inside) -> Iterator[Parse]:
    """Every finite parse of text[start:end] in which no rule derives itself over the same text."""

    def below(item: Node, low: int, high: int) -> Iterator[Parse]:
        return parses(rules, text, item, low, high, inside if (low, high) == (start, end) else NOWHERE)

    def items(rest: tuple[Node, ...], low: int) -> Iterator[Parse]:
        if not rest:
            if low == end:
                yield (), ()
            return
        for high in range(low, end + 1):
            for choices, captures in below(rest[0], low, high):
                for more, inner in items(rest[1:], high):
                    yield choices + more, captures + inner

    def rounds(repeat: Repeat, count: int, low: int) -> Iterator[Parse]:
        on, off = ((0,), (1,)) if repeat.greedy else ((1,), (0,))
        if count < repeat.minimum or count == repeat.maximum:
            on = off = ()
        if count >= repeat.minimum and low == end:
            yield off, ()
        if count == repeat.maximum:
            return
        for high in range(low, end + 1):
            if high == low and count >= repeat.minimum:
                continue
            for choices, captures in below(repeat.item, low, high):
                for more, inner in rounds(repeat, count + 1, high):
                    yield on + choices + more, captures + inner

    if isinstance(node, Reference):
        if node.name not in inside:
            yield from parses(rules, text, rules[node.name], start, end, inside | {node.name})
    elif isinstance(node, Capture):
        for choices, captures in below(node.item, start, end):
            yield choices, ((node.name, start, end, captures),)
    elif isinstance(node, Terminal):
        yield from below(node.item, start, end)
    elif isinstance(node, Choice):
        for index, item in enumerate(node.items):
            for choices, captures in below(item, start, end):
                yield (index, *choices), captures
    elif isinstance(node, Sequence):
        yield from items(node.items, start)
    elif isinstance(node, Repeat):
        yield from rounds(node, 0, start)
    elif leaf(node).matches(text[start:end]):
        yield (-end,), ()


leaf = lru_cache(Automaton)


def places(match: Match) -> tuple[Any, ...]:
    return tuple((child.name, child.start, child.end, places(child)) for child in match.children)


def random_node(rng: random.Random, depth: int, references: bool = True) -> Node:
    kind = rng.randrange(12 if depth else 4)
    if kind < 2:
        return rng.choice([A, B, Bytes(b"ab"), EMPTY, A])
    if kind == 2:
        return rng.choice([AB, Substring("ab"), literal("a")])
    if kind == 3:
        return rng.choice([S, T]) if references else A
    if kind < 6:
        return Sequence(tuple(random_node(rng, depth - 1, references) for _ in range(rng.randrange(1, 4))))
    if kind < 8:
        return Choice(tuple(random_node(rng, depth - 1, references) for _ in range(rng.randrange(1, 4))))
    if kind == 8:
        minimum = rng.randrange(3)
        maximum = rng.choice([None, minimum, minimum + 2])
        return Repeat(random_node(rng, depth - 1, references), minimum, maximum, rng.random() < 0.6)
    if kind == 9 and references:
        return Terminal(random_node(rng, depth - 1, references=False))
    if kind == 10 and not references:
        return rng.choice([Shortest, Complement])(random_node(rng, depth - 1, references))
    inner = random_node(rng, depth - 1, references)
    return Capture(rng.choice("xyz"), inner) if references else inner


@pytest.mark.contract("captures come from the parse: written order, greedy, left to right")
@pytest.mark.parametrize("first", range(0, 250, 50))
def test_the_preferred_parse_is_the_first_of_all(first: int) -> None:
    for seed in range(first, first + 50):
        rng = random.Random(seed)
        g = grammar(Capture("all", random_node(rng, 3)), t=random_node(rng, 3))
        for text in (bytes(letters) for length in range(5) for letters in product(b"ab", repeat=length)):
            every = list(islice(parses(dict(g.rules), text, S, 0, len(text), NOWHERE), 1000))
            if len(every) == 1000:
                continue
            for parse in PARSERS:
                try:
                    match = parse(g, text)
                except InvalidGrammar:
                    match = None
                assert (match is None) == (not every), (seed, text)
                assert match is None or places(match) == min(every)[1], (seed, text)
