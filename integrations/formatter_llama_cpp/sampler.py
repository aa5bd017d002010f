"""The grammar hook: a sampler of llama.cpp's own kind, for a chain of samplers in place of `LlamaGrammar`."""

from __future__ import annotations

import ctypes
import itertools
import logging
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Formatter, Result, bitmask
from formatter_core.errors import InvalidArgument, NoTokenLeft
from formatter_core.runtime.result import Ended
from formatter_llama_cpp import _compat
from formatter_llama_cpp.masks import Mask
from formatter_llama_cpp.vocabulary import compiler_for

__all__ = ["FormatterSampler", "create_sampler", "mask_logits"]

logger = logging.getLogger(__name__)

_NAME = ctypes.create_string_buffer(b"formatter-core")
_CANDIDATE = np.dtype([("id", np.intc), ("logit", np.single), ("p", np.single)], align=True)


def create_sampler(llama: Any, format: Any, *, end_ids: Iterable[int] | None = None) -> FormatterSampler:
    """A sampler that leaves a sequence only the tokens that its format allows next, for llama.cpp's low-level API.

    ::

        sampler = create_sampler(llama, format)
        sampler.add_to(chain)                         # first, before top-k and the others
        ...
        token = llama_cpp.llama_sampler_sample(chain, llama.ctx, -1)

    Args:
        llama: the `llama_cpp.Llama` whose model generates.
        format: whatever `Compiler.compile` takes.
        end_ids: the ids that end an output, in place of those at which llama.cpp ends one.

    Raises:
        UnsupportedEngineVersion: this release has no samplers that others can write.
        InvalidFormat: an invalid format.
        FormatterError: whatever else `Compiler.compile` raises.
    """
    return FormatterSampler(compiler_for(llama, end_ids=end_ids).compile(format))


def mask_logits(llama: Any, formatter: Formatter, index: int = -1) -> None:
    """Mask one row of the logits of the latest `llama_decode`, in place, so that any sampler takes what is allowed.

    Args:
        llama: a `llama_cpp.Llama`, or a context of it (`llama_context_p`).
        formatter: the state of the sequence that the row belongs to.
        index: the token of the batch whose logits are meant, as `llama_get_logits_ith` counts it.

    Raises:
        InvalidArgument: there are no logits for this token.
        FormatterError: what `Formatter.fill_bitmask` raises; the row is unchanged.
    """
    context = getattr(llama, "ctx", llama)
    pointer = _compat.library.llama_get_logits_ith(context, index)
    if not pointer:
        raise InvalidArgument(f"there are no logits for token {index} of the batch; set its `logits` before the decode")
    width = len(formatter.compiled.vocabulary)
    row = np.zeros(bitmask.words(width), dtype=np.int32)
    formatter.fill_bitmask(row)
    bitmask.apply_inplace(np.ctypeslib.as_array(pointer, shape=(width,)), row)


