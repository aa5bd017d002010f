"""Allocate, read and apply packed masks of allowed tokens, for numpy.

`formatter_core.engine.rows` describes the layout; `formatter_core.runtime.torch_bitmask` applies the same rows to torch
logits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.rows import (
    allocate,
    allowed_ids,
    apply_inplace,
    apply_row,
    check_row,
    check_rows,
    clear_ids,
    get,
    set_ids,
    unpack,
    words,
)
from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import elements_of, shown
from formatter_core.runtime.formatter import Formatter

__all__ = [
    "allocate",
    "allowed_ids",
    "apply_inplace",
    "apply_row",
    "check_row",
    "check_rows",
    "clear_ids",
    "fill_batch",
    "get",
    "set_ids",
    "unpack",
    "words",
]


def fill_batch(formatters: Sequence[Formatter | None], rows: NDArray[np.int32]) -> None:
    """Fill `rows[i]` with the mask of `formatters[i]`; None means an unconstrained sequence.

    This is one call to the grammar engine. Rows past the last formatter are not changed.

    Args:
        formatters: at most as many as there are rows, each at most once.
        rows: shape (rows, words), dtype int32, as `allocate` returns it.

    Raises:
        InvalidBitmask: `rows` is not such an array, or has fewer rows than there are formatters.
        InvalidArgument: an item is neither a formatter nor None; nothing was changed.
        FormatterError: the error of the first formatter that failed. Its row and those of other formatters that failed
            are all zeros, so that nothing is allowed there; all other rows are filled.
    """
    for formatter in elements_of(formatters, "formatters", "formatters and None"):
        if formatter is not None and not isinstance(formatter, Formatter):
            reason = f"{shown(formatter)} is not a Formatter; give a Formatter, or None for an unconstrained sequence"
            raise InvalidArgument(reason, argument="formatters")
    check_rows(rows, len(formatters))
    constrained = [index for index, formatter in enumerate(formatters) if formatter is not None]
    for index, formatter in enumerate(formatters):
        if formatter is None:
            rows[index].fill(-1)
    if constrained:
        present = [formatter for formatter in formatters if formatter is not None]
        faults = Formatter.step_batch(present, [None] * len(present), rows, constrained)
        for error in faults.values():
            raise error
