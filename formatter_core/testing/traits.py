"""Measured properties of grammars, which show that random grammars cover the hard cases."""

from __future__ import annotations

import random

from formatter_core.grammar import Grammar, Reference, nullable, rules_where, walk
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.parsing.parts import Part
from formatter_core.testing.preferred import cyclic_rules, is_ambiguous, reachable
from formatter_core.testing.recognizer import Recognizer

__all__ = ["TRAITS", "random_text", "traits_of"]

#: recursive: a rule that the start reaches derives a text with itself in it. ambiguous: one of a few random texts has
#: several parses, those inside one terminal not counted. empty: a rule that the start reaches derives the empty text.
#: cyclic: a rule derives itself alone. useless: a rule that is not reached or derives nothing.
TRAITS = ("recursive", "ambiguous", "empty", "cyclic", "useless")

_TEXTS = 4
_TEXT_STEPS = 24


def traits_of(grammar: Grammar, seed: int = 0, limits: Limits = DEFAULT_LIMITS) -> frozenset[str]:
    """Return the `TRAITS` that the grammar has. Ambiguity is looked for in a few random texts only."""
    recognizer = Recognizer(grammar, limits)
    rules = recognizer.rules
    uses = {
        name: {part.name for part in walk(rules.bodies[name]) if isinstance(part, Reference)} & rules.productive
        for name in rules.productive
    }
    reached = reachable(uses, {grammar.start})
    traits = set()
    if any(name in reachable(uses, uses[name]) for name in reached):
        traits.add("recursive")
    if rules_where(rules.bodies, nullable) & reached:
        traits.add("empty")
    if cyclic_rules(rules) & reached:
        traits.add("cyclic")
    if rules.bodies.keys() - reached:
        traits.add("useless")
    rng = random.Random(seed)  # noqa: S311 (no secrets are made)
    for _ in range(_TEXTS):
        text = random_text(recognizer, rng)
        if text is not None and is_ambiguous(grammar, text, limits):
            traits.add("ambiguous")
            break
    return frozenset(traits)


def random_text(recognizer: Recognizer, rng: random.Random) -> list[Part] | None:
    """Draw a random text, step by step; return None if no end came in time. Nothing is changed."""
    trial = recognizer.copy()
    text: list[Part] = []
    while not (trial.can_stop() and (len(text) >= _TEXT_STEPS or rng.random() < 0.2)):
        following: list[Part] = [bytes([byte]) for byte in trial.next_bytes()]
        following += trial.next_tokens()
        if not following or len(text) > 2 * _TEXT_STEPS:
            break
        text.append(rng.choice(following))
        trial.append(text[-1:])
    return text if trial.can_stop() else None
