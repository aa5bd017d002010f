"""Token bytes of a `sentencepiece.SentencePieceProcessor`, by the type that the model gives each piece.

Control, unknown and unused pieces are never text, a byte piece is one byte, and in every other one U+2581 is a space.
The leading space: a model with `add_dummy_prefix`, which is the default, encodes "a" as " a" and drops that space when
it decodes a whole text; here every piece keeps its space, see `tokenizers_json`.
"""

from __future__ import annotations

from typing import Any

from formatter_core.errors import InvalidVocabulary
from formatter_core.vocabulary.alphabets import SPACE_MARK, byte_piece
from formatter_core.vocabulary.table import TokenTable

__all__ = ["piece_bytes", "read"]


def read(processor: Any) -> TokenTable:
    """Read the bytes of each token id, and the model's `eos_id()` if it has one.

    Raises:
        InvalidVocabulary: no SentencePiece processor, or one without a model.
    """
    if not hasattr(processor, "id_to_piece") or not hasattr(processor, "is_byte"):
        raise InvalidVocabulary(
            f"a {type(processor).__name__} is not a sentencepiece.SentencePieceProcessor; pass one with a loaded model"
        )
    size = processor.get_piece_size()
    if not size:
        raise InvalidVocabulary("the SentencePiece processor has no model; load one, for example with model_file=")
    tokens = [piece_bytes(processor, piece_id) for piece_id in range(size)]
    end_id = processor.eos_id()
    special = {processor.id_to_piece(piece_id): piece_id for piece_id in range(size) if processor.is_control(piece_id)}
    return TokenTable(tokens, () if end_id < 0 else (end_id,), special)


def piece_bytes(processor: Any, piece_id: int) -> bytes | None:
    """Return the bytes that one piece adds to a text; None for a piece that is never text."""
    if processor.is_control(piece_id) or processor.is_unknown(piece_id) or processor.is_unused(piece_id):
        return None
    piece: str = processor.id_to_piece(piece_id)
    if processor.is_byte(piece_id):
        return byte_piece(piece)
    return piece.replace(SPACE_MARK, " ").encode("utf-8")
