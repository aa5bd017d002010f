"""Random grammars with random vocabularies, for comparing grammar engines.

The grammars are small and share few letters, so that alternatives overlap, rules are recursive on every side, derive
nothing, derive themselves, or are of no use. `traits_of` says which of that is really so.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace

from formatter_core.errors import InvalidGrammar
from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    EMPTY,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    Member,
    Members,
    Multiples,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Substring,
    Terminal,
    Token,
    Way,
    literal,
    map_children,
    optional,
    walk,
)
from formatter_core.testing.recognizer import Recognizer
from formatter_core.vocabulary import Vocabulary

__all__ = ["ALL_FEATURES", "Case", "Features", "large_vocabulary", "random_case"]

_LETTERS = ["a", "b", "c", "é", "😀", "1", "[", "]", ",", '"']
_WORDS = ["a", "b", "ab", "ba", "abc", "aa", "é", "aé", "éb", "😀", "c😀", "1", "11", "[", "]", ",", '"', '",', "]]"]
#: Values in some of their spellings.
_VALUES = [['"a"', '"\\u0061"'], ['"b"'], ['"ab"'], ["1", "1.0"], ["1.10"], ["-0", "0.0"], ["a"], ["ab"], ["b"], ["11"]]
_CLASSES = [
    [("a", "b")],
    [("a", "c")],
    [("a", "a"), ("é", "é")],
    [("0", "9")],
    [("à", "ÿ")],
    [("b", "b"), ("😀", "😂")],
    [("\x00", "!"), ("#", "\U0010ffff")],
    [("a", "z"), ("é", "é"), ("一", "龥")],
]


@dataclass(frozen=True)
class Features:
    """The kinds of nodes that may occur besides literals, classes, sequences, choices, repeats and references.

    Attributes:
        terminals: regular parts wrapped in `Terminal`.
        counts: repeats with a bound above one.
        non_ascii: characters of several bytes.
        substrings: `Substring`.
        shortest: `Shortest`.
        complements: `Intersection` and `Complement`.
        multiples: `Multiples`.
        tokens: `Token`.
        members: `Members`, with conditions between them, and values that come once.
        captures: `Capture`, which changes nothing that an engine sees.
    """

    terminals: bool = True
    counts: bool = True
    non_ascii: bool = True
    substrings: bool = True
    shortest: bool = True
    complements: bool = True
    multiples: bool = True
    tokens: bool = True
    members: bool = True
    captures: bool = True


ALL_FEATURES = Features()
# How often one grammar uses a feature that is allowed.
_SHARES = {
    "terminals": 0.7,
    "counts": 0.5,
    "non_ascii": 0.6,
    "substrings": 0.12,
    "shortest": 0.12,
    "complements": 0.06,
    "multiples": 0.06,
    "tokens": 0.06,
    "members": 0.15,
    "captures": 0.5,
}
# How many of the nodes are captured, in a grammar that has captures.
_CAPTURED = 0.25


@dataclass(frozen=True)
class Case:
    """A grammar that derives some text, and a vocabulary. Equal for equal seeds and features."""

    seed: int
    grammar: Grammar
    vocabulary: Vocabulary


def random_case(seed: int, features: Features = ALL_FEATURES, always: Collection[str] = ()) -> Case:
    """Make the case of this seed; it may use the features named in `always` whatever the random draw."""
    rng = random.Random(seed)  # noqa: S311 (no secrets are made)
    # A later feature has its own random generator: without the feature, the cases of all seeds stay the same.
    chances = dict.fromkeys(_SHARES, rng) | {"multiples": random.Random(f"multiples {seed}")}  # noqa: S311
    while True:
        used = Features(
            **{field.name: getattr(features, field.name)
               and (chances[field.name].random() < _SHARES[field.name] or field.name in always)
               for field in fields(Features)}
        )  # fmt: skip
        grammar = _Generator(rng, used).grammar()
        try:
            Recognizer(grammar)
        except InvalidGrammar:
            continue
        vocabulary = _random_vocabulary(rng, grammar)
        return Case(seed, _captured(rng, grammar) if used.captures else grammar, vocabulary)


def _captured(rng: random.Random, grammar: Grammar) -> Grammar:
    """Add captures in some places; several may have one name. The language stays the same."""

    def changed(node: Node) -> Node:
        if not isinstance(node, (Terminal, Shortest, Intersection, Complement)):
            below = map_children(node, changed)
            if isinstance(below, Members) and isinstance(node, Members):
                # A separator is regular, and a distinct member begins with a terminal.
                pairs = zip(node.members, below.members, strict=True)
                members = tuple(old if old.distinct else new for old, new in pairs)
                below = replace(below, members=members, separator=node.separator)
            node = below
        return Capture(rng.choice("xyz"), node) if rng.random() < _CAPTURED else node

    return Grammar({name: changed(body) for name, body in grammar.rules.items()}, grammar.start)


class _Generator:
    """A generator of one random grammar."""

    def __init__(self, rng: random.Random, features: Features) -> None:
        self._rng = rng
        self._features = features
        self._names = [f"r{number}" for number in range(rng.choice([1, 2, 2, 3, 3, 4, 5, 6]))]

    def grammar(self) -> Grammar:
        """Return the grammar of all rules; the first one derives the text."""
        rules = {name: self._rule(name) for name in self._names}
        if self._rng.random() < 0.8:
            self._connect(rules)
        if self._rng.random() < 0.1:
            rules["useless"] = Sequence((self._leaf(), Reference("useless")))
            first = self._names[0]
            rules[first] = Choice((rules[first], Reference("useless")))
        return Grammar(rules, self._names[0])

    def _connect(self, rules: dict[str, Node]) -> None:
        """Let every rule be reached from the first one."""
        reached: list[str] = []
        stack = [self._names[0]]
        while stack:
            name = stack.pop()
            if name not in reached:
                reached.append(name)
                stack += [node.name for node in walk(rules[name]) if isinstance(node, Reference)]
            unseen = [other for other in self._names if other not in reached]
            if not stack and unseen:
                user, used = self._rng.choice(reached), Reference(unseen[0])
                whole = rules[user]
                wired: list[Node] = [
                    Choice((whole, used)),
                    Choice((Sequence((self._leaf(), used)), whole)),
                    Sequence((whole, used)),
                ]
                rules[user] = self._rng.choice(wired)
                stack.append(used.name)

    def _rule(self, name: str) -> Node:
        own = Reference(name)
        leaf, body = self._leaf(), self._node(2)
        shapes: list[tuple[int, Callable[[], Node]]] = [
            (8, lambda: self._node(3)),
            (3, lambda: self._alternatives(body, self._sequence(2), self._leaf())),
            (2, lambda: self._alternatives(Sequence((own, leaf)), body)),
            (2, lambda: self._alternatives(Sequence((own, self._leaf(), body)), body)),
            (2, lambda: self._alternatives(Sequence((leaf, own)), body)),
            (2, lambda: self._alternatives(Sequence((Bytes(b"["), own, Bytes(b"]"))), body)),
            (1, lambda: self._alternatives(Sequence((own, own)), leaf)),
            (1, lambda: self._alternatives(Sequence((leaf, own, self._leaf())), EMPTY)),
            (1, lambda: self._alternatives(own, body)),
            (1, lambda: self._alternatives(self._reference(), body)),
            (1, lambda: self._alternatives(Sequence((self._optional(), own, self._optional())), leaf)),
            (1, lambda: EMPTY),
        ]
        return self._rng.choices([shape for _, shape in shapes], [weight for weight, _ in shapes])[0]()

    def _alternatives(self, *nodes: Node) -> Choice:
        items = list(nodes)
        if self._rng.random() < 0.15:
            items.append(EMPTY)
        self._rng.shuffle(items)
        return Choice(tuple(items))

    def _node(self, depth: int) -> Node:
        if depth == 0 or self._rng.random() < 0.1:
            return self._reference() if self._rng.random() < 0.35 else self._leaf()
        kinds: list[tuple[int, Callable[[], Node]]] = [
            (6, lambda: self._sequence(depth)),
            (4, lambda: Choice(tuple(self._node(depth - 1) for _ in range(self._rng.randint(2, 3))))),
            (3, lambda: self._repeat(self._node(depth - 1))),
            (2, self._reference),
            (2, self._leaf),
        ]
        if self._features.members:
            kinds.append((4, lambda: self._members(depth)))
        return self._rng.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]()

    def _sequence(self, depth: int) -> Sequence:
        return Sequence(tuple(self._node(depth - 1) for _ in range(self._rng.randint(2, 3))))

    def _repeat(self, item: Node) -> Repeat:
        minimum, maximum = self._rng.choice([(0, None), (0, None), (1, None), (0, 1), (0, 1)])
        if self._features.counts and self._rng.random() < 0.4:
            minimum = self._rng.randint(0, 3)
            maximum = self._rng.choice([None, minimum or 1, minimum + 1, minimum + 4, 40])
        return Repeat(item, minimum, maximum, self._rng.random() < 0.8)

    def _members(self, depth: int) -> Members:
        rng = self._rng
        conditions = rng.choice([0, 0, 1, 2, 3])
        once = self._bits(conditions, 0.2)
        members = []
        for _ in range(rng.randint(1, 4)):
            repeated = rng.random() < 0.2
            ways = [self._way(depth, conditions) for _ in range(rng.choice([1, 1, 1, 2]))]
            absent = 0 if repeated else self._bits(conditions, 0.4) & ~once
            members.append(Member(tuple(ways), not repeated and rng.random() < 0.3, repeated, absent))
        if rng.random() < 0.4:
            members[rng.randrange(len(members))] = self._distinct_member(conditions, once)
        minimum, maximum = rng.choice([(1, None), (1, None), (2, None), (1, 3), (3, 4)])
        separator = Terminal(literal(rng.choice([",", ",", "", "ab"])))
        return Members(tuple(members), separator, rng.random() < 0.4, minimum, maximum, conditions, once)

    def _distinct_member(self, conditions: int, once: int) -> Member:
        """Make a member of values that each come once, all with the same rest, some of which meet a condition."""
        values = self._rng.sample(_VALUES, self._rng.randint(1, 5))
        rest = self._rng.choice([EMPTY, EMPTY, self._simple()])

        def way(some: list[list[str]], meets: int) -> Way:
            texts = tuple(literal(text) for spellings in some for text in spellings)
            return Way(Sequence((Terminal(Choice(texts)), rest)), meets)

        ways = [way(values, 0)]
        bit = 1 << self._rng.randrange(conditions) & ~once if conditions else 0
        if bit and self._rng.random() < 0.5:
            ways.append(way(self._rng.sample(values, self._rng.randint(1, len(values))), bit))
        return Member(tuple(ways), repeated=True, distinct=True)

    def _way(self, depth: int, conditions: int) -> Way:
        """Make a way to write a member; its beginning is not empty, and mostly short."""
        item: Node = literal(self._rng.choice(self._plain(_WORDS)))
        if self._rng.random() < 0.4:
            item = Sequence((item, self._node(depth - 1)))
        return Way(item, self._bits(conditions, 0.4))

    def _bits(self, count: int, share: float) -> int:
        return sum(1 << place for place in range(count) if self._rng.random() < share)

    def _optional(self) -> Node:
        return optional(self._leaf())

    def _reference(self) -> Reference:
        return Reference(self._rng.choice(self._names))

    def _leaf(self) -> Node:
        chance = self._rng.random()
        if self._features.tokens and chance < 0.15:
            return Token(self._rng.randrange(30))
        if self._features.substrings and chance < 0.25:
            return Substring("".join(self._rng.choices(self._letters(), k=self._rng.randint(0, 6))))
        if self._features.terminals and chance < 0.5:
            return Terminal(self._regular(3))
        return self._simple()

    def _simple(self) -> Node:
        chance = self._rng.random()
        if chance < 0.7:
            return literal(self._rng.choice(self._plain(_WORDS)))
        if chance < 0.95:
            ranges = self._rng.choice(_CLASSES)
            if not self._features.non_ascii:
                ranges = [(low, min(high, "\x7f")) for low, high in ranges if low < "\x7f"] or [("a", "b")]
            return Chars.of((ord(low), ord(high)) for low, high in ranges)
        return ANY_CHAR if self._features.non_ascii else Bytes(b"a")

    def _regular(self, depth: int) -> Node:
        chance = self._rng.random()
        if self._features.shortest and chance < 0.2:
            return Shortest(self._regular(depth - 1) if depth else self._simple())
        if self._features.complements and chance < 0.25:
            missing = Complement(Sequence((ANY_TEXT, self._simple(), ANY_TEXT)))
            some = Repeat(ANY_CHAR, 1) if self._rng.random() < 0.5 or not depth else self._regular(depth - 1)
            return Intersection((some, missing))
        if self._features.multiples and chance < 0.3:
            step, places = self._rng.choice((1, 3, 7, 12, 25)), self._rng.choice((0, -1, 1, 2))
            numbers = Multiples(step, places, self._rng.choice((0, 0, 1, 2)))
            some = Repeat(Chars.of([(ord("1"), ord("4"))]), 1, self._rng.randint(1, 3))
            return numbers if self._rng.random() < 0.4 else Intersection((numbers, some))
        if depth == 0 or chance < 0.35:
            return self._simple()
        if chance < 0.6:
            return Sequence(tuple(self._regular(depth - 1) for _ in range(self._rng.randint(1, 3))))
        if chance < 0.8:
            return Choice(tuple(self._regular(depth - 1) for _ in range(self._rng.randint(1, 3))))
        return self._repeat(self._regular(depth - 1))

    def _letters(self) -> list[str]:
        return self._plain(_LETTERS)

    def _plain(self, texts: list[str]) -> list[str]:
        return texts if self._features.non_ascii else [text for text in texts if text.isascii()]


def _random_vocabulary(rng: random.Random, grammar: Grammar) -> Vocabulary:
    """Make a vocabulary of bytes, words, pieces that split characters, duplicates, empty tokens and holes."""
    letters = "".join(_LETTERS).encode()
    tokens: list[bytes | None] = [bytes([byte]) for byte in sorted(set(letters))]
    if rng.random() < 0.1:
        tokens = rng.sample(tokens, len(tokens) // 2)
    words = [word.encode() for word in _WORDS]
    words += [node.value for body in grammar.rules.values() for node in walk(body) if isinstance(node, Bytes)]
    for _ in range(rng.randint(5, 45)):
        text = b"".join(rng.choices(words, k=rng.randint(1, 4)))
        low = rng.randrange(len(text) + 1)
        tokens.append(text[low : rng.randint(low, len(text))])
    tokens += rng.choices(tokens, k=rng.randint(1, 4))
    tokens += [b"", None, b"\xff", b"\x00", b"a\xc3", b"\xa9b", b"\xf0\x9f", b"\x98\x80"]
    rng.shuffle(tokens)
    # The first end id is a hole, as is usual; the second one, if any, has bytes that never count as text.
    tokens.append(None)
    ends = [len(tokens) - 1]
    if rng.random() < 0.3:
        tokens.append(rng.choice(words))
        ends.append(len(tokens) - 1)
    return Vocabulary(tokens, ends)


def large_vocabulary(seed: int, words: int = 700) -> Vocabulary:
    """Make a vocabulary of over a thousand tokens in the letters of random grammars, mostly several terminals long."""
    rng = random.Random(seed)  # noqa: S311 (no secrets are made)
    tokens = [bytes(token) for length in range(1, 5) for token in itertools.product(b"ab,1", repeat=length)]
    letters = ["a", "b", "c", "1", ",", '"', "[", "]", "é", "😀", "一"]
    for _ in range(words):
        text = "".join(rng.choice(letters) for _ in range(rng.randint(1, 9))).encode()
        tokens.append(text[rng.randint(0, 2) :][: rng.randint(1, 12)])
    tokens += [b"a" * length for length in (9, 17, 33, 70)]
    return Vocabulary([*tokens, b"</s>"], [len(tokens)])
