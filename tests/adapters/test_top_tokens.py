"""The best tokens in torch: the same as a plain sort, ties and all, and what is off is not computed."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers.generation", reason="needs transformers")

from formatter_core import Vocabulary  # noqa: E402
from formatter_core import generation as core  # noqa: E402
from formatter_core.errors import InvalidArgument, LimitExceeded  # noqa: E402
from formatter_core.generation import ScoreSettings  # noqa: E402
from formatter_core.limits import DEFAULT_LIMITS, Limits  # noqa: E402
from formatter_transformers import score_step, top_tokens  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

WAYS = ("library", "numpy", "device")
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
WIDTH = 5003


@pytest.fixture(autouse=True, params=WAYS)
def way(request, monkeypatch) -> str:
    """Give logits of the host, read by the library and by numpy, and as on a device, which is the processor here."""
    if request.param == "numpy":
        monkeypatch.setattr("formatter_core.generation.candidates._NATIVE", ())
    if request.param == "device":
        monkeypatch.setattr("formatter_transformers.token_scores._is_on_host", lambda logits: False)
    return request.param


def spread(dtype) -> torch.Tensor:
    return (torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)


def sparse(dtype) -> torch.Tensor:
    """Make logits as after a mask, which leaves a few tokens in each row and none in the last."""
    logits = spread(dtype)
    allowed = torch.rand(8, WIDTH, generator=torch.Generator().manual_seed(1)) < 0.002
    allowed[-1] = False
    return logits.masked_fill(~allowed, -torch.inf)


def flat(dtype) -> torch.Tensor:
    """Make logits with hundreds of ties wherever a list ends."""
    return torch.randint(0, 4, (8, WIDTH), generator=torch.Generator().manual_seed(2)).to(dtype)


def narrow(dtype) -> torch.Tensor:
    return flat(dtype)[:, :30]


def by_a_sort(logits: torch.Tensor, counts: list[int], ties: str, cap: int) -> list[list[int]]:
    found = []
    for row, n in zip(logits.double().tolist(), counts, strict=True):
        order = sorted((t for t in range(len(row)) if row[t] > -math.inf), key=lambda t: (-row[t], t))
        count = min(n, len(order))
        while ties == "all" and 0 < count < min(cap, len(order)) and row[order[count]] == row[order[count - 1]]:
            count += 1
        found.append(order[:count])
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("logits", [spread, sparse, flat, narrow], ids=lambda make: make.__name__)
@pytest.mark.parametrize("ties", ["all", "none"])
@pytest.mark.parametrize("n", [0, 1, 5, 20, 64, [0, 1, 5, 20, 64, 3, 2, 1]], ids=str)
def test_the_best_tokens_are_those_of_a_sort_in_every_dtype(dtype, logits, ties, n) -> None:
    logits = logits(dtype)
    chosen = torch.arange(8) * 3
    found = top_tokens(logits, n, chosen=chosen, ties=ties)
    counts = [n] * 8 if isinstance(n, int) else n
    assert [list(one.ids) for one in found] == by_a_sort(logits, counts, ties, DEFAULT_LIMITS.max_top_n)
    plain = core.top_tokens(logits.double().numpy(), n, chosen=chosen.numpy(), ties=ties)
    for ours, theirs in zip(found, plain, strict=True):
        assert ours.ids == theirs.ids
        assert (ours.ranks, ours.is_cut, ours.chosen) == (theirs.ranks, theirs.is_cut, theirs.chosen)
        assert ours.chosen_rank == theirs.chosen_rank
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=2e-5)
        assert ours.chosen_logprob == pytest.approx(theirs.chosen_logprob, abs=2e-5)


@pytest.mark.parametrize("cap", [5, 20, 70])
def test_ties_are_bounded_and_those_with_the_lowest_ids_stay(cap) -> None:
    limits = Limits(max_top_n=cap)
    for logits in (flat(torch.float32), torch.zeros(3, WIDTH)):
        found = top_tokens(logits, 5, limits=limits)
        assert [list(one.ids) for one in found] == by_a_sort(logits, [5] * len(logits), "all", cap)
        assert all(one.is_cut and len(one.ids) == cap for one in found)


def test_values_that_only_the_dtype_makes_equal_are_ties() -> None:
    row = torch.tensor([[1.0, 1.001, 0.5, 1.002]])
    assert [one.ids for one in top_tokens(row, 1)] == [(3,)]
    assert [one.ids for one in top_tokens(row.bfloat16(), 1)] == [(0, 1, 3)]
    assert top_tokens(row.bfloat16(), 4)[0].ranks == (1, 1, 1, 4)


def test_more_rows_than_are_measured_at_once(monkeypatch) -> None:
    monkeypatch.setattr("formatter_transformers.token_scores._AT_ONCE", 3 * WIDTH)
    for logits in (spread(torch.float32), flat(torch.float32)):
        found = top_tokens(logits, [5, 1, 0, 5, 20, 3, 5, 5])
        assert [list(one.ids) for one in found] == by_a_sort(logits, [5, 1, 0, 5, 20, 3, 5, 5], "all", 64)


class Copies(torch.overrides.TorchFunctionMode):
    """Counts what brings numbers from a device to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in ("cpu", "item", "tolist", "__bool__", "__int__", "__float__", "__index__", "nonzero"):
            self.names.append(name)
        return function(*args, **(kwargs or {}))


