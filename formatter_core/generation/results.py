"""What a generation loop returns for one sequence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from formatter_core.formatter import Formatter
from formatter_core.result import Ended, Result

__all__ = ["ChosenToken", "Generated", "Stopped", "TokenScore"]

Stopped: TypeAlias = Literal["end", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token and its log-probability (natural logarithm)."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class ChosenToken:
    """A token that was taken, and its log-probability at temperature 1.

    Attributes:
        logprob: among the tokens that the format allows.
        unmasked_logprob: among all tokens.
        top: the best tokens that the format allows, the best first; several with the value of the last one all count.
        unmasked_top: the same among all tokens.
    """

    token_id: int
    logprob: float
    unmasked_logprob: float
    top: tuple[TokenScore, ...] = ()
    unmasked_top: tuple[TokenScore, ...] = ()


@dataclass(frozen=True)
class Generated:
    """One finished sequence.

    Attributes:
        tokens: the generated ids, the end id included.
        bytes: the text that they spell.
        stopped: why it is finished.
        error: what went wrong, where `stopped` is `"error"`.
        chosen: the log-probabilities of each token, where they were asked for.
        formatter: the state after the last token; None for a sequence without a format.
    """

    tokens: tuple[int, ...]
    bytes: bytes
    stopped: Stopped
    error: BaseException | None = None
    chosen: tuple[ChosenToken, ...] = ()
    formatter: Formatter | None = None

    @property
    def text(self) -> str:
        """The bytes as text; a character that was cut becomes U+FFFD."""
        return self.bytes.decode("utf-8", "replace")

    @cached_property
    def result(self) -> Result | None:
        """What the format makes of it, parsed when first asked for; None for a sequence without a format."""
        if self.formatter is None:
            return None
        ended: Ended | None = None if self.stopped == "cancelled" else self.stopped
        return self.formatter.result(ended)

    def raise_error(self) -> None:
        """Raise what went wrong with this sequence, if something did."""
        if self.error is not None:
            raise self.error
