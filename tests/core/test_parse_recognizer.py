"""The reference recognizer: which texts it takes, and that every text it takes can be completed; the shortest text."""

from __future__ import annotations

import random
from itertools import product

import pytest

from formatter_core.engine.shortest import min_bytes
from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import (
    ANY_CHAR,
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
    optional,
)
from formatter_core.limits import Limits
from formatter_core.testing.recognizer import Recognizer

A, B, C = Bytes(b"a"), Bytes(b"b"), Bytes(b"c")
S, T = Reference("s"), Reference("t")


def seq(*items: Node) -> Sequence:
    return Sequence(items)


def alt(*items: Node) -> Choice:
    return Choice(items)


def grammar(s: Node, **others: Node) -> Grammar:
    return Grammar({"s": s, **others}, "s")


def accepts(recognizer: Recognizer, data: bytes) -> bool:
    """Tell whether `data` is a completion; the recognizer stays as it was."""
    steps = 0
    for byte in data:
        if not recognizer.push(byte):
            break
        steps += 1
    result = steps == len(data) and recognizer.can_stop()
    recognizer.pop(steps)
    return result


TABLE: list[tuple[str, Grammar, list[bytes], list[bytes]]] = [
    ("left recursion", grammar(alt(seq(S, A), B)), [b"b", b"baa"], [b"", b"a", b"bb"]),
    ("right recursion", grammar(alt(seq(A, S), B)), [b"b", b"aab"], [b"", b"a", b"ba"]),
    ("both", grammar(alt(seq(S, S), A)), [b"a", b"aaaa"], [b"", b"b"]),
    ("a rule that is itself", grammar(alt(S, A)), [b"a"], [b"", b"aa"]),
    ("a cycle of two", grammar(alt(T, A), t=alt(S, B)), [b"a", b"b"], [b"", b"ab"]),
    ("a cycle through nothing", grammar(alt(seq(optional(B), S, optional(C)), A)), [b"a", b"bbac"], [b"", b"bc"]),
    ("nullable in front", grammar(seq(T, S)), [], []),
    ("nullable inside", grammar(alt(seq(T, S, T), A), t=optional(B)), [b"a", b"bab", b"bbabb"], [b"", b"b"]),
    ("nullable recursion", grammar(alt(seq(S, S), A, EMPTY)), [b"", b"a", b"aaa"], [b"b"]),
    ("nested", grammar(alt(seq(A, S, B), EMPTY)), [b"", b"ab", b"aaabbb"], [b"a", b"abb", b"aab"]),
    ("palindromes", grammar(alt(seq(A, S, A), seq(B, S, B), EMPTY)), [b"", b"abba", b"aaaa"], [b"ab", b"a"]),
    ("counts", grammar(Repeat(A, 2, 4)), [b"aa", b"aaaa"], [b"a", b"aaaaa"]),
    ("counts of rules", grammar(Repeat(T, 2, 3), t=alt(A, seq(B, T))), [b"aa", b"bababa"], [b"a", b"aaaa", b"ab"]),
    ("counts of nullable", grammar(Repeat(T, 3, 3), t=optional(A)), [b"", b"a", b"aaa"], [b"aaaa"]),
    ("repeat of empty", grammar(seq(Repeat(EMPTY), A, Repeat(EMPTY, 5, 9))), [b"a"], [b"", b"aa"]),
    ("star of star", grammar(seq(Repeat(Repeat(A)), B)), [b"b", b"aab"], [b"a", b"bb"]),
    ("zero times", grammar(seq(Repeat(A, 0, 0), Repeat(NOTHING), B)), [b"b"], [b"ab"]),
    ("dead alternatives", grammar(alt(seq(A, T), B), t=seq(A, T)), [b"b"], [b"a", b"aa"]),
    ("dead terminal", grammar(alt(seq(A, Chars(())), seq(A, B))), [b"ab"], [b"a"]),
    ("useless rule", grammar(A, t=seq(T, B)), [b"a"], [b"b"]),
    ("captures", grammar(seq(Capture("x", alt(A, EMPTY)), Repeat(Capture("y", B)))), [b"", b"abb"], [b"ba"]),
    ("characters", grammar(seq(Chars.of([(0xE0, 0xFF)]), ANY_CHAR)), ["é😀".encode(), "éa".encode()], [b"\xc3\xa9"]),
    ("substring", grammar(seq(Substring("aéb"), B)), [b"b", "éb".encode(), "aébb".encode()], [b"\xc3b", b"abb"]),
    ("shortest", grammar(seq(Terminal(Shortest(Repeat(alt(A, seq(B, A))))), B)), [b"ab", b"bab"], [b"aab", b"b"]),
    (
        "intersection",
        grammar(seq(Terminal(Intersection((Repeat(alt(A, B), 1), Complement(Repeat(A))))), C)),
        [b"bc", b"abc", b"aabac"],
        [b"c", b"aac"],
    ),
    ("several ends", grammar(seq(Terminal(Repeat(A)), Terminal(Repeat(A)), A)), [b"a", b"aaa"], [b""]),
    (
        "the prefix that a careless engine refuses",
        Grammar({"start": seq(S, Bytes(b"$")), "s": alt(seq(A, Reference("n")), B), "n": seq(S, C)}, "start"),
        [b"b$", b"abc$", b"aabcc$"],
        [b"aabc$", b"aabccc$"],
    ),
]


