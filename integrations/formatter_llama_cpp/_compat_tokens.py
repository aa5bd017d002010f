"""The token ids of a llama.cpp model: their text, names and end ids."""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable
from typing import Any

from formatter_llama_cpp._compat import first_of, library

__all__ = ["is_end", "is_special", "name", "piece"]

# Bits of `llama_token_attr`, which replaced the numbers of `llama_token_type`: no text has these tokens.
_ATTRIBUTES_WITHOUT_TEXT = 1 | 2 | 8  # UNKNOWN, UNUSED, CONTROL
_TYPES_WITHOUT_TEXT = (2, 3, 5)  # UNKNOWN, CONTROL, UNUSED


def _vocabulary_of(llama: Any) -> Any:
    """Return the argument of the vocabulary functions: the model, or its own vocabulary pointer since 0.3.7."""
    if hasattr(library, "llama_model_get_vocab") and hasattr(library, "llama_vocab_is_eog"):
        return library.llama_model_get_vocab(llama.model)
    return llama.model


def is_special(llama: Any) -> Callable[[int], bool]:
    """Return a function that tells whether an id never spells text: control tokens, unused ids, unknown text."""
    vocabulary = _vocabulary_of(llama)
    attribute = getattr(library, "llama_vocab_get_attr", None) or getattr(library, "llama_token_get_attr", None)
    if attribute is not None:
        return lambda token_id: bool(attribute(vocabulary, token_id) & _ATTRIBUTES_WITHOUT_TEXT)
    kind = first_of("llama_token_get_type", needed=">= 0.2.64")
    return lambda token_id: kind(vocabulary, token_id) in _TYPES_WITHOUT_TEXT


def is_end(llama: Any) -> Callable[[int], bool]:
    """Return a function that tells whether an id ends an output: the end of text, of a turn, of a message."""
    vocabulary = _vocabulary_of(llama)
    function = first_of("llama_vocab_is_eog", "llama_token_is_eog", needed=">= 0.2.64")
    return lambda token_id: bool(function(vocabulary, token_id))


def name(llama: Any) -> Callable[[int], str]:
    """Return a function that gives the name of an id in the model's file."""
    vocabulary = _vocabulary_of(llama)
    function = first_of("llama_vocab_get_text", "llama_token_get_text", needed=">= 0.2.64")
    return lambda token_id: (function(vocabulary, token_id) or b"").decode("utf-8", "replace")


def piece(llama: Any) -> Callable[[int], bytes]:
    """Return a function that gives the bytes of an id, of any length.

    `Llama.detokenize` gives none for a piece of more than 32 bytes, and drops a leading space here and there.
    """
    vocabulary = _vocabulary_of(llama)
    function = first_of("llama_token_to_piece", needed=">= 0.2.64")
    # Later releases added `special`, and then `lstrip` before it.
    rest = (0,) * (_arity(function) - 4)
    buffer = ctypes.create_string_buffer(64)

    def of(token_id: int) -> bytes:
        nonlocal buffer
        length = function(vocabulary, token_id, buffer, len(buffer), *rest)
        if length < 0:
            buffer = ctypes.create_string_buffer(-length)
            length = function(vocabulary, token_id, buffer, len(buffer), *rest)
        return buffer.raw[: max(length, 0)]

    return of


def _arity(function: Callable[..., Any]) -> int:
    types = getattr(function, "argtypes", None)
    return len(types) if types is not None else len(inspect.signature(function).parameters)
