"""Apply packed masks of allowed tokens to torch logits, on any device, with the rows of
`formatter_core.runtime.bitmask`.

This is the only module that imports torch.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core.engine.native_logits import copying_masker, mask_rows, row_masker
from formatter_core.errors import InvalidBitmask
from formatter_core.runtime import bitmask

__all__ = ["RowMasker", "allocate", "apply", "apply_inplace", "in_memory", "unpack"]

Rows: TypeAlias = "torch.Tensor | NDArray[np.int32]"

_DTYPES = (torch.int32, np.int32)
# If at most this share of words allow a token, it is cheaper on a CPU to copy their logits than to mask all of them.
_COPIED_WORDS_SHARE = 1 / 16
# With more runs of adjacent rows than this, copying the rows out and back is cheaper than masking run by run.
_RUNS_MASKED_SINGLY = 4


def allocate(rows: int, size: int, fill: Literal["none", "all"] = "none", *, pinned: bool = False) -> torch.Tensor:
    """Return a new int32 tensor of shape (rows, words(size)) in main memory; `tensor.numpy()` shares it for
    `fill_batch`.

    With `pinned=True`, which needs a working accelerator, copies to the device need not wait.
    """
    shape = (rows, bitmask.words(size))
    return torch.full(shape, 0 if fill == "none" else -1, dtype=torch.int32, pin_memory=pinned)


def unpack(rows: torch.Tensor) -> torch.Tensor:
    """Return one boolean for each bit, on the same device: shape (..., words) becomes (..., 32 * words).

    Raises:
        InvalidBitmask: the object is not an int32 tensor.
    """
    if rows.dtype != torch.int32:
        raise InvalidBitmask(f"expected int32 bitmask rows, found {rows.dtype}; use torch_bitmask.allocate")
    return (_bits(rows) != 0).flatten(-2)


def in_memory(logits: torch.Tensor) -> NDArray[np.float32] | None:
    """Return the logits (rows, width) as an array that shares their memory, if the native library can mask them."""
    return logits.numpy() if logits.ndim == 2 and _is_native(logits) and _lie_together(logits) else None


def apply(logits: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Return new logits with -inf for every token that is not allowed; `logits` is not changed.

    Args:
        logits: shape (width,) or (rows, width), any floating-point dtype, any device. Ids past the end of a bitmask row
            are not allowed.
        rows: int32, shape (words,) for all logits, or (rows, words) with one row for each row of logits; a tensor on
            any device, or a numpy array.

    Raises:
        InvalidBitmask: the logits are not floating-point, the rows are not int32, or their shapes do not match.
    """
    _check(logits, rows)
    if logits.device.type != "cpu":
        return logits.masked_fill(_forbidden(logits, rows), -torch.inf)
    if _is_native(logits):
        copy = logits.clone(memory_format=torch.contiguous_format)
        _mask_natively(copy, rows)
        return copy
    index = _few_allowed(logits, rows)
    if index is None:
        return torch.where(_allowed(logits, rows), logits, -torch.inf)
    masked = torch.full_like(logits, -torch.inf)
    masked[index] = logits[index]
    return masked


def apply_inplace(logits: torch.Tensor, rows: Rows, row_indices: Sequence[int] | None = None) -> None:
    """Write -inf over the logits of every token that is not allowed; arguments and errors are as in `apply`.

    Args:
        row_indices: if there are fewer bitmask rows than rows of logits: the row of logits that each bitmask row masks.
            The other rows of logits do not change.
    """
    if row_indices is not None:
        _apply_at(logits, rows, row_indices)
        return
    _check(logits, rows)
    if logits.device.type != "cpu":
        logits.masked_fill_(_forbidden(logits, rows), -torch.inf)
        return
    if _is_native(logits) and _lie_together(logits):
        _mask_natively(logits, rows)
        return
    index = _few_allowed(logits, rows)
    if index is None:
        logits.masked_fill_(~_allowed(logits, rows), -torch.inf)
        return
    kept = logits[index]
    logits.fill_(-torch.inf)
    logits[index] = kept


