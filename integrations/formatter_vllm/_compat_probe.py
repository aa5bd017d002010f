"""A probe that tells whether the structured-outputs backend works on this vLLM as on the tested releases.

Names and signatures say little: a release may add a member to a tuple or give each request more rows of a mask. So
dummy requests go through every function that is wrapped, and what comes back is compared with vLLM's own function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import Vocabulary, bitmask
from formatter_vllm._compat_dummies import END, REQUESTS, WRITTEN, Reasoner, manager_of, parameters_of, request_of
from formatter_vllm._compat_manager import original
from formatter_vllm._compat_structured_outputs import NAME

__all__ = ["ProbeFailed", "probe"]

#: A value that is never a mask of these requests.
_UNTOUCHED = 0x55555555


class ProbeFailed(Exception):
    """A function of vLLM does not do what the backend needs; the message says which, and what it did."""


def probe(backend: Any) -> None:
    """Send dummy requests through all that is wrapped.

    Args:
        backend: a class of vLLM's backend like the real one, which compiles for `Vocabulary.of_bytes()`.

    Raises:
        ProbeFailed: something that is needed is absent or works otherwise.
    """
    with _naming("SamplingParams._validate_structured_outputs"):
        parameters = parameters_of()
        _expect(parameters.structured_outputs._backend == NAME, "the request was not given to this backend")
    for drafts in (0, 2):
        with _naming("StructuredOutputManager and Request"):
            manager = manager_of(backend, drafts)
            requests = {name: request_of(name, parameters) for name in map(str, range(REQUESTS))}
        with _naming("StructuredOutputManager.grammar_init"):
            for request in requests.values():
                manager.grammar_init(request)
                _expect(hasattr(request.structured_output_request.grammar, "mask_reasoning"), "the grammar is not ours")
            _expect(isinstance(manager.backend, backend), "the backend is not ours")
        first = requests["0"].structured_output_request.grammar
        with _naming("the methods of StructuredOutputGrammar"):
            _expect(first.accept_tokens("0", [WRITTEN[0]]) is True, "an allowed token was refused")
            _expect(list(first.validate_tokens(list(b"bcx"))) == list(b"bc"), "drafts were judged wrongly")
        ids = [*requests]
        proposed = [{}, {"1": list(WRITTEN), "3": [WRITTEN[0], -1]}] if drafts else [{}]
        for reasoner in (None, Reasoner):
            manager.reasoner_cls = reasoner
            for tokens in proposed:
                for some in (ids[:1], ids):
                    _compare(manager, requests, some, tokens, is_free=reasoner is not None)


def _compare(manager: Any, requests: Any, ids: Sequence[str], drafts: Any, *, is_free: bool) -> None:
    """Compare the masks of a step of this project with vLLM's own; they may differ in the end id where all is free."""
    with _naming("StructuredOutputManager._fill_bitmasks"), _unwrapped(type(manager)):
        manager.grammar_bitmask(requests, list(ids), drafts)  # which makes the tensor
        theirs = _masks(manager, requests, ids, drafts)
    with _naming("StructuredOutputManager.grammar_bitmask"):
        ours = _masks(manager, requests, ids, drafts)
        _expect(ours.dtype == np.int32 and ours.ndim == 2, f"masks are {ours.dtype} in {ours.ndim} dimensions")
        _expect(ours.shape == theirs.shape, f"masks have the shape {ours.shape} instead of {theirs.shape}")
        for row, (own, other) in enumerate(zip(ours, theirs, strict=True)):
            if not (own == other).all() and (is_free or drafts):
                bitmask.clear_ids(other, [END])
            _expect(bool((own == other).all()), f"row {row} of {len(ours)} is another mask")
        if is_free:
            _expect(not bitmask.get(ours[0], END), "a request may end before its reasoning does")
        else:
            wanted = bitmask.allocate(1, len(Vocabulary.of_bytes()))[0]
            requests[ids[0]].structured_output_request.grammar.cursor.fill_bitmask(wanted)
            _expect(bool((ours[0, : len(wanted)] == wanted).all()), "the first row is not the mask of its grammar")


def _masks(manager: Any, requests: Any, ids: Sequence[str], drafts: Any) -> NDArray[np.int32]:
    """Copy the masks that the manager gives for a step, in memory that held other data before."""
    manager._grammar_bitmask.fill_(_UNTOUCHED)
    made: NDArray[np.int32] = np.array(manager.grammar_bitmask(requests, list(ids), drafts))
    return made


@contextmanager
def _unwrapped(kind: Any) -> Iterator[None]:
    """Use vLLM's own functions for masks within the block."""
    kept = {name: getattr(kind, name) for name in ("grammar_bitmask", "_fill_bitmasks")}
    for name, function in kept.items():
        setattr(kind, name, original(function))
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(kind, name, function)


@contextmanager
def _naming(function: str) -> Iterator[None]:
    """Add to any error in the block the name of the vLLM function that caused it."""
    try:
        yield
    except ProbeFailed:
        raise
    except Exception as error:
        raise ProbeFailed(f"{function}: {type(error).__name__}: {error}") from error


def _expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise ValueError(otherwise)
