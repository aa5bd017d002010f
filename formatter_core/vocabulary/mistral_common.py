"""Token bytes of the tokenizers of mistral-common: Tekken (byte pairs of raw bytes) and SentencePiece.

Special tokens are never text. A SentencePiece piece keeps its leading space, see `tokenizers_json`.
"""

from __future__ import annotations

from typing import Any

from formatter_core.errors import InvalidVocabulary
from formatter_core.vocabulary.alphabets import SPACE_MARK, byte_piece
from formatter_core.vocabulary.table import TokenTable

__all__ = ["read"]


def read(tokenizer: Any) -> TokenTable:
    """Read the bytes of each token id, and the tokenizer's end-of-sequence id.

    Args:
        tokenizer: a `MistralTokenizer`, its `instruct_tokenizer`, or the tokenizer inside that.

    Raises:
        InvalidVocabulary: none of these.
    """
    inner = getattr(tokenizer, "instruct_tokenizer", tokenizer)
    inner = getattr(inner, "tokenizer", inner)
    if not (hasattr(inner, "n_words") and hasattr(inner, "id_to_piece") and hasattr(inner, "eos_id")):
        raise InvalidVocabulary(
            f"a {type(tokenizer).__name__} is not a tokenizer of mistral-common; "
            "pass a MistralTokenizer or its instruct_tokenizer"
        )
    raw = getattr(inner, "id_to_byte_piece", None)
    tokens = _tekken(inner, raw) if raw is not None else _sentencepiece(inner)
    special = {inner.id_to_piece(token_id): token_id for token_id, token in enumerate(tokens) if token is None}
    return TokenTable(tokens, (inner.eos_id,), special)


def _tekken(tokenizer: Any, raw: Any) -> list[bytes | None]:
    # Special tokens come first; other ids count from there.
    first = tokenizer.num_special_tokens
    return [None] * first + [raw(token_id) for token_id in range(first, tokenizer.n_words)]


def _sentencepiece(tokenizer: Any) -> list[bytes | None]:
    unknown = tokenizer.unk_id
    tokens: list[bytes | None] = []
    for token_id in range(tokenizer.n_words):
        if token_id == unknown or tokenizer.is_special(token_id):
            tokens.append(None)
            continue
        piece = tokenizer.id_to_piece(token_id)
        tokens.append(byte_piece(piece) or piece.replace(SPACE_MARK, " ").encode("utf-8"))
    return tokens
