"""Check token budgets by brute force: masks must allow only tokens after which some completion fits, and always one.

Completions are looked for by trying tokens one after the other in the oracle, which knows no budgets; whether a whole
text keeps those of its regions is for the `RegionJudge` to say. In some cases tokens of text are end ids, so that no
completion has them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from formatter_core.engine.protocol import EngineState, GrammarEngine, MaskStatus
from formatter_core.engine.rows import allowed_ids
from formatter_core.errors import BudgetTooSmall, InvalidGrammar, LimitExceeded
from formatter_core.limits import DEFAULT_LIMITS
from formatter_core.testing.oracle import OracleEngine, OracleState
from formatter_core.testing.random_grammars import Case, random_case
from scripts.lists_of_values import values_case
from scripts.regions import RegionJudge, with_regions

__all__ = ["BudgetReport", "compare_budgets"]

#: Completions of more tokens are not looked for.
_DEEPEST = 5
_MORE_THAN_NEEDED = 4
#: A search that finds nothing after this many trials counts as undecided.
_MOST_TRIALS = 3000
_MOST_TRIALS_WITH_REGIONS = 100  # each of which may be a text to judge
#: Judging a text takes time that grows fast with its length.
_LONGEST_WALK = 8
_LONGEST_TEXT = 24
_WITH_OWN_END_IDS = 0.3
_MOST_OWN_END_IDS = 3
#: Times that budgets are raised which are too small for any text.
_MOST_TRIES = 4


@dataclass
class BudgetReport:
    """Count what was compared.

    Attributes:
        grammars: cases with a completion that the vocabulary can spell.
        unknown: cases for which the engine knew no completion, but a short one exists.
        refused: cases with a region that has no text within its budget.
        completed: walks without a budget for the whole text, whose regions' budgets the judge confirmed.
        masks: masks under a budget, and `narrowed` of them that it narrowed.
        exact: beginnings for which a completion of the fewest tokens was found.
        excess: by how many tokens the engine's number was above these: how often each
        differences: one line for each case in which something was wrong.
    """

    grammars: int = 0
    unknown: int = 0
    refused: int = 0
    completed: int = 0
    masks: int = 0
    narrowed: int = 0
    exact: int = 0
    excess: dict[int, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """Write a line for people."""
        excess = ", ".join(f"{count} × {tokens}" for tokens, count in sorted(self.excess.items()))
        return (
            f"budgets: {self.grammars} grammars, {self.masks} masks, {self.narrowed} of them narrowed; "
            f"tokens above the fewest: {excess or 'none compared'}; not known: {self.unknown}; "
            f"regions: {self.completed} walks, {self.refused} grammars refused; "
            f"differences: {len(self.differences)}"
        )


def compare_budgets(
    engine: GrammarEngine,
    seeds: Iterable[int],
    *,
    regions: bool = False,
    values: bool = False,
    walks: int = 2,
    most_differences: int = 5,
) -> BudgetReport:
    """Walk at random under budgets, from what the engine says is needed to a few tokens more, for each seed's case.

    With `regions` parts of the grammars have budgets of their own, and there are walks without another one. With
    `values` lists need values that differ.
    """
    report = BudgetReport()
    for seed in seeds:
        case = values_case(seed) if values else random_case(seed)
        try:
            comparison = _with_roomy_regions(case, engine, report) if regions else _Comparison(case, engine, report)
            comparison.run(walks)
            if regions:
                comparison.run_freely(walks)
        except BudgetTooSmall:
            report.refused += 1
            continue
        except (InvalidGrammar, LimitExceeded):
            continue
        except _Wrong as wrong:
            report.differences.append(f"seed {seed}: {wrong}\n{case.grammar}")
            if len(report.differences) >= most_differences:
                break
    return report


def _with_roomy_regions(case: Case, engine: GrammarEngine, report: BudgetReport) -> _Comparison:
    """Make a comparison of the case with regions, with larger budgets if some are too small for any text."""
    budgets = range(1, 4)
    for _ in range(_MOST_TRIES):
        try:
            return _Comparison(with_regions(case, budgets), engine, report)
        except BudgetTooSmall as error:
            budgets = range(max(error.needed or 0, budgets.start + 1), max(error.needed or 0, budgets.start + 1) + 3)
    return _Comparison(with_regions(case, budgets), engine, report)


class _Wrong(Exception):
    pass


class _Comparison:
    def __init__(self, case: Case, engine: GrammarEngine, report: BudgetReport) -> None:
        self._case = case
        self._rng = random.Random(case.seed)
        self._report = report
        self._judge = OracleEngine().compile(case.grammar, case.vocabulary, DEFAULT_LIMITS)
        self._judged = engine.compile(case.grammar, case.vocabulary, DEFAULT_LIMITS)
        self._row = np.zeros(case.vocabulary.words, dtype=np.int32)
        self._fewest: dict[tuple[tuple[int, ...], int], bool] = {}
        self._end_ids: list[int] = []
        if self._rng.random() < _WITH_OWN_END_IDS:
            texts = [token for token in range(len(case.vocabulary)) if case.vocabulary.text_token(token)]
            self._end_ids = self._rng.sample(texts, min(len(texts), self._rng.randint(1, _MOST_OWN_END_IDS)))
        self._regions = RegionJudge(case)
        self._has_regions = bool(case.grammar.check(DEFAULT_LIMITS).regions)
        self._most_trials = _MOST_TRIALS_WITH_REGIONS if self._has_regions else _MOST_TRIALS

    def run_freely(self, walks: int) -> None:
        """Walks without a budget for the whole text, which then end as soon as the engine can."""
        for _ in range(walks):
            state = self._judged.start()
            steps: list[int] = []
            for _ in range(self._rng.randint(0, _LONGEST_WALK)):
                allowed = self._mask(state)
                if not allowed:
                    break
                steps.append(self._rng.choice(allowed))
                if not state.accept_token(steps[-1]):
                    raise _Wrong(f"after {steps[:-1]} token {steps[-1]} is in the mask, but not accepted")
            needed = state.set_budget(0, ())
            if needed is None or needed > _LONGEST_TEXT:
                continue
            state.set_budget(needed, ())
            while not state.can_stop():
                allowed = self._mask(state)
                if not allowed or len(steps) >= needed:
                    raise _Wrong(f"after {steps} no token leads to an end within {needed}")
                steps.append(self._rng.choice(allowed))
                if not state.accept_token(steps[-1]):
                    raise _Wrong(f"after {steps[:-1]} token {steps[-1]} is in the mask, but not accepted")
            if not self._is_complete(tuple(steps)):
                raise _Wrong(f"{steps} do not keep the budgets of regions")
            self._report.completed += 1

    def _is_complete(self, steps: tuple[int, ...]) -> bool:
        """Tell whether tokens that spell a complete text keep the budgets of its regions."""
        return not self._has_regions or self._regions.accepts(steps)

    def run(self, walks: int) -> None:
        needed = self._judged.start().set_budget(0, self._end_ids)
        start = self._judge.start()
        fewest = self._completed(start, (), _DEEPEST)
        if needed is None:
            self._report.unknown += fewest is not None
            return
        self._report.grammars += 1
        if fewest is not None:
            self._report.exact += 1
            excess = needed - fewest
            if excess < 0:
                raise _Wrong(f"{needed} tokens are not enough; {fewest} are needed")
            self._report.excess[excess] = self._report.excess.get(excess, 0) + 1
        if self._judged.start().set_budget(needed - 1, self._end_ids) != needed:
            raise _Wrong("the number of tokens needed depends on the budget")
        for _ in range(walks):
            self._walk(needed + self._rng.randint(0, _MORE_THAN_NEEDED))

    def _walk(self, budget: int) -> None:
        judge, judged = self._judge.start(), self._judged.start()
        judged.set_budget(budget, self._end_ids)
        steps: list[int] = []
        masks: list[list[int]] = []
        while True:
            left = budget - len(steps)
            allowed = self._mask(judged)
            self._check(judge, judged, tuple(steps), left, allowed)
            chance = self._rng.random()
            if chance < 0.15 and steps:
                back = self._rng.randint(1, len(steps))
                for state in (judge, judged):
                    state.rollback(back)
                del steps[-back:]
                allowed = self._mask(judged)
                if allowed != masks[len(steps)]:
                    raise _Wrong(f"after {steps} and a rollback the mask is {allowed}, it was {masks[len(steps)]}")
                del masks[len(steps) :]
                continue
            if chance < 0.3:
                judged = judged.fork()
            texts = self._without_end_ids(allowed)
            if not texts or (judged.can_stop() and self._rng.random() < 0.2):
                return
            masks.append(allowed)
            token = self._rng.choice(texts)
            taken = judged.accept_token(token) if chance < 0.6 else judged.step(token, self._row) != 0
            if not taken or not judge.accept_token(token):
                raise _Wrong(f"after {steps} token {token} is in the mask, but not accepted")
            steps.append(token)

    def _without_end_ids(self, tokens: list[int]) -> list[int]:
        return [token for token in tokens if token not in self._end_ids]

    def _mask(self, state: EngineState) -> list[int]:
        self._status = state.fill_bitmask(self._row)
        return allowed_ids(self._row)

    def _check(
        self, judge: OracleState, judged: EngineState, steps: tuple[int, ...], left: int, allowed: list[int]
    ) -> None:
        """Check a mask with `left` tokens left."""
        where = f"with {left} tokens left after {list(steps)}"
        self._report.masks += 1
        ordinary = self._ordinary(judge)
        is_narrowed = bool(self._status & MaskStatus.SHORTENED)
        self._report.narrowed += is_narrowed
        if left < 1 or not (self._without_end_ids(allowed) or judged.can_stop()):
            raise _Wrong(f"{where} nothing may follow")
        if judged.can_stop() and not (judge.can_stop() and self._is_complete(steps)):
            raise _Wrong(f"{where} the text may not end, but the engine says so")
        is_right = is_narrowed == (allowed != ordinary) or (self._has_regions and not is_narrowed)
        if not set(allowed) <= set(ordinary) or not is_right:
            raise _Wrong(f"{where} the mask is {allowed}, of {ordinary}, and narrowed is {is_narrowed}")
        for token in allowed:
            if left - 1 > _DEEPEST:
                continue
            judge.accept_token(token)
            self._trials = 0
            fits = self._completes(judge, (*steps, token), left - 1)
            judge.rollback(1)
            if not fits and self._trials < self._most_trials:
                raise _Wrong(f"{where} token {token} leaves no completion")
        for token in set(ordinary) - set(allowed):
            if judged.accept_token(token):
                raise _Wrong(f"{where} token {token} is not in the mask, but accepted")

    def _ordinary(self, judge: OracleState) -> list[int]:
        row = np.zeros_like(self._row)
        judge.fill_bitmask(row)
        return allowed_ids(row)

    def _completed(self, judge: OracleState, steps: tuple[int, ...], most: int) -> int | None:
        """Find the fewest tokens, up to `most`, that complete what the judge has accepted, including the end id."""
        self._trials = 0
        for count in range(1, most + 1):
            if self._completes(judge, steps, count):
                return count
            if self._trials >= self._most_trials:
                break
        return None

    def _completes(self, judge: OracleState, steps: tuple[int, ...], most: int) -> bool:
        """Tell whether some completion has at most `most` tokens, including the end id."""
        if judge.can_stop() and self._is_complete(steps):
            return True
        if most < 2:
            return False
        known = self._fewest.get((steps, most))
        if known is None:
            known = False
            self._trials += 1
            if self._trials >= self._most_trials:
                return False
            for token in self._without_end_ids(self._ordinary(judge)):
                judge.accept_token(token)
                known = self._completes(judge, (*steps, token), most - 1)
                judge.rollback(1)
                if known:
                    break
            if known or self._trials < self._most_trials:
                self._fewest[steps, most] = known
        return known
