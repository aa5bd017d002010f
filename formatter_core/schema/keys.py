"""The unnamed keys of an object, in classes whose values must satisfy the same schemas."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Choice, Node
from formatter_core.grammar.values import value
from formatter_core.schema.load import FALSE, TRUE
from formatter_core.schema.normal import Normalizer
from formatter_core.schema.shapes import Absent, Condition, Goal, HasValue, ObjectPart, ObjectSet, SomeKey
from formatter_core.schema.strings import (
    ANY_STRING,
    StringSet,
    Test,
    as_enforced,
    matches,
    meet_strings,
    other_strings,
    string_body,
    texts,
)
from formatter_core.schema.tokens import Tokens

__all__ = ["KeyClass", "Keys"]

_MOST_CLASSES = 64
_MOST_WAYS = 256
#: The same in the whole schema, of values that several schemas tell apart: each is read beside the others.
_MOST_WAYS_IN_ALL = 1_000
#: Up to this many keys of a class are named where values decide what they meet.
_MOST_NAMED = 64
#: Patterns that every key matches.
_MATCHED_BY_ALL = frozenset(["", "^", ".*", "^.*"])
#: No document uses up this many keys.
_ENOUGH_KEYS = 1_000_000


@value()
class KeyClass:
    """A class of keys: their terminal with the colon, the goal of their values, and the conditions that these meet.

    `depends`: whether other values of such keys meet others, so that it matters which of several equal keys counts.
    """

    key: Node
    goal: Goal
    met: int
    depends: bool


@value()
class _Cell:
    """A union of string sets, and the tests that all its members pass."""

    strings: tuple[StringSet, ...]
    yes: frozenset[str | int]


class Keys:
    """Sorts keys."""

    def __init__(self, normalizer: Normalizer, tokens: Tokens) -> None:
        self._normalizer = normalizer
        self._known: dict[tuple[tuple[StringSet, ...], Collection[str]], Node] = {}
        self._sorted: dict[tuple[str | int, ...], list[_Cell]] = {}
        self._tokens = tokens
        self._told_apart = 0

    def extras(self, objects: ObjectSet, names: tuple[str, ...]) -> list[KeyClass]:
        """The classes of keys other than `names` that may occur."""
        if any(part.rest == FALSE and not part.patterns for part in objects.parts):
            return []
        groups: dict[tuple[Goal, int, bool], list[StringSet]] = {}
        cells = self._cells(objects)
        for cell in cells:
            goal = self._goal(objects.parts, cell)
            always, literals = self._clauses(objects.conditions, cell, goal)
            strings = self._unnamed(cell, names) if literals else cell.strings
            for met, way in self._ways(goal, always, literals, (), "an unnamed key") if strings else ():
                groups.setdefault((way, met, bool(literals)), []).extend(strings)
        if len(groups) == 1 and sum(map(len, groups.values())) == sum(len(cell.strings) for cell in cells):
            groups = {key: [ANY_STRING] for key in groups}
        return [KeyClass(self._key(tuple(strings), names), *kind) for kind, strings in groups.items()]

    def listed(self, objects: ObjectSet, names: tuple[str, ...]) -> tuple[str, ...]:
        """Unnamed keys to be named: those of small classes in which a value decides what a key meets.

        Used up by other values, no key of such a class would be left that meets it.
        """
        clauses = (clause for condition in objects.conditions for clause in condition)
        if all(not isinstance(clause, SomeKey) or clause.literal == TRUE for clause in clauses):
            return ()
        found: list[str] = []
        for cell in self._cells(objects):
            goal = self._goal(objects.parts, cell)
            if goal == (FALSE,) or not self._clauses(objects.conditions, cell, goal)[1]:
                continue
            count = 0
            for strings in self._unnamed(cell, names):
                count += self._normalizer.count_texts(strings, _ENOUGH_KEYS)
                if count <= _MOST_NAMED:
                    found += texts(strings)
            if _MOST_NAMED < count < _ENOUGH_KEYS and (objects.maximum is None or objects.maximum > count):
                what = "the set of keys of which one has a certain value"
                remedy = "name them, or allow any number of keys"
                raise LimitExceeded("named keys", _MOST_NAMED, what, is_fixed=True, remedy=remedy)
        return tuple(dict.fromkeys(found))

    def _unnamed(self, cell: _Cell, names: tuple[str, ...]) -> tuple[StringSet, ...]:
        return self._both(cell.strings, (StringSet(excluded=frozenset(names)),)) if names else cell.strings

    def ways(
        self, conditions: tuple[Condition, ...], exclusive: Sequence[tuple[int, int]], name: str, goal: Goal
    ) -> list[tuple[int, Goal]]:
        """The conditions that a named property may meet, as bits, each with what its value satisfies then.

        `exclusive` are bits of which it matters whether they are met, each with the literal that decides.
        """
        always = 0
        literals: dict[int, int] = {}
        for index, condition in enumerate(conditions):
            for clause in condition:
                if isinstance(clause, SomeKey):
                    applies = self._is_covered(clause, name)
                else:
                    applies = isinstance(clause, HasValue) and clause.name == name
                if applies and not isinstance(clause, Absent):
                    if clause.literal == TRUE or self._normalizer.implies(goal, clause.literal):
                        always |= 1 << index
                    else:
                        literals[clause.literal] = literals.get(clause.literal, 0) | 1 << index
        return list(self._ways(goal, always, literals, exclusive, f"the property {name!r}"))

    def _ways(
        self, goal: Goal, always: int, literals: dict[int, int], exclusive: Sequence[tuple[int, int]], what: str
    ) -> Iterator[tuple[int, Goal]]:
        """The goal as ways in which values meet conditions: `always` those, with a literal those that it decides."""
        conjoin = self._normalizer.conjoin
        ways = {goal: always}
        if 2 ** (len(literals) + len(exclusive)) > _MOST_WAYS:
            ways = self._ways_of_values(
                goal, always, [*literals.items(), *((each, bit) for bit, each in exclusive)], what
            )
            literals, exclusive = {}, ()
        are_several = len(literals) + len(exclusive) > 1
        for literal, bits in literals.items():
            for known, met in list(ways.items()):
                both = conjoin((*known, literal))
                ways[both] = ways.get(both, 0) | met | bits
        for bit, literal in exclusive:
            split: dict[Goal, int] = {}
            for known, met in ways.items():
                inside, outside = conjoin((*known, literal)), conjoin((*known, -literal))
                split[inside] = split.get(inside, 0) | met | bit
                split[outside] = split.get(outside, 0) | met
            ways = split
        for way, met in ways.items():
            if way != (FALSE,) and not self._normalizer.is_empty(way, 2):
                yield met, way
                self._told_apart += are_several
        if self._told_apart > _MOST_WAYS_IN_ALL:
            what = f"the set of branches that {what} and others tell apart together"
            remedy = "require the property that tells them apart, or use fewer branches"
            raise LimitExceeded("combinations of branches", _MOST_WAYS_IN_ALL, what, is_fixed=True, remedy=remedy)

    def _ways_of_values(
        self, goal: Goal, always: int, literals: Sequence[tuple[int, int]], what: str
    ) -> dict[Goal, int]:
        """The ways of many literals that only tell values apart: one for each value, and one for all others."""
        listed = self._normalizer.listed
        told: list[tuple[list[int], bool, int]] = []
        for literal, bits in literals:
            values, without = listed((literal,), _MOST_WAYS), listed((-literal,), _MOST_WAYS)
            if values is None and without is None:
                break
            told.append((values or without or [], values is None, bits))
        named = list(dict.fromkeys(each for values, _, _ in told for each in values))
        if len(told) < len(literals) or len(named) >= _MOST_WAYS:
            what = f"the `oneOf` over {what}"
            remedy = "use fewer branches, or tell them apart by a `const`"
            raise LimitExceeded("combinations of branches", _MOST_WAYS, what, is_fixed=True, remedy=remedy)
        ways: dict[Goal, int] = {}
        for each in (*named, None):
            met = always
            for values, is_negated, bits in told:
                met |= bits if (each in values) != is_negated else 0
            way = self._normalizer.conjoin((*goal, *((each,) if each is not None else (-other for other in named))))
            ways[way] = ways.get(way, 0) | met
        return ways

    def _is_covered(self, some: SomeKey, name: str) -> bool:
        if name in some.named or any(matches(Test("pattern", pattern), name) for pattern in some.patterns):
            return False
        if some.pattern is not None and not matches(Test("pattern", some.pattern), name):
            return False
        return some.names == TRUE or any(name in strings for strings in self._normalizer.literal(some.names).strings)

    def _cells(self, objects: ObjectSet) -> list[_Cell]:
        questions = tuple(self._questions(objects))
        if questions not in self._sorted:
            self._sorted[questions] = self._sort(questions)
        return self._sorted[questions]

    def _sort(self, questions: tuple[str | int, ...]) -> list[_Cell]:
        cells = [_Cell((ANY_STRING,), frozenset())]
        for question in questions:
            asked = tuple(map(as_enforced, self._members(question)))
            others: list[StringSet] = [ANY_STRING]
            for strings in asked:
                others = [met for one in others for two in other_strings(strings) if (met := meet_strings(one, two))]
            split: list[_Cell] = []
            for cell in cells:
                inside = self._both(cell.strings, asked)
                outside = self._both(cell.strings, others)
                split += [_Cell(inside, cell.yes | {question})] if inside else []
                split += [_Cell(outside, cell.yes)] if outside else []
            cells = split
            if len(cells) > _MOST_CLASSES:
                what = "the set of overlapping key patterns"
                remedy = "give fewer `patternProperties`, or patterns that do not overlap"
                raise LimitExceeded("classes of keys", _MOST_CLASSES, what, is_fixed=True, remedy=remedy)
        return cells

    def _both(self, first: tuple[StringSet, ...], second: Sequence[StringSet]) -> tuple[StringSet, ...]:
        met = (meet_strings(one, two) for one in first for two in second)
        return tuple(each for each in met if each is not None and not self._normalizer.has_no_string(each))

    def _questions(self, objects: ObjectSet) -> list[str | int]:
        """The patterns (str) and literals for names (int) that decide what a key's value must satisfy."""
        found: dict[str | int, None] = {}
        for part in objects.parts:
            if any(literal != part.rest for _, literal in part.patterns):
                found.update((pattern, None) for pattern, _ in part.patterns)
            if part.names != TRUE:
                found[part.names] = None
        clauses = (clause for condition in objects.conditions for clause in condition)
        for some in (clause for clause in clauses if isinstance(clause, SomeKey)):
            found.update((pattern, None) for pattern in some.patterns)
            if some.pattern is not None:
                found[some.pattern] = None
            if some.names != TRUE:
                found[some.names] = None
        return list(found)

    def _members(self, question: str | int) -> tuple[StringSet, ...]:
        if isinstance(question, str):
            return (ANY_STRING if question in _MATCHED_BY_ALL else StringSet(passed=(Test("pattern", question),)),)
        return self._normalizer.literal(question).strings

    def _goal(self, parts: tuple[ObjectPart, ...], cell: _Cell) -> Goal:
        literals: list[int] = []
        for part in parts:
            if part.names != TRUE and part.names not in cell.yes:
                return (FALSE,)
            matched = [literal for pattern, literal in part.patterns if pattern in cell.yes]
            literals.extend(matched or [part.rest])
        return self._normalizer.conjoin(literals)

    def _clauses(self, conditions: tuple[Condition, ...], cell: _Cell, goal: Goal) -> tuple[int, dict[int, int]]:
        """The conditions that any property with such a key meets, as bits, and those that literals decide."""
        always = 0
        literals: dict[int, int] = {}
        for index, condition in enumerate(conditions):
            for clause in condition:
                if isinstance(clause, SomeKey) and self._covers(clause, cell):
                    if clause.literal == TRUE or self._normalizer.implies(goal, clause.literal):
                        always |= 1 << index
                    else:
                        literals[clause.literal] = literals.get(clause.literal, 0) | 1 << index
        return always, literals

    def _covers(self, some: SomeKey, cell: _Cell) -> bool:
        return (
            not any(pattern in cell.yes for pattern in some.patterns)
            and (some.pattern is None or some.pattern in cell.yes)
            and (some.names == TRUE or some.names in cell.yes)
        )

    def _key(self, strings: tuple[StringSet, ...], names: tuple[str, ...]) -> Node:
        if strings == (ANY_STRING,) and not names:
            return self._tokens.any_name
        # Branches may have the same names in different orders, and share what is none of them.
        key = strings, frozenset(names) if strings == (ANY_STRING,) else names
        node = self._known.get(key)
        if node is None:
            named = StringSet(excluded=frozenset(names)) if names else ANY_STRING
            kept = [met for each in strings if (met := meet_strings(each, named)) is not None]
            bodies = tuple(string_body(each, self._tokens.spelling) for each in kept)
            node = self._tokens.names(bodies[0] if len(bodies) == 1 else Choice(bodies))
            self._known[key] = node
        return node
