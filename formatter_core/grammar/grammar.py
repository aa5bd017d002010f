"""Rules by name: a whole grammar."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from formatter_core.grammar.lazy import cached_property
from formatter_core.grammar.members import write_out
from formatter_core.grammar.nodes import Node, Reference, Terminal, map_children
from formatter_core.grammar.program import Program, write
from formatter_core.limits import Limits

__all__ = ["Grammar"]


@dataclass(frozen=True)
class Grammar:
    """Rules by name, and the rule that derives the whole text."""

    rules: Mapping[str, Node]
    start: str

    def check(self, limits: Limits) -> Program:
        """Raise unless the grammar is well formed and within `limits`; whether it derives anything is not asked here.

        Returns:
            the grammar as engines read it, and what it consists of.

        Raises:
            InvalidGrammar: an undefined rule, or a node where it may not stand.
            LimitExceeded: too many nodes, too deep, or too large a repeat.
        """
        program = self._programs.get(limits)
        if program is None:
            program = self._programs[limits] = write(self.rules, self.start, limits)
        return program

    @cached_property
    def written_out(self) -> Grammar:
        """The same language of texts, captures and preferences without `Members` and `Region`.

        Raises:
            LimitExceeded: they have too many states.
        """
        rules = write_out(self.rules)
        return self if rules is self.rules else Grammar(rules, self.start)

    @cached_property
    def _programs(self) -> dict[Limits, Program]:
        """What checks have returned."""
        return {}

    def renamed(self, prefix: str) -> Grammar:
        """The same grammar with `prefix` before every rule name, so that it can stand beside others."""

        def rename(node: Node) -> Node:
            if isinstance(node, Reference):
                return Reference(prefix + node.name)
            if isinstance(node, Terminal):
                return node
            return map_children(node, rename)

        return Grammar({prefix + name: rename(body) for name, body in self.rules.items()}, prefix + self.start)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content (SHA-256, hexadecimal): equal for equal rules in equal order, in every process."""
        digest = hashlib.sha256(repr(self.start).encode())
        for name, body in self.rules.items():
            digest.update(repr((name, body)).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()
