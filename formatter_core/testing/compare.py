"""Two grammar engines side by side: the same random walks, every answer compared.

The first engine is the judge (the oracle), the second one is judged. Masks, `can_stop`, `forced_bytes` and acceptance
are compared at every step; steps are undone and states are forked in between, and what was seen before must be seen
again. Where a walk ends, the captures of a formatter on the judged engine are compared with those of the reference
parser.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from formatter_core.engine.protocol import EngineState, GrammarEngine, MaskStatus, mask_status
from formatter_core.errors import InvalidGrammar, LimitExceeded, UnsupportedByEngine
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import Grammar, Program, is_internal
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.parsing.captures import Captures, Mark, Match
from formatter_core.parsing.parts import Part, bytes_of
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.runtime.formatter import Formatter
from formatter_core.testing.agreed import Agreement
from formatter_core.testing.preferred import offsets_of, parse
from formatter_core.testing.random_grammars import ALL_FEATURES, Case, Features, random_case
from formatter_core.testing.traits import TRAITS, traits_of
from formatter_core.vocabulary import Vocabulary, parts_of

__all__ = ["Difference", "Report", "compare", "compare_case"]

_FORCED = 24


@dataclass(frozen=True)
class Difference:
    """One answer that the judged engine gave differently."""

    seed: int
    what: str
    expected: str
    found: str
    history: tuple[str, ...]
    grammar: Grammar

    def __str__(self) -> str:
        steps = ", ".join(self.history) or "nothing"
        return f"seed {self.seed}: {self.what} is {self.found}, not {self.expected}, after {steps}\n{self.grammar}"


@dataclass
class Report:
    """The counts of a comparison, and the differences that it found.

    Attributes:
        grammars: cases that both engines compiled, or both found to derive nothing.
        masks: masks compared.
        captures: captures compared, of texts that were complete or not.
        refusals: cases that the judged engine refused, by reason.
        traits: cases that have each of `traits.TRAITS`, or one of the last two ("cyclic or useless").
        differences: the first ones found; at most one of each case.
    """

    grammars: int = 0
    masks: int = 0
    captures: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    traits: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    @property
    def cases(self) -> int:
        """All cases, refused ones included."""
        return self.grammars + self.refusals.total()

    def share(self, trait: str) -> float:
        """Return the share of all cases that have a trait."""
        return self.traits[trait] / max(1, self.cases)

    def summary(self) -> str:
        """Summarize the comparison in a few lines for people."""
        traits = ", ".join(f"{self.share(trait):.0%} {trait}" for trait in (*TRAITS, "cyclic or useless"))
        refused = ", ".join(f"{count} × {reason}" for reason, count in self.refusals.most_common()) or "none"
        return (
            f"{self.cases} grammars ({traits}), {self.masks / max(1, self.grammars):.1f} masks each; "
            f"{self.captures} captures; refused: {self.refusals.total() / max(1, self.cases):.1%} ({refused}); "
            f"differences: {len(self.differences)}"
        )


def compare(
    judge: GrammarEngine,
    judged: GrammarEngine,
    seeds: Iterable[int],
    *,
    features: Features = ALL_FEATURES,
    limits: Limits = DEFAULT_LIMITS,
    walks: int = 2,
    length: int = 8,
    most_differences: int = 5,
    vocabulary: Vocabulary | None = None,
    on_case: Callable[[Case], None] | None = None,
) -> Report:
    """Compare two engines on the random case of every seed.

    Args:
        judge: the engine that is right by definition.
        judged: the engine to compare with it; it may refuse cases with `UnsupportedByEngine` or `LimitExceeded`.
        seeds: one case each; equal seeds and features give equal comparisons.
        features: kinds of nodes that may occur.
        limits: given to both engines.
        walks: random walks in each case.
        length: steps of a walk.
        most_differences: the comparison ends after this many.
        vocabulary: instead of each case's own.
        on_case: called before each case, for a process that may not survive it.
    """
    report = Report()
    for seed in seeds:
        case = random_case(seed, features)
        if vocabulary is not None:
            case = replace(case, vocabulary=vocabulary)
        if on_case is not None:
            on_case(case)
        try:
            traits = traits_of(case.grammar, seed)
        except LimitExceeded:
            traits = frozenset()
        report.traits.update(traits)
        report.traits["cyclic or useless"] += bool(traits & {"cyclic", "useless"})
        compare_case(judge, judged, case, report, limits=limits, walks=walks, length=length)
        if len(report.differences) >= most_differences:
            break
    return report


def compare_case(
    judge: GrammarEngine,
    judged: GrammarEngine,
    case: Case,
    report: Report,
    *,
    limits: Limits = DEFAULT_LIMITS,
    walks: int = 2,
    length: int = 8,
) -> None:
    """Compare two engines on one case, which may also be made by hand, and add what is found to `report`."""
    rng = random.Random(case.seed)  # noqa: S311 (no secrets are made)
    try:
        right = _compiled(judge, case, limits)
        left = _compiled(judged, case, limits)
        if (right is None) != (left is None):
            words = {True: "a grammar without any text", False: "a grammar with texts"}
            report.differences.append(
                Difference(case.seed, "the grammar", words[right is None], words[left is None], (), case.grammar)
            )
        elif right is not None and left is not None:
            for _ in range(walks):
                _Walk(case, rng, report, right.formatter(), left.formatter()).run(length)
    except UnsupportedByEngine as refusal:
        report.refusals[f"{refusal.node.partition('(')[0]}: {refusal.reason}"] += 1
        return
    except LimitExceeded as refusal:
        report.refusals[f"Limits.{refusal.limit}"] += 1
        return
    except _Differs as difference:
        report.differences.append(difference.difference)
    report.grammars += 1


def _compiled(engine: GrammarEngine, case: Case, limits: Limits) -> CompiledFormat | None:
    """Prepare the case's grammar; return None if it derives nothing."""
    try:
        grammar = engine.compile(case.grammar, case.vocabulary, limits)
    except InvalidGrammar:
        return None
    lowered = Lowered(case.grammar)
    lowering = _Lowering(_AsItIs(case.grammar), lowered, lowered, case.grammar.check(limits))
    return CompiledFormat(lowering, grammar, vocabulary=case.vocabulary, engine=engine.name, limits=limits)


