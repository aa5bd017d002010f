"""Rows of packed masks: their layout, and operations on them.

A row is a one-dimensional, C-contiguous int32 array; bit `i % 32` of word `i // 32` is token `i`, and a set bit means
allowed. The layout is the one that xgrammar, llguidance and vLLM use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.native_logits import mask_rows, row_masker
from formatter_core.errors import BitmaskTooNarrow, InvalidArgument, InvalidBitmask
from formatter_core.errors.arguments import one_of, shown, whole_number

__all__ = [
    "INT32",
    "allocate",
    "allowed_ids",
    "apply_at",
    "apply_inplace",
    "apply_row",
    "check_logits",
    "check_row",
    "check_rows",
    "clear_ids",
    "get",
    "is_plain",
    "lie_plainly",
    "set_ids",
    "unpack",
    "words",
]


INT32 = np.dtype(np.int32)  # compared with this a type takes a fifth of the time
_BIT_ARRAY = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32)).view(np.int32)
_BITS = list(_BIT_ARRAY)
_OTHER_BITS = list(~_BIT_ARRAY)
# Up to here a loop over numpy scalars beats the vectorised form. End ids are set in every mask, and are few.
_FEW = 16
#: The errors of Python and numpy for arguments that are not rows or token ids.
_WRONG_KINDS = (TypeError, ValueError, KeyError, IndexError, OverflowError, AttributeError)


def words(size: int) -> int:
    """Return the number of 32-bit words in a row for `size` token ids.

    Raises:
        InvalidArgument: `size` is not a whole number from 0.
    """
    return (whole_number(size, "size") + 31) // 32


def allocate(rows: int, size: int, fill: Literal["none", "all"] = "none") -> NDArray[np.int32]:
    """Make an array of shape (rows, words(size)), dtype int32, with no token allowed, or all of them.

    With `fill="all"` every bit is set, also those past `size` in the last word.

    Raises:
        InvalidArgument: arguments of another kind, or more than the memory holds.
    """
    bits = 0 if one_of(fill, "fill", ("none", "all")) == "none" else -1
    shape = (whole_number(rows, "rows"), words(size))
    try:
        return np.full(shape, bits, dtype=np.int32)
    except (ValueError, MemoryError, OverflowError) as error:
        raise InvalidArgument(f"not enough memory for rows of shape {shape}; ask for fewer") from error


def is_plain(row: object) -> bool:
    """Tell whether a row is a one-dimensional, writable, C-contiguous numpy array of int32."""
    return type(row) is np.ndarray and row.dtype == INT32 and row.ndim == 1 and row.flags.carray


def check_row(row: NDArray[np.int32]) -> None:
    """Raise unless `row` can be written as a bitmask row.

    Raises:
        InvalidBitmask: not a one-dimensional, writable, C-contiguous numpy array of int32.
    """
    if is_plain(row):
        return
    if not isinstance(row, np.ndarray):
        found = f"a {type(row).__name__}"
    else:
        order = "C-contiguous" if row.flags.c_contiguous else "not C-contiguous"
        access = "writable" if row.flags.writeable else "read-only"
        found = f"an array of shape {row.shape}, dtype {row.dtype}, {order}, {access}"
    raise InvalidBitmask(
        "expected a one-dimensional, writable, C-contiguous numpy array of int32 as a bitmask row, found "
        f"{found}; use a row of bitmask.allocate(rows, size)"
    )


def check_rows(rows: NDArray[np.int32], count: int) -> None:
    """Raise unless the first `count` rows of `rows` can be written as bitmask rows.

    Raises:
        InvalidBitmask: no array of at least `count` rows, or not as `check_row` has it.
    """
    count = whole_number(count, "count")
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or len(rows) < count:
        raise InvalidBitmask(
            f"expected a numpy array of at least {count} bitmask rows, found shape {getattr(rows, 'shape', None)}; "
            "make it with bitmask.allocate(rows, size)"
        )
    if count:
        check_row(rows[0])


def get(row: NDArray[np.int32], token_id: int) -> bool:
    """Tell whether the token's bit is set; False past the end of the row.

    Raises:
        InvalidBitmask: `row` is not one.
        InvalidArgument: `token_id` is not a whole number.
    """
    try:
        word = token_id >> 5
        return bool(0 <= word < len(row) and int(row[word]) >> (token_id & 31) & 1)
    except _WRONG_KINDS as error:
        raise _fault(row, [token_id]) from error


def set_ids(row: NDArray[np.int32], token_ids: Sequence[int]) -> None:
    """Allow these tokens, in place.

    Raises:
        BitmaskTooNarrow: a token is beyond the end of the row; nothing was changed.
        InvalidBitmask: a negative id, or `row` is not a row; nothing was changed.
        InvalidArgument: an id is not a whole number.
    """
    try:
        if not len(token_ids):
            return
        lowest, highest = min(token_ids), max(token_ids)
        if lowest < 0:
            raise InvalidBitmask(f"the token id {lowest} is negative; token ids count from 0")
        if highest >= 32 * len(row):
            raise BitmaskTooNarrow(width=len(row), needed=words(highest + 1))
        if len(token_ids) <= _FEW:
            for token_id in token_ids:
                row[token_id >> 5] |= _BITS[token_id & 31]
        else:
            ids = np.asarray(token_ids, dtype=np.int64)
            np.bitwise_or.at(row, ids >> 5, _BIT_ARRAY[ids & 31])
    except _WRONG_KINDS as error:
        raise _fault(row, token_ids) from error


def clear_ids(row: NDArray[np.int32], token_ids: Sequence[int]) -> None:
    """Forbid these tokens, in place; ids outside the row are forbidden already.

    Raises:
        InvalidBitmask: `row` is not a row.
        InvalidArgument: an id is not a whole number.
    """
    try:
        if len(token_ids) <= _FEW:
            for token_id in token_ids:
                if 0 <= token_id < 32 * len(row):
                    row[token_id >> 5] &= _OTHER_BITS[token_id & 31]
        else:
            ids = np.asarray(token_ids, dtype=np.int64)
            ids = ids[(ids >= 0) & (ids < 32 * len(row))]
            np.bitwise_and.at(row, ids >> 5, ~_BIT_ARRAY[ids & 31])
    except _WRONG_KINDS as error:
        raise _fault(row, token_ids) from error


def _fault(row: object, token_ids: object) -> InvalidBitmask | InvalidArgument:
    """Find the argument of the wrong type. This runs only after a failure, because every step makes these calls."""
    if not isinstance(row, np.ndarray) or row.ndim != 1 or row.dtype != np.int32 or not row.flags.writeable:
        return InvalidBitmask(f"expected a one-dimensional numpy array of int32 as a bitmask row, found {shown(row)}")
    return InvalidArgument(
        f"expected a list of whole numbers as token ids, found {shown(token_ids)}", argument="token_ids"
    )


def unpack(rows: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return one boolean for each bit in a new array: shape (..., words) becomes (..., 32 * words).

    Raises:
        InvalidBitmask: not an array of int32.
    """
    _check_kind(rows)
    # unpackbits reads byte by byte, so the bytes must be in the order of the bits' numbers.
    octets = np.ascontiguousarray(rows, dtype="<i4").view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little").view(np.bool_)


