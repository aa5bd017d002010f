"""Functions of llama-cpp-python for `SharedContext`: additional contexts, and the cells that hold their tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from formatter_core.errors import InvalidArgument
from formatter_llama_cpp._compat import first_of, library, unsupported

__all__ = ["close_with", "max_sequences", "memory_of", "new_context", "trained_size"]


def close_with(llama: Any, close: Callable[[], None]) -> None:
    """Call `close` before the model of `llama` is freed, which would leave its other contexts without it."""
    stack = getattr(llama, "_stack", None)
    if stack is not None:
        stack.callback(close)


def max_sequences() -> int:
    """Return the maximum number of sequences in one context."""
    function = getattr(library, "llama_max_parallel_sequences", None)
    return 64 if function is None else int(function())


def trained_size(llama: Any) -> int:
    """Return the maximum length of a sequence, in tokens, that the model was trained with."""
    return int(first_of("llama_model_n_ctx_train", "llama_n_ctx_train", needed=">= 0.2.64")(llama.model))


def new_context(llama: Any, *, context_size: int, batch: int, max_sequences: int) -> Any:
    """Create another context on the model of `llama`, whose sequences share one pool of cells.

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
    params.n_ctx, params.n_batch, params.n_seq_max = context_size, batch, max_sequences
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
        raise InvalidArgument(f"llama.cpp could not make a context of {context_size} tokens; ask for a smaller one")
    return context


def memory_of(context: Any) -> tuple[Callable[[int, int, int], None], Callable[[int, int], bool]]:
    """Return two functions on a context's cells: copy (source, target, length), and drop (sequence, from position)."""
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
