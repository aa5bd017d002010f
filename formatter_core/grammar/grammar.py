"""A whole grammar: rules by name, and the start rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import cast

from formatter_core.grammar.lazy import cached_property
from formatter_core.grammar.members import write_out
from formatter_core.grammar.nodes import (
    WITHOUT_PARTS,
    AnySpecial,
    Node,
    Schema,
    SchemaRules,
    Special,
    children,
    renamed,
    with_schemas_lowered,
)
from formatter_core.grammar.program import Program, write
from formatter_core.grammar.values import value
from formatter_core.limits import Limits

__all__ = ["Grammar"]


@value(slots=False)
class Grammar:
    """A set of rules by name, and the rule that derives the whole text.

    The body of a rule may be a `Schema`, which is lowered when its rules are needed.
    """

    rules: Mapping[str, Node]
    start: str
    #: The result of the latest check, with its limits.
    _checked: tuple[Limits, Program] | None = field(default=None, init=False, compare=False, repr=False)

    def check(self, limits: Limits) -> Program:
        """Check that the grammar is well formed and within `limits`.

        This does not check whether it derives any text.

        Returns:
            the program for engines, with its counts and names.

        Raises:
            InvalidGrammar: an undefined rule, or a node where it may not stand.
            LimitExceeded: too many nodes, too deep, or too large a repeat.
            FormatterError: a schema cannot be lowered.
        """
        checked = self._checked
        if checked is None or checked[0] != limits:
            checked = limits, self.written(limits)
            vars(self)["_checked"] = checked
        return checked[1]

    def written(self, limits: Limits) -> Program:
        """Return what `check` returns, but write the program again."""
        return write(self.rules, self.start, limits)

    def rule_names(self, limits: Limits) -> tuple[tuple[str, ...], str]:
        """Return the names of the program's rules, perhaps with further names after them, and of the start rule.

        Raises:
            FormatterError: what `check` raises.
        """
        titles = self.check(limits).titles()
        if titles is not None:
            return tuple(titles), titles[0]
        names: list[str] = []
        start = self.start
        for name, body in self.rules.items():
            if not isinstance(body, Schema):
                names.append(name)
                continue
            found = cast("SchemaRules", body.source.program(limits, alone=False))
            own = [body.prefix + each for each in found.names()][: found.count]
            names += own
            if name == self.start:
                start = own[0]
        return tuple(names), start

    @cached_property
    def has_specials(self) -> bool:
        """Tell whether the grammar refers to special tokens by name."""
        stack = list(self.rules.values())
        while stack:
            node = stack.pop()
            if type(node) not in WITHOUT_PARTS:
                if isinstance(node, (Special, AnySpecial)):
                    return True
                stack += children(node)
        return False

    @cached_property
    def lowered(self) -> Grammar:
        """The grammar with every schema replaced by rules. Their order may differ from that in the program.

        Raises:
            FormatterError: a schema cannot be lowered.
        """
        if not any(isinstance(body, Schema) for body in self.rules.values()):
            return self
        return Grammar(*with_schemas_lowered(self.rules, self.start))

    @cached_property
    def written_out(self) -> Grammar:
        """The grammar without `Members`, `Region` and `Schema`, with the same texts, captures and preferences.

        Raises:
            LimitExceeded: they have too many states.
            FormatterError: a schema cannot be lowered.
        """
        lowered = self.lowered
        rules = write_out(lowered.rules)
        return lowered if rules is lowered.rules else Grammar(rules, lowered.start)

    def renamed(self, prefix: str) -> Grammar:
        """Return the grammar with `prefix` before every rule name, so that grammars can be combined."""
        rules = {prefix + name: renamed(body, prefix) for name, body in self.rules.items()}
        return Grammar(rules, prefix + self.start)
