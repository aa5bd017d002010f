"""Define one token of a trace."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Alternative", "Step", "shown_bytes"]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that could have been taken.

    Attributes:
        bytes: its text; None for an end id and for a token that spells no text.
        probability: its probability, among all tokens or among the allowed ones.
        is_allowed: whether the format allows it here.
        is_end: whether the token ends an output.
    """

    token_id: int
    bytes: bytes | None
    probability: float
    is_allowed: bool
    is_end: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A token of an output, with the alternatives at its position.

    Attributes:
        token_id: the token that was taken.
        bytes: its text; None for an end id and for a token that spells no text.
        start: the number of bytes of text before it.
        allowed: the number of tokens that the format allowed, including end ids.
        masked_probability: the probability that the model gave to all tokens that the format forbade.
        probability: the probability of the token among the allowed ones; `unmasked_probability`: among all tokens.
        wanted: the best tokens before the mask, best first.
        alternatives: the best tokens after the mask.
        expected: what the format expected, in words; "" if the explanation exceeds the limits.
        place: the place in the format: a schema's pointer ("#/properties/age"), a hole, a rule; "" at its outermost
            level.
    """

    token_id: int
    bytes: bytes | None
    start: int
    allowed: int
    masked_probability: float
    probability: float
    unmasked_probability: float
    wanted: tuple[Alternative, ...]
    alternatives: tuple[Alternative, ...]
    expected: str
    place: str

    @property
    def is_forced(self) -> bool:
        """Return whether the format allowed no alternative."""
        return self.allowed == 1

    @property
    def refused(self) -> Alternative | None:
        """Return the most probable token that the format forbade; None if it is not among the best tokens."""
        return next((other for other in self.wanted if not other.is_allowed), None)


def shown_bytes(data: bytes) -> str:
    r"""Return bytes as text; `\xNN` is written for each byte that is not part of a whole character."""
    return data.decode("utf-8", "backslashreplace")
