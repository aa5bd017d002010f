"""The native parser beside the plain Python one, on random texts of random grammars."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from formatter_core.engine.native_parser import NativeParser
from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Grammar
from formatter_core.limits import DEFAULT_LIMITS
from formatter_core.parsing import Recognizer, parse
from formatter_core.parsing.match import Match
from formatter_core.testing.random_grammars import random_case
from formatter_core.testing.traits import random_text, traits_of

__all__ = ["ParseReport", "compare_parses"]

_TEXTS = 4
#: How many of the texts are cut somewhere, so that they are mostly not in the language.
_CUT = 0.1


@dataclass
class ParseReport:
    """What was compared; `differences` describes each text that was parsed in two ways."""

    grammars: int = 0
    texts: int = 0
    with_captures: int = 0
    ambiguous: int = 0
    cyclic: int = 0
    refused: int = 0
    differences: list[str] = field(default_factory=list)


def compare_parses(seeds: Iterable[int]) -> ParseReport:
    """Parse a few random texts of the random grammar of each seed in both ways."""
    report = ParseReport()
    for seed in seeds:
        grammar = random_case(seed).grammar
        rng = random.Random(seed)  # noqa: S311 (no secrets are made)
        traits = traits_of(grammar)
        report.grammars += 1
        report.ambiguous += "ambiguous" in traits
        report.cyclic += "cyclic" in traits
        native = NativeParser(grammar, DEFAULT_LIMITS)
        recognizer = Recognizer(grammar)
        for _ in range(_TEXTS):
            steps = random_text(recognizer, rng)
            if steps is not None:
                _compare(grammar, native, _parts(steps, rng), f"seed {seed}", report)
    return report


def _parts(steps: list[int], rng: random.Random) -> list[bytes | int]:
    kept = steps[: rng.randrange(len(steps))] if steps and rng.random() < _CUT else steps
    return [bytes([step]) if step >= 0 else -1 - step for step in kept]


def _compare(
    grammar: Grammar, native: NativeParser, parts: Sequence[bytes | int], place: str, report: ParseReport
) -> None:
    report.texts += 1
    ours, theirs = _answer(lambda: native.parse(parts)), _answer(lambda: parse(grammar, parts))
    if "refused" in (ours, theirs):
        report.refused += 1
    elif ours != theirs:
        report.differences.append(f"{place}, {parts!r}: native {ours}, Python {theirs}")
    elif isinstance(ours, Match):
        report.with_captures += bool(ours.children)


def _answer(parsed: Callable[[], Match | None]) -> Match | str | None:
    try:
        return parsed()
    except LimitExceeded:
        return "refused"
