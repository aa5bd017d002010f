"""What a sequence needs of a compiled format."""

from __future__ import annotations

from typing import Generic

from formatter_core.engine.protocol import EngineGrammar
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import Program
from formatter_core.limits import Limits
from formatter_core.support.generics import Value_co
from formatter_core.vocabulary import Vocabulary

__all__ = ["PreparedFormat"]


class PreparedFormat(Generic[Value_co]):
    """The parts of a `CompiledFormat`: immutable, shared by all its sequences.

    Attributes:
        format: what was compiled.
        lowered: its grammar, and how its parse becomes values; special tokens stand in it by id.
        as_written: the same with special tokens by name.
        engine_grammar: the grammar as its engine has it.
        vocabulary: what it was compiled for.
        engine: the name of the grammar engine that computes its masks.
        limits: the limits that each step keeps.
        program: its grammar as engines read it.
        max_tokens: the budget of its sequences, unless they are given another one; None for none.
    """

    def __init__(
        self,
        format: Format,
        lowered: Lowered,
        engine_grammar: EngineGrammar,
        *,
        as_written: Lowered | None = None,
        vocabulary: Vocabulary,
        engine: str,
        limits: Limits,
        program: Program,
    ) -> None:
        self.format = format
        self.lowered = lowered
        self.as_written = as_written or lowered
        self.engine_grammar = engine_grammar
        self.vocabulary = vocabulary
        self.engine = engine
        self.limits = limits
        self.program = program
        self.max_tokens: int | None = None

    def text_among(self, end_ids: tuple[int, ...]) -> list[int]:
        """Those of a sequence's own end ids that the engine takes for text."""
        if end_ids is self.vocabulary.end_ids:
            return []
        return [token_id for token_id in end_ids if self.vocabulary.text_token(token_id)]

    @property
    def has_captures(self) -> bool:
        """Whether a parse of a text may hold captures, internal ones included."""
        return self.program.captures
