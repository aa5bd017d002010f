"""Find tokens that need no model: text for which the format allows no alternative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import FormatterError
from formatter_core.errors.arguments import whole_number
from formatter_core.runtime import bitmask
from formatter_core.runtime.formatter import Formatter
from formatter_core.vocabulary import Vocabulary

__all__ = ["DraftsForForcedText", "ForcedText", "LoopForcedText", "canonical_tokens", "forced_drafts", "only_id"]

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


def forced_drafts(
    state: Callable[[], Formatter | None],
    continuation: Callable[[Vocabulary], Callable[[bytes], list[int] | None]],
    most: int,
) -> list[int]:
    """Return `canonical_tokens` as drafts for a hook's sequence.

    There are none for a sequence that has ended, or whose next mask will raise an error.

    Args:
        state: returns the state of the sequence, or None if it has no format or has failed.
        continuation: returns the `encode` of `canonical_tokens` for a vocabulary.
        most: the maximum number of tokens.
    """
    try:
        formatter = state()
        if formatter is None or formatter.is_finished:
            return []
        return canonical_tokens(formatter, continuation(formatter.compiled.vocabulary), most)
    except FormatterError:
        return []


class DraftsForForcedText:
    """A base class for draft models that propose the tokenizer's tokens for text that a format forces.

    Args:
        most: the maximum number of tokens proposed at a time.

    Raises:
        InvalidArgument: `most` is not a whole number from 1.

    Attributes:
        proposed: the number of tokens proposed so far.
    """

    def __init__(self, most: int) -> None:
        self.most = whole_number(most, "most", minimum=1)
        self.proposed = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.proposed} tokens proposed>"


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
