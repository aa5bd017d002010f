"""The grammar hook: a sampler of llama.cpp's own kind, for a chain of samplers instead of `LlamaGrammar`."""

from __future__ import annotations

import ctypes
import logging
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Cursor, Formatter, Result, bitmask
from formatter_core.errors import HookReused, InvalidArgument, NoTokenLeft, WrongModel
from formatter_core.errors.arguments import shown
from formatter_core.runtime.cursor import FailureLog
from formatter_core.runtime.hook import SequenceHook
from formatter_core.runtime.result import Ended
from formatter_llama_cpp import _compat
from formatter_llama_cpp.c_interface import check_release, native_sampler
from formatter_llama_cpp.masks import Mask

__all__ = ["FormatterSampler", "mask_logits"]

_failures = FailureLog(logging.getLogger(__name__))
_CANDIDATE = np.dtype([("id", np.intc), ("logit", np.single), ("p", np.single)], align=True)


def mask_logits(llama: Any, formatter: Formatter, index: int = -1) -> None:
    """Mask one row of the logits of the latest `llama_decode`, in place, so that any sampler takes what is allowed.

    Args:
        llama: a `llama_cpp.Llama`, or a context of it (`llama_context_p`).
        formatter: the state of the sequence that the row belongs to.
        index: the token of the batch whose logits are meant, as `llama_get_logits_ith` counts it.

    Raises:
        InvalidArgument: there are no logits for this token, `llama` is closed, or an argument is of another kind.
        WrongModel: the formatter is that of a vocabulary with more tokens than the model has.
        FormatterError: what `Formatter.fill_bitmask` raises; the row is unchanged.
    """
    _compat.check_open(llama)
    if not isinstance(formatter, Formatter):
        raise InvalidArgument(f"{shown(formatter)} is not a Formatter; give compiled.formatter()", argument="formatter")
    if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
        raise InvalidArgument(f"index is {shown(index)}; give the number of a token of the batch", argument="index")
    context = getattr(llama, "ctx", llama)
    # C would drop the higher bits of a number and take another row.
    pointer = _compat.logits_of(context, int(index)) if -(2**31) <= index < 2**31 else None
    if not pointer:
        raise InvalidArgument(f"there are no logits for token {index} of the batch; set its `logits` before the decode")
    size, width = len(formatter.compiled.vocabulary), _compat.width_of(context)
    if width < size:
        raise WrongModel(
            "formatter",
            made_for=f"{size} token ids",
            found=f"a model of {width} logits",
            remedy="compile its format with the vocabulary of this model",
        )
    row = np.zeros(bitmask.words(size), dtype=np.int32)
    formatter.fill_bitmask(row)
    bitmask.apply_inplace(np.ctypeslib.as_array(pointer, shape=(width,)), row)


class FormatterSampler(SequenceHook):
    """The state of one sequence as a sampler of llama.cpp.

    It goes first into the chain and follows the tokens that the chain accepts: those that are sampled. Do not give
    tokens of the prompt to `llama_sampler_accept` of that chain.

    llama.cpp calls it from C, where an exception is printed and forgotten. So an error is kept as `error`, and the
    sequence can only end.
    """

    def __init__(self, compiled: CompiledFormat) -> None:
        check_release()
        self._compiled = compiled
        self._mask = Mask(compiled.vocabulary)
        self._cursor = Cursor(compiled.formatter())
        self._is_native = False

    def add_to(self, chain: Any) -> None:
        """Append to a chain, which then owns the native sampler and frees it with itself.

        Args:
            chain: what `llama_sampler_chain_init` gave, or an object that has it as `sampler`.

        Raises:
            HookReused: the sampler is in a chain already.
            InvalidArgument: `chain` is something else, or closed.
        """
        owner = getattr(chain, "sampler", chain)
        if not _compat.is_chain(owner):
            raise InvalidArgument(
                f"{shown(chain)} is not an open chain; give what llama_sampler_chain_init returned", argument="chain"
            )
        _compat.library.llama_sampler_chain_add(owner, self.native())

    def native(self) -> Any:
        """Create a `llama_sampler` (pointer). The caller owns it: pass it to a chain, or to `llama_sampler_free`.

        Raises:
            HookReused: there is one already.
        """
        if self._is_native:
            raise HookReused("FormatterSampler", "make one for each sequence with create_sampler")
        self._is_native = True
        return native_sampler(self)

    def result(self, ended: Ended | None = None) -> Result:
        """Return the result of the accepted tokens.

        Args:
            ended: how the sequence ended, if not by an end id.

        Raises:
            HookNotCalled: llama.cpp never called the sampler.
            BaseException: what aborted the sequence.
        """
        self.raise_error()
        self._cursor.check_used("put it into the chain that samples with add_to")
        return self.formatter.result(ended)

    # --- what llama.cpp calls ----------------------------------------------------------------------------------

    def apply(self, candidates: Any) -> None:
        """Mask the candidates, a `llama_token_data_array`."""
        array = candidates.contents
        # From the address: a numpy array of a pointer to structures costs more than the mask.
        address = ctypes.addressof(array.data.contents)
        buffer = (ctypes.c_byte * (array.size * _CANDIDATE.itemsize)).from_address(address)
        items: NDArray[Any] = np.frombuffer(buffer, dtype=_CANDIDATE)
        cursor = self._cursor
        try:
            if not cursor.has_failed:
                self._apply(items)
                array.sorted = False
        except BaseException as error:  # noqa: BLE001 - even an interrupt is lost if it leaves this function
            cursor.fail(cast(Exception, error))
        if cursor.has_failed:
            _failures.report(cursor)
            # There is always one candidate, whatever a sampler before this one has left.
            items[0] = (cursor.end_ids[0], 0.0, 0.0)
            array.size, array.selected, array.sorted = 1, -1, False

    def accept(self, token_id: int) -> None:
        """Follow a token that was sampled."""
        try:
            self._cursor.append(token_id)
        except BaseException as error:  # noqa: BLE001 - as above
            self._cursor.fail(cast(Exception, error))

    def reset(self) -> None:
        """Begin a new sequence."""
        self._cursor = Cursor(self._compiled.formatter())

    def fork(self) -> FormatterSampler:
        """Return an independent sampler in the same state, for a copy of the chain."""
        copy = FormatterSampler(self._compiled)
        copy._cursor = self._cursor.fork()
        return copy

    def _apply(self, items: NDArray[Any]) -> None:
        logits, ids = items["logit"], items["id"]
        if ids[0] == 0 and ids[-1] == len(ids) - 1 >= len(self._compiled.vocabulary) - 1:
            self._mask.apply(self._cursor, logits)
            return
        # Another sampler ran before and left some candidates, in its own order.
        logits[~self._mask.allows(self._cursor, ids)] = -np.inf
        if not logits.max() > -np.inf:
            raise NoTokenLeft(self._cursor.bytes)
