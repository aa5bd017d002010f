"""Token bytes of the tokenizers of transformers (fast, slow, mistral-common) and of `tokenizers.Tokenizer`.

It reads, in this order:

1. a fast tokenizer, or a `tokenizers.Tokenizer`: its JSON description, see `tokenizers_json`;
2. a slow tokenizer on SentencePiece (`sp_model`): each piece with the type that the SentencePiece model gives it;
3. a slow tokenizer on a `tiktoken.Encoding`: the encoding's bytes;
4. a slow byte-level tokenizer (`byte_decoder`): each piece by that very table;
5. a slow WordPiece tokenizer (`wordpiece_tokenizer`): `##x` is x, anything else is a space and itself;

and then, for all of them, what transformers itself adds: special tokens are never text, other added tokens spell
exactly their content. `tokenizers_json` describes the leading space.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

from formatter_core.errors import InvalidVocabulary
from formatter_core.vocabulary import mistral_common, sentencepiece, tiktoken, tokenizers_json
from formatter_core.vocabulary.table import TokenTable

__all__ = ["read", "state"]


def read(tokenizer: Any) -> TokenTable:
    """Read the bytes of each token id, and the tokenizer's end-of-sequence id if it has one.

    A processor of transformers (text and images) is read as its tokenizer.

    Raises:
        InvalidVocabulary: the tokenizer does not define how its tokens become text.
    """
    inner = getattr(tokenizer, "tokenizer", None)
    if hasattr(inner, "instruct_tokenizer"):
        return mistral_common.read(inner)
    if hasattr(tokenizer, "to_str"):
        description = json.loads(tokenizer.to_str())
        special = {token["content"]: token["id"] for token in description["added_tokens"] if token["special"]}
        return TokenTable(tokenizers_json.read(description), (), special)
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        if hasattr(inner, "convert_ids_to_tokens"):
            return read(inner)
        raise InvalidVocabulary(
            f"a {type(tokenizer).__name__} is not a tokenizer of transformers or tokenizers; "
            "pass one, or build Vocabulary(tokens, end_ids) yourself"
        )
    backend = getattr(tokenizer, "backend_tokenizer", None)
    tokens = _slow(tokenizer) if backend is None else tokenizers_json.read(json.loads(backend.to_str()))
    special = _apply_added(tokenizer, tokens)
    eos = tokenizer.eos_token_id
    ends = () if eos is None else tuple(eos) if isinstance(eos, (list, tuple)) else (eos,)
    return TokenTable(tokens, ends, special)


def state(tokenizer: Any) -> Hashable:
    """Return a value that changes when tokens of a tokenizer are added or made special, or its end token changes."""
    special = map(str, getattr(tokenizer, "all_special_tokens", ()))
    # A token that the tokenizer had before can be added, too: as plain text, or as a special token.
    try:
        decoder = getattr(tokenizer, "added_tokens_decoder", {})
    except NotImplementedError:  # transformers' tokenizers of mistral-common, to which none can be added
        decoder = {}
    added = tuple((token_id, token.content, token.special) for token_id, token in decoder.items())
    return len(tokenizer), str(getattr(tokenizer, "eos_token_id", None)), added, *special


def _apply_added(tokenizer: Any, tokens: list[bytes | None]) -> dict[str, int]:
    """Enter the added tokens; the special ones by name."""
    special = set(tokenizer.all_special_ids)
    added: dict[int, Any] = tokenizer.added_tokens_decoder
    tokens.extend([None] * (max((*added, *special), default=-1) + 1 - len(tokens)))
    for token_id, token in added.items():
        tokens[token_id] = None if token.special else token.content.encode("utf-8")
    for token_id in special:
        tokens[token_id] = None
    special.update(token_id for token_id, token in added.items() if token.special)
    ids = sorted(special)
    return dict(zip(map(str, tokenizer.convert_ids_to_tokens(ids)), ids, strict=True))


def _slow(tokenizer: Any) -> list[bytes | None]:
    size = len(tokenizer)
    if hasattr(tokenizer, "sp_model"):
        return _on_sentencepiece(tokenizer, size)
    for attribute in ("tokenizer", "model", "encoder"):
        encoding = getattr(tokenizer, attribute, None)
        if hasattr(encoding, "decode_single_token_bytes"):
            return list(tiktoken.read(encoding).tokens)
    pieces: list[str | None] = tokenizer.convert_ids_to_tokens(list(range(size)))
    table = getattr(tokenizer, "byte_decoder", None)
    if isinstance(table, dict):
        return [None if piece is None else _by_table(piece, table) for piece in pieces]
    if hasattr(tokenizer, "wordpiece_tokenizer"):
        return [None if piece is None else _word_piece(piece).encode("utf-8") for piece in pieces]
    raise InvalidVocabulary(
        f"the slow tokenizer {type(tokenizer).__name__} does not define how its tokens become text; "
        "use its fast version, or build Vocabulary(tokens, end_ids) yourself"
    )


def _on_sentencepiece(tokenizer: Any, size: int) -> list[bytes | None]:
    # The tokenizer may shift the ids of its model, so look up pieces, not ids.
    model = tokenizer.sp_model
    tokens: list[bytes | None] = []
    for piece in tokenizer.convert_ids_to_tokens(list(range(size))):
        piece_id = model.piece_to_id(piece)
        known = model.id_to_piece(piece_id) == piece
        tokens.append(sentencepiece.piece_bytes(model, piece_id) if known else None)
    return tokens


def _by_table(piece: str, table: dict[str, int]) -> bytes:
    try:
        return bytes(table[char] for char in piece)
    except KeyError:
        return piece.encode("utf-8")


def _word_piece(piece: str) -> str:
    return piece[2:] if piece.startswith("##") else " " + piece