class _Lowering(NamedTuple):
    """See `IsLowered`: these grammars may contain any tokens."""

    format: Format
    as_written: Lowered
    lowered: Lowered
    program: Program

    def grammars_made(self) -> tuple[Grammar, ...]:
        return self.lowered.grammar, self.as_written.grammar


@dataclass(frozen=True)
class _AsItIs:
    """The format of a grammar without a notation."""

    grammar: Grammar

    def to_grammar(self, limits: Limits) -> Lowered:
        return Lowered(self.grammar)

    def to_json(self) -> dict[str, Any]:
        return {}

    def key(self) -> Hashable:
        return id(self.grammar)


class _Differs(Exception):
    def __init__(self, difference: Difference) -> None:
        self.difference = difference


@dataclass(frozen=True)
class _Seen:
    """The answers at one point of a walk."""

    allowed: frozenset[int]
    can_stop: bool
    forced: bytes


class _Walk:
    """One random walk of both engines; every answer is compared."""

    def __init__(self, case: Case, rng: random.Random, report: Report, right: Formatter, left: Formatter) -> None:
        self._case = case
        self._vocabulary: Vocabulary = case.vocabulary
        self._rng = rng
        self._report = report
        self._formatter = left
        self._right: EngineState = right.compiled.engine_grammar.start()
        self._left: EngineState = left.compiled.engine_grammar.start()
        self._steps: list[int | bytes] = []
        self._history: list[str] = []
        self._row = np.zeros(self._vocabulary.words, dtype=np.int32)
        # What was seen before each step.
        self._seen: list[_Seen] = []

    def run(self, length: int) -> None:
        """Walk this many steps, or to where no token may follow."""
        now = self._look()
        while length > 0 and (now.allowed or self._seen):
            length -= 1
            chance = self._rng.random()
            if chance < 0.15 and self._seen:
                now = self._go_back()
            elif not now.allowed:
                break
            elif chance < 0.3:
                self._fork(now)
            elif chance < 0.4:
                now = self._accept_bytes(now)
            else:
                self._refuse(now)
                now = self._accept(now)
        self._compare_captures()
        while self._seen:
            self._go_back()

    def _compare_captures(self) -> None:
        """Compare captures of the judged engine's formatter, in the text so far and in its longest complete part."""
        complete = [place for place, seen in enumerate(self._seen) if seen.can_stop]
        for length in {len(self._steps), *complete[-1:]}:
            steps = self._steps[:length]
            parts = [step if isinstance(step, bytes) else parts_of(self._vocabulary, [step])[0] for step in steps]
            right, left = _expected_captures(self._case.grammar, parts), _captures(self._formatter, steps)
            self._report.captures += len(right or ())
            if None not in (right, left):
                self._expect(f"captures of the first {length} steps", right, left)

    def _accept(self, now: _Seen) -> _Seen:
        token_id = self._rng.choice(sorted(now.allowed))
        self._expect(f"accept_token({token_id})", True, self._right.accept_token(token_id))
        if len(self._history) % 2:
            self._expect(f"accept_token({token_id})", True, self._left.accept_token(token_id))
        else:
            status = self._left.step(token_id, self._row)
            self._expect(
                f"step({token_id})", MaskStatus.ACCEPTED | mask_status(self._row, self._right.can_stop()), status
            )
        self._done(now, f"{self._vocabulary.tokens[token_id]!r} ({token_id})", token_id)
        return self._look()

    def _refuse(self, now: _Seen) -> None:
        token_id = self._rng.randrange(len(self._vocabulary) + 1)
        if token_id not in now.allowed and token_id not in self._vocabulary.end_ids:
            self._expect(f"accept_token({token_id})", False, self._left.accept_token(token_id))
            before = self._row.copy()
            self._expect(f"step({token_id})", 0, self._left.step(token_id, self._row))
            self._expect(f"the row after step({token_id})", before.tolist(), self._row.tolist())
            self._look(now)

    def _accept_bytes(self, now: _Seen) -> _Seen:
        pieces = [token for token in self._vocabulary.tokens if token]
        data = now.forced
        if not data or self._rng.random() < 0.5:
            data = self._rng.choice(pieces)[: self._rng.randint(1, 3)]
        accepted = self._right.accept_bytes(data)
        self._expect(f"accept_bytes({data!r})", accepted, self._left.accept_bytes(data))
        if not accepted:
            return self._look(now)
        self._done(now, f"bytes {data!r}", data)
        return self._look()

    def _go_back(self) -> _Seen:
        steps = self._rng.randint(1, len(self._seen))
        before = self._seen[-steps]
        self._right.rollback(steps)
        self._left.rollback(steps)
        del self._seen[-steps:]
        del self._steps[-steps:]
        self._history.append(f"rollback({steps})")
        return self._look(before)

    def _fork(self, now: _Seen) -> None:
        """Go on with forks for one step; the states they were made of must not notice."""
        originals = self._right, self._left
        seen, steps = list(self._seen), list(self._steps)
        self._right, self._left = self._right.fork(), self._left.fork()
        self._history.append("fork")
        self._accept(now)
        if self._rng.random() < 0.5:
            self._go_back()
        self._history.append("back to before the fork")
        self._right, self._left = originals
        self._seen, self._steps = seen, steps
        self._look(now)

    def _done(self, now: _Seen, what: str, step: int | bytes) -> None:
        self._seen.append(now)
        self._steps.append(step)
        self._history.append(what)

    def _look(self, before: _Seen | None = None) -> _Seen:
        """Compare all answers here, also with those that were given here before."""
        right, left = self._answers(self._right), self._answers(self._left)
        self._report.masks += 1
        if before is not None:
            self._expect("the judge's own answer", before, right)
        if left.allowed != right.allowed:
            more, less = self._names(left.allowed - right.allowed), self._names(right.allowed - left.allowed)
            self._differ("the mask", "the judge's", f"one with {more} and without {less}")
        self._expect("can_stop()", right.can_stop, left.can_stop)
        self._expect("forced_bytes()", right.forced, left.forced)
        return right

    def _answers(self, state: EngineState) -> _Seen:
        # Old bits must not survive, so the row begins with all of them set.
        self._row.fill(-1)
        status = state.fill_bitmask(self._row)
        bits = np.unpackbits(self._row.view(np.uint8), bitorder="little")
        seen = _Seen(frozenset(np.flatnonzero(bits).tolist()), state.can_stop(), state.forced_bytes(_FORCED))
        self._expect("the status of the mask", mask_status(self._row, seen.can_stop), status)
        return seen

    def _names(self, ids: frozenset[int]) -> str:
        tokens = self._vocabulary.tokens
        shown = [f"{tokens[i]!r} ({i})" if i < len(tokens) else str(i) for i in sorted(ids)]
        return ", ".join(shown) or "nothing else"

    def _expect(self, what: str, expected: object, found: object) -> None:
        if expected != found:
            self._differ(what, repr(expected), repr(found))

    def _differ(self, what: str, expected: str, found: str) -> None:
        history = tuple(self._history)
        raise _Differs(Difference(self._case.seed, what, expected, found, history, self._case.grammar))


