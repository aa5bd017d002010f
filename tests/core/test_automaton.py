"""The byte automaton of one terminal, against languages written out as sets of strings."""

from __future__ import annotations

import random
from itertools import product

import pytest

from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    EMPTY,
    NOTHING,
    Bytes,
    Chars,
    Choice,
    Complement,
    Intersection,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Substring,
    Terminal,
    optional,
)
from formatter_core.grammar.utf8 import utf8_sequences
from formatter_core.limits import Limits
from formatter_core.testing.automaton import DEAD, Automaton
from tests.threads import in_threads

A, B = Bytes(b"a"), Bytes(b"b")
ALPHABET = (0x61, 0x62, 0xC3, 0xA9)
LENGTH = 4
UNIVERSE = frozenset(bytes(t) for n in range(LENGTH + 1) for t in product(ALPHABET, repeat=n))


def language(node: Node) -> frozenset[bytes]:
    """The strings of at most LENGTH bytes over ALPHABET that `node` denotes, from the definitions."""
    if isinstance(node, Bytes):
        return frozenset({node.value}) & UNIVERSE
    if isinstance(node, Chars):
        return frozenset(c.encode() for c in "abé" if any(lo <= ord(c) <= hi for lo, hi in node.ranges))
    if isinstance(node, Sequence):
        result = frozenset({b""})
        for item in node.items:
            result = concatenation(result, language(item))
        return result
    if isinstance(node, Choice):
        return frozenset().union(*(language(item) for item in node.items))
    if isinstance(node, Repeat):
        item = language(node.item)
        result, power = frozenset(), frozenset({b""})
        for count in range((LENGTH + 1 if node.maximum is None else node.maximum) + 1 + node.minimum):
            if count >= node.minimum and (node.maximum is None or count <= node.maximum):
                result |= power
            power = concatenation(power, item)
        return result
    if isinstance(node, Intersection):
        result = UNIVERSE
        for item in node.items:
            result &= language(item)
        return result
    if isinstance(node, Complement):
        return UNIVERSE - language(node.item)
    if isinstance(node, Shortest):
        item = language(node.item)
        return frozenset(s for s in item if s and not any(s[:n] in item for n in range(1, len(s))))
    if isinstance(node, Substring):
        text = node.text
        return frozenset(text[i:j].encode() for i in range(len(text) + 1) for j in range(i, len(text) + 1)) & UNIVERSE
    raise AssertionError(node)


def concatenation(left: frozenset[bytes], right: frozenset[bytes]) -> frozenset[bytes]:
    return frozenset(a + b for a in left for b in right if len(a) + len(b) <= LENGTH)


def random_node(rng: random.Random, depth: int) -> Node:
    kind = rng.randrange(10 if depth else 3)
    if kind == 0:
        return Bytes(rng.choice([b"", b"a", b"b", b"ab", b"ba", b"\xc3\xa9", b"\xc3", b"aab"]))
    if kind == 1:
        return Chars.of(rng.choice([[(0x61, 0x61)], [(0x61, 0x62)], [(0xE0, 0xEF)], [(0, 0x10FFFF)], []]))
    if kind == 2:
        return Substring(rng.choice(["", "ab", "abéa", "aéb", "ééa"]))
    if kind in (3, 4):
        return Sequence(tuple(random_node(rng, depth - 1) for _ in range(rng.randrange(4))))
    if kind in (5, 6):
        return Choice(tuple(random_node(rng, depth - 1) for _ in range(rng.randrange(4))))
    if kind == 7:
        minimum = rng.randrange(3)
        return Repeat(random_node(rng, depth - 1), minimum, rng.choice([None, minimum, minimum + 1, minimum + 3]))
    if kind == 8:
        inner = random_node(rng, depth - 1)
        return rng.choice([Complement(inner), Shortest(inner)])
    return Intersection(tuple(random_node(rng, depth - 1) for _ in range(rng.randrange(1, 4))))


def test_accepts_exactly_the_language() -> None:
    for seed in range(400):
        node = random_node(random.Random(seed), 4)
        automaton = Automaton(node)
        expected = language(node)
        assert {s for s in UNIVERSE if automaton.matches(s)} == expected, node
        assert not (automaton.is_empty() and expected), node


def test_every_state_but_dead_is_live() -> None:
    for seed in range(200):
        node = random_node(random.Random(seed), 4)
        automaton = Automaton(node)
        count = automaton.explore(5000)
        assert not automaton.accepting(DEAD), node
        for state in range(1, count):
            length = automaton.shortest(state)
            assert (length == 0) == automaton.accepting(state), node
            nearest = () if length == 0 else [automaton.shortest(to) for _, to in automaton.transitions(state)]
            assert length == 0 or length == 1 + min(nearest), node


@pytest.mark.parametrize(
    ("node", "empty"),
    [
        (NOTHING, True),
        (EMPTY, False),
        (Chars(()), True),
        (Sequence((A, NOTHING)), True),
        (Repeat(NOTHING), False),
        (Repeat(NOTHING, 1), True),
        (Shortest(EMPTY), True),
        (Shortest(Repeat(A)), False),
        (Complement(Complement(NOTHING)), True),
        (Complement(Choice((EMPTY, Repeat(A)))), False),
        (Complement(Choice((ANY_TEXT, Complement(ANY_TEXT)))), True),
        (Intersection((A, B)), True),
        (Intersection((Repeat(A, 1), Repeat(B, 1))), True),
        (Intersection((Repeat(A), Repeat(B))), False),
        (Intersection((Sequence((Repeat(A), B)), Sequence((Repeat(A), A, A)))), True),
        (Intersection((Repeat(A, 500, 500), Repeat(Bytes(b"aa")))), False),
        (Intersection((Repeat(A, 501, 501), Repeat(Bytes(b"aa")))), True),
        (Intersection((Repeat(ANY_CHAR, 1), Complement(Sequence((ANY_TEXT, ANY_TEXT))))), True),
        (Intersection((Repeat(ANY_CHAR, 1), Complement(Sequence((ANY_TEXT, A, ANY_TEXT))))), False),
    ],
)
def test_emptiness_is_exact(node: Node, empty: bool) -> None:
    assert Automaton(node).is_empty() is empty