def test_one_copy_brings_a_whole_batch_to_the_host(way) -> None:
    logits, chosen = spread(torch.bfloat16), torch.arange(8)
    masked = logits.masked_fill(torch.arange(WIDTH) % 7 > 0, -torch.inf)
    expected = ["cpu"] if way == "device" else []
    with Copies() as copies:
        top_tokens(logits, [1, 2, 3, 4, 5, 6, 7, 8], chosen=list(range(8)))
    assert copies.names == expected
    with Copies() as copies:
        score_step(logits, masked, chosen * 7, ScoreSettings(top=5, logprob=True, rank=True))
    assert [name for name in copies.names if name != "tolist"] == expected


class Calls(torch.overrides.TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.add(getattr(function, "__name__", ""))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("n", "asked", "computed"),
    [
        (0, {"logprob": False, "rank": False}, set()),
        (0, {"logprob": True, "rank": False}, {"logsumexp"}),
        (0, {"logprob": False, "rank": True}, {"gt"}),
        (3, {"logprob": False, "rank": False}, {"logsumexp", "topk"}),
    ],
)
def test_what_is_off_is_not_computed(way, n, asked, computed) -> None:
    logits = spread(torch.float32)
    with Calls() as calls:
        (one, *_) = top_tokens(logits, n, chosen=[1] * 8, **asked)
    names = {"gt" if name == "__gt__" else name for name in calls.names}
    assert names & {"logsumexp", "topk"} == (computed - {"gt"} if way == "device" else set())
    assert bool(one.ids) == bool(n)
    assert (one.chosen_logprob is None) == (not asked["logprob"])
    assert (one.chosen_rank is None) == (not asked["rank"])
    if computed == {"gt"}:
        assert one.chosen_rank == 1 + int((logits[0] > logits[0, 1]).sum())


def test_before_and_after_the_mask() -> None:
    logits = spread(torch.float32)
    masked = logits.masked_fill(torch.arange(WIDTH) % 5 > 0, -torch.inf)
    chosen = torch.arange(8) * 5
    found = score_step(logits, masked, chosen, ScoreSettings(top=4, logprob=True, rank=True))
    for row, one in enumerate(found):
        probabilities = torch.softmax(logits[row].double(), 0)
        kept = float(probabilities[::5].sum())
        assert one.token_id == row * 5
        assert one.masked_probability == pytest.approx(1 - kept, abs=1e-5)
        assert one.logprob == pytest.approx(math.log(probabilities[row * 5] / kept), abs=1e-4)
        assert one.rank < one.unmasked_rank
        assert all(score.token_id % 5 == 0 for score in one.top)
        assert one.unmasked_top[0].token_id == int(logits[row].argmax())
    (one, *_) = score_step(logits, masked, chosen, ScoreSettings(logprob=True, unmasked=False))
    assert (one.unmasked_logprob, one.unmasked_top, one.masked_probability, one.top, one.rank) == (
        None,
        (),
        None,
        (),
        None,
    )
    (one, *_) = score_step(logits, logits, chosen, ScoreSettings(logprob=True))
    assert one.logprob == one.unmasked_logprob
    assert one.masked_probability == 0


def test_candidates_have_bytes_and_text() -> None:
    vocabulary = Vocabulary([b"a", "é".encode()[:1], "é".encode(), None, b"<end>"], [4])
    (one,) = top_tokens(torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0, 0.0]]), 6)
    shown = [(c.token_id, c.bytes, c.text, c.is_whole, c.is_end) for c in one.candidates(vocabulary)]
    assert shown == [
        (4, None, "", True, True),
        (3, None, "", True, False),
        (2, "é".encode(), "é", True, False),
        (1, b"\xc3", "\ufffd", False, False),
        (0, b"a", "a", True, False),
        (5, None, "", True, False),
    ]
    assert [score.rank for score in one.scores] == [1, 2, 3, 4, 5, 6]
    told = core.TokenScore(-1, -0.5, 1, b"\xa9")  # by a server that tells no ids
    (shown,) = core.as_candidates([told], vocabulary)
    assert (shown.bytes, shown.is_whole, shown.is_end) == (b"\xa9", False, False)


