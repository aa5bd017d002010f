"""What is true of a grammar: measured, so that random grammars cannot flatter themselves."""

from __future__ import annotations

import random

from formatter_core.grammar import Capture, Choice, Grammar, Node, Reference, Repeat, Sequence, walk
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.parsing.preference import NOWHERE, Inside, Preference, resolve
from formatter_core.parsing.recognizer import Recognizer
from formatter_core.parsing.shape import Shape, shape_of
from formatter_core.parsing.spans import Spans

__all__ = ["TRAITS", "is_ambiguous", "random_text", "traits_of"]

#: recursive: a rule that the start reaches derives a text with itself in it. ambiguous: one of a few random texts has
#: several parses, those inside one terminal not counted. empty: a rule that the start reaches derives the empty text.
#: cyclic: a rule derives itself alone. useless: a rule that is not reached or derives nothing.
TRAITS = ("recursive", "ambiguous", "empty", "cyclic", "useless")

_TEXTS = 4
_TEXT_STEPS = 24


def traits_of(grammar: Grammar, seed: int = 0, limits: Limits = DEFAULT_LIMITS) -> frozenset[str]:
    """Which of `TRAITS` the grammar has. A text's parses are looked for in a few random texts only."""
    grammar = grammar.written_out
    recognizer = Recognizer(grammar, limits)
    symbols = recognizer.tables.rules
    uses = {
        name: {node.name for node in walk(grammar.rules[name]) if isinstance(node, Reference) and node.name in symbols}
        for name in symbols
    }
    reached = _reachable(uses, {grammar.start})
    traits = set()
    if any(name in _reachable(uses, uses[name]) for name in reached):
        traits.add("recursive")
    if any(symbols[name].nullable for name in reached):
        traits.add("empty")
    if shape_of(grammar, recognizer.tables).cyclic & reached:
        traits.add("cyclic")
    if grammar.rules.keys() - reached:
        traits.add("useless")
    rng = random.Random(seed)  # noqa: S311 (no secrets are made)
    for _ in range(_TEXTS):
        steps = random_text(recognizer, rng)
        if steps is not None and is_ambiguous(grammar, steps, limits):
            traits.add("ambiguous")
            break
    return frozenset(traits)


def random_text(recognizer: Recognizer, rng: random.Random) -> list[int] | None:
    """A random text as steps, where -1 - id is a token; None where no end came in time. Nothing is changed."""
    trial = recognizer.copy()
    steps: list[int] = []
    while not (trial.can_stop() and (len(steps) >= _TEXT_STEPS or rng.random() < 0.2)):
        following = trial.next_bytes() + [-1 - token_id for token_id in trial.next_tokens()]
        if not following or len(steps) > 2 * _TEXT_STEPS:
            break
        step = rng.choice(following)
        if step >= 0:
            trial.push(step)
        else:
            trial.push_token(-1 - step)
        steps.append(step)
    return steps if trial.can_stop() else None


def is_ambiguous(grammar: Grammar, steps: list[int], limits: Limits = DEFAULT_LIMITS) -> bool:
    """Whether a text of the language has several parses: whether the preferred one has an alternative anywhere."""
    recognizer = Recognizer(grammar, limits)
    for step in steps:
        if step >= 0:
            recognizer.push(step)
        else:
            recognizer.push_token(-1 - step)
    shape = shape_of(grammar, recognizer.tables)
    spans = Spans(shape, recognizer, steps, limits)
    preference = Preference(spans, steps, limits)
    start = grammar.start
    stack: list[tuple[Node, int, int, Inside]] = [
        (shape.body(start), 0, len(steps), preference.entered(start, NOWHERE))
    ]
    while stack:
        node, low, high, inside = stack.pop()
        if _has_alternative(spans, node, low, high):
            return True
        stack.extend(_below(shape, preference, node, low, high, inside))
    return False


def _has_alternative(spans: Spans, node: Node, low: int, high: int) -> bool:
    if isinstance(node, Choice):
        return sum(spans.matches(item, low, high) for item in node.items) > 1
    if isinstance(node, Sequence):
        return any(len(places) > 1 for places in spans.cuts(node, low, high))
    if isinstance(node, Repeat):
        return any(len(ends) > 1 for ends in spans.rounds(node, low, high).values())
    return False


def _below(
    shape: Shape, preference: Preference, node: Node, low: int, high: int, inside: Inside
) -> list[tuple[Node, int, int, Inside]]:
    """The parts of the preferred parse of a node."""
    if isinstance(node, Capture):
        return [(node.item, low, high, inside)]
    if isinstance(node, Reference):
        return [(shape.body(node.name), low, high, preference.entered(node.name, inside))]
    if isinstance(node, Choice):
        index: int = resolve(preference.choice(node, low, high, inside))
        return [(node.items[index], low, high, inside)]
    if isinstance(node, (Sequence, Repeat)):
        path: list[int] = resolve(preference.path(node, low, high, inside))
        items = node.items if isinstance(node, Sequence) else (node.item,) * (len(path) - 1)
        cuts = zip(items, path, path[1:], strict=False)
        return [(item, a, b, inside if (a, b) == (low, high) else NOWHERE) for item, a, b in cuts]
    return []


def _reachable(uses: dict[str, set[str]], names: set[str]) -> set[str]:
    found = set(names)
    stack = list(names)
    while stack:
        for name in uses[stack.pop()] - found:
            found.add(name)
            stack.append(name)
    return found
