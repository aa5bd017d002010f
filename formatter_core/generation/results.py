"""What a generation loop returns for one sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from formatter_core.result import Result

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
        result: what the format makes of it; None for a sequence without a format.
        chosen: the log-probabilities of each token, where they were asked for.
    """

    tokens: tuple[int, ...]
    bytes: bytes
    stopped: Stopped
    error: BaseException | None = None
    result: Result | None = None
    chosen: tuple[ChosenToken, ...] = ()

    @property
    def text(self) -> str:
        """The bytes as text; a character that was cut becomes U+FFFD."""
        return self.bytes.decode("utf-8", "replace")

    def raise_error(self) -> None:
        """Raise what went wrong with this sequence, if something did."""
        if self.error is not None:
            raise self.error
