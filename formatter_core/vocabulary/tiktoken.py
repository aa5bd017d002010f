"""Token bytes of a `tiktoken.Encoding`, which lists them directly."""

from __future__ import annotations

from typing import Any

from formatter_core.errors import InvalidVocabulary
from formatter_core.vocabulary.table import TokenTable

__all__ = ["read"]


def read(encoding: Any) -> TokenTable:
    """Read the bytes of each token id; special tokens are never text; ids without a token are unused.

    The end id is `<|endoftext|>` where the encoding has it; other families name theirs differently.

    Raises:
        InvalidVocabulary: no tiktoken encoding.
    """
    for needed in ("decode_single_token_bytes", "n_vocab", "special_tokens_set", "encode_single_token"):
        if not hasattr(encoding, needed):
            raise InvalidVocabulary(
                f"a {type(encoding).__name__} has no {needed}; pass a tiktoken.Encoding of tiktoken 0.5 or newer"
            )
    decode = encoding.decode_single_token_bytes
    tokens: list[bytes | None] = [None] * encoding.n_vocab
    for token_id in range(len(tokens)):
        try:
            tokens[token_id] = decode(token_id)
        except KeyError:
            continue  # a hole
    special = {text: encoding.encode_single_token(text) for text in encoding.special_tokens_set}
    for token_id in special.values():
        tokens[token_id] = None
    return TokenTable(tokens, tuple(special[text] for text in ("<|endoftext|>",) if text in special), special)
