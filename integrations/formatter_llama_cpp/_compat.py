"""The adapter's access to llama-cpp-python; only this module and the other `_compat` modules inspect llama_cpp.

The functions of llama.cpp were renamed several times; what a release has is found by name and by the number of
arguments, never by its version.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from typing import Any

from formatter_core.errors import InvalidArgument, UnsupportedEngineVersion
from formatter_core.errors.arguments import shown

__all__ = [
    "are_ids_of",
    "check_generates",
    "check_open",
    "first_of",
    "generation_of",
    "has_drafts",
    "is_chain",
    "library",
    "logits_of",
    "size",
    "unsupported",
    "width_of",
]

#: Smaller numbers are no pointers: no system maps the first page of memory.
_FIRST_ADDRESS = 4096

#: The module itself, for the modules that call the C functions found by `first_of`.
library: Any = importlib.import_module("llama_cpp")


def unsupported(missing: str, needed: str) -> UnsupportedEngineVersion:
    """Make the error for a release that lacks an interface."""
    found = str(getattr(library, "__version__", "of unknown version"))
    return UnsupportedEngineVersion("llama-cpp-python", found=found, needed=needed, missing=missing)


def first_of(*names: str, needed: str) -> Callable[..., Any]:
    """Return the first of these C functions that the release has.

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
    """Return the number of the model's token ids, which is also the width of its logits."""
    return int(llama.n_vocab())


def width_of(context: Any) -> int:
    """Return the number of logits that a context (`llama_context_p`) gives for a token."""
    model = library.llama_get_model(context)
    if hasattr(library, "llama_vocab_n_tokens"):
        return int(library.llama_vocab_n_tokens(library.llama_model_get_vocab(model)))
    return int(library.llama_n_vocab(model))


def logits_of(context: Any, index: int) -> Any:
    """Return a pointer to the logits of a token of the latest batch; None if there are none.

    Raises:
        InvalidArgument: `context` is something else.
    """
    address = getattr(context, "value", context)  # of a `c_void_p`
    try:
        if not isinstance(address, int) or address >= _FIRST_ADDRESS:
            return library.llama_get_logits_ith(context, index)
    except (ctypes.ArgumentError, TypeError):
        pass
    raise InvalidArgument(
        f"{shown(context)} is neither a Llama nor a context of one; give the loaded model", argument="llama"
    )


def is_chain(pointer: Any) -> bool:
    """Tell whether the argument may be a chain of samplers; its type is checked in releases that declare it."""
    types = getattr(getattr(library, "llama_sampler_chain_add", None), "argtypes", None)
    return pointer is not None and (not types or isinstance(pointer, types[0]))


def has_drafts(llama: Any) -> bool:
    """Tell whether a draft model proposes tokens: the ids that a logits processor sees then include unchecked ones."""
    return getattr(llama, "draft_model", None) is not None


def generation_of(llama: Any) -> object | None:
    """Return an object that lives as long as one call of `Llama.generate`; None if the release has no such thing."""
    return getattr(llama, "_sampler", None)


def are_ids_of(llama: Any, ids: Any) -> bool:
    """Tell whether a `Llama` passed these ids, which it keeps in one array; a copy may come from anyone."""
    return ids.base is None or (llama is not None and ids.base is llama.input_ids)
