"""One token of a trace, as values."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Alternative", "Step", "shown_bytes"]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that could have been taken.

    Attributes:
        bytes: its text; None for an end id and whatever else spells no text.
        probability: among all tokens, or among the allowed ones.
        is_allowed: whether the format allows it here.
        is_end: whether it ends an output.
    """

    token_id: int
    bytes: bytes | None
    probability: float
    is_allowed: bool
    is_end: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One token of an output.

    Attributes:
        token_id: the token that was taken.
        bytes: its text; None for an end id and whatever else spells no text.
        start: how many bytes of text stand before it.
        allowed: how many tokens the format allowed, including end ids.
        masked_probability: the probability, as the model sees it, of all tokens that the format forbade.
        probability: of the token, among those allowed; `unmasked_probability`: among all.
        wanted: the best tokens before the mask, the best first.
        alternatives: the best tokens after the mask.
        expected: what the format expected, in words; "" if finding out takes more than the limits allow.
        place: where in the format: a schema's pointer ("#/properties/age"), a hole, a rule; "" at its outermost level.
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
        """Whether the format left no choice."""
        return self.allowed == 1

    @property
    def refused(self) -> Alternative | None:
        """What the model wanted most of all that the format forbade; None if it is not among the best tokens."""
        return next((other for other in self.wanted if not other.is_allowed), None)


def shown_bytes(data: bytes) -> str:
    r"""Bytes as text in which `\xNN` stands for what is not a whole character."""
    return data.decode("utf-8", "backslashreplace")
