"""Compare the native parser with the reference parser on random texts of random grammars.

`compare_random.py parsers` does so for many grammars.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from formatter_core.engine.native_parser import Following, NativeParser
from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Grammar, Members, walk
from formatter_core.limits import DEFAULT_LIMITS
from formatter_core.parsing.captures import Mark, Match
from formatter_core.parsing.expectation import what_follows
from formatter_core.parsing.parts import Part
from formatter_core.testing.agreed import Agreement
from formatter_core.testing.automaton import Automaton
from formatter_core.testing.preferred import offsets_of, parse
from formatter_core.testing.random_grammars import random_case
from formatter_core.testing.recognizer import Recognizer
from formatter_core.testing.traits import random_text, traits_of

_TEXTS = 4
#: Bytes of a text that must come that are shown.
_LITERAL_SHOWN = 40
#: The share of texts that are cut somewhere, so that most of these are not in the language.
_CUT = 0.1
#: The chance that steps are undone while a text is followed, and the most steps of one text that are.
_UNDONE_SHARE, _UNDONE = 0.15, 12


@dataclass
class ParseReport:
    """Count what was compared; `differences` describes each text on which the parsers differ."""

    grammars: int = 0
    texts: int = 0
    with_captures: int = 0
    ambiguous: int = 0
    cyclic: int = 0
    with_members: int = 0
    refused: int = 0
    news: int = 0
    expectations: int = 0
    lengths: int = 0
    with_marks: int = 0
    differences: list[str] = field(default_factory=list)


def compare_parses(seeds: Iterable[int], always: Collection[str] = ()) -> ParseReport:
    """Parse a few random texts of the random grammar of each seed in both ways; see `random_case` for `always`."""
    report = ParseReport()
    for seed in seeds:
        grammar = random_case(seed, always=always).grammar
        rng = random.Random(seed)
        traits = traits_of(grammar)
        report.grammars += 1
        report.ambiguous += "ambiguous" in traits
        report.cyclic += "cyclic" in traits
        lists = [node for body in grammar.rules.values() for node in walk(body) if isinstance(node, Members)]
        report.with_members += bool(lists)
        has_distinct = any(member.distinct for one in lists for member in one.members)
        native = NativeParser(grammar, DEFAULT_LIMITS)
        recognizer = Recognizer(grammar)
        for _ in range(_TEXTS):
            text = random_text(recognizer, rng)
            if text is not None:
                parts = text[: rng.randrange(len(text))] if text and rng.random() < _CUT else text
                case = _Case(grammar, native, parts, rng, f"seed {seed}", report)
                _compare(case)
                if not has_distinct:  # the native parser names what such values share, the reference each value
                    _compare_readings(case)
                    _compare_lengths(case)
                _compare_news(case, may_be_late=has_distinct)
    return report


class _Case(NamedTuple):
    """Hold a text of a random grammar that both parsers read."""

    grammar: Grammar
    native: NativeParser
    parts: list[Part]
    rng: random.Random
    place: str
    report: ParseReport

    def differs(self, text: Sequence[Part], how: str) -> None:
        """Note that the parsers differ on a text."""
        self.report.differences.append(f"{self.place}, {text!r}: {how}")


def _compare(case: _Case) -> None:
    report = case.report
    report.texts += 1
    ours, right = _answer(lambda: _match(case)), _answer(lambda: parse(case.grammar, case.parts))
    if "refused" in (ours, right):
        report.refused += 1
    elif ours != right:
        case.differs(case.parts, f"native {ours}, reference {right}")
    elif isinstance(ours, Match):
        report.with_captures += bool(ours.children)


def _compare_readings(case: _Case) -> None:
    """Compare what may come next in a text and at its end, and the captures of a text that is read in two portions.

    The place in the grammar is not compared, because there may be several.
    """
    ours, right = case.native.reading(), Recognizer(case.grammar)
    at = case.rng.randint(0, len(case.parts))
    try:
        for portion in (case.parts[:at], case.parts[at:]):
            if not (ours.append(portion) and right.append(portion)):
                return
            case.report.expectations += 1
            one, other = {expected.what for expected in ours.expected()}, _expected(right)
            if (one, ours.can_stop()) != (other, right.can_stop()):
                case.differs(case.parts, f"up to {ours.length}, native expects {one}, reference {other}")
    except LimitExceeded:
        case.report.refused += 1
        return
    if ours.can_stop() and ours.captures().match != _match(case):
        case.differs(case.parts, f"other captures where it is read up to {at} before the rest")


def _expected(recognizer: Recognizer) -> set[str]:
    """Say in words what may come next."""
    found = {f"the token {token_id}" for token_id in recognizer.next_tokens()}
    for call, state in recognizer.columns[-1].running:
        found.update(what_follows(*_ahead(recognizer.rules.automaton(call.node), state)))
    return found | ({"the end"} if recognizer.can_stop() else set())


def _ahead(automaton: Automaton, state: int) -> tuple[bytes, set[int]]:
    """Return the text that must come in a terminal, up to where it may end, and the bytes that may come first."""
    transitions = automaton.transitions(state)
    first = {byte for ranges, _ in transitions for low, high in ranges for byte in range(low, high + 1)}
    forced = bytearray()
    while len(forced) < _LITERAL_SHOWN and len(transitions) == 1:
        ranges, target = transitions[0]
        if len(ranges) != 1 or ranges[0][0] != ranges[0][1]:
            break
        forced.append(ranges[0][0])
        if automaton.accepting(target):
            break
        transitions = automaton.transitions(target)
    return bytes(forced), first


def _compare_lengths(case: _Case) -> None:
    """Compare where a text with a wrong byte in it is refused."""
    at = case.rng.randint(0, len(case.parts))
    wrong = [*case.parts[:at], bytes([case.rng.randrange(256)]), *case.parts[at:]]
    readers = case.native.reading(), Recognizer(case.grammar)
    try:
        ours, right = ((reader.append(wrong), reader.length) for reader in readers)
    except LimitExceeded:
        case.report.refused += 1
        return
    case.report.lengths += 1
    if ours != right:
        case.differs(wrong, f"native reads {ours}, reference {right}")


def _compare_news(case: _Case, *, may_be_late: bool) -> None:
    """Compare what is agreed after each step, some of which are undone and done again.

    Args:
        case: the text.
        may_be_late: the native parser may be later, see docs/decisions/distinct-values.md.
    """
    parts, rng, report = case.parts, case.rng, case.report
    ours, right = Following(case.native), Agreement(case.grammar)
    offsets = offsets_of(parts)
    agreed: list[Mark] = []
    done, undone = 0, 0
    try:
        while done < len(parts):
            if done and undone < _UNDONE and rng.random() < _UNDONE_SHARE:
                steps = rng.randint(1, min(done, 3))
                done, undone = done - steps, undone + steps
                ours.pop(steps)
                right.pop(steps)
            else:
                part = parts[done]
                done += 1
                ours.push_token(part) if isinstance(part, int) else ours.push(part)
                right.append([part])
            kept, new, agreed_to = ours.news()
            agreed[kept:] = new
            found, column = right.agreed()
            marks = [Mark(opens, name, offsets[at]) for opens, name, at in found]
            report.news += 1
            report.with_marks += bool(marks)
            is_late = agreed == marks[: len(agreed)] and agreed_to <= offsets[column]
            if (agreed, agreed_to) != (marks, offsets[column]) and not (may_be_late and is_late):
                case.differs(parts[:done], f"native {agreed, agreed_to}, reference {marks, offsets[column]}")
                break
    except LimitExceeded:
        report.refused += 1


def _match(case: _Case) -> Match | None:
    found = case.native.captures(case.parts)
    return None if found is None else found.match


def _answer(parsed: Callable[[], Match | None]) -> Match | str | None:
    try:
        return parsed()
    except LimitExceeded:
        return "refused"
