"""The result of every reader: the bytes of each token id, the default end ids, and the special tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["TokenTable"]


@dataclass(frozen=True, slots=True)
class TokenTable:
    """Token bytes by token id; None is an id that is never text.

    Attributes:
        tokens: the bytes of each token id.
        end_ids: the ids that end an output by default; empty if unknown.
        special_tokens: the ids of the special tokens by name.
    """

    tokens: Sequence[bytes | None]
    end_ids: tuple[int, ...]
    special_tokens: Mapping[str, int] = field(default_factory=dict)
