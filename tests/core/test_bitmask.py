"""Packed masks for numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from formatter_core import Compiler, Formatter, Vocabulary, bitmask, formats
from formatter_core.errors import BitmaskTooNarrow, DeadEnd, InvalidBitmask

WIDTHS = [*range(1, 131), 1000]


def some_ids(size: int) -> list[int]:
    """Ids on both sides of every word boundary, and the last one."""
    return sorted({i for i in range(size) if i % 32 in (0, 31) or i % 7 == 3} | {size - 1})


def row_of(ids: list[int], size: int) -> NDArray[np.int32]:
    row = bitmask.allocate(1, size)[0]
    bitmask.set_ids(row, ids)
    return row


def test_words() -> None:
    assert [bitmask.words(n) for n in (0, 1, 31, 32, 33, 64, 65)] == [0, 1, 1, 1, 2, 2, 3]


def test_allocate() -> None:
    none, everything = bitmask.allocate(2, 70), bitmask.allocate(2, 70, "all")
    assert none.shape == everything.shape == (2, 3)
    assert none.dtype == everything.dtype == np.int32
    assert not none.any()
    assert bitmask.allowed_ids(everything[1]) == list(range(96))


def test_bits_go_in_and_come_out() -> None:
    for size in WIDTHS:
        ids = some_ids(size)
        row = row_of(ids, size)
        assert bitmask.allowed_ids(row) == ids, size
        assert [i for i in range(size + 40) if bitmask.get(row, i)] == ids, size
        bitmask.clear_ids(row, ids[::2])
        assert bitmask.allowed_ids(row) == ids[1::2], size


def test_the_layout_is_bit_i_of_word_i() -> None:
    assert row_of([0, 33, 63], 64).tolist() == [1, 2 - 2**31]


@pytest.mark.parametrize("ids", [[70], list(range(60, 100))])
def test_a_row_too_narrow_is_left_alone(ids: list[int]) -> None:
    row = row_of([1], 64)
    with pytest.raises(BitmaskTooNarrow) as caught:
        bitmask.set_ids(row, ids)
    assert (caught.value.width, caught.value.needed) == (2, bitmask.words(max(ids) + 1))
    assert bitmask.allowed_ids(row) == [1]


def test_ids_outside_the_row() -> None:
    row = row_of([1, 2], 32)
    bitmask.clear_ids(row, [-1, 2, 32, 10**6])
    bitmask.clear_ids(row, [-1, *range(40, 80)])
    assert bitmask.allowed_ids(row) == [1]
    assert not bitmask.get(row, -1)
    with pytest.raises(InvalidBitmask):
        bitmask.set_ids(row, [-1])


@pytest.mark.parametrize(
    "row",
    [
        [0, 0],
        np.zeros(2, np.int64),
        np.zeros(2, np.uint32),
        np.zeros((1, 2), np.int32),
        np.zeros(4, np.int32)[::2],
        np.frombuffer(bytes(8), np.int32),
    ],
    ids=["list", "int64", "uint32", "two-dimensional", "strided", "read-only"],
)
def test_check_row_refuses(row: object) -> None:
    with pytest.raises(InvalidBitmask, match=r"bitmask\.allocate"):
        bitmask.check_row(row)  # type: ignore[arg-type]


def test_check_row_accepts() -> None:
    bitmask.check_row(bitmask.allocate(3, 70)[1])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_apply_masks_all_else_and_the_tail(dtype: type) -> None:
    for size in WIDTHS:
        ids = some_ids(size)
        for width in {size, size + 1, size + 100, max(1, size - 5)}:
            logits = np.arange(width).astype(dtype)
            bitmask.apply_inplace(logits, row_of(ids, size))
            assert np.flatnonzero(np.isfinite(logits)).tolist() == [i for i in ids if i < width], (size, width)
            assert all(logits[i] == dtype(i) for i in ids if i < width), (size, width)
            assert np.isneginf(logits[~np.isfinite(logits)]).all(), (size, width)


def test_apply_row_masks_and_finds_whether_a_token_is_left() -> None:
    rng = np.random.default_rng(7)
    for dtype, step, width, words in itertools.product(
        (np.float32, np.float64), (1, 3, -1), (1, 31, 64, 97), (0, 1, 2, 4)
    ):
        memory = rng.choice([-np.inf, np.nan, -1e30, -0.0, np.inf], size=abs(step) * width).astype(dtype)
        logits = memory[::step]
        row = rng.choice(np.array([0, 2**32 - 1, 5, 1 << 31], dtype=np.uint32).view(np.int32), size=words)
        row.flags.writeable = bool(width % 2)
        wanted, others = logits.copy(), memory.copy()
        bitmask.apply_inplace(wanted, row)
        assert bitmask.apply_row(logits, row) is bool((wanted > -np.inf).any())
        assert np.array_equal(logits, wanted, equal_nan=True)
        logits[:] = others[::step]
        assert np.array_equal(memory, others, equal_nan=True)  # nothing between the logits was written


def test_apply_to_rows_and_to_strided_logits() -> None:
    rows = bitmask.allocate(2, 40)
    bitmask.set_ids(rows[0], [3])
    bitmask.set_ids(rows[1], [39])
    logits = np.zeros((2, 50, 3), np.float32)[..., 1]
    bitmask.apply_inplace(logits, rows)
    assert np.argwhere(np.isfinite(logits)).tolist() == [[0, 3], [1, 39]]
    shared = np.zeros((2, 50), np.float32)
    bitmask.apply_inplace(shared, rows[1])
    assert np.argwhere(np.isfinite(shared)).tolist() == [[0, 39], [1, 39]]


@pytest.mark.parametrize(
    ("logits", "row"),
    [
        (np.zeros(32, np.int32), np.zeros(1, np.int32)),
        (np.zeros(32, np.float32), np.zeros((1, 1), np.int32)),
        (np.zeros((3, 32), np.float32), np.zeros((2, 1), np.int32)),
        (np.zeros((1, 1, 32), np.float32), np.zeros(1, np.int32)),
    ],
)
def test_apply_refuses(logits: NDArray[np.float32], row: NDArray[np.int32]) -> None:
    with pytest.raises(InvalidBitmask):
        bitmask.apply_inplace(logits, row)


#: Enough ids for two words; "b" is not among the tokens, so what needs it is a dead end.
COMPILER = Compiler(Vocabulary([b"a", b"c", *[None] * 38], end_ids=[39]))


def formatter_of(pattern: str, text: bytes = b"") -> Formatter:
    formatter = COMPILER.compile(formats.regex(pattern)).formatter()
    if text:
        formatter.accept_bytes(text)
    return formatter


def test_fill_batch() -> None:
    rows = bitmask.allocate(4, 40)
    rows[3] = 5
    bitmask.fill_batch([formatter_of("a?"), None, formatter_of("[ac]")], rows)
    assert [bitmask.allowed_ids(row) for row in rows[:3]] == [[0, 39], list(range(64)), [0, 1]]
    assert rows[3].tolist() == [5, 5]


@pytest.mark.contract("`fill_batch` fills all rows, None for everything")
def test_fill_batch_fails_closed() -> None:
    rows = bitmask.allocate(4, 40, "all")
    with pytest.raises(DeadEnd):
        bitmask.fill_batch([formatter_of("c"), formatter_of("ab", b"a"), formatter_of("c")], rows)
    assert rows.tolist() == [[2, 0], [0, 0], [2, 0], [-1, -1]]


@pytest.mark.parametrize(
    "rows",
    [
        None,
        [],
        bitmask.allocate(1, 9),
        bitmask.allocate(1, 9)[0],
        bitmask.allocate(2, 99)[:, ::2],
        bitmask.allocate(2, 9) * 1.0,
    ],
    ids=["None", "a list", "too few", "one-dimensional", "strided", "floats"],
)
def test_fill_batch_refuses(rows: Any) -> None:
    with pytest.raises(InvalidBitmask):
        bitmask.fill_batch([formatter_of("a"), formatter_of("a")], rows)
