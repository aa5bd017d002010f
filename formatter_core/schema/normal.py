"""From goals to shapes: resolves references and combinators, each literal once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

from formatter_core.errors import InvalidSchema, LimitExceeded, UnsupportedSchema
from formatter_core.limits import Limits
from formatter_core.limits.turns import give_way
from formatter_core.schema.assertions import Assertions
from formatter_core.schema.clauses import as_conditions, exactly_one
from formatter_core.schema.complement import subtract, value_part
from formatter_core.schema.emptiness import Emptiness, InProgressError
from formatter_core.schema.evaluated import with_rest
from formatter_core.schema.key_order import KeyOrder
from formatter_core.schema.keywords import ANNOTATIONS, IN_PLACE, IN_PLACE_ORDER
from formatter_core.schema.load import FALSE, TRUE, Loader, Location
from formatter_core.schema.report import Refusals
from formatter_core.schema.shapes import (
    ANY,
    ANY_OBJECT,
    NONE,
    Goal,
    ObjectPart,
    ObjectSet,
    Shape,
    meet,
    scalar_values,
    unite,
)
from formatter_core.schema.strings import MOST_COMPARED

__all__ = ["Normalizer"]

_NEGATED_ALONE = frozenset(["$ref", "allOf", "anyOf", "oneOf", "not"])
#: Maximum branches of an `anyOf` with `unevaluatedProperties` or `unevaluatedItems`: we compute all their subsets.
_MOST_TRACKED = 6
#: Above this many alternatives we write a conjunction as conditions where we can.
_MOST_PRODUCTS = 100
#: Above this many branches we count a `oneOf` where we can; otherwise each branch excludes the others.
_FEW_BRANCHES = 8
#: As many sets of strings are compared in the time that a pair of alternatives takes.
_STRINGS_COMPARED = 12


_ANY_OBJECTS = Shape(objects=(ANY_OBJECT,))

#: A literal, whether evaluation is tracked, and whether refusals are strict.
_Key: TypeAlias = tuple[int, bool, bool]


class Normalizer(Emptiness):
    """Computes the meaning of goals and literals, and remembers it."""

    def __init__(self, loader: Loader, limits: Limits, refusals: Refusals, enforce_formats: bool) -> None:
        super().__init__(loader, limits)
        self._refusals = refusals
        self._assertions = Assertions(loader, refusals, enforce_formats)
        self._shapes: dict[_Key, Shape] = {}
        self._goals: dict[tuple[Goal, bool], Shape] = {}
        self._open: set[_Key] = set()
        self._values: dict[Hashable, int] = {}

    def key_order(self, goal: Goal) -> KeyOrder:
        """The named keys of a goal's objects."""
        return KeyOrder(self._loader, goal)

    def goal(self, goal: Goal) -> Shape:
        """The values that satisfy every literal of a goal."""
        key = (goal, self._refusals.is_strict)
        shape = self._goals.get(key)
        if shape is None:
            tracked, self._tracked = self._tracked, False
            try:
                # Conditionals about one property exclude its values one by one: a goal is the one before and one more.
                before = self._goals.get((goal[:-1], self._refusals.is_strict)) if len(goal) > 2 else None
                if before is not None and len(before.objects) < 2:
                    shape = self._meet(before, self.literal(goal[-1]))
                else:
                    shape = self.literal(goal[0]) if len(goal) == 1 else self._all(map(self.literal, goal))
            finally:
                self._tracked = tracked
            self._goals[key] = shape
        return shape

    def literal(self, literal: int) -> Shape:
        """The values that satisfy a literal."""
        if literal == TRUE:
            return ANY
        if literal == FALSE:
            return NONE
        key = (literal, self._tracked, self._refusals.is_strict)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._worked_out(literal, key)
        return shape

    def _worked_out(self, literal: int, key: _Key) -> Shape:
        give_way()
        location = self._loader.location(literal)
        if key in self._open:
            if self._looking:
                raise InProgressError
            raise InvalidSchema(
                "this schema refers to itself for the same value; remove the cycle of references",
                pointer=location.pointer,
            )
        if len(self._open) >= self._limits.depth:
            what = "the chain of schemas for the value"
            raise LimitExceeded("depth", self._limits.depth, what, pointer=location.pointer)
        self._open.add(key)
        try:
            if literal > 0:
                return self._build(location)
            try:
                with self._refusals:
                    return self._negated(location, -literal)
            except UnsupportedSchema as error:
                # Where keywords may be dropped, we drop what cannot be negated.
                self._refusals.refuse(error.pointer, error.keyword, error.reason)
                return ANY
        except LimitExceeded as error:
            raise error.at(location.pointer) from None
        finally:
            self._open.discard(key)

    def _negated(self, location: Location, literal: int) -> Shape:
        """The values outside a schema: we negate each keyword by itself, which gives few alternatives."""
        schema = location.schema
        in_place = IN_PLACE.intersection(schema)
        if location.resource.draft <= 7 and "$ref" in schema:
            return self.literal(-self._loader.resolve(location, "$ref"))
        if in_place - _NEGATED_ALONE:
            return subtract(ANY, [self.literal(literal)], self)
        outside = [subtract(ANY, [self._assertions.typed(location)], self)]
        if "$ref" in in_place:
            outside.append(self.literal(-self._loader.resolve(location, "$ref")))
        if "not" in in_place:
            outside.append(self.literal(self._loader.child(location, "not")))
        if "allOf" in in_place:
            outside += [self.literal(-branch) for branch in self._branches(location, "allOf")]
        if "anyOf" in in_place:
            outside.append(self._all(self.literal(-branch) for branch in self._branches(location, "anyOf")))
        if "oneOf" in in_place:
            branches = self._branches(location, "oneOf")
            outside.append(self._all(self.literal(-branch) for branch in branches))
            for index, branch in enumerate(branches):
                for other in branches[:index]:
                    outside.append(self._meet(self.literal(branch), self.literal(other)))
        return unite(outside)

    def listed(self, goal: Goal, most: int) -> list[int] | None:
        """The values of a goal as literals, equal for equal values; None unless they are a few scalars."""
        found = scalar_values(self.goal(goal))
        if found is None or len(found) > most:
            return None
        return [self.single(value, (type(value), value)) for value in found]

    def single(self, value: Any, identity: Hashable) -> int:
        """The literal of one value, the same for the same `identity`."""
        if identity not in self._values:
            self._values[identity] = self._loader.synthetic({"enum": [value]}, f"={value}")
        return self._values[identity]

    def _meet(self, a: Shape, b: Shape) -> Shape:
        if a is ANY:
            return b
        if b is ANY:
            return a
        self.spend(1 + a.alternatives * b.alternatives)
        strings = len(a.strings) * len(b.strings)
        self.spend(strings * min(strings, MOST_COMPARED) // _STRINGS_COMPARED)
        if a.objects and b.objects:
            self.spend_sizes(a.objects, b.objects)
        met = meet(a, b)
        if len(met.objects) > max(len(a.objects), len(b.objects)):
            simplified = (self.simplified(item, 2) for item in met.objects)
            objects = self.without_subsets(tuple(item for item in simplified if item is not None))
            met = Shape(met.null, met.booleans, met.numbers, met.strings, met.arrays, objects)
        return met

    def _all(self, shapes: Iterable[Shape]) -> Shape:
        shapes = list(shapes)
        if not self._tracked and prod(len(shape.objects) for shape in shapes) > _MOST_PRODUCTS:
            shapes = as_conditions(shapes, self.same_schema)
        met = ANY
        for shape in shapes:
            met = self._meet(met, shape)
        return met

    def _build(self, location: Location) -> Shape:
        schema = location.schema
        if "$ref" in schema and location.resource.draft <= 7:
            return self.literal(self._loader.resolve(location, "$ref"))
        if IN_PLACE.isdisjoint(schema):
            return self._assertions.typed(location)
        tracked = self._tracked
        if location.get("unevaluatedProperties") is not None or location.get("unevaluatedItems") is not None:
            self._tracked = True
        try:
            shape = self._assertions.typed(location)
            for keyword in sorted(IN_PLACE.intersection(schema), key=IN_PLACE_ORDER.__getitem__):
                if location.get(keyword) is not None or keyword == "const":
                    shape = self._applied(location, keyword, shape)
            return with_rest(location, shape, self._loader, self._refusals)
        finally:
            self._tracked = tracked

    def _applied(self, location: Location, keyword: str, shape: Shape) -> Shape:
        """The shape with one more keyword applied."""
        if keyword in ("enum", "const"):
            if keyword == "const" and location.resource.draft == 4:
                return shape
            return self._meet(shape, self._assertions.listed(location, keyword))
        if keyword == "$ref":
            return self._meet(shape, self.literal(self._loader.resolve(location, "$ref")))
        if keyword in ("$dynamicRef", "$recursiveRef"):
            return self._meet(shape, self._dynamic(location, keyword))
        if keyword == "allOf":
            return self._all_of(location, shape)
        if keyword == "anyOf":
            return self._meet(shape, self._any_of(location))
        if keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            return self._meet(shape, self._dependent(location, keyword))
        if keyword in ("oneOf", "not", "if"):
            return self._exact(location, keyword, shape)
        return shape

    def _exact(self, location: Location, keyword: str, shape: Shape) -> Shape:
        """A keyword that needs differences: it is refused as a whole, never dropped in part."""
        mark = len(self._refusals.dropped)
        try:
            with self._refusals:
                if keyword == "oneOf":
                    branches = self._branches(location, "oneOf")
                    return self._one_of(shape, [self.literal(literal) for literal in branches])
                literal = self._loader.child(location, keyword)
                if keyword == "not":
                    return subtract(shape, [self.literal(literal)], self)
                return self._conditional(location, shape, literal)
        except UnsupportedSchema as error:
            if not self._refusals.lenient:
                raise
            del self._refusals.dropped[mark:]
            self._refusals.refuse(location.pointer, keyword, f"{error.keyword} at {error.pointer}: {error.reason}")
            return shape

    def _branches(self, location: Location, keyword: str) -> list[int]:
        value = location.schema[keyword]
        if not isinstance(value, list) or not value:
            raise location.invalid(keyword, "a non-empty list of schemas")
        return [self._loader.child(location, keyword, index) for index in range(len(value))]

    def _all_of(self, location: Location, shape: Shape) -> Shape:
        """`shape` with all branches.

        One that only says `oneOf` comes last: what the others require may be what keeps its own branches apart.
        """
        branches = self._branches(location, "allOf")
        exact = [branch for branch in branches if self._is_one_of(branch)]
        if len(exact) == 1 and not self._tracked:
            met = self._all([shape, *(self.literal(branch) for branch in branches if branch != exact[0])])
            if len(met.objects) < 2:
                return self._exact(self._loader.location(exact[0]), "oneOf", met)
        return self._all([shape, *map(self.literal, branches)])

    def _is_one_of(self, literal: int) -> bool:
        return abs(literal) != TRUE and self._loader.location(literal).schema.keys() - ANNOTATIONS == {"oneOf"}

    def _any_of(self, location: Location) -> Shape:
        branches = [self.literal(literal) for literal in self._branches(location, "anyOf")]
        if not self._tracked or len(branches) == 1:
            return unite(branches, absorb=not self._tracked)
        if len(branches) > _MOST_TRACKED:
            reason = f"beside an `unevaluated…` keyword it takes at most {_MOST_TRACKED} branches"
            raise UnsupportedSchema(reason, pointer=location.pointer, keyword="anyOf")
        subsets = (
            self._all(branch for index, branch in enumerate(branches) if bits >> index & 1)
            for bits in range(2 ** len(branches) - 1, 0, -1)
        )
        return unite(subsets, absorb=False)

    def _one_of(self, shape: Shape, branches: list[Shape]) -> Shape:
        """The values of `shape` that are in exactly one branch."""
        if len(branches) == 1:
            return self._meet(shape, branches[0])
        options: list[Shape] = []
        if len(branches) > _FEW_BRANCHES and not self._tracked:
            objects = exactly_one(branches, self.same_schema)
            if objects is not None:
                options.append(self._meet(shape, Shape(objects=(objects,))))
                branches = [replace(branch, objects=()) for branch in branches]
        met = [self._meet(shape, branch) for branch in branches]
        if self._are_apart(met):
            return self._apart([*options, *met])
        if not self._tracked and len(met) > 2:
            found = self._by_tag(met)
            if found is not None:
                options.append(found)
                met = branches = [replace(branch, objects=()) for branch in met]
        for index, option in enumerate(met):
            options.append(subtract(option, [*branches[:index], *branches[index + 1 :]], self))
        return unite(options, absorb=not self._tracked)

    def _apart(self, shapes: list[Shape]) -> Shape:
        """The values of any of these, none of which is in several."""
        shapes = [replace(each, objects=self.without_subsets(each.objects)) for each in shapes]
        return unite(shapes, absorb=not self._tracked)

    def _are_apart(self, shapes: list[Shape]) -> bool:
        """Whether all are objects that require one property, whose values differ from shape to shape."""
        unions = [shape.objects for shape in shapes]
        if (
            not unions
            or not all(unions)
            or any(shape.alternatives > len(shape.objects) or shape.null or shape.booleans for shape in shapes)
        ):
            return False
        return any(
            self._tells_apart(name, unions)
            for name in unions[0][0].required
            if all(name in each.required for union in unions for each in union)
        )

    def _by_tag(self, branches: list[Shape]) -> Shape | None:
        """The objects that are in exactly one branch, where the values of one property differ from branch to branch.

        With that property, an object is in one branch at most. Without it, in one of what the branches say then.
        """
        unions = [branch.objects for branch in branches if branch.objects]
        if len(unions) < 3:
            return None
        names = dict.fromkeys(name for part in unions[0][0].parts for name in part.named)
        tag = next((name for name in names if self._tells_apart(name, unions)), None)
        if tag is None:
            return None
        self.spend(2 * sum(map(len, unions)))
        tagged = Shape(objects=(ObjectSet(required=(tag,), minimum=1),))
        present = [self._meet(Shape(objects=union), tagged) for union in unions]
        known: dict[ObjectPart, ObjectPart] = {}
        absent = [tuple(_without(each, tag, known) for each in union if tag not in each.required) for union in unions]
        untagged = self._one_of(_ANY_OBJECTS, [Shape(objects=union) for union in absent if union])
        return unite([self._apart(present), untagged])

    def _tells_apart(self, name: str, unions: list[tuple[ObjectSet, ...]]) -> bool:
        """Whether the values of a property, where it is there, differ from union to union: all but one list them."""
        known: set[Any] = set()
        listed: list[Any] = []  # the same; True, which equals 1, beside it
        unlisted: list[Goal] = []
        self._looking += 1
        try:
            for union in unions:
                own: list[Any] = []
                others: list[Goal] = []
                for each in union:
                    goal = self.property_goal(each.parts, name)
                    values = scalar_values(self.goal(goal))
                    own += values or ()
                    others += [goal] if values is None else []
                if not known.isdisjoint(own) or (unlisted and others):
                    return False
                known.update(own)
                listed += own
                unlisted += others
            return bool(known) and all(
                self.is_empty(self.conjoin((*goal, self.single(value, (type(value), value)))))
                for goal in unlisted
                for value in listed
            )
        except InProgressError:
            return False
        finally:
            self._looking -= 1

    def _conditional(self, location: Location, shape: Shape, condition: int) -> Shape:
        then = self._loader.child(location, "then") if location.get("then") is not None else TRUE
        other = self._loader.child(location, "else") if location.get("else") is not None else TRUE
        if then == TRUE and other == TRUE and not self._tracked:
            return shape
        held = self._meet(self._meet(shape, self.literal(condition)), self.literal(then))
        missed = self._meet(subtract(shape, [self.literal(condition)], self), self.literal(other))
        return unite([held, missed], absorb=not self._tracked)

    def _dependent(self, location: Location, keyword: str) -> Shape:
        value = location.schema[keyword]
        if not isinstance(value, dict):
            raise location.invalid(keyword, "an object")
        shapes: list[Shape] = []
        spelled = self._assertions.spelled
        for name, wanted in value.items():
            if not spelled(name, location, keyword):
                continue
            absent = ObjectSet((ObjectPart({name: FALSE}, silent=True),))
            present: tuple[ObjectSet, ...] = (ObjectSet(required=(name,), minimum=1),)
            if isinstance(wanted, list) and all(isinstance(other, str) for other in wanted):
                others = (other for other in wanted if spelled(other, location, keyword))
                names = tuple(dict.fromkeys((name, *others)))
                present = (ObjectSet(required=names, minimum=len(names)),)
            elif keyword == "dependentRequired" or isinstance(wanted, list):
                raise location.invalid(keyword, "an object with a list of names for each name")
            else:
                wanted_shape = self.literal(self._loader.child(location, keyword, name))
                present = self._meet(Shape(objects=present), wanted_shape).objects
            shapes.append(Shape(True, 3, ANY.numbers, ANY.strings, ANY.arrays, (absent, *present)))
        return self._all(shapes)

    def _dynamic(self, location: Location, keyword: str) -> Shape:
        """A dynamic reference that means the same from every schema that can reach it."""
        reference = location.schema[keyword]
        anchor = reference.partition("#")[2] if isinstance(reference, str) else ""
        if len(self._loader.dynamic_resources(anchor)) > 1:
            reason = f"several schemas declare the dynamic anchor {anchor!r}; use `$ref` instead"
            self._refusals.refuse(location.pointer, keyword, reason)
            return ANY
        return self.literal(self._loader.resolve(location, keyword))


def _without(objects: ObjectSet, name: str, known: dict[ObjectPart, ObjectPart]) -> ObjectSet:
    """The objects without a property; `known` has the parts that were changed for others."""
    parts: list[ObjectPart] = []
    for part in objects.parts:
        if name in part.named and part not in known:
            known[part] = replace(part, named={**part.named, name: FALSE})
        parts.append(known.get(part, part))
    if all(part.named.get(name) != FALSE for part in parts):
        parts.append(value_part(name, FALSE))
    return replace(objects, parts=tuple(parts))
