"""A text in parts, as it was accepted: bytes, and the ids of tokens that the grammar names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TypeAlias, cast

__all__ = ["Part", "bytes_of", "runs_of"]

Part: TypeAlias = bytes | int


def bytes_of(parts: Sequence[Part]) -> bytes:
    """Join the bytes of the parts; tokens have none."""
    try:
        return b"".join(cast("Sequence[bytes]", parts))  # mostly there is nothing else, and this is quick
    except TypeError:
        return b"".join(part for part in parts if isinstance(part, bytes))


def runs_of(parts: Sequence[Part]) -> list[Part]:
    """Return the text with adjacent bytes joined, up to the next token."""
    try:
        return [b"".join(cast("Sequence[bytes]", parts))]
    except TypeError:
        runs: list[Part] = []
        for is_token, run in groupby(parts, lambda part: isinstance(part, int)):
            group = list(run)
            runs.extend(group if is_token else [bytes_of(group)])
        return runs
