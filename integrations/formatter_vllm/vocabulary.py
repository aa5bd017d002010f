"""The tokenizer of a vLLM engine as a `Vocabulary`, and the compilers of this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

from formatter_core import Compiler, Format, Vocabulary, check
from formatter_core.support.arguments import token_ids_of
from formatter_core.support.forking import hold_during_fork

__all__ = ["check_format", "compiler_for_results", "compiler_of", "create_vocabulary", "logger"]

logger = logging.getLogger("formatter_vllm")

_compilers: WeakValueDictionary[str, Compiler] = WeakValueDictionary()
_lock = threading.Lock()
hold_during_fork(_lock)


def create_vocabulary(tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Vocabulary:
    """The vocabulary of a tokenizer that vLLM uses.

    Args:
        tokenizer: what `LLM.get_tokenizer()` gives, or `AutoTokenizer.from_pretrained`.
        model: an `LLM`, an engine or a `VllmConfig`; it gives the width of the logits and the ids that end its outputs.
            Without it the tokenizer's own end-of-sequence id is the only one.
        end_ids: the ids that end an output, in place of the model's.

    Raises:
        InvalidVocabulary: the tokenizer does not say how its tokens become text, or there is no end id.
    """
    size = None
    ends = None if end_ids is None else token_ids_of(end_ids, "end_ids")
    if model is not None:
        from formatter_vllm import _compat

        size = _compat.logits_width(model)
        ends = _compat.end_ids(model, tokenizer) if ends is None else ends
    mistral = getattr(tokenizer, "mistral", None)
    if mistral is not None:  # vLLM wraps the tokenizer of mistral-common
        return Vocabulary.from_mistral_common(mistral, end_ids=ends)
    return Vocabulary.from_huggingface(tokenizer, end_ids=ends, size=size)


def compiler_of(vocabulary: Vocabulary) -> Compiler:
    """The compiler of an engine's vocabulary: one for all such engines of this process, while one of them lives."""
    with _lock:
        compiler = _compilers.get(vocabulary.fingerprint)
        if compiler is None:
            compiler = _compilers[vocabulary.fingerprint] = Compiler(vocabulary)
        return compiler


def compiler_for_results(vocabulary: Vocabulary) -> Compiler:
    """The compiler of a vocabulary outside of an engine; that of an engine, where this process has one."""
    with _lock:
        return _compilers.get(vocabulary.fingerprint) or _kept_compiler(vocabulary)


@lru_cache(maxsize=4)
def _kept_compiler(vocabulary: Vocabulary) -> Compiler:
    return Compiler(vocabulary)


def check_format(format: Format) -> None:
    """Raise what is wrong with a request's format: for the engine's tokens if this process has one vocabulary of them.

    Raises:
        FormatterError: whatever `Compiler.compile` raises.
    """
    with _lock:
        compilers = list(_compilers.values())
    if len(compilers) == 1:
        compilers[0].compile(format)
    else:
        check(format)
