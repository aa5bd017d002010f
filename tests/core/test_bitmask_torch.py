"""Packed masks applied to torch logits, on the CPU and on an accelerator where there is one."""

from __future__ import annotations

import numpy as np
import pytest

from formatter_core import bitmask
from formatter_core.errors import InvalidBitmask

torch = pytest.importorskip("torch", reason="torch is not installed")

from formatter_core.runtime import torch_bitmask  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def some_rows(size: int) -> np.ndarray:
    """Rows with nothing, one, few, every second, all but one, and all ids allowed."""
    choices = [[], [size - 1], [i for i in range(size) if i % 31 == 0], list(range(0, size, 2)), list(range(1, size))]
    rows = bitmask.allocate(len(choices) + 1, size)
    for row, ids in zip(rows, [*choices, list(range(size))], strict=True):
        bitmask.set_ids(row, ids)
    return rows


def expected(logits: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
    """One logit after the other, by `bitmask.get`."""
    result = logits.clone().cpu()
    for values, row in zip(result, rows, strict=True):
        for token_id in range(len(values)):
            if not bitmask.get(row, token_id):
                values[token_id] = -torch.inf
    return result


def test_every_width_and_the_tail(device: str) -> None:
    for size in (*range(1, 131, 3), 32, 64, 96, 128):
        rows = some_rows(size)
        for width in (size, size + 1, size + 70, max(1, size - 3)):
            logits = torch.randn(len(rows), width, device=device)
            before = logits.clone()
            wanted = expected(logits, rows)
            for given in (rows, torch.from_numpy(rows), torch.from_numpy(rows).to(device)):
                assert torch.equal(torch_bitmask.apply(logits, given).cpu(), wanted), (size, width)
            assert torch.equal(logits, before), (size, width)
            torch_bitmask.apply_inplace(logits, rows)
            assert torch.equal(logits.cpu(), wanted), (size, width)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("allowed", [3, 900])
def test_few_and_many_allowed_of_any_dtype(dtype: torch.dtype, allowed: int, device: str) -> None:
    rows = bitmask.allocate(3, 1000)
    for row in rows:
        bitmask.set_ids(row, np.random.default_rng(allowed).choice(1000, allowed, replace=False))
    logits = torch.randn(3, 1100, device=device).to(dtype)
    wanted = expected(logits, rows)
    masked = torch_bitmask.apply(logits, rows)
    assert masked.dtype == dtype
    assert torch.equal(masked.cpu(), wanted)
    torch_bitmask.apply_inplace(logits, rows)
    assert torch.equal(logits.cpu(), wanted)


@pytest.mark.parametrize("allowed", [[5], list(range(0, 100, 2))])
def test_one_row(allowed: list[int], device: str) -> None:
    row = bitmask.allocate(1, 100)[0]
    bitmask.set_ids(row, allowed)
    one = torch_bitmask.apply(torch.zeros(110, device=device), row)
    assert torch.isfinite(one).nonzero().flatten().tolist() == allowed
    for shared in torch_bitmask.apply(torch.zeros(2, 110, device=device), row):
        assert torch.isfinite(shared).nonzero().flatten().tolist() == allowed


@pytest.mark.parametrize("places", [[], [2], [0, 1, 2, 5], [5, 1, 2, 0], [5, 3, 1, 4, 0], [0, 1, 2, 3, 4, 5]])
def test_some_of_the_rows(places: list[int], device: str) -> None:
    logits = torch.randn(6, 80, device=device)
    rows = some_rows(70)[: len(places)]
    wanted = logits.clone().cpu()
    wanted[places] = expected(wanted[places], rows)
    torch_bitmask.apply_inplace(logits, rows, places)
    assert torch.equal(logits.cpu(), wanted)


@pytest.mark.parametrize(("shape", "places"), [((6, 80), [0]), ((6, 80), [5, 6]), ((80,), [0, 0])])
def test_places_that_do_not_fit(shape: tuple[int, ...], places: list[int]) -> None:
    with pytest.raises((InvalidBitmask, IndexError)):
        torch_bitmask.apply_inplace(torch.zeros(shape), some_rows(70)[:2], places)


def test_strided_logits_in_place(device: str) -> None:
    row = bitmask.allocate(1, 100)[0]
    bitmask.set_ids(row, [7])
    base = torch.zeros(2, 100, 2, device=device)
    torch_bitmask.apply_inplace(base[..., 0], row)
    assert torch.isfinite(base[..., 0]).nonzero().tolist() == [[0, 7], [1, 7]]
    assert torch.isfinite(base[..., 1]).all()


def test_masked_nan_is_gone(device: str) -> None:
    logits = torch.full((1, 64), torch.nan, device=device)
    for allowed in ([], list(range(1, 64))):
        row = bitmask.allocate(1, 64)[0]
        bitmask.set_ids(row, allowed)
        assert torch.isneginf(torch_bitmask.apply(logits, row)[0, 0])


def test_allocate_shares_memory_with_numpy() -> None:
    rows = torch_bitmask.allocate(2, 70)
    bitmask.set_ids(rows.numpy()[1], [69])
    assert rows.tolist() == [[0, 0, 0], [0, 0, 32]]
    assert torch_bitmask.unpack(rows)[1].nonzero().flatten().tolist() == [69]
    assert torch_bitmask.allocate(1, 70, "all").tolist() == [[-1, -1, -1]]


@pytest.mark.parametrize(
    ("logits", "rows"),
    [
        (torch.zeros(32, dtype=torch.int64), torch.zeros(1, dtype=torch.int32)),
        (torch.zeros(32), torch.zeros(1, dtype=torch.int64)),
        (torch.zeros(32), np.zeros(1, np.uint32)),
        (torch.zeros(32), torch.zeros(1, 1, dtype=torch.int32)),
        (torch.zeros(3, 32), torch.zeros(2, 1, dtype=torch.int32)),
        (torch.zeros(1, 1, 32), torch.zeros(1, dtype=torch.int32)),
    ],
)
def test_refusals(logits: torch.Tensor, rows: torch.Tensor) -> None:
    with pytest.raises(InvalidBitmask):
        torch_bitmask.apply(logits, rows)
    with pytest.raises(InvalidBitmask):
        torch_bitmask.apply_inplace(logits, rows)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_masker_follows_its_row(dtype: torch.dtype, device: str) -> None:
    row = bitmask.allocate(1, 70)[0]
    mask = torch_bitmask.RowMasker(row)
    for given in some_rows(70):
        row[:] = given
        for width, step in ((70, 1), (69, 1), (130, 1), (64, 2)):
            logits = torch.randn(width * step, device=device).to(dtype)[::step]
            wanted = torch_bitmask.apply(logits, given)
            assert mask(logits) is bool(wanted.isfinite().any())
            assert torch.equal(logits, wanted)
    row[:] = -1
    assert mask(torch.full((70,), -torch.inf, dtype=dtype, device=device)) is False
    for wrong in (torch.zeros(70, dtype=torch.int64), torch.zeros(2, 2, 70)):
        with pytest.raises(InvalidBitmask):
            mask(wrong)
    with pytest.raises(InvalidBitmask):
        torch_bitmask.RowMasker(np.zeros(3, np.int64))


def test_few_logits_are_copied() -> None:
    row = bitmask.allocate(1, 300)[0]
    mask = torch_bitmask.RowMasker(row)
    for allowed in ([3], [3, 40], [], [299], list(range(0, 300, 7)), list(range(64)), [3]):
        row[:] = 0
        bitmask.set_ids(row, allowed)
        for width in (300, 290, 330):
            logits = torch.randn(width)
            before, wanted = logits.clone(), torch_bitmask.apply(logits, row)
            masked = mask.masked(logits)
            assert (masked is None) is bool(wanted.isneginf().all())
            assert masked is None or torch.equal(masked, wanted)
            assert masked is logits or torch.equal(logits, before) or masked is None
            for least in (1, 70, 290, 1000):
                some = mask.masked(before.clone(), least)
                assert (some is None) is (masked is None)
                if some is not None:
                    count = len(some)
                    assert count == width or (count % 32 == 0 and count - 1 not in allowed)
                    assert count >= min(least, width)
                    assert torch.equal(some, wanted[:count])
                    assert bool(wanted[count:].isneginf().all())
    with pytest.raises(InvalidBitmask):
        mask.masked(torch.zeros(70, dtype=torch.int64))
