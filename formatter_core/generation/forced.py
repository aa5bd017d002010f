"""Tokens that need no model: text that the format leaves no choice about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from formatter_core.runtime import bitmask
from formatter_core.runtime.formatter import Formatter

__all__ = ["ForcedText", "LoopForcedText", "canonical_tokens", "only_id"]

#: `"exact"`: where exactly one id is allowed, it is taken. `"canonical"`: also where the text is certain, but could be
#: spelt with other tokens, those are taken that the tokenizer would give. `"off"`: the model chooses every token.
ForcedText: TypeAlias = Literal["exact", "canonical", "off"]

#: Also `"drafts"`: those same tokens are proposed, and the pass that computes them keeps what the model draws itself.
LoopForcedText: TypeAlias = ForcedText | Literal["drafts"]


def only_id(row: NDArray[np.int32]) -> int | None:
    """The id that a bitmask row allows, if it is exactly one."""
    words = np.flatnonzero(row)
    if len(words) != 1:
        return None
    bits = int(row[words[0]]) & 0xFFFFFFFF
    return int(words[0]) * 32 + bits.bit_length() - 1 if bits & (bits - 1) == 0 else None


def canonical_tokens(formatter: Formatter, encode: Callable[[bytes], list[int] | None], most: int) -> list[int]:
    """The tokenizer's tokens for the text that must follow; the formatter is left as it is.

    The last one is kept back where a longer token could stand in its place: what the tokenizer would make of the text
    then depends on what the model writes next.

    Args:
        formatter: the state of the sequence.
        encode: gives ids that spell exactly these bytes, None where there are none.
        most: how many tokens at most.
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
    """Whether a longer token that begins with this one is allowed in its place."""
    vocabulary = before.compiled.vocabulary
    text = vocabulary.text_token(token) or b""
    row = bitmask.allocate(1, len(vocabulary))[0]
    before.fill_bitmask(row)
    longer = ((vocabulary.text_token(other) or b"") for other in bitmask.allowed_ids(row))
    return any(len(other) > len(text) and other.startswith(text) for other in longer)


def _whole_characters(data: bytes) -> bytes:
    """The bytes without a character that is cut at their end."""
    return data.decode("utf-8", "ignore").encode()
