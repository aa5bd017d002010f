"""Draw random grammars whose lists need several values that differ; some bytes are no token by themselves."""

from __future__ import annotations

import random
from dataclasses import replace

from formatter_core.grammar import (
    EMPTY,
    Choice,
    Grammar,
    Member,
    Members,
    Node,
    Sequence,
    Terminal,
    Way,
    literal,
    map_children,
)
from formatter_core.testing.random_grammars import Case, random_case
from formatter_core.vocabulary import Vocabulary

__all__ = ["values_case"]

_VALUES = ["1", "1.0", "11", '"a"', '"\\u0061"', '"b"', "a", "ab"]
_RARE = [b",", b'"', b"a", b"b", b"1", b"0", b"."]


def values_case(seed: int) -> Case:
    """Return the random case of this seed, always with members, in lists that need values which differ."""
    case = random_case(seed, always=("members",))
    rng = random.Random(f"values {seed}")

    def changed(node: Node) -> Node:
        below = node if isinstance(node, Terminal) else map_children(node, changed)
        return _with_values(below, rng) if isinstance(below, Members) else below

    rules = {name: changed(body) for name, body in case.grammar.rules.items()}
    return replace(case, grammar=Grammar(rules, case.grammar.start), vocabulary=_without(case.vocabulary, rng))


def _with_values(node: Members, rng: random.Random) -> Members:
    members = list(node.members)
    if not any(member.distinct for member in members):
        values = Terminal(Choice(tuple(literal(text) for text in rng.sample(_VALUES, rng.randint(2, 5)))))
        rest: list[Node] = [EMPTY, literal("b")]
        item = Sequence((values, rng.choice(rest)))
        place = rng.randrange(len(members) + 1)
        members.insert(place, Member((Way(item),), required=False, repeated=True, distinct=True))
    members = [
        replace(member, required=True, absent=0) if not member.repeated and rng.random() < 0.5 else member
        for member in members
    ]
    minimum = node.minimum if node.maximum is not None else rng.choice([node.minimum, 2, 2, 3])
    return replace(node, members=tuple(members), minimum=minimum)


def _without(vocabulary: Vocabulary, rng: random.Random) -> Vocabulary:
    """Remove some tokens of one byte in half of the cases."""
    gone = rng.sample(_RARE, rng.randint(1, 3)) if rng.random() < 0.5 else []
    ends = vocabulary.end_ids
    tokens = [None if text in gone and token not in ends else text for token, text in enumerate(vocabulary.tokens)]
    return Vocabulary(tokens, ends)
