"""A tokenizer of mlx-lm as a `Vocabulary`, read once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import InvalidVocabulary
from formatter_core.errors.arguments import shown, token_ids_of
from formatter_core.runtime.compilers import CompilersByOwner
from formatter_core.vocabulary import huggingface
from formatter_mlx import _compat

__all__ = ["checked_tokenizer", "compiler_for", "create_vocabulary", "needed_width"]

_compilers = CompilersByOwner()


def create_vocabulary(tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Vocabulary:
    """Create the vocabulary of a tokenizer; it is made once for each tokenizer object.

    Args:
        tokenizer: the second thing that `mlx_lm.load` returns, or a tokenizer of transformers.
        model: the first; gives the width of the logits.
        end_ids: the ids that end an output, instead of those at which mlx-lm stops (`tokenizer.eos_token_ids`).

    Raises:
        InvalidVocabulary: the tokenizer does not say how its tokens become text, or there is no end id.
    """
    return compiler_for(tokenizer, model=model, end_ids=end_ids).vocabulary


def compiler_for(tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Compiler:
    """Return the compiler of a tokenizer with these end ids and this width; it lives as long as the tokenizer."""
    inner = checked_tokenizer(tokenizer)
    ends = _compat.end_ids(tokenizer) if end_ids is None else token_ids_of(end_ids, "end_ids")
    width = _compat.logits_width(model)
    key = (huggingface.state(inner), ends, width)
    return _compilers.get(inner, key, lambda: Vocabulary.from_huggingface(inner, end_ids=ends, size=width))


def checked_tokenizer(tokenizer: Any) -> Any:
    """Return the transformers tokenizer inside mlx-lm's; raise `InvalidVocabulary` for anything else."""
    inner = _compat.huggingface_tokenizer(tokenizer)
    if not hasattr(inner, "convert_ids_to_tokens"):
        raise InvalidVocabulary(f"{shown(tokenizer)} is not a tokenizer of mlx-lm; give what mlx_lm.load returns")
    return inner


def needed_width(vocabulary: Vocabulary) -> int:
    """Return the number of logits that covers every token that a mask may allow.

    A model may have more ids than that, and its draft model fewer.
    """
    special = {*vocabulary.end_ids, *vocabulary.special_tokens.values()}
    ids = range(len(vocabulary) - 1, -1, -1)
    return 1 + next((token for token in ids if token in special or vocabulary.text_token(token) is not None), -1)
