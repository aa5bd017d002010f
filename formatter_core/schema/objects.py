"""Objects: their properties are the members of a list, in order or in any, with the conditions between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Member, Members, Node, Sequence, Way, can_be_complete
from formatter_core.grammar.values import value
from formatter_core.limits import Limits
from formatter_core.schema.keys import KeyClass, Keys
from formatter_core.schema.load import FALSE
from formatter_core.schema.normal import Normalizer
from formatter_core.schema.rules import Rules, any_of, in_order
from formatter_core.schema.shapes import Absent, Goal, ObjectSet, SomeKey
from formatter_core.schema.tokens import Tokens

__all__ = ["ObjectLowering"]

#: At least: its key, its value, and the two together.
_NODES_OF_MEMBER = 3


@value()
class Property:
    """A named property: its key, and for each set of conditions that it may meet, as bits, what its value satisfies.

    `absent` are the conditions that are met where it is not there.
    """

    name: str
    key: Node
    required: bool
    values: tuple[tuple[int, Goal], ...]
    absent: int


class ObjectLowering:
    """Lowers constraints on objects."""

    def __init__(self, rules: Rules, normalizer: Normalizer, tokens: Tokens, any_order: bool, limits: Limits) -> None:
        self._rules = rules
        self._normalizer = normalizer
        self._tokens = tokens
        self._any_order = any_order
        self._keys = Keys(normalizer, tokens)
        self._names: dict[str, Node] = {}
        self._limits = limits
        self._members_made = 0
        # Branches that exclude each other leave the same alternatives many times.
        self._lowered: dict[tuple[ObjectSet, tuple[str, ...]], Node | None] = {}

    def lower(self, objects: ObjectSet, names: tuple[str, ...]) -> Node | None:
        """What spells these objects; None where there are none for certain."""
        key = objects, names
        if key not in self._lowered:
            self._lowered[key] = self._lower(objects, names)
        return self._lowered[key]

    def _lower(self, objects: ObjectSet, names: tuple[str, ...]) -> Node | None:
        if objects.conditions:
            simple = self._normalizer.simplified(objects, 2)
            if simple is None:
                return None
            objects = simple
        names = self._all_names(objects, names)
        names += self._keys.listed(objects, names)
        properties = list(self._properties(objects, names))
        self._count(len(properties))
        required = sum(each.required for each in properties)
        if required < len(objects.required):
            return None
        extras = self._keys.extras(objects, names)
        most = None if extras else len(properties)
        if most is not None and most < objects.minimum:
            return None
        if objects.maximum is not None and most is not None and most <= objects.maximum:
            objects = replace(objects, maximum=None)
        tokens = self._tokens
        found: list[Node] = []
        if objects.minimum <= 0 and _may_be_empty(objects, properties):
            found.append(tokens.empty_object)
        if properties or extras:
            members = self._members(objects, properties, required, extras)
            if can_be_complete(members):
                found.append(in_order(tokens.open_object, members, tokens.close_object))
        return any_of(found) if found else None

    def _count(self, members: int) -> None:
        """Refuse too many members before all of them are there: n branches with n names have n²."""
        self._members_made += members
        if self._members_made * _NODES_OF_MEMBER > self._limits.nodes:
            raise LimitExceeded("nodes", self._limits.nodes, "the grammar")

    def _members(
        self, objects: ObjectSet, properties: list[Property], required: int, extras: list[KeyClass]
    ) -> Members:
        goal = self._rules.goal
        bits = _Bits(objects, properties)
        found = [
            Member(
                tuple(Way(Sequence((each.key, goal(value))), bits.of(met)) for met, value in each.values),
                each.required,
                absent=bits.of(each.absent),
            )
            for each in properties
        ]
        if extras:
            ways = tuple(Way(Sequence((extra.key, goal(extra.goal))), bits.of(extra.met)) for extra in extras)
            # One extra key may come twice, unless several are counted, or it matters which value counts.
            distinct = objects.minimum - required > 1
            distinct = distinct or any(extra.depends for extra in extras)
            found.append(Member(ways, repeated=True, distinct=distinct))
        return Members(
            tuple(found),
            self._tokens.comma,
            not self._any_order or len(found) == 1,
            objects.minimum if objects.minimum > required else 1,
            objects.maximum,
            bits.count,
            bits.of(bits.once),
        )

    def _all_names(self, objects: ObjectSet, names: tuple[str, ...]) -> tuple[str, ...]:
        """The named keys, those that the walk over the schema cannot see included."""
        found = dict.fromkeys(names)
        for part in objects.parts:
            found.update(dict.fromkeys(part.named))
        found.update(dict.fromkeys(objects.required))
        for condition in (*objects.conditions, *objects.exclusive):
            found.update((clause.name, None) for clause in condition if not isinstance(clause, SomeKey))
        return tuple(found)

    def _properties(self, objects: ObjectSet, names: tuple[str, ...]) -> Iterator[Property]:
        closed = [part.named.keys() for part in objects.parts if part.rest == FALSE and not part.patterns]
        known = set(closed[0]).intersection(*closed[1:]) if closed else None
        required = set(objects.required)
        exclusive: dict[str, list[tuple[int, int]]] = {}
        for place, clauses in enumerate(objects.exclusive, len(objects.conditions)):
            for clause in clauses:
                exclusive.setdefault(clause.name, []).append((1 << place, clause.literal))
        for name in names:
            if known is not None and name not in known:
                continue
            goal = self._normalizer.property_goal(objects.parts, name)
            if goal == (FALSE,):
                continue
            decided = exclusive.get(name, ())
            values: tuple[tuple[int, Goal], ...] = ((0, goal),)
            if objects.conditions or decided:
                values = tuple(self._keys.ways(objects.conditions, decided, name, goal))
            absent = 0
            if objects.conditions:
                absent = sum(1 << index for index, each in enumerate(objects.conditions) if Absent(name) in each)
            yield Property(name, self._name(name), name in required, values, absent)

    def _name(self, name: str) -> Node:
        """One terminal for one name, however many objects have it."""
        node = self._names.get(name)
        if node is None:
            node = self._names[name] = self._tokens.name(name)
        return node


class _Bits:
    """The bits of conditions, without those that a property meets that never comes."""

    def __init__(self, objects: ObjectSet, properties: list[Property]) -> None:
        known = {each.name for each in properties}
        kept = [
            index
            for index, condition in enumerate(objects.conditions)
            if not any(isinstance(clause, Absent) and clause.name not in known for clause in condition)
        ]
        first_once = len(objects.conditions)
        self.once = sum(1 << first_once + index for index in range(len(objects.exclusive)))
        self._kept = [*kept, *range(first_once, first_once + len(objects.exclusive))]
        self.count = len(self._kept)

    def of(self, bits: int) -> int:
        """The bits as members have them."""
        return bits and sum(1 << place for place, bit in enumerate(self._kept) if bits >> bit & 1)


def _may_be_empty(objects: ObjectSet, properties: list[Property]) -> bool:
    met = 0
    for each in properties:
        if each.required:
            return False
        met |= each.absent
    bits = _Bits(objects, properties)
    return bits.of(met) == (1 << bits.count) - 1
