"""What the adapter needs of llama-cpp-python; no other module looks at llama_cpp or inside its objects.

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
    "close_with",
    "first_of",
    "generation_of",
    "greatest_number_of_sequences",
    "has_drafts",
    "is_end",
    "is_special",
    "library",
    "memory_of",
    "new_context",
    "piece",
    "size",
    "unsupported",
    "vocabulary_of",
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


def size(llama: Any) -> int:
    """How many token ids the model has, which is also the width of its logits."""
    return int(llama.n_vocab())


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


def close_with(llama: Any, close: Callable[[], None]) -> None:
    """Call `close` before the model of `llama` is freed, which would leave its other contexts without it."""
    stack = getattr(llama, "_stack", None)
    if stack is not None:
        stack.callback(close)


def greatest_number_of_sequences() -> int:
    """How many sequences one context can hold."""
    function = getattr(library, "llama_max_parallel_sequences", None)
    return 64 if function is None else int(function())


def new_context(llama: Any, *, cells: int, batch: int, sequences: int) -> Any:
    """Another context on the model of `llama`, whose sequences share one pool of cells.

    Raises:
        InvalidArgument: the model keeps a state that cannot be shared by sequences, or llama.cpp has no memory for it.
        UnsupportedEngineVersion: llama-cpp-python is too old.
    """
    for kind in ("recurrent", "hybrid"):
        function = getattr(library, f"llama_model_is_{kind}", None)
        if function is not None and function(llama.model):
            raise InvalidArgument(
                f"the model is {kind}: its sequences cannot share the state of a prompt; use Llama itself"
            )
    if getattr(llama, "lora_path", None):
        raise InvalidArgument(
            "a LoRA adapter belongs to one context; merge it into the model, or load it without lora_path"
        )
    params = type(llama.context_params).from_buffer_copy(llama.context_params)
    names = {name for name, *_ in params._fields_}
    if "n_seq_max" not in names:
        raise unsupported("llama_context_params.n_seq_max", ">= 0.2.57")
    params.n_ctx, params.n_batch, params.n_seq_max = cells, batch, sequences
    # One pool of cells for all sequences (releases without `kv_unified` have no other), and no window that forgets a
    # shared prompt.
    for name in ("kv_unified", "swa_full"):
        if name in names:
            setattr(params, name, True)

    for name in ("embeddings", "logits_all"):
        if name in names:
            setattr(params, name, False)
    make = first_of("llama_init_from_model", "llama_new_context_with_model", needed=">= 0.2.64")
    context = make(llama.model, params)
    if not context:
        raise InvalidArgument(f"llama.cpp could not make a context of {cells} cells; ask for fewer")
    return context


def memory_of(context: Any) -> tuple[Callable[[int, int, int], None], Callable[[int, int], bool]]:
    """Two functions on the cells of a context: copy (source, target, length), and drop (sequence, from position)."""
    if hasattr(library, "llama_memory_seq_cp"):
        holder, prefix = library.llama_get_memory(context), "llama_memory_seq"
    else:
        holder, prefix = (
            context,
            "llama_kv_self_seq" if hasattr(library, "llama_kv_self_seq_cp") else "llama_kv_cache_seq",
        )
    copy = first_of(f"{prefix}_cp", needed=">= 0.2.64")
    drop = first_of(f"{prefix}_rm", needed=">= 0.2.64")
    return (
        lambda source, target, length: copy(holder, source, target, 0, length),
        lambda sequence, start: bool(drop(holder, sequence, start, -1)),
    )


def _arity(function: Callable[..., Any]) -> int:
    types = getattr(function, "argtypes", None)
    return len(types) if types is not None else len(inspect.signature(function).parameters)
