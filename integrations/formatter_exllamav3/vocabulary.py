"""The tokens of an ExLlamaV3 tokenizer as a `Vocabulary`, read once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import InvalidVocabulary
from formatter_core.errors.arguments import shown, token_ids_of
from formatter_core.runtime.compilers import CompilersByOwner
from formatter_core.vocabulary import huggingface
from formatter_core.vocabulary.table import TokenTable
from formatter_exllamav3 import _compat

__all__ = ["compiler_for", "create_vocabulary"]

_compilers = CompilersByOwner()


def create_vocabulary(tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Vocabulary:
    """Create the vocabulary of a tokenizer; it is made once for each tokenizer object.

    The pieces are those of its `tokenizer.json`: the lists of strings that ExLlamaV3 makes of them have lost what is
    no whole character.

    Args:
        tokenizer: an `exllamav3.Tokenizer`.
        model: gives the width of the logits where the tokenizer was made with another model's configuration.
        end_ids: the ids that end an output, instead of all those that the model's files name.

    Raises:
        InvalidVocabulary: the tokenizer does not say how its tokens become text, or no id ends an output.
    """
    return compiler_for(tokenizer, model=model, end_ids=end_ids).vocabulary


def compiler_for(tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Compiler:
    """Return the compiler of a tokenizer with these end ids; it lives as long as the tokenizer."""
    if not hasattr(tokenizer, "config"):
        raise InvalidVocabulary(f"{shown(tokenizer)} is not an exllamav3.Tokenizer; make one with from_config")
    ends = _compat.end_ids(tokenizer) if end_ids is None else token_ids_of(end_ids, "end_ids")
    size = _compat.size(tokenizer, model)
    return _compilers.get(tokenizer, (ends, size), lambda: _read(tokenizer, ends, size))


def _read(tokenizer: Any, ends: tuple[int, ...], size: int) -> Vocabulary:
    table = huggingface.read(tokenizer.tokenizer)
    tokens, special = list(table.tokens), dict(table.special_tokens)
    for token_id, content, is_special in _compat.declared_tokens(tokenizer):
        tokens.extend([None] * (token_id + 1 - len(tokens)))
        tokens[token_id] = None if is_special else content.encode("utf-8")
        if is_special:
            special[content] = token_id
    special = {name: token_id for name, token_id in special.items() if tokens[token_id] is None}
    return Vocabulary.from_table(TokenTable(tokens, ends, special), size=size)
