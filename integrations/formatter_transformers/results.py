"""From the token ids that `generate` returned to results."""

from __future__ import annotations

import numpy as np

from formatter_core import CompiledFormat, Result, Vocabulary
from formatter_core.errors import TokenRejected

__all__ = ["result_of", "tokens_of"]


def tokens_of(key: bytes) -> list[int]:
    """The token ids of a key; a key is the ids as int64, which numpy makes and compares fastest."""
    ids: list[int] = np.frombuffer(key, np.int64).tolist()
    return ids


def result_of(compiled: CompiledFormat, tokens: list[int], error: Exception | None) -> tuple[Result, Exception | None]:
    """The result of one row's generated tokens, padding included, and what went wrong with it.

    Args:
        compiled: the row's format.
        tokens: the generated ids; whatever follows the first end id is padding.
        error: what ended the row while it was generated.

    A row that was cut counts as ended by `"stop_string"` where padding follows, since only a stopping criterion ends
    a row before the others, and by `"length"` where nothing follows.
    """
    formatter = compiled.formatter()
    first_end = next((index for index, token in enumerate(tokens) if token in formatter.end_ids), len(tokens))
    accepted = formatter.accept_tokens(tokens[: first_end + 1])
    rest = tokens[accepted:]
    if error is not None:
        return formatter.result("error"), error
    if formatter.is_finished:
        return formatter.result("end"), None
    if not rest:
        return formatter.result("length"), None
    if _is_padding(rest, compiled.vocabulary):
        return formatter.result("stop_string"), None
    rejected = TokenRejected(rest[0], position=accepted, reason=formatter.explain(rest[0]))
    return formatter.result("error"), rejected


def _is_padding(tokens: list[int], vocabulary: Vocabulary) -> bool:
    return len(set(tokens)) == 1 and vocabulary.text_token(tokens[0]) is None