class FormatterSampler:
    """The state of one sequence as a sampler of llama.cpp.

    It goes first into the chain, and follows the tokens that the chain accepts: those that are sampled. Tokens of the
    prompt must not be given to `llama_sampler_accept` of that chain.

    llama.cpp calls it from C, where an exception is printed and forgotten. So whatever goes wrong is kept as `error`,
    and the sequence is offered nothing but its end.

    Attributes:
        formatter: the state after the accepted tokens.
        error: why the sequence was ended; None while all is well.
    """

    def __init__(self, compiled: CompiledFormat) -> None:
        _interface()
        self.formatter: Formatter = compiled.formatter()
        self._compiled = compiled
        self.error: BaseException | None = None
        self._mask = Mask(self.formatter)
        self._is_native = False

    def add_to(self, chain: Any) -> None:
        """Append to a chain, which then owns the native sampler and frees it with itself.

        Args:
            chain: what `llama_sampler_chain_init` gave, or an object that has it as `sampler`.

        Raises:
            InvalidArgument: the sampler is in a chain already.
        """
        _compat.library.llama_sampler_chain_add(getattr(chain, "sampler", chain), self.native())

    def native(self) -> Any:
        """A new `llama_sampler` (pointer); whoever asks for it owns it: a chain, or `llama_sampler_free`.

        Raises:
            InvalidArgument: there is one already.
        """
        if self._is_native:
            raise InvalidArgument("this sampler has its place already; make one for each sequence with create_sampler")
        self._is_native = True
        handle = next(_handles)
        _live[handle] = self
        return _compat.library.llama_sampler_init(_interface(), ctypes.c_void_p(handle))

    def raise_error(self) -> None:
        """Raise what ended the sequence early, if something did."""
        if self.error is not None:
            raise self.error

    def result(self, ended: Ended | None = None) -> Result:
        """What the accepted tokens turned out to be.

        Args:
            ended: how the sequence ended, where it was not by an end id.

        Raises:
            BaseException: what ended the sequence early.
        """
        self.raise_error()
        return self.formatter.result(ended)

    # --- what llama.cpp calls ----------------------------------------------------------------------------------

    def apply(self, candidates: Any) -> None:
        """Mask the candidates, a `llama_token_data_array`."""
        array = candidates.contents
        # From the address: a numpy array of a pointer to structures costs more than the mask.
        address = ctypes.addressof(array.data.contents)
        buffer = (ctypes.c_byte * (array.size * _CANDIDATE.itemsize)).from_address(address)
        items: NDArray[Any] = np.frombuffer(buffer, dtype=_CANDIDATE)
        try:
            if self.error is None:
                self._apply(items)
                array.sorted = False
        except BaseException as error:  # noqa: BLE001 - even an interrupt is lost where it leaves this function
            self._fail(error)
        if self.error is not None:
            # One candidate is there in any case, whatever a sampler before this one has left.
            items[0] = (self.formatter.end_ids[0], 0.0, 0.0)
            array.size, array.selected, array.sorted = 1, -1, False

    def accept(self, token_id: int) -> None:
        """Follow a token that was sampled."""
        try:
            if self.error is None:
                self.formatter.accept_token(token_id)
        except BaseException as error:  # noqa: BLE001 - as above
            self._fail(error)

    def reset(self) -> None:
        """Begin a new sequence."""
        self.formatter.reset()
        self.error = None

    def fork(self) -> FormatterSampler:
        """An independent sampler at the same place, for a copy of the chain."""
        copy = FormatterSampler(self._compiled)
        copy.formatter, copy.error = self.formatter.fork(), self.error
        return copy

    def _apply(self, items: NDArray[Any]) -> None:
        logits, ids = items["logit"], items["id"]
        if ids[0] == 0 and ids[-1] == len(ids) - 1 >= len(self.formatter.compiled.vocabulary) - 1:
            self._mask.apply(self.formatter, logits)
            return
        # Another sampler came first and left some candidates, in its own order.
        logits[~self._mask.allows(self.formatter, ids)] = -np.inf
        if not logits.max() > -np.inf:
            raise NoTokenLeft(self.formatter.bytes)

    def _fail(self, error: BaseException) -> None:
        self.error = error
        logger.warning("a sequence is ended after %d tokens: %s", len(self.formatter.tokens), error)


#: The samplers that llama.cpp holds, by the number that stands for each of them in C; a sampler leaves it when freed.
_live: dict[int, FormatterSampler] = {}
_handles = itertools.count(1)
_made: list[Any] = []


def _interface() -> Any:
    """The table of functions that llama.cpp calls, one for all samplers; it must outlive them."""
    if not _made:
        _made.append(_make_interface())
    return _made[0]


def _make_interface() -> Any:
    _compat.first_of("llama_sampler_init", needed=">= 0.3.17")
    table = _compat.library.llama_sampler_i()
    pointer = ctypes.c_void_p

    def of(native: int) -> FormatterSampler:
        return _live[ctypes.cast(native, ctypes.POINTER(_compat.library.llama_sampler)).contents.ctx]

    def apply(native: int, candidates: int) -> None:
        of(native).apply(ctypes.cast(candidates, ctypes.POINTER(_compat.library.llama_token_data_array)))

    def clone(native: int) -> int:
        return int(ctypes.cast(of(native).fork().native(), pointer).value or 0)

    def free(native: int) -> None:
        _live.pop(ctypes.cast(native, ctypes.POINTER(_compat.library.llama_sampler)).contents.ctx, None)

    # With void pointers, because a callback cannot return any other kind.
    functions: dict[str, tuple[Callable[..., Any], Any, list[Any]]] = {
        "name": (lambda native: ctypes.addressof(_NAME), pointer, [pointer]),
        "accept": (lambda native, token: of(native).accept(token), None, [pointer, ctypes.c_int32]),
        "apply": (apply, None, [pointer, pointer]),
        "reset": (lambda native: of(native).reset(), None, [pointer]),
        "clone": (clone, pointer, [pointer]),
        "free": (free, None, [pointer]),
    }
    types = dict(table._fields_)
    for name, (function, result, arguments) in functions.items():
        callback = ctypes.CFUNCTYPE(result, *arguments)(function)
        setattr(table, name, ctypes.cast(callback, types[name]))
        _made_callbacks.append(callback)
    return table


_made_callbacks: list[Any] = []
