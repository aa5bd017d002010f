"""Define the parts of a compiled format that a sequence needs."""

from __future__ import annotations

from typing import Generic, Literal, Protocol, TypeAlias

from formatter_core.engine.protocol import EngineGrammar, EngineState
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import Grammar, Program
from formatter_core.limits import Limits
from formatter_core.runtime.generics import Value_co
from formatter_core.vocabulary import Vocabulary

__all__ = ["IsLowered", "MaskedText", "PreparedFormat"]

#: The tokens in masks where the text is certain; see `CompiledFormat.with_forced_text`.
MaskedText: TypeAlias = Literal["exact", "longest"]


class IsLowered(Protocol):
    """A format and its grammar; each part may be made on first use; see `Lowering`."""

    @property
    def format(self) -> Format:
        """Return the format."""

    @property
    def as_written(self) -> Lowered:
        """Return the grammar with special tokens by name, and how its parse becomes values."""

    @property
    def lowered(self) -> Lowered:
        """Return the grammar with special tokens by id, and how its parse becomes values."""

    @property
    def program(self) -> Program:
        """Return that grammar as a program for engines."""

    def grammars_made(self) -> tuple[Grammar, ...]:
        """Return the grammars made so far."""


class PreparedFormat(Generic[Value_co]):
    """The parts of a `CompiledFormat`: immutable, shared by all its sequences.

    Attributes:
        engine_grammar: the grammar in the form of its engine.
        vocabulary: the vocabulary that it was compiled for.
        engine: the name of the grammar engine that computes its masks.
        limits: the limits of each step.
        max_tokens: the default budget of its sequences; None for none.
        forced_text: the tokens in masks where the text is certain; see `CompiledFormat.with_forced_text`.
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
        """Return the engine's state of a new sequence."""
        state = self.engine_grammar.start()
        if self.forced_text == "longest":
            state.prefer_longest()
        return state

    @property
    def format(self) -> Format:
        """Return the format."""
        return self._lowering.format

    @property
    def program(self) -> Program:
        """Return the grammar as a program for engines."""
        return self._lowering.program

    @property
    def lowered(self) -> Lowered:
        """Return the grammar with special tokens by id, and how its parse becomes values."""
        return self._lowering.lowered

    @property
    def as_written(self) -> Lowered:
        """Return the grammar with special tokens by name, and how its parse becomes values."""
        return self._lowering.as_written

    @property
    def has_captures(self) -> bool:
        """Return whether a parse of a text may have captures, including internal ones."""
        return self.program.captures