@pytest.mark.parametrize(
    ("node", "accepted", "rejected"),
    [
        (ANY_CHAR, ["a", "é", "€", "😀", "\x00", "\U0010ffff"], ["", "ab", b"\x80", b"\xc0\x80", b"\xed\xa0\x80"]),
        (ANY_TEXT, ["", "aé€😀"], [b"\xc3", b"\xa9a", b"a\xff"]),
        (Shortest(Choice((Bytes(b"ab"), A))), ["a"], ["", "ab"]),
        (Shortest(Sequence((Repeat(A), B))), ["b", "aab"], ["", "a", "bb"]),
        (Shortest(Repeat(A)), ["a"], ["", "aa"]),
        (Substring("aéa€"), ["", "a", "éa", "aéa€"], [b"\xc3", b"a\xc3", "aa", b"\xa9", "€a"]),
        (Repeat(optional(A), 3, 3), ["", "a", "aaa"], ["aaaa"]),
        (Repeat(Repeat(A, 2, 3), 2, 2), ["aaaa", "aaaaa", "aaaaaa"], ["aaa", "aaaaaaa"]),
        (Repeat(Repeat(A, 1), 3), ["aaa", "aaaaa"], ["", "aa"]),
        (Terminal(A), ["a"], [""]),
        (Complement(ANY_TEXT), [b"\xff", b"a\xc3"], ["", "a"]),
    ],
)
def test_tables(node: Node, accepted: list[str | bytes], rejected: list[str | bytes]) -> None:
    automaton = Automaton(node)
    for text in accepted:
        assert automaton.matches(text.encode() if isinstance(text, str) else text), text
    for text in rejected:
        assert not automaton.matches(text.encode() if isinstance(text, str) else text), text


def test_what_is_not_regular_is_refused() -> None:
    with pytest.raises(InvalidGrammar):
        Automaton(Sequence((A, Reference("x"))))


def test_utf8_sequences_spell_every_code_point_once() -> None:
    ranges = ((0x41, 0x41), (0x7E, 0x801), (0x900, 0xD7FF), (0xE000, 0x10001), (0x10FFFE, 0x10FFFF))
    sequences = utf8_sequences(ranges)
    total = 0
    for sequence in sequences:
        size = 1
        for low, high in sequence:
            size *= high - low + 1
        total += size
    assert total == sum(high - low + 1 for low, high in ranges)
    automaton = Automaton(Chars(ranges))
    for code in [*range(0x7C, 0x910), *range(0xD7F0, 0xD800), *range(0xE000, 0xE010), *range(0xFFF0, 0x10010)]:
        assert automaton.matches(chr(code).encode()) == any(low <= code <= high for low, high in ranges)
    assert utf8_sequences([(0, 0x10FFFF)]) != []


def test_counting_needs_one_state_for_each_count_at_most() -> None:
    search = Sequence((ANY_TEXT, Repeat(A, 3, 60), ANY_TEXT))
    assert Automaton(search).explore(1000) < 100
    assert Automaton(Repeat(Repeat(A, 0, 3), 0, 40)).explore(2000) < 2000
    huge = Automaton(Repeat(ANY_CHAR, 0, 100_000))
    assert huge.accepting(huge.run(b"x" * 1000))


def test_wide_and_long_nodes() -> None:
    words = Automaton(Choice(tuple(Bytes(b"word %d." % n) for n in range(20_000))))
    assert words.matches(b"word 19999.")
    assert not words.matches(b"word 20000.")
    chain = Automaton(Sequence(tuple(optional(Bytes(b"%d" % (n % 10))) for n in range(500))))
    assert chain.matches(b"0123456789")
    text = "the quick brown fox – été " * 1000
    substring = Automaton(Substring(text))
    assert substring.matches(text.encode())
    assert substring.matches("fox – ét".encode())
    assert not substring.matches(b"quick fox")
    long = Automaton(Bytes(b"x" * 100_000))
    assert long.shortest(long.start) == 100_000


def test_limits_are_named() -> None:
    deep: Node = A
    for _ in range(200):
        deep = Sequence((deep, A))
    with pytest.raises(LimitExceeded) as depth:
        Automaton(deep)
    assert depth.value.limit == "depth"
    exponential = Sequence((ANY_TEXT, A, Repeat(Choice((A, B)), 30, 30)))
    other = Sequence((ANY_TEXT, B, Repeat(Choice((A, B)), 30, 30)))
    with pytest.raises(LimitExceeded) as states:
        Automaton(exponential, Limits(states=500)).explore(500)
    assert states.value.limit == "states"
    with pytest.raises(LimitExceeded) as search:
        Automaton(Intersection((exponential, other)), Limits(states=500))
    assert search.value.limit == "states"
    with pytest.raises(LimitExceeded) as work:
        Automaton(Choice(tuple(Bytes(b"%d" % n) for n in range(2000))), Limits(work=1000))
    assert work.value.limit == "work"


def test_one_automaton_serves_many_threads() -> None:
    automaton = Automaton(Repeat(Choice(tuple(Bytes(b"word%d," % n) for n in range(300)))))
    data = b"".join(b"word%d," % n for n in range(300))
    assert in_threads(lambda _: automaton.matches(data), 8) == [True] * 8
