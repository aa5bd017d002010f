"""llama.cpp's own grammars: as formats, and used beside a logits processor."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from formatter_llama_cpp._compat import generation_of, library, unsupported

__all__ = ["grammar_allows", "grammar_beside", "grammar_text", "is_called_with_grammar"]


def grammar_beside(llama: Any) -> bool:
    """Tell whether one of llama.cpp's own grammars also restricts the token that a logits processor masks."""
    return _grammar_of(llama) is not None


def is_called_with_grammar() -> bool:
    """Tell whether the `Llama` method that calls a logits processor has a grammar, for releases without C samplers."""
    return sys._getframe(2).f_locals.get("grammar") is not None


def grammar_allows(llama: Any, ids: list[int]) -> bool:
    """Tell whether the grammar beside a logits processor allows one of these ids; True if there is no grammar."""
    grammar = _grammar_of(llama)
    if grammar is None:
        return True
    candidates = (library.llama_token_data * len(ids))(*[(token_id, 0.0, 0.0) for token_id in ids])
    array = library.llama_token_data_array(candidates, len(ids), -1, False)
    library.llama_sampler_apply(grammar, ctypes.byref(array))
    return any(candidates[place].logit > -np.inf for place in range(array.size))


def grammar_text(format: Any) -> str | None:
    """Return the text of a `LlamaGrammar`; None for anything else.

    Raises:
        UnsupportedEngineVersion: a release whose `LlamaGrammar` does not keep its text.
    """
    kind = getattr(library, "LlamaGrammar", None)
    if kind is None or not isinstance(format, kind):
        return None
    text = getattr(format, "_grammar", None)
    if not isinstance(text, str):
        raise unsupported("the text of a LlamaGrammar (give formats.gbnf(text) in its place)", ">= 0.3.0")
    return text


def _grammar_of(llama: Any) -> Any:
    """Return the sampler of a grammar in the chain that is choosing a token."""
    owner = generation_of(llama)
    chain = getattr(owner, "sampler", None)
    if chain is None or not hasattr(library, "llama_sampler_chain_get"):
        return None
    nameless = {place for place, _ in getattr(owner, "custom_samplers", ())}  # calling them would abort the process
    for place in set(range(library.llama_sampler_chain_n(chain))) - nameless:
        sampler = library.llama_sampler_chain_get(chain, place)
        if library.llama_sampler_name(sampler) == b"grammar":
            return sampler
    return None
