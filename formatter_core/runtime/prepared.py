"""What a sequence needs of a compiled format."""

from __future__ import annotations

from typing import Generic, Literal, Protocol, TypeAlias

from formatter_core.engine.protocol import EngineGrammar, EngineState
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import Grammar, Program
from formatter_core.limits import Limits
from formatter_core.runtime.generics import Value_co
from formatter_core.vocabulary import Vocabulary

__all__ = ["IsLowered", "MaskedText", "PreparedFormat"]

#: What masks hold where text is certain; see `CompiledFormat.with_forced_text`.
MaskedText: TypeAlias = Literal["exact", "longest"]


class IsLowered(Protocol):
    """A format and its grammar, see `Lowering`; each part may be made when it is first needed."""

    @property
    def format(self) -> Format:
        """What was compiled."""

    @property
    def as_written(self) -> Lowered:
        """Its grammar, with special tokens by name, and how its parse becomes values."""

    @property
    def lowered(self) -> Lowered:
        """The same with special tokens by id."""

    @property
    def program(self) -> Program:
        """That grammar as engines read it."""

    def grammars_made(self) -> tuple[Grammar, ...]:
        """Those of its grammars that have been made so far."""


class PreparedFormat(Generic[Value_co]):
    """The parts of a `CompiledFormat`: immutable, shared by all its sequences.

    Attributes:
        engine_grammar: the grammar as its engine has it.
        vocabulary: what it was compiled for.
        engine: the name of the grammar engine that computes its masks.
        limits: the limits that each step keeps.
        max_tokens: the budget of its sequences, unless they are given another one; None for none.
        forced_text: what masks hold where text is certain, see `CompiledFormat.with_forced_text`.
    """

    def __init__(
        self,
        lowering: IsLowered,
        engine_grammar: EngineGrammar,
        vocabulary: Vocabulary,
        engine: str,
        limits: Limits,
        max_tokens: int | None = None,
        forced_text: MaskedText = "exact",
    ) -> None:
        self._lowering = lowering
        self.engine_grammar = engine_grammar
        self.vocabulary = vocabulary
        self.engine = engine
        self.limits = limits
        self.max_tokens = max_tokens
        self.forced_text = forced_text

    def start(self) -> EngineState:
        """The engine's state of a new sequence."""
        state = self.engine_grammar.start()
        if self.forced_text == "longest":
            state.prefer_longest()
        return state

    @property
    def format(self) -> Format:
        """What was compiled."""
        return self._lowering.format

    @property
    def program(self) -> Program:
        """Its grammar as engines read it."""
        return self._lowering.program

    @property
    def lowered(self) -> Lowered:
        """Its grammar, with special tokens by id, and how its parse becomes values."""
        return self._lowering.lowered

    @property
    def as_written(self) -> Lowered:
        """The same with special tokens by name."""
        return self._lowering.as_written

    @property
    def has_captures(self) -> bool:
        """Whether a parse of a text may hold captures, internal ones included."""
        return self.program.captures
