"""What every reader returns: the bytes of each token id, and what is known of the special ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["TokenTable"]


@dataclass(frozen=True, slots=True)
class TokenTable:
    """The index is the token id; None stands for an id that never spells text.

    Attributes:
        tokens: the bytes of each token id.
        end_ids: the ids that end an output by default; empty where that is not known.
        special_tokens: the ids of the special tokens by name.
    """

    tokens: Sequence[bytes | None]
    end_ids: tuple[int, ...]
    special_tokens: Mapping[str, int] = field(default_factory=dict)
