"""A tokenizer of transformers as a `Vocabulary`, read once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import InvalidArgument, InvalidVocabulary
from formatter_core.errors.arguments import shown, token_ids_of
from formatter_core.runtime.compilers import CompilersByOwner
from formatter_core.vocabulary import huggingface
from formatter_transformers import _compat

__all__ = ["compiler_for", "create_vocabulary"]

_compilers = CompilersByOwner()


def create_vocabulary(tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Vocabulary:
    """The vocabulary of a tokenizer, fast or slow; made once for each tokenizer object.

    Args:
        tokenizer: what `AutoTokenizer.from_pretrained` returns.
        model: gives the width of the logits, and the ids that end its outputs (`generation_config.eos_token_id`,
            one or several). Without it the tokenizer's own end-of-sequence id is the only one.
        end_ids: the ids that end an output, instead of the model's. Name those at which `generate` stops.

    Raises:
        InvalidArgument: the tokenizer's name instead of the tokenizer.
        InvalidVocabulary: the tokenizer does not say how its tokens become text, or there is no end id.
    """
    return compiler_for(tokenizer, model=model, end_ids=end_ids).vocabulary


def compiler_for(tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Compiler:
    """The compiler of a tokenizer with these end ids and this width; kept as long as the tokenizer lives."""
    if isinstance(tokenizer, str):
        raise InvalidArgument(
            f"the tokenizer is a name, {tokenizer!r}; give AutoTokenizer.from_pretrained({tokenizer!r})",
            argument="tokenizer",
        )
    if isinstance(tokenizer, (str, bytes)) or not hasattr(tokenizer, "__len__") or not hasattr(tokenizer, "decode"):
        raise InvalidVocabulary(
            f"{shown(tokenizer)} is not a tokenizer of transformers; give what AutoTokenizer.from_pretrained gives, "
            "or the `tokenizer` of a processor"
        )
    ends = _compat.end_ids(model) if end_ids is None else token_ids_of(end_ids, "end_ids")
    width = _compat.logits_width(model)
    key = (huggingface.state(tokenizer), width, ends)
    return _compilers.get(tokenizer, key, lambda: Vocabulary.from_huggingface(tokenizer, end_ids=ends, size=width))
