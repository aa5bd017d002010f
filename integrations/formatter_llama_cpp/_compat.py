"""What the adapter needs of llama-cpp-python; with `_compat_context` the only module that inspects llama_cpp.

The functions of llama.cpp were renamed several times; what a release has is found by name and by the number of
arguments, never by its version.
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from formatter_core.errors import InvalidArgument, UnsupportedEngineVersion

__all__ = [
    "are_ids_of",
    "check_generates",
    "check_open",
    "first_of",
    "generation_of",
    "has_drafts",
    "is_end",
    "is_special",
    "library",
    "name",
    "piece",
    "size",
    "texts_of",
    "unsupported",
    "vocabulary_of",
    "width_of",
]

#: The module itself, for the modules that call the C functions found by `first_of`.
library: Any = importlib.import_module("llama_cpp")

# Bits of `llama_token_attr`, which replaced the numbers of `llama_token_type`: no text has these tokens.
_ATTRIBUTES_WITHOUT_TEXT = 1 | 2 | 8  # UNKNOWN, UNUSED, CONTROL
_TYPES_WITHOUT_TEXT = (2, 3, 5)  # UNKNOWN, CONTROL, UNUSED


def unsupported(missing: str, needed: str) -> UnsupportedEngineVersion:
    """The error of a release that lacks something."""
    found = str(getattr(library, "__version__", "of unknown version"))
    return UnsupportedEngineVersion("llama-cpp-python", found=found, needed=needed, missing=missing)


def first_of(*names: str, needed: str) -> Callable[..., Any]:
    """The first of these C functions that the release has.

    Raises:
        UnsupportedEngineVersion: it has none of them.
    """
    for name in names:
        found: Callable[..., Any] | None = getattr(library, name, None)
        if found is not None:
            return found
    raise unsupported(" or ".join(names), needed)


def check_open(llama: Any) -> None:
    """Refuse a `Llama` that was closed: its pointers lead to memory that is freed.

    Raises:
        InvalidArgument: it is closed.
    """
    owner = getattr(llama, "_model", llama)
    if getattr(owner, "model", owner) is None:
        raise InvalidArgument("this Llama is closed; load the model again")


def check_generates(llama: Any) -> None:
    """Refuse a `Llama` that is closed, or has a vocabulary and no weights.

    Raises:
        InvalidArgument: the model cannot generate.
    """
    check_open(llama)
    if getattr(getattr(llama, "model_params", None), "vocab_only", False):
        raise InvalidArgument("the model was loaded with vocab_only=True, so it cannot generate; load it without")


def size(llama: Any) -> int:
    """How many token ids the model has, which is also the width of its logits."""
    return int(llama.n_vocab())


def width_of(context: Any) -> int:
    """How many logits a context (`llama_context_p`) gives for a token."""
    model = library.llama_get_model(context)
    if hasattr(library, "llama_vocab_n_tokens"):
        return int(library.llama_vocab_n_tokens(library.llama_model_get_vocab(model)))
    return int(library.llama_n_vocab(model))


def vocabulary_of(llama: Any) -> Any:
    """What the functions of the vocabulary take: the model, and since 0.3.7 a pointer of its own."""
    if hasattr(library, "llama_model_get_vocab") and hasattr(library, "llama_vocab_is_eog"):
        return library.llama_model_get_vocab(llama.model)
    return llama.model


def is_special(llama: Any) -> Callable[[int], bool]:
    """Tells whether an id never spells text: control tokens, unused ones, and the one for unknown text."""
    vocabulary = vocabulary_of(llama)
    attribute = getattr(library, "llama_vocab_get_attr", None) or getattr(library, "llama_token_get_attr", None)
    if attribute is not None:
        return lambda token_id: bool(attribute(vocabulary, token_id) & _ATTRIBUTES_WITHOUT_TEXT)
    kind = first_of("llama_token_get_type", needed=">= 0.2.64")
    return lambda token_id: kind(vocabulary, token_id) in _TYPES_WITHOUT_TEXT


def is_end(llama: Any) -> Callable[[int], bool]:
    """Tells whether an id ends an output: the end of text, of a turn, of a message."""
    vocabulary = vocabulary_of(llama)
    function = first_of("llama_vocab_is_eog", "llama_token_is_eog", needed=">= 0.2.64")
    return lambda token_id: bool(function(vocabulary, token_id))


def name(llama: Any) -> Callable[[int], str]:
    """Gives the name of an id, which is what the model's file calls it."""
    vocabulary = vocabulary_of(llama)
    function = first_of("llama_vocab_get_text", "llama_token_get_text", needed=">= 0.2.64")
    return lambda token_id: (function(vocabulary, token_id) or b"").decode("utf-8", "replace")


def piece(llama: Any) -> Callable[[int], bytes]:
    """Gives the bytes of an id, however many they are.

    `Llama.detokenize` gives none for a piece of more than 32 bytes, and drops a leading space here and there.
    """
    vocabulary = vocabulary_of(llama)
    function = first_of("llama_token_to_piece", needed=">= 0.2.64")
    # Then came `special`, and `lstrip` before it.
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


def has_drafts(llama: Any) -> bool:
    """Whether another model proposes tokens: the ids that a logits processor sees then hold ones nobody checked."""
    return getattr(llama, "draft_model", None) is not None


def generation_of(llama: Any) -> object | None:
    """An object that lives as long as one call of `Llama.generate`; None where the release has no such thing."""
    return getattr(llama, "_sampler", None)


def are_ids_of(llama: Any, ids: Any) -> bool:
    """Whether a `Llama` passed these ids, which it keeps in one array; a copy may be anybody's."""
    return ids.base is None or (llama is not None and ids.base is llama.input_ids)


def texts_of(llama: Any, ids: list[int]) -> list[str]:
    """The texts, but for spaces, of which these ids may be the prompt: the first id may have been put before it."""
    written, called = piece(llama), name(llama)
    pieces = [written(token_id) or called(token_id).encode() for token_id in ids]
    return [b"".join(part).decode("utf-8", "replace") for part in (pieces, pieces[1:])]


def _arity(function: Callable[..., Any]) -> int:
    types = getattr(function, "argtypes", None)
    return len(types) if types is not None else len(inspect.signature(function).parameters)
