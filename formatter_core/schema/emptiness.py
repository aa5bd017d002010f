"""Cheap, bounded checks of the normal form: which goals and alternatives are certainly empty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace

from formatter_core.errors import LimitExceeded
from formatter_core.limits import Limits
from formatter_core.limits.turns import give_way
from formatter_core.schema.complement import value_part
from formatter_core.schema.goals import Goals
from formatter_core.schema.load import FALSE, TRUE, Loader
from formatter_core.schema.numbers import ANY_INTEGER, ANY_NUMBER, NumberSet, decide_no_number
from formatter_core.schema.shapes import (
    Absent,
    ArraySet,
    Condition,
    Goal,
    HasValue,
    ObjectPart,
    ObjectSet,
    Shape,
    SomeKey,
    largest,
    meet_objects,
)
from formatter_core.schema.strings import ANY_STRING, StringSet, Test, count_texts, decide_no_string, matches

__all__ = ["Emptiness", "InProgressError"]

#: Maximum alternatives that we compare with each other.
_MOST_COMPARED = 400
#: From more conditions that each say one thing we make one part of an object, not one each.
_MANY_CONDITIONS = 8
#: What one pair of alternatives costs in elementary steps.
_PAIR = 50
#: Elementary steps to check a clause of a condition, a part of an object, and a pattern of a part.
_CLAUSE = 40
_PART = 6
_PATTERN = 20
#: Steps of an automaton that take as long as one elementary step.
_AUTOMATON_STEP = 4
#: Maximum levels of items and properties that we search for a contradiction.
_LOOK_DEPTH = 4


class InProgressError(Exception):
    """The search for a contradiction reached a schema that is still being computed."""


class Emptiness(ABC):
    """Answers questions about emptiness, and counts the work; `Normalizer` says what goals and literals mean."""

    def __init__(self, loader: Loader, limits: Limits) -> None:
        self._loader = loader
        self._limits = limits
        goals = Goals(loader)
        self.conjoin = goals.conjoin
        self.same_schema = goals.same_schema
        self._tracked = False
        self._looking = 0
        self._work = 0
        self._decided: dict[NumberSet | StringSet, bool] = {}
        self._empty: set[Goal] = set()
        self._looked: dict[Goal, int] = {}

    @abstractmethod
    def goal(self, goal: Goal) -> Shape:
        """The values that satisfy every literal of a goal."""

    @abstractmethod
    def literal(self, literal: int) -> Shape:
        """The values that satisfy a literal."""

    def property_goal(self, parts: Iterable[ObjectPart], name: str) -> Goal:
        """What the value of a property must satisfy; `(FALSE,)` if the property must be absent."""
        literals: list[int] = []
        steps = 0
        for part in parts:
            steps += _PART + _PATTERN * (len(part.patterns) + (part.names != TRUE))
            covered = name in part.named
            if covered:
                literals.append(part.named[name])
            for pattern, literal in part.patterns:
                if matches(Test("pattern", pattern), name):
                    covered = True
                    literals.append(literal)
            if not covered:
                literals.append(part.rest)
            if part.names != TRUE and not any(name in strings for strings in self.literal(part.names).strings):
                return (FALSE,)
        self._spend_steps(steps)
        return self.conjoin(literals)

    def is_empty(self, goal: Goal, depth: int = _LOOK_DEPTH) -> bool:
        """Whether a cheap check proves that nothing satisfies a goal."""
        if not goal or depth == 0:
            return False
        if goal == (FALSE,):
            return True
        if goal not in self._empty and self._looked.get(goal, 0) < depth:
            self._looked[goal] = depth
            self._looking += 1
            try:
                if self.is_empty_shape(self.goal(goal), depth):
                    self._empty.add(goal)
            except InProgressError:
                return False
            finally:
                self._looking -= 1
        return goal in self._empty

    def is_empty_shape(self, shape: Shape, depth: int = _LOOK_DEPTH) -> bool:
        """The same question of a shape."""
        if shape.null or shape.booleans:
            return False
        return (
            all(map(self.has_no_number, shape.numbers))
            and all(map(self.has_no_string, shape.strings))
            and all(self.is_empty_array(arrays, depth) for arrays in shape.arrays)
            and all(self.simplified(objects, depth) is None for objects in shape.objects)
        )

    def has_no_number(self, numbers: NumberSet) -> bool:
        """Whether a set of numbers is known to be empty."""
        if numbers is ANY_NUMBER or numbers is ANY_INTEGER:
            return False
        if numbers not in self._decided:
            self._decided[numbers], steps = decide_no_number(numbers)
            self._spend_steps(_AUTOMATON_STEP * steps)
        return self._decided[numbers]

    def has_no_string(self, strings: StringSet) -> bool:
        """Whether a set of strings is known to be empty."""
        if strings is ANY_STRING:
            return False
        found = self._decided.get(strings)
        if found is None:
            found, steps = decide_no_string(strings)
            self._decided[strings] = found
            self._spend_steps(_AUTOMATON_STEP * steps)
        return found

    def count_texts(self, strings: StringSet, most: int) -> int:
        """How many texts are in a set, at most `most`."""
        count, steps = count_texts(strings, most)
        self._spend_steps(_AUTOMATON_STEP * steps)
        return count

    def is_empty_array(self, arrays: ArraySet, depth: int = _LOOK_DEPTH) -> bool:
        """The same question of a set of arrays."""
        longest = max((len(part.prefix) for part in arrays.parts), default=0)
        count = min(arrays.minimum, longest + 1)
        self._spend_steps(_PART * (len(arrays.parts) * (1 + count) + len(arrays.contains)))
        for index in range(count):
            if self.is_empty(self.conjoin(part.literal_at(index) for part in arrays.parts), depth - 1):
                return True
        return False

    def simplified(self, objects: ObjectSet, depth: int = _LOOK_DEPTH) -> ObjectSet | None:
        """The same objects without constraints that always hold; None if there are none."""
        goals = [self.property_goal(objects.parts, name) for name in objects.required]
        if (FALSE,) in goals:
            return None
        # Listed values decide most often, and cost least.
        goals.sort(key=lambda goal: not any(self._is_listed(literal) for literal in goal))
        if any(self.is_empty(goal, depth - 1) for goal in goals):
            return None
        return self._with_simple_conditions(objects, depth) if objects.conditions else objects

    def _with_simple_conditions(self, objects: ObjectSet, depth: int) -> ObjectSet | None:
        self._spend_steps(_CLAUSE * sum(map(len, objects.conditions)))
        conditions: list[Condition] = []
        for condition in objects.conditions:
            open_clauses: list[Absent | HasValue | SomeKey] = []
            for clause in condition:
                holds = self._holds(objects, clause, depth)
                if holds:
                    break
                if holds is None:
                    open_clauses.append(clause)
            else:
                if not open_clauses:
                    return None
                conditions.append(tuple(open_clauses))
        soles = {each[0]: None for each in conditions if len(each) == 1 and not isinstance(each[0], SomeKey)}
        others = (each for each in conditions if each[0] not in soles or len(each) > 1)
        plain = replace(objects, conditions=tuple(dict.fromkeys(others)))
        if not soles:
            return plain
        # A condition with one way to be met is a plain constraint, and may decide others.
        told = [(each.name, FALSE if isinstance(each, Absent) else each.literal) for each in soles]
        told = [(name, literal) for name, literal in told if literal != TRUE]
        parts = tuple(value_part(name, literal) for name, literal in told)
        if len(told) > _MANY_CONDITIONS and len(dict(told)) == len(told):
            parts = (ObjectPart(dict(told), silent=True),)
        required = tuple(dict.fromkeys(each.name for each in soles if isinstance(each, HasValue)))
        met = meet_objects(plain, ObjectSet(parts, required))
        return None if met is None else self.simplified(met, depth)

    def _holds(self, objects: ObjectSet, clause: Absent | HasValue | SomeKey, depth: int) -> bool | None:
        """Whether a clause holds for all the objects, or for none of them; None if unknown."""
        if isinstance(clause, SomeKey):
            return None
        goal = self.property_goal(objects.parts, clause.name)
        required = clause.name in objects.required
        if isinstance(clause, Absent):
            return False if required else True if goal == (FALSE,) else None
        if goal == (FALSE,):
            return False
        if self.is_empty(self.conjoin((*goal, clause.literal)), depth - 1):
            return False
        return True if required and self.implies(goal, clause.literal, depth - 1) else None

    def implies(self, goal: Goal, literal: int, depth: int = 2) -> bool:
        """Whether everything that satisfies a goal is known to satisfy a literal."""
        return literal in goal or self.is_empty(self.conjoin((*goal, -literal)), depth)

    def _is_listed(self, literal: int) -> bool:
        schema = self._loader.location(literal).schema
        return "enum" in schema or "const" in schema

    def spend(self, pairs: int) -> None:
        """Charge for combining pairs of alternatives."""
        self._spend_steps(pairs * _PAIR)

    def spend_sizes(self, first: Sequence[ObjectSet], second: Sequence[ObjectSet]) -> None:
        """Charge for what pairs of objects have."""
        self._spend_steps(len(second) * sum(map(_size, first)) + len(first) * sum(map(_size, second)))

    def _spend_steps(self, steps: int) -> None:
        give_way()
        self._work += steps
        if self._work > self._limits.work:
            remedy = "use fewer alternatives and patterns that apply together"
            raise LimitExceeded("work", self._limits.work, "combining the alternatives of the schema", remedy=remedy)

    def without_subsets(self, objects: tuple[ObjectSet, ...]) -> tuple[ObjectSet, ...]:
        """The union without alternatives inside others, unless `unevaluated…` depends on them."""
        if self._tracked or not 1 < len(objects) <= _MOST_COMPARED:
            return objects
        self.spend(len(objects) ** 2 // _PAIR)
        return largest(objects)


def _size(objects: ObjectSet) -> int:
    return len(objects.parts) + len(objects.required) + len(objects.conditions)