class RowMasker:
    """A masker of one row of logits, with one bitmask row whose contents may change from call to call.

    It is for loops that wait for each call: a call takes a few microseconds for float32 on a CPU.

    Args:
        row: shape (words,), as for `Formatter.fill_bitmask`; an array that keeps its memory.

    Raises:
        InvalidBitmask: `row` is not such an array.
    """

    __slots__ = ("_copy", "_mask", "_row")

    def __init__(self, row: NDArray[np.int32]) -> None:
        bitmask.check_row(row)
        self._row, self._mask, self._copy = row, row_masker(row), copying_masker(row)

    def __call__(self, logits: torch.Tensor) -> bool:
        """Write -inf over forbidden logits of shape (width,); return whether an allowed token is above -inf.

        Raises:
            InvalidBitmask: the same errors as for `apply_inplace`.
        """
        if logits.dtype is torch.float32 and logits.dim() == 1 and logits.is_cpu:
            return self._mask(logits.data_ptr(), logits.shape[0], 4 * logits.stride(0))
        apply_inplace(logits, self._row)
        return bool((logits > -torch.inf).any())

    def masked(self, logits: torch.Tensor, least: int | None = None) -> torch.Tensor | None:
        """Return the masked logits; None if no allowed token is above -inf.

        The result is `logits` itself, overwritten; or, if few tokens are allowed, a buffer with copies of their logits,
        which the next call in the same thread reuses: this writes only a small part of the memory. Do not change the
        result.

        Args:
            logits: shape (width,).
            least: how many logits suffice if no token past them is allowed; fewer take less time to read. The result
                then has as many as needed, a multiple of 32 whose last token is not allowed, or all. By default it
                always has all.

        Raises:
            InvalidBitmask: the same errors as for `apply_inplace`.
        """
        is_plain = logits.dtype is torch.float32 and logits.is_cpu and logits.dim() == 1 and logits.is_contiguous()
        if not is_plain:
            return logits if self(logits) else None
        width, copies = logits.shape[0], _copies
        if copies.shape != (width, len(self._row)):
            copies.begin(width, len(self._row))
        count = self._copy(logits.data_ptr(), width, width if least is None else least, *copies.addresses)
        if not count:
            return None
        masked = logits if count > 0 else copies.logits
        return masked if abs(count) == width else masked[: abs(count)]


class _Copies(threading.local):
    """The calling thread's buffer of logits, -inf except for those that the latest mask allowed."""

    shape = (0, 0)
    """The number of logits, and the words of a mask."""

    def begin(self, width: int, words: int) -> None:
        """Make the buffer this wide, all -inf."""
        with torch.inference_mode(False):  # such a tensor works in either mode
            self.logits = torch.full((width,), -torch.inf)
        self._before = np.zeros(words, dtype=np.int32)
        self.addresses = self.logits.data_ptr(), self._before.ctypes.data
        self.shape = width, words


_copies = _Copies()


def _apply_at(logits: torch.Tensor, rows: Rows, row_indices: Sequence[int]) -> None:
    if logits.ndim != 2 or rows.ndim != 2 or len(rows) != len(row_indices):
        raise InvalidBitmask(
            f"{len(row_indices)} row indices need as many bitmask rows, and two-dimensional logits, found shapes "
            f"{tuple(rows.shape)} and {tuple(logits.shape)}"
        )
    are_inside = all(0 <= index < len(logits) for index in row_indices)
    if are_inside and rows.dtype in _DTYPES and _is_native(logits) and _lie_together(logits):
        _mask_natively(logits, rows, row_indices)
        return
    # Mask runs of adjacent rows in place.
    starts = [at for at in range(len(row_indices)) if not at or row_indices[at] != row_indices[at - 1] + 1]
    if logits.device.type != "cpu" or len(starts) > _RUNS_MASKED_SINGLY:
        index = torch.tensor(row_indices, dtype=torch.int64, device=logits.device)
        logits[index] = apply(logits[index], rows)
        return
    for first, end in zip(starts, [*starts[1:], len(row_indices)], strict=False):
        apply_inplace(logits[row_indices[first] : row_indices[end - 1] + 1], rows[first:end])