@pytest.mark.parametrize(
    ("logits", "options", "error", "message"),
    [
        (torch.zeros(4), {"n": 1}, InvalidArgument, "floating"),
        (torch.zeros(1, 4, dtype=torch.int64), {"n": 1}, InvalidArgument, "floating"),
        (torch.zeros(2, 4), {"n": -1}, InvalidArgument, "n is"),
        (torch.zeros(2, 4), {"n": [1]}, InvalidArgument, "n is"),
        (torch.zeros(2, 4), {"n": 65}, LimitExceeded, "max_top_n"),
        (torch.zeros(2, 4), {"n": 1, "limits": Limits(max_top_n=0)}, LimitExceeded, "max_top_n"),
        (torch.zeros(2, 4), {"n": 1, "chosen": [1]}, InvalidArgument, "chosen"),
        (torch.zeros(2, 4), {"n": 1, "chosen": [1, 4]}, InvalidArgument, "tokens 0 to 3"),
        (torch.zeros(2, 4), {"n": 1, "chosen": [1, -1]}, InvalidArgument, "tokens 0 to 3"),
        (torch.tensor([[1.0, math.nan]]), {"n": 1}, InvalidArgument, "NaN"),
        (torch.tensor([[1.0, math.inf]]), {"n": 1}, InvalidArgument, "inf"),
    ],
)
def test_faults_are_named_by_both(logits, options, error, message) -> None:
    with pytest.raises(error, match=message):
        top_tokens(logits, **options)
    if "chosen" in options:
        with pytest.raises(InvalidArgument, match="one for each row"):
            top_tokens(logits, **{**options, "chosen": torch.zeros(2, 1, dtype=torch.int64)})
    with pytest.raises(error, match=message):
        core.top_tokens(logits.numpy(), **options)


def test_the_switches_are_checked() -> None:
    assert not ScoreSettings(prompt=True)
    assert ScoreSettings(rank=True)
    with pytest.raises(LimitExceeded, match="max_top_n"):
        ScoreSettings(top=65)


def test_the_strides_of_the_logits_do_not_matter() -> None:
    logits = spread(torch.float32)
    expected = top_tokens(logits, 20, chosen=[5] * 8)
    others = logits.t().contiguous().t(), torch.stack([logits, logits], 2)[:, :, 1], logits.repeat(1, 2)[:, :WIDTH]
    for other in others:
        for one, same in zip(top_tokens(other, 20, chosen=[5] * 8), expected, strict=True):
            assert (one.ids, one.ranks, one.chosen_rank) == (same.ids, same.ranks, same.chosen_rank)
            assert one.logprobs == pytest.approx(same.logprobs, abs=1e-5)  # sums are made in another order


def test_logits_with_a_gradient_are_as_good_as_others() -> None:
    logits = spread(torch.float32)
    assert top_tokens(logits.clone().requires_grad_(), 5, chosen=[1] * 8) == top_tokens(logits, 5, chosen=[1] * 8)


def test_no_rows_give_no_results() -> None:
    assert top_tokens(torch.zeros(0, 5), 3) == []
    assert core.top_tokens(np.zeros((0, 5)), 3) == []


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint16])
def test_arrays_of_any_layout_hold_the_same_rows(dtype) -> None:
    """Views that are reversed, shifted, repeated or unaligned, in either order of bytes; uint16 means bfloat16."""
    logits = spread(torch.bfloat16)
    array = logits.view(torch.int16).numpy().view(np.uint16) if dtype == np.uint16 else logits.float().numpy()
    array = array.astype(dtype)
    expected = core.top_tokens(logits.double().numpy(), 7, chosen=[2] * 8)
    bytes_of_it = np.frombuffer(b"x" + array.tobytes(), np.uint8)[1:]
    backwards = np.ascontiguousarray(array[::-1])[::-1]
    for other in (
        array,
        backwards,
        np.asfortranarray(array),
        np.pad(array, ((1, 1), (3, 3)))[1:-1, 3:-3],
        bytes_of_it.view(dtype).reshape(array.shape),
        array.astype(array.dtype.newbyteorder()),
    ):
        for ours, theirs in zip(core.top_tokens(other, 7, chosen=[2] * 8), expected, strict=True):
            assert (ours.ids, ours.ranks, ours.chosen_rank) == (theirs.ids, theirs.ranks, theirs.chosen_rank)
            assert ours.logprobs == pytest.approx(theirs.logprobs, abs=2e-5)
    same = core.top_tokens(np.broadcast_to(array[0], (3, WIDTH)), 7)
    assert same[0] == same[1] == same[2]


def test_the_processor_s_own_numbers() -> None:
    """Zeros of both signs tie, subnormal numbers do not vanish, and rows may be shorter than any vector."""
    for width in (1, 2, 15, 17, 64, 65):
        row = np.zeros((1, width), np.float32)
        row[0, ::2] = -0.0
        assert core.top_tokens(row, 1)[0].ids == tuple(range(min(width, 64)))
    tiny = np.full((1, 100), -1.0, np.float16)
    tiny[0, [40, 90]] = 2**-24, 2**-23
    assert core.top_tokens(tiny, 2)[0].ids == (90, 40)
    far = np.array([[0.0, -1e30, -200.0, -np.inf] * 40], np.float32)
    (one,) = core.top_tokens(far, 60, chosen=[1])
    assert one.is_cut
    assert one.ranks[40:] == (41,) * 24
    assert one.chosen_logprob == pytest.approx(-1e30)
    assert one.logprobs[0] == pytest.approx(-math.log(40), abs=1e-6)
