"""The seam: what a grammar engine offers to the core.

An engine knows grammars and the byte strings of tokens. It knows no end ids, formats, captures or errors of use:
those are the `Formatter`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.rows import is_plain
from formatter_core.errors import UnsupportedByEngine
from formatter_core.grammar import Grammar, Program
from formatter_core.limits import Limits
from formatter_core.vocabulary import Vocabulary

__all__ = [
    "UNFIT",
    "EngineGrammar",
    "EngineState",
    "GrammarEngine",
    "KeepsPrograms",
    "MaskStatus",
    "NoBudget",
    "OneByOne",
    "ReadsPrograms",
    "SharesMemory",
    "StepInTwoCalls",
    "TellsMemory",
    "mask_status",
]


class MaskStatus:
    """The bits that an engine returns with a mask: to find them out again would take longer than most masks."""

    #: A token is allowed.
    HAS_TOKENS: Final = 1
    #: `can_stop()`.
    CAN_STOP: Final = 2
    #: `step` adds this if it accepted the token.
    ACCEPTED: Final = 4
    #: A budget forbids tokens that the grammar allows.
    SHORTENED: Final = 8
    #: `step_batch` adds this if it put the mask on logits as well.
    APPLIED: Final = 16


#: Returned instead of a status if the row cannot take the mask.
UNFIT: Final = -4


def mask_status(row: NDArray[np.int32], can_stop: bool) -> int:
    """Compute `HAS_TOKENS` and `CAN_STOP` of a finished mask, for an engine that does not know them already."""
    return (MaskStatus.HAS_TOKENS if row.any() else 0) | (MaskStatus.CAN_STOP if can_stop else 0)


class EngineState(Protocol):
    """The state of one sequence. Only one thread at a time may use it.

    The viable-prefix property always holds: the accepted text begins some completion.
    """

    def fill_bitmask(self, row: NDArray[np.int32]) -> int:
        """Write the mask of the tokens that may come next; end ids are left 0.

        Returns `HAS_TOKENS`, `CAN_STOP` and `SHORTENED`.

        `row` has exactly `ceil(len(vocabulary) / 32)` words; bit `i % 32` of word `i // 32` is token `i`.
        """
        ...

    def try_fill(self, row: NDArray[np.int32], words: int) -> int:
        """Call `fill_bitmask` if `row` is plain (see `rows.is_plain`) and has the right size; else write nothing.

        Return the status of `fill_bitmask`, or `UNFIT`.
        """
        ...

    def accept_token(self, token_id: int) -> bool:
        """Append one token; False, with nothing changed, where it is not allowed. Counts as one step.

        There may be no token with this id.
        """
        ...

    def step(self, token_id: int, row: NDArray[np.int32]) -> int:
        """Call `accept_token`, then `fill_bitmask`; return its status and `ACCEPTED`, or 0 for a forbidden token.

        Nothing is changed where either of them fails, and nothing is written where the token is not allowed.
        """
        ...

    def advance(self, token_id: int) -> int:
        """Call `accept_token`; return `ACCEPTED`, with the status of the next mask if it is known already, or 0."""
        ...

    def step_kept(self, token_id: int) -> int:
        """Call `step`, but return the number of a kept mask that has tokens instead of writing it.

        The number is above 0. In one process, masks have the same one only if they are the same, of one vocabulary, and
        with the same `can_stop()`. Everywhere else the answer is 0, and nothing is changed.
        """
        ...

    def accept_bytes(self, data: bytes) -> bool:
        """Append bytes; False, with nothing changed, where they are not allowed. Counts as one step."""
        ...

    def rollback(self, steps: int) -> None:
        """Undo the last `steps` accepted tokens or byte strings; `steps` never exceeds their number."""
        ...

    def steps_taken(self) -> int | None:
        """Count the accepted tokens and byte strings; None if the engine does not. Asked after an interrupt."""
        ...

    def fork(self) -> EngineState:
        """Return an independent copy, including its rollback history."""
        ...

    def set_budget(self, max_tokens: int, avoided: Sequence[int]) -> int | None:
        """Complete the text within `max_tokens` tokens from the start on, including the end id.

        Bytes that were accepted without a token do not count. From then on a mask holds a token only if a completion is
        left that fits, and no other token is accepted. A token is always allowed, or the text may end.

        Args:
            max_tokens: the budget.
            avoided: tokens of text that are end ids of this sequence alone: no completion that counts has them.

        Returns:
            how many tokens are enough, or None if no completion is known; the budget holds only where they are not more
            than `max_tokens`.

        Raises:
            UnsupportedByEngine: this engine keeps no budgets.
        """
        ...

    def prefer_longest(self) -> None:
        """Make masks, from now on, leave out tokens that begin a longer token of forced text.

        Tokens that are left out are accepted all the same. An engine may go on giving all of them.
        """
        ...

    def can_stop(self) -> bool:
        """Tell whether the accepted text is complete."""
        ...

    def forced_bytes(self, limit: int) -> bytes:
        """Return the longest byte string that begins every completion of the rest, up to `limit`; empty if complete."""
        ...


class EngineGrammar(Protocol):
    """A grammar compiled for one vocabulary: immutable to its users and shared between threads."""

    def start(self) -> EngineState:
        """Return the state of a new sequence."""
        ...

    def is_usable(self) -> bool:
        """Tell whether new sequences can begin. They cannot after the engine failed in data that they would share."""
        ...

    def step_batch(
        self,
        states: Sequence[Any],
        token_ids: Sequence[int | None],
        rows: NDArray[np.int32],
        places: Sequence[int],
        logits: NDArray[np.float32] | None = None,
    ) -> Sequence[int | Exception]:
        """Call `step` for each state with its token, or `fill_bitmask` if that is None; return or raise like them.

        Args:
            states: of this engine and vocabulary, of any grammar; all different.
            rows: int32 (rows, words), each row as for one state.
            places: the row of each state.
            logits: float32 (rows, width), each row's side by side; an engine that can puts masks to which no end ids
                are to be added on those at the same places, and says so by `MaskStatus.APPLIED`.
        """
        ...


class GrammarEngine(Protocol):
    """A way to compute masks."""

    name: str

    def compile(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> EngineGrammar:
        """Compile a grammar that `Grammar.check` has passed.

        Raises:
            InvalidGrammar: the grammar derives no byte string.
            UnsupportedByEngine: this engine cannot do a node exactly.
            LimitExceeded: no answer was found within `limits`.
        """
        ...


@runtime_checkable
class ReadsPrograms(Protocol):
    """A `GrammarEngine` that compiles a grammar from its program alone."""

    name: str

    def load(
        self, data: bytes, begin: int, end: int, regions: int, vocabulary: Vocabulary, limits: Limits
    ) -> EngineGrammar:
        """Compile the program of a grammar; the program is untrusted.

        Args:
            data: the program, or a stored format that contains it.
            begin: where in them the program begins.
            end: where it ends.
            regions: how many regions of it have budgets of tokens.

        Raises:
            InvalidGrammar: it is not a program of this version, or derives no byte string; or the bytes contain more
                than a program and do not end with their checksum, and nothing was read.
            LimitExceeded: no answer was found within `limits`.
        """
        ...


@runtime_checkable
class KeepsPrograms(ReadsPrograms, Protocol):
    """An engine that takes programs as objects, so that a program inside a library need not become bytes."""

    def load_program(self, program: Program, vocabulary: Vocabulary, limits: Limits) -> EngineGrammar:
        """Load a grammar from a program alone."""
        ...


@runtime_checkable
class TellsMemory(Protocol):
    """An `EngineGrammar` that counts its bytes."""

    def memory(self) -> dict[str, int]:
        """Count bytes by purpose. No lock is held for long, and no sequence waits."""


@runtime_checkable
class SharesMemory(Protocol):
    """A `GrammarEngine` whose grammars share something by vocabulary."""

    def memory(self, vocabulary: Vocabulary) -> dict[str, int]:
        """Count its bytes by what they are for; none if no grammar has been compiled for the vocabulary."""

    def forget(self, vocabulary: Vocabulary) -> None:
        """Free what can be computed again, if no living grammar uses it."""


class StepInTwoCalls:
    """`EngineState.step` for an engine without a single call for it; `try_fill` for one that does not look at rows."""

    def try_fill(self: EngineState, row: NDArray[np.int32], words: int) -> int:
        """Look at the row, then fill."""
        return self.fill_bitmask(row) if is_plain(row) and row.size == words else UNFIT

    def step(self: EngineState, token_id: int, row: NDArray[np.int32]) -> int:
        """Accept, then fill; the token is taken back where the mask fails."""
        if not self.accept_token(token_id):
            return 0
        try:
            return MaskStatus.ACCEPTED | self.fill_bitmask(row)
        except BaseException:
            self.rollback(1)
            raise

    def advance(self: EngineState, token_id: int) -> int:
        """Accept a token; no mask is known before it is computed."""
        return MaskStatus.ACCEPTED if self.accept_token(token_id) else 0

    def step_kept(self, token_id: int) -> int:
        """Do nothing: this engine keeps no masks."""
        return 0

    def steps_taken(self) -> int | None:
        """Return no count: this engine does not count steps."""
        return None


class NoBudget:
    """`EngineState.set_budget` and `prefer_longest` for an engine that cannot tell how a text goes on."""

    def set_budget(self, max_tokens: int, avoided: Sequence[int]) -> int | None:
        """Refuse: this engine has no budgets.

        Raises:
            UnsupportedByEngine: always.
        """
        raise UnsupportedByEngine(
            "this engine cannot tell how far away the end is; leave max_tokens out, or use the native engine",
            engine=type(self).__name__.removesuffix("State").lower(),
            node="a token budget",
        )

    def prefer_longest(self) -> None:
        """Do nothing: this engine does not know in time what text is forced."""


class OneByOne:
    """`EngineGrammar.step_batch` for an engine that has no single call for it, and whose sequences share no tables."""

    def is_usable(self) -> bool:
        """Return True: this engine is always usable."""
        return True

    def step_batch(
        self,
        states: Sequence[Any],
        token_ids: Sequence[int | None],
        rows: NDArray[np.int32],
        places: Sequence[int],
        logits: NDArray[np.float32] | None = None,
    ) -> list[int | Exception]:
        """Advance one state after the other; the caller masks the logits."""
        answers: list[int | Exception] = []
        for state, token_id, place in zip(states, token_ids, places, strict=True):
            try:
                row = rows[place]
                answers.append(state.fill_bitmask(row) if token_id is None else state.step(token_id, row))
            except Exception as error:  # noqa: BLE001 - the error belongs to one state; the other states continue
                answers.append(error)
        return answers
