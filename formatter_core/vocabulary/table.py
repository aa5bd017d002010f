"""What every reader returns: the bytes of each token id, and the ids that end an output by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["TokenTable"]


@dataclass(frozen=True, slots=True)
class TokenTable:
    """The index is the token id; None stands for an id that never spells text. `end_ids` may be empty: not known."""

    tokens: Sequence[bytes | None]
    end_ids: tuple[int, ...]
