"""Find tokens that need no model: text for which the format allows no alternative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from formatter_core.runtime import bitmask
from formatter_core.runtime.formatter import Formatter

__all__ = ["ForcedText", "LoopForcedText", "canonical_tokens", "only_id"]

#: `"exact"`: where exactly one id is allowed, it is taken. `"canonical"`: where the text is certain but has several
#: spellings, the tokenizer's spelling is taken as well. `"off"`: the model chooses every token.
ForcedText: TypeAlias = Literal["exact", "canonical", "off"]

#: Also `"drafts"`: the tokenizer's tokens are proposed, and the forward pass that computes them keeps those that the
#: model itself draws.
LoopForcedText: TypeAlias = ForcedText | Literal["drafts"]


def only_id(row: NDArray[np.int32]) -> int | None:
    """Return the id that a bitmask row allows, if there is exactly one."""
    words = np.flatnonzero(row)
    if len(words) != 1:
        return None
    bits = int(row[words[0]]) & 0xFFFFFFFF
    return int(words[0]) * 32 + bits.bit_length() - 1 if bits & (bits - 1) == 0 else None


def canonical_tokens(formatter: Formatter, encode: Callable[[bytes], list[int] | None], most: int) -> list[int]:
    """Return the tokenizer's tokens for the text that must follow; the formatter is not changed.

    The last token is held back if a longer token could replace it: the tokenizer's spelling then depends on what the
    model writes next.

    Args:
        formatter: the state of the sequence.
        encode: returns ids that spell exactly these bytes, or None if there are none.
        most: the maximum number of tokens.
    """
    text = _whole_characters(formatter.forced_bytes())
    tokens = encode(text) if text else None
    if not tokens:
        return []
    trial = formatter.fork()
    taken = tokens[: min(most, trial.accept_tokens(tokens[:most]))]
    if len(taken) < len(tokens):
        return taken
    trial.rollback(1)
    return taken[:-1] if _can_merge(trial, taken[-1]) else taken


def _can_merge(before: Formatter, token: int) -> bool:
    """Return whether a longer token that begins with this one is allowed in its place."""
    vocabulary = before.compiled.vocabulary
    text = vocabulary.text_token(token) or b""
    row = bitmask.allocate(1, len(vocabulary))[0]
    before.fill_bitmask(row)
    longer = ((vocabulary.text_token(other) or b"") for other in bitmask.allowed_ids(row))
    return any(len(other) > len(text) and other.startswith(text) for other in longer)


def _whole_characters(data: bytes) -> bytes:
    """Return the bytes without an incomplete character at their end."""
    return data.decode("utf-8", "ignore").encode()