def _check_kind(rows: object) -> None:
    if not isinstance(rows, np.ndarray) or rows.dtype != np.int32 or not rows.ndim:
        raise InvalidBitmask(f"expected a numpy array of int32 bitmask rows, found {shown(rows)}; use bitmask.allocate")


def allowed_ids(row: NDArray[np.int32]) -> list[int]:
    """Return the allowed token ids, sorted.

    Raises:
        InvalidBitmask: not one row.
    """
    if getattr(row, "ndim", 1) != 1:
        raise InvalidBitmask(f"expected one bitmask row, found an array of shape {row.shape}; give rows[i]")
    ids: list[int] = np.flatnonzero(unpack(row)).tolist()
    return ids


def apply_inplace(logits: NDArray[Any], row: NDArray[np.int32]) -> None:
    """Set the logits of the tokens that are not allowed to -inf, in place.

    Args:
        logits: shape (width,) or (rows, width), a floating dtype, any strides. Ids past the end of the row
            are not allowed.
        row: shape (words,) for all logits, or (rows, words) for logits of as many rows.

    Raises:
        InvalidBitmask: no numpy array of floats, or shapes that do not fit together.
    """
    _check_floats(logits)
    _check_kind(row)
    if logits.ndim not in (1, 2) or row.ndim > logits.ndim or (row.ndim == 2 and len(row) != len(logits)):
        raise InvalidBitmask(
            f"logits of shape {logits.shape} and a bitmask of shape {row.shape} do not match; "
            "give one bitmask row, or one for each row of logits"
        )
    width = min(logits.shape[-1], 32 * row.shape[-1])
    np.copyto(logits[..., :width], -np.inf, where=~unpack(row)[..., :width])
    logits[..., width:] = -np.inf


def apply_at(logits: NDArray[Any], rows: NDArray[np.int32], places: Sequence[int]) -> None:
    """Do `apply_inplace` only at these places: each row of `rows` on the row of logits (rows, width) at its place."""
    if lie_plainly(logits):
        mask_rows(logits.ctypes.data, logits.strides[0], places, logits.shape[1], rows[places])
        return
    for place in places:
        apply_inplace(logits[place], rows[place])


def check_logits(logits: NDArray[Any], count: int) -> None:
    """Raise unless the first `count` rows of logits (rows, width) can be masked in place.

    Raises:
        InvalidBitmask: no writable numpy array of floats, or with fewer rows.
    """
    _check_floats(logits)
    if logits.ndim != 2 or len(logits) < count:
        raise InvalidBitmask(f"expected logits (rows, width) of at least {count} rows, found shape {logits.shape}")


def lie_plainly(logits: NDArray[Any]) -> bool:
    """Tell whether the native library can mask the logits: float32, contiguous in each row, and no two rows overlap."""
    stride, step = logits.strides
    is_plain = logits.dtype == np.float32 and logits.flags.aligned
    return is_plain and step == logits.itemsize and stride >= step * logits.shape[1]


def apply_row(logits: NDArray[Any], row: NDArray[np.int32]) -> bool:
    """Do `apply_inplace` for one row of logits; return whether an allowed token has a logit above -inf.

    The native library takes one pass over float32 logits, without the GIL.

    Args:
        logits: shape (width,), a floating dtype, any strides. Ids past the end of the row are not allowed.
        row: shape (words,).

    Raises:
        InvalidBitmask: as from `apply_inplace`.
    """
    are_plain = _is_line(logits, np.float32) and _is_line(row, np.int32)
    if are_plain and logits.flags.writeable and row.flags.c_contiguous and row.flags.aligned:
        return row_masker(row)(logits.ctypes.data, len(logits), logits.strides[0])
    apply_inplace(logits, row)
    return bool((logits > -np.inf).any())


def _check_floats(logits: object) -> None:
    if not isinstance(logits, np.ndarray) or logits.dtype.kind != "f" or not logits.flags.writeable:
        raise InvalidBitmask("expected logits as a writable numpy array of floats")


def _is_line(array: Any, dtype: type[np.generic]) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == 1