def _check(logits: torch.Tensor, rows: Rows) -> None:
    if not logits.is_floating_point():
        raise InvalidBitmask(f"expected floating-point logits, found {logits.dtype}; give the model's logits")
    if rows.dtype not in _DTYPES:
        raise InvalidBitmask(f"expected int32 bitmask rows, found {rows.dtype}; use torch_bitmask.allocate")
    if logits.ndim not in (1, 2) or not 1 <= rows.ndim <= logits.ndim or (rows.ndim == 2 and len(rows) != len(logits)):
        raise InvalidBitmask(
            f"logits of shape {tuple(logits.shape)} and a bitmask of shape {tuple(rows.shape)} do not match; "
            "give one bitmask row, or one for each row of logits"
        )


def _is_native(logits: torch.Tensor) -> bool:
    """Return whether the native library can mask them: in one call, without the GIL, and several times faster than
    torch.
    """
    is_plain = type(logits) is torch.Tensor and not logits.requires_grad
    return is_plain and logits.is_cpu and logits.dtype is torch.float32


def _lie_together(logits: torch.Tensor) -> bool:
    return logits.stride(-1) == 1 and (logits.ndim == 1 or logits.stride(0) >= logits.shape[1])


def _mask_natively(logits: torch.Tensor, rows: Rows, row_indices: Sequence[int] | None = None) -> None:
    lines = torch.atleast_2d(logits)
    places = np.arange(len(lines)) if row_indices is None else row_indices
    mask_rows(lines.data_ptr(), 4 * lines.stride(0), places, lines.shape[1], np.ascontiguousarray(_as_numpy(rows)))


def _forbidden(logits: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Return the forbidden tokens, as wide as the logits and on their device."""
    packed = torch.from_numpy(rows) if isinstance(rows, np.ndarray) else rows
    packed = packed.to(logits.device, non_blocking=True)
    bits = _bits(packed[..., : bitmask.words(logits.shape[-1])])
    forbidden = (bits == 0).flatten(-2)[..., : logits.shape[-1]]
    missing = logits.shape[-1] - forbidden.shape[-1]
    return torch.nn.functional.pad(forbidden, (0, missing), value=True) if missing else forbidden


def _bits(rows: torch.Tensor) -> torch.Tensor:
    """Return each byte of the rows masked by each of its bits: uint8 (..., 4 * words, 8)."""
    return rows.contiguous().view(torch.uint8).unsqueeze(-1) & _each_bit(rows.device)


@lru_cache(maxsize=64)
def _each_bit(device: torch.device) -> torch.Tensor:
    """Return the eight single-bit masks; they stay on the device, because a GPU's cost is the number of kernels
    launched.
    """
    return torch.tensor([1 << bit for bit in range(8)], dtype=torch.uint8, device=device)


def _as_numpy(rows: Rows) -> NDArray[np.int32]:
    if isinstance(rows, np.ndarray):
        return rows
    host: NDArray[np.int32] = rows.detach().cpu().numpy()
    return host


def _allowed(logits: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Return the allowed tokens, as wide as the logits; on a CPU numpy unpacks bits many times faster than torch."""
    width = logits.shape[-1]
    allowed = bitmask.unpack(_as_numpy(rows)[..., : bitmask.words(width)])[..., :width]
    missing = width - allowed.shape[-1]
    if missing:
        allowed = np.pad(allowed, [(0, 0)] * (allowed.ndim - 1) + [(0, missing)])
    return torch.from_numpy(allowed)


def _few_allowed(logits: torch.Tensor, rows: Rows) -> tuple[torch.Tensor, ...] | None:
    """Return the indices of the allowed logits, or None if they are so many that a boolean mask is cheaper."""
    packed = _as_numpy(rows)
    if np.count_nonzero(packed) > _COPIED_WORDS_SHARE * packed.size:
        return None
    packed = np.broadcast_to(packed, (*logits.shape[:-1], packed.shape[-1]))
    *leading, word = np.nonzero(packed)
    found, bit = np.nonzero(bitmask.unpack(packed[(*leading, word)][:, None]))
    ids = word[found] * 32 + bit
    inside = ids < logits.shape[-1]
    return tuple(torch.from_numpy(place[inside]) for place in (*(row[found] for row in leading), ids))
