"""Unions of objects that constrain single properties, as conditions: many alternatives become one.

An alternative states *facts*, which all hold. A fact is a condition, mostly about one property: it is present, it is
absent, or its value satisfies a literal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from formatter_core.schema.load import FALSE, TRUE
from formatter_core.schema.shapes import Absent, Condition, HasValue, ObjectSet, Shape, SomeKey

__all__ = ["as_conditions", "exactly_one"]

#: Maximum literals for one property; we need all their combinations.
_MOST_LITERALS = 4

_SameSchema = Callable[[int], int]


def as_conditions(shapes: list[Shape], same_schema: _SameSchema) -> list[Shape]:
    """The shapes, which all hold, with as few alternatives for objects as conditions allow.

    `same_schema` gives one literal for all schemas that say the same.
    """
    changed = [_as_one(shape, same_schema) for shape in shapes]
    literals: dict[str, set[int]] = {}
    for objects in (objects for shape in changed for objects in shape.objects):
        for clause in (clause for condition in objects.conditions for clause in condition):
            if isinstance(clause, HasValue) and clause.literal != TRUE:
                literals.setdefault(clause.name, set()).add(clause.literal)
    return changed if all(len(found) <= _MOST_LITERALS for found in literals.values()) else shapes


def _as_one(shape: Shape, same_schema: _SameSchema) -> Shape:
    """The shape with its objects as one alternative with one condition, where that says the same; else the shape."""
    alternatives = [_facts(objects, same_schema) for objects in shape.objects]
    found = [facts for facts in alternatives if facts is not None]
    if len(found) < len(alternatives) or len(found) < 2:
        return shape
    sole = {clause for facts in found if len(facts) == 1 for clause in facts[0]}
    clauses: dict[Absent | HasValue | SomeKey, None] = {}
    for facts in found:
        # A fact whose negation is another alternative is redundant: (not a) or (a and b) is (not a) or b.
        kept = [fact for fact in facts if len(facts) == 1 or not _is_negation_in(fact, sole, same_schema)]
        if len(kept) != 1:
            return replace(shape, objects=(ObjectSet(),)) if not kept else shape
        clauses.update(dict.fromkeys(kept[0]))
    return replace(shape, objects=(ObjectSet(conditions=(tuple(clauses),)),))


def exactly_one(branches: Iterable[Shape], same_schema: _SameSchema) -> ObjectSet | None:
    """The objects that are in just one of the branches; None unless each demands one property, all different."""
    clauses: dict[str, HasValue] = {}
    for objects in (branch.objects for branch in branches if branch.objects):
        facts = _facts(objects[0], same_schema) if len(objects) == 1 else None
        clause = facts[0][0] if facts and len(facts) == 1 and len(facts[0]) == 1 else None
        if not isinstance(clause, HasValue) or clause.name in clauses:
            return None
        clauses[clause.name] = clause
    return ObjectSet(exclusive=(tuple(clauses.values()),)) if clauses else None


def _facts(objects: ObjectSet, same_schema: _SameSchema) -> list[Condition] | None:
    """What a set of objects demands; None where it is more than such facts."""
    if objects.maximum is not None or objects.minimum > len(objects.required) or objects.exclusive:
        return None
    literals: dict[str, int] = dict.fromkeys(objects.required, TRUE)
    for part in objects.parts:
        if part.patterns or part.rest != TRUE or part.names != TRUE:
            return None
        for name, literal in part.named.items():
            if literals.get(name, TRUE) != TRUE:
                return None
            literals[name] = same_schema(literal)
    required = frozenset(objects.required)
    facts = [_fact(name, literal, name in required) for name, literal in literals.items()]
    return [*(fact for fact in facts if fact is not None), *objects.conditions]


def _fact(name: str, literal: int, required: bool) -> Condition | None:
    """None for what always holds."""
    if required:
        return (HasValue(name, literal),)
    if literal == TRUE:
        return None
    return (Absent(name),) if literal == FALSE else (Absent(name), HasValue(name, literal))


def _is_negation_in(fact: Condition, clauses: set[Absent | HasValue | SomeKey], same_schema: _SameSchema) -> bool:
    """Whether everything that breaks a fact is among the clauses, of which one holds in other alternatives."""
    broken = _broken(fact, same_schema)
    return broken is not None and clauses.issuperset(broken)


def _broken(fact: Sequence[Absent | HasValue | SomeKey], same_schema: _SameSchema) -> Condition | None:
    """The negation of a fact about one property; None for others."""
    first = fact[0]
    if isinstance(first, HasValue) and len(fact) == 1:
        absent = Absent(first.name)
        return (absent,) if first.literal == TRUE else (absent, HasValue(first.name, same_schema(-first.literal)))
    if isinstance(first, Absent) and len(fact) == 1:
        return (HasValue(first.name, TRUE),)
    if isinstance(first, Absent) and len(fact) == 2:
        second = fact[1]
        if isinstance(second, HasValue) and second.name == first.name:
            return (HasValue(first.name, same_schema(-second.literal)),)
    return None