@pytest.mark.parametrize(("g", "accepted", "rejected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_table(g: Grammar, accepted: list[bytes], rejected: list[bytes]) -> None:
    if not accepted:
        with pytest.raises(InvalidGrammar):
            Recognizer(g)
        return
    recognizer = Recognizer(g)
    for data in accepted:
        assert accepts(recognizer, data), data
    for data in rejected:
        assert not accepts(recognizer, data), data
    assert min_bytes(g) == min(map(len, accepted))
    check_every_prefix_completes(recognizer, 3)


def check_every_prefix_completes(recognizer: Recognizer, depth: int) -> None:
    """Each byte is taken exactly if it is announced, and from everywhere a completion is found."""
    announced = recognizer.next_bytes()
    for byte in range(256):
        taken = recognizer.push(byte)
        assert taken == (byte in announced)
        if taken:
            recognizer.pop(1)
    assert completes(recognizer, 6)
    for byte in announced[:4] if depth else []:
        assert recognizer.push(byte)
        check_every_prefix_completes(recognizer, depth - 1)
        recognizer.pop(1)


def completes(recognizer: Recognizer, depth: int) -> bool:
    if recognizer.can_stop():
        return True
    for byte in recognizer.next_bytes()[:3] if depth else []:
        recognizer.push(byte)
        found = completes(recognizer, depth - 1)
        recognizer.pop(1)
        if found:
            return True
    return False


LENGTH = 5
TEXTS = [bytes(t) for n in range(LENGTH + 1) for t in product(b"ab", repeat=n)]


def languages(rules: dict[str, Node]) -> dict[str, frozenset[bytes]]:
    """The strings of at most LENGTH bytes of every rule: the least fixed point of the definitions."""
    known: dict[str, frozenset[bytes]] = {name: frozenset() for name in rules}
    while True:
        new = {name: language(body, known) for name, body in rules.items()}
        if new == known:
            return known
        known = new


def language(node: Node, known: dict[str, frozenset[bytes]]) -> frozenset[bytes]:
    if isinstance(node, Bytes):
        return frozenset({node.value})
    if isinstance(node, Reference):
        return known[node.name]
    if isinstance(node, Choice):
        return frozenset().union(*(language(item, known) for item in node.items))
    if isinstance(node, Sequence):
        result = frozenset({b""})
        for item in node.items:
            right = language(item, known)
            result = frozenset(a + b for a in result for b in right if len(a) + len(b) <= LENGTH)
        return result
    assert isinstance(node, Repeat)
    last = max(node.minimum, LENGTH) if node.maximum is None else node.maximum
    counts = range(node.minimum, last + 1)
    return frozenset().union(*(language(Sequence((node.item,) * count), known) for count in counts))


def random_node(rng: random.Random, depth: int) -> Node:
    kind = rng.randrange(8 if depth else 3)
    if kind < 2:
        return rng.choice([A, B, Bytes(b"ab"), EMPTY])
    if kind == 2:
        return rng.choice([S, T])
    if kind < 5:
        return Sequence(tuple(random_node(rng, depth - 1) for _ in range(rng.randrange(4))))
    if kind < 7:
        return Choice(tuple(random_node(rng, depth - 1) for _ in range(rng.randrange(4))))
    minimum = rng.randrange(3)
    return Repeat(random_node(rng, depth - 1), minimum, rng.choice([None, minimum, minimum + 2]))


def test_takes_exactly_the_language() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        g = grammar(random_node(rng, 3), t=random_node(rng, 3))
        expected = languages(dict(g.rules))["s"]
        try:
            recognizer = Recognizer(g)
        except InvalidGrammar:
            assert not expected, seed
            continue
        assert {text for text in TEXTS if accepts(recognizer, text)} == expected, seed
        assert not expected or min_bytes(g) == min(map(len, expected)), seed
        prefixes = {text[:n] for text in expected for n in range(len(text) + 1)}
        for prefix in prefixes:
            for byte in prefix:
                assert recognizer.push(byte), seed
            recognizer.pop(len(prefix))


def test_tokens_are_steps_of_their_own() -> None:
    g = grammar(seq(A, alt(Token(7), seq(Token(9), B)), Repeat(Token(7))))
    recognizer = Recognizer(g)
    assert recognizer.next_tokens() == []
    assert not recognizer.push_token(7)
    assert recognizer.push(ord("a"))
    assert recognizer.next_tokens() == [7, 9]
    assert recognizer.next_bytes() == []
    assert recognizer.push_token(9)
    assert recognizer.push(ord("b"))
    assert recognizer.can_stop()
    assert recognizer.push_token(7)
    assert recognizer.push_token(7)
    assert recognizer.length == 5
    recognizer.pop(4)
    assert recognizer.push_token(7)
    assert recognizer.can_stop()
    assert min_bytes(g) == 1


def test_copies_are_independent() -> None:
    first = Recognizer(grammar(Repeat(alt(A, B))))
    first.push(ord("a"))
    second = first.copy()
    second.push(ord("b"))
    first.pop(1)
    assert (first.length, second.length) == (0, 2)
    with pytest.raises(ValueError, match="undo"):
        first.pop(1)


def test_left_recursion_and_nesting_are_linear() -> None:
    steps = Limits(work=2000)
    left = Recognizer(grammar(alt(seq(S, Bytes(b","), T), T), t=Terminal(Repeat(A, 1))), steps)
    assert accepts(left, b",".join([b"aa"] * 3000))
    nested = Recognizer(grammar(alt(seq(Bytes(b"("), S, Bytes(b")")), EMPTY)), steps)
    assert accepts(nested, b"(" * 3000 + b")" * 3000)
    counted = Recognizer(grammar(Repeat(seq(T, Bytes(b",")), 0, 100_000), t=A), steps)
    assert accepts(counted, b"a," * 3000)


def test_one_step_is_bounded_by_limits() -> None:
    many = grammar(Choice(tuple(seq(A, Bytes(b"%d" % n)) for n in range(500))))
    with pytest.raises(LimitExceeded) as error:
        Recognizer(many, Limits(work=3000))
    assert error.value.limit == "work"
    right = Recognizer(grammar(alt(seq(A, S), A)), Limits(work=1000))
    with pytest.raises(LimitExceeded):
        all(right.push(ord("a")) for _ in range(1000))
    length = right.length
    assert right.can_stop()
    right.pop(1)
    assert right.push(ord("a"))
    assert right.length == length