#: A capture: its name, and where it begins and ends.
_Span: TypeAlias = tuple[str, int, int]


def _expected_captures(grammar: Grammar, parts: Sequence[Part]) -> list[_Span] | None:
    """Return the captures of a complete text, or the certain captures of an incomplete one; None if unknown."""
    try:
        match = parse(grammar, parts)
        if match is not None:
            return [*_spans(match)]
        agreement = Agreement(grammar)
        if not agreement.append(parts):
            return None  # a token was meant by its id, though it has text
        offsets = offsets_of(parts)
        marks = [Mark(opens, name, offsets[column]) for opens, name, column in agreement.agreed()[0]]
        return [*_spans(Captures.of_marks(marks, bytes_of(parts)).match)]
    except LimitExceeded:
        return None


def _spans(match: Match) -> Iterator[_Span]:
    for child in match.children:
        if not is_internal(child.name):
            yield child.name, child.start, child.end
        yield from _spans(child)


def _captures(formatter: Formatter, steps: Iterable[int | bytes]) -> list[_Span] | None:
    """Return the captures that a formatter finds in a text."""
    formatter.reset()
    for step in steps:
        if isinstance(step, int):
            formatter.accept_token(step)
        else:
            formatter.accept_bytes(step)
    try:
        return [(each.name, each.start, each.end) for each in formatter.result("end").spans]
    except LimitExceeded:
        return None
