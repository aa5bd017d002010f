"""From a schema's normal form to a grammar."""

from __future__ import annotations

from formatter_core.errors import LimitExceeded, UnsatisfiableSchema
from formatter_core.grammar import NOTHING, Grammar, Node
from formatter_core.limits import Limits
from formatter_core.limits.turns import give_way
from formatter_core.schema.arrays import ArrayLowering
from formatter_core.schema.indents import Depths, indented
from formatter_core.schema.load import FALSE, TRUE, Loader
from formatter_core.schema.normal import Normalizer
from formatter_core.schema.numbers import MOST_STATES, has_large_steps
from formatter_core.schema.objects import ObjectLowering
from formatter_core.schema.productive import productive
from formatter_core.schema.report import Refusals
from formatter_core.schema.rules import Rules, any_of
from formatter_core.schema.scalars import scalar_terminal
from formatter_core.schema.shapes import ANY, Goal, Shape
from formatter_core.schema.tokens import Tokens

__all__ = ["lower"]


def lower(
    loader: Loader, normalizer: Normalizer, refusals: Refusals, tokens: Tokens, any_order: bool, limits: Limits
) -> Grammar:
    """The grammar of the schema's valid documents, as `tokens` spells them.

    Raises:
        UnsatisfiableSchema: there is no such document.
        UnsupportedSchema: something cannot be expressed exactly.
    """
    return _Lowering(loader, normalizer, refusals, tokens, any_order, limits).grammar()


class _Lowering:
    def __init__(
        self,
        loader: Loader,
        normalizer: Normalizer,
        refusals: Refusals,
        tokens: Tokens,
        any_order: bool,
        limits: Limits,
    ) -> None:
        self._loader = loader
        self._normalizer = normalizer
        self._refusals = refusals
        self._limits = limits
        self._tokens = tokens
        self._any_rules = tokens.any_rules
        self._any_order = any_order
        self._rules = Rules(limits, loader)
        self._arrays = ArrayLowering(self._rules, normalizer, tokens, refusals, any_order)
        self._objects = ObjectLowering(self._rules, normalizer, tokens, any_order, limits)

    def grammar(self) -> Grammar:
        start = self._lower_all()
        rules = self._rules.rules
        if self._rules.uses_any:
            rules.update(self._any_rules)
        rules = productive(rules, start)
        if rules[start] == NOTHING:
            raise UnsatisfiableSchema("its keywords contradict each other; relax one of them")
        if self._tokens.levels:
            depths = Depths(rules, self._tokens)
            depths.put(start, 0)
            rules = indented(rules, depths.known, self._tokens)
        return Grammar(rules, start)

    def _lower_all(self) -> str:
        """Make all rules but those of any value; the name of the start rule."""
        self._rules.rules.update(dict.fromkeys(self._any_rules, NOTHING))
        root = self._loader.root
        if root == FALSE:
            raise UnsatisfiableSchema("it is `false`, which allows nothing; use another schema")
        start = self._rules.goal(() if root == TRUE else (root,))
        pending = self._rules.pending
        while pending:
            give_way()
            goal, name = pending.pop()
            try:
                body = self._lower(goal, name)
            except LimitExceeded as error:
                raise (error.at(self._loader.location(goal[0]).pointer) if goal else error) from None
            self._rules.define(name, body)
        for name in self._any_rules:
            del self._rules.rules[name]
        return start.name

    def _lower(self, goal: Goal, name: str) -> Node:
        shape = self._normalizer.goal(goal)
        if shape is ANY:
            return self._rules.goal(())
        self._check_steps(shape, goal)
        scalars = scalar_terminal(shape, self._tokens.spelling)
        if scalars is not None and not (shape.arrays or shape.objects):
            return scalars
        options: list[Node] = [] if scalars is None else [scalars]
        several = len(shape.arrays) + len(shape.objects) > 1
        for index, arrays in enumerate(shape.arrays, 1):
            title = f"{name}: array {index}" if several else name
            options += self._option(self._arrays.lower(arrays, title), title, several)
        order = self._normalizer.key_order(goal) if shape.objects else None
        for index, objects in enumerate(shape.objects, 1):
            title = f"{name}: object {index}" if several else name
            names = () if order is None else order.names if self._any_order else order.of(objects)
            options += self._option(self._objects.lower(objects, names), title, several)
        return any_of(options)

    def _option(self, body: Node | None, title: str, several: bool) -> list[Node]:
        if body is None:
            return []
        return [self._rules.add(title, body)] if several else [body]

    def _check_steps(self, shape: Shape, goal: Goal) -> None:
        if any(map(has_large_steps, shape.numbers)):
            reason = f"its multiples need more than {MOST_STATES} states; use a smaller step or narrower bounds"
            self._refusals.refuse(self._loader.location(goal[0]).pointer, "multipleOf", reason)
