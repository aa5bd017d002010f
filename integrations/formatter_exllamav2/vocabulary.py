"""The tokens of an ExLlamaV2 tokenizer as a `Vocabulary`, read once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from formatter_core import Compiler, Vocabulary
from formatter_core.errors.arguments import token_ids_of
from formatter_core.runtime.compilers import CompilersByOwner
from formatter_core.vocabulary import huggingface, sentencepiece
from formatter_core.vocabulary.table import TokenTable
from formatter_exllamav2 import _compat

__all__ = ["compiler_for", "create_vocabulary"]

_compilers = CompilersByOwner()


def create_vocabulary(tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Vocabulary:
    """Create the vocabulary of a tokenizer; it is made once for each tokenizer object.

    The pieces are read from the `tokenizer.json` (or, before 0.3.1, the SentencePiece model) that the tokenizer holds:
    `get_id_to_piece_list` has lost bytes that are not whole characters.

    Args:
        tokenizer: an `ExLlamaV2Tokenizer`.
        model: an `ExLlamaV2`; it gives the width of the logits and the end ids where the tokenizer was made with
            another configuration.
        end_ids: the ids that end an output, instead of those named in the model's files.

    Raises:
        InvalidVocabulary: this is not an ExLlamaV2 tokenizer, it does not say how its tokens become text, or no id ends
            an output.
    """
    return compiler_for(tokenizer, model=model, end_ids=end_ids).vocabulary


def compiler_for(tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Compiler:
    """Return the compiler of a tokenizer with these end ids and this width; it lives as long as the tokenizer."""
    pieces = _compat.tokenizer_model(tokenizer)
    width = _compat.logits_width(tokenizer, model)
    ends = _compat.end_ids(tokenizer, model) if end_ids is None else token_ids_of(end_ids, "end_ids")
    if end_ids is None and width is not None:  # some models' files name an end that they have no logit for
        ends = tuple(token_id for token_id in ends if token_id < width)
    return _compilers.get(
        tokenizer, (ends, width), lambda: _read(pieces, _compat.special_tokens(tokenizer), ends, width)
    )


def _read(pieces: Any, special: dict[str, int], ends: tuple[int, ...], width: int | None) -> Vocabulary:
    table = huggingface.read(pieces) if hasattr(pieces, "to_str") else sentencepiece.read(pieces)
    tokens = list(table.tokens)
    for token_id in special.values():
        if token_id < len(tokens):
            tokens[token_id] = None
    return Vocabulary.from_table(TokenTable(tokens, ends, {**table.special_tokens, **special}), size=width)
