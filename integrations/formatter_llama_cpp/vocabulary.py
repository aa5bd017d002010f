"""The tokens of a loaded model as a `Vocabulary`, read once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from formatter_core import CompiledFormat, Compiler, Vocabulary, formats
from formatter_core.errors import InvalidVocabulary
from formatter_core.errors.arguments import shown, token_ids_of
from formatter_core.runtime.compilers import CompilersByOwner
from formatter_core.runtime.hook import compile_for_hook
from formatter_core.runtime.prepared import MaskedText
from formatter_llama_cpp import _compat, _compat_tokens
from formatter_llama_cpp._compat_grammar import grammar_text
from formatter_llama_cpp.open_models import in_use

__all__ = ["compiled_format", "compiler_for", "create_vocabulary", "texts_of"]

_compilers = CompilersByOwner()


def create_vocabulary(llama: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Vocabulary:
    """Create the vocabulary of a loaded model; it is made once for each `Llama` object.

    Args:
        llama: a `llama_cpp.Llama`, which has the tokenizer and the model.
        model: not needed; it exists because the adapters of other engines take it.
        end_ids: the ids that end an output, instead of all those at which llama.cpp ends one (`is_eog`).

    Raises:
        InvalidArgument: `llama` is closed.
        InvalidVocabulary: no id ends an output.
        UnsupportedEngineVersion: llama-cpp-python is too old.
    """
    return compiler_for(llama, end_ids=end_ids).vocabulary


def compiler_for(llama: Any, *, end_ids: Iterable[int] | None = None) -> Compiler:
    """Return the compiler of a model with these end ids; it lives as long as the `Llama` object."""
    if not hasattr(llama, "n_vocab"):
        raise InvalidVocabulary(f"{shown(llama)} is not a llama_cpp.Llama; give the loaded model")
    key = None if end_ids is None else tuple(sorted(set(token_ids_of(end_ids, "end_ids"))))
    with in_use(llama):
        return _compilers.get(llama, key, lambda: _read(llama, key))


def compiled_format(
    llama: Any,
    format: Any,
    *,
    end_ids: Iterable[int] | None = None,
    max_tokens: int | None = None,
    forced_text: MaskedText = "exact",
) -> CompiledFormat:
    """Compile a format for a model that generates.

    Args:
        llama: the model.
        format: anything that `Compiler.compile` takes, or a `LlamaGrammar`.
        end_ids: as `create_vocabulary` takes them.
        max_tokens: the budget of each output.
        forced_text: as `CompiledFormat.with_forced_text` takes it.

    Raises:
        InvalidArgument: `llama` is closed, or has a vocabulary and no weights.
        FormatterError: any error of `Compiler.compile`.
    """
    compiler = compiler_for(llama, end_ids=end_ids)
    _compat.check_generates(llama)
    text = grammar_text(format)
    written = format if text is None else formats.gbnf(text)
    return compile_for_hook(compiler, written, max_tokens=max_tokens, forced_text=forced_text)


def texts_of(vocabulary: Vocabulary, ids: Sequence[int]) -> list[str]:
    """Return the texts, apart from spaces, that may be the prompt of these ids; the first id may have been added.

    The model is not asked, because it may be closed by now.
    """
    known = range(len(vocabulary))
    pieces = [(token_id in known and vocabulary.tokens[token_id]) or vocabulary.spelled(token_id) for token_id in ids]
    return [b"".join(part).decode("utf-8", "replace") for part in (pieces, pieces[1:])]


def _read(llama: Any, end_ids: tuple[int, ...] | None) -> Vocabulary:
    ids = range(_compat.size(llama))
    is_special, is_end, piece = (
        _compat_tokens.is_special(llama),
        _compat_tokens.is_end(llama),
        _compat_tokens.piece(llama),
    )
    tokens = [None if is_special(token_id) else piece(token_id) or None for token_id in ids]
    ends = [token_id for token_id in ids if is_end(token_id)] if end_ids is None else end_ids
    name = _compat_tokens.name(llama)
    special = {name(token_id): token_id for token_id in ids if tokens[token_id] is None and name(token_id)}
    return Vocabulary(tokens, ends, special)
