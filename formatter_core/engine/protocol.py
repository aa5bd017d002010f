"""The seam: what a grammar engine offers to the core.

An engine knows grammars and the byte strings of tokens. It knows no end ids, formats, captures or errors of use:
those are the `Formatter`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from formatter_core.grammar import Grammar
from formatter_core.limits import Limits
from formatter_core.vocabulary import Vocabulary

__all__ = ["EngineGrammar", "EngineState", "GrammarEngine", "OneByOne", "StepInTwoCalls"]


class EngineState(Protocol):
    """The state of one sequence. One thread's at a time.

    The viable-prefix property holds throughout: what was accepted is always the beginning of some completion.
    """

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """Write the mask of the tokens that may come next; end ids are left 0.

        `row` has exactly `ceil(len(vocabulary) / 32)` words; bit `i % 32` of word `i // 32` is token `i`.
        """
        ...

    def accept_token(self, token_id: int) -> bool:
        """Append one token; False, with nothing changed, where it is not allowed. Counts as one step."""
        ...

    def step(self, token_id: int, row: NDArray[np.int32]) -> bool:
        """`accept_token`, then `fill_bitmask` where it was allowed; nothing is changed where either of them fails."""
        ...

    def accept_bytes(self, data: bytes) -> bool:
        """Append bytes; False, with nothing changed, where they are not allowed. Counts as one step."""
        ...

    def rollback(self, steps: int) -> None:
        """Undo the last `steps` accepted tokens or byte strings; the caller never asks for more than there are."""
        ...

    def fork(self) -> EngineState:
        """An independent copy, rollback history included."""
        ...

    def can_stop(self) -> bool:
        """Whether what was accepted is a completion."""
        ...

    def forced_bytes(self, limit: int) -> bytes:
        """The longest byte string that begins every completion of the rest, cut at `limit`; empty when `can_stop()`."""
        ...


class EngineGrammar(Protocol):
    """A grammar compiled for one vocabulary: immutable to its users and shared between threads."""

    def start(self) -> EngineState:
        """The state of a new sequence."""
        ...

    def fill_batch(self, states: Sequence[Any], rows: Sequence[NDArray[np.int32]]) -> None:
        """`fill_bitmask` for each state and its row; the states are of this engine and vocabulary, of any grammar."""
        ...


class GrammarEngine(Protocol):
    """A way to compute masks."""

    name: str

    def compile(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> EngineGrammar:
        """Compile a grammar that `Grammar.check` has passed.

        Raises:
            InvalidGrammar: no byte string is derived at all.
            UnsupportedByEngine: this engine cannot do a node exactly.
            LimitExceeded: within `limits` there is no answer.
        """
        ...


class StepInTwoCalls:
    """`EngineState.step` for an engine that has no single call for it."""

    def step(self: EngineState, token_id: int, row: NDArray[np.int32]) -> bool:
        """Accept, then fill; the token is taken back where the mask fails."""
        if not self.accept_token(token_id):
            return False
        try:
            self.fill_bitmask(row)
        except BaseException:
            self.rollback(1)
            raise
        return True


class OneByOne:
    """`EngineGrammar.fill_batch` for an engine that has no single call for it."""

    def fill_batch(self, states: Sequence[Any], rows: Sequence[NDArray[np.int32]]) -> None:
        """Fill one row after the other."""
        for state, row in zip(states, rows, strict=True):
            state.fill_bitmask(row)
