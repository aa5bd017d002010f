"""Operations of the native library on logits, without the GIL: the best tokens of rows, and masking."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.native_library import check, load

__all__ = ["BestTokens", "best_tokens", "copying_masker", "mask_rows", "row_masker"]

#: The dtypes that the library reads; numpy has no bfloat16, so its bits come as uint16.
_KINDS = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.uint16): 2}
_SCALE, _RANK = 1, 2


class _Rows(ctypes.Structure):
    _fields_ = (
        ("logits", ctypes.c_void_p),
        ("kind", ctypes.c_uint32),
        ("wants", ctypes.c_uint32),
        ("rows", ctypes.c_size_t),
        ("width", ctypes.c_size_t),
        ("stride", ctypes.c_size_t),
        ("counts", ctypes.c_void_p),
        ("chosen", ctypes.c_void_p),
        ("room", ctypes.c_size_t),
    )


class _Found(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in ("numbers", "amounts", "ids", "logprobs", "ranks"))


@dataclass(frozen=True, slots=True)
class BestTokens:
    """The results of a search for the best tokens, by row; fields that were not requested are undefined.

    Attributes:
        numbers: float64 (rows, 2): the logarithm of the sum of the exponentials, 0 where no logit is finite; the logit
            of the chosen token.
        amounts: int64 (rows, 3): how many tokens are better than the chosen one; how many are as good as the last of
            the list, or better; how many are listed.
        ids: int64 (rows, room), the best first and ties by id.
        logprobs: float64 (rows, room).
        ranks: int64 (rows, room).
    """

    numbers: NDArray[np.float64]
    amounts: NDArray[np.int64]
    ids: NDArray[np.int64]
    logprobs: NDArray[np.float64]
    ranks: NDArray[np.int64]


def best_tokens(
    logits: NDArray[Any],
    counts: Sequence[int],
    chosen: Sequence[int] | None,
    *,
    room: int,
    wants_scale: bool,
    wants_rank: bool,
) -> BestTokens | None:
    """Find the best tokens of each row; return None if a row has NaN or +inf and its values are requested.

    Args:
        logits: float32, float16, or the bits of bfloat16 as uint16; (rows, width).
        counts: for each row how many of the best tokens.
        chosen: for each row the id of a token.
        room: how many are listed at most, those included that tie with the last.
        wants_scale: whether the first of the numbers is wanted if no tokens are requested.
        wants_rank: whether the first of the amounts is.
    """
    size = logits.itemsize
    if logits.strides[1] != size or logits.strides[0] < 0 or logits.strides[0] % size or not logits.flags.aligned:
        logits = np.ascontiguousarray(logits)
    rows, width = logits.shape
    asked = np.array(counts, dtype=np.uint32)
    tokens = None if chosen is None else np.array(chosen, dtype=np.uint32)
    if asked.shape != (rows,) or (tokens is not None and tokens.shape != (rows,)):
        raise ValueError(f"{asked.shape} counts for {rows} rows")
    given = _Rows(
        logits.ctypes.data,
        _KINDS[logits.dtype],
        _SCALE * wants_scale | _RANK * wants_rank,
        rows,
        width,
        logits.strides[0] // size,
        asked.ctypes.data,
        None if tokens is None else tokens.ctypes.data,
        room,
    )
    found = BestTokens(
        np.zeros((rows, 2)),
        np.zeros((rows, 3), dtype=np.int64),
        np.zeros((rows, room), dtype=np.int64),
        np.zeros((rows, room)),
        np.zeros((rows, room), dtype=np.int64),
    )
    where = (found.numbers, found.amounts, found.ids, found.logprobs, found.ranks)
    answer = load().fcn_best_tokens(ctypes.byref(given), ctypes.byref(_Found(*(part.ctypes.data for part in where))))
    return None if check(answer) else found


def row_masker(row: NDArray[np.int32]) -> Callable[[int, int, int], bool]:
    """Make a function that writes -inf over the logits that a row forbids, and tells whether one is left above -inf.

    It takes the address of float32 logits, how many they are, and the bytes from one to the next; it reads the row
    again in each call.

    Args:
        row: shape (words,), C-contiguous and aligned.
    """
    function, address, words = load().fcn_mask_logits, row.ctypes.data, len(row)

    def mask(logits: int, width: int, stride: int, row: NDArray[np.int32] = row) -> bool:  # and keeps the row alive
        return function(logits, width, stride, address, words) != 0  # type: ignore[no-any-return]

    return mask


def copying_masker(row: NDArray[np.int32]) -> Callable[[int, int, int, int, int], int]:
    """Make a function that masks contiguous logits, or copies those that a row allows if they are few.

    It takes the address of float32 logits, how many they are, how many are wanted at least, the address of as many
    copies, and that of a row that says which of them may be above -inf: none before the first call. It answers how many
    logits were masked, or how many copies are, as a negative number; past these nothing is allowed. It answers 0 where
    no allowed logit is above -inf.
    """
    function, address, words = load().fcn_mask_or_copy, row.ctypes.data, len(row)

    def mask(logits: int, width: int, least: int, copies: int, before: int, row: NDArray[np.int32] = row) -> int:
        return function(logits, width, address, words, least, copies, before)  # type: ignore[no-any-return]

    return mask


def mask_rows(
    logits: int, stride: int, places: Sequence[int] | NDArray[np.int64], width: int, rows: NDArray[np.int32]
) -> None:
    """Write -inf over all logits that rows do not allow, in one call.

    Args:
        logits: the address of the first of all float32 logits; a row's lie side by side, and no two rows overlap.
        stride: how many bytes lie from one row of logits to the next.
        places: which rows of logits are masked.
        width: how many logits each row has.
        rows: C-contiguous and aligned; shape (words,) for all places, or (places, words).
    """
    words = rows.shape[-1]
    step = words if rows.ndim == 2 else 0
    addresses = (logits + stride * np.asarray(places, dtype=np.int64)).astype(np.uint64)
    load().fcn_mask_rows(addresses.ctypes.data, len(addresses), width, rows.ctypes.data, words, step)
