"""Generation loops share samplers, top-n with ties, option tries and beams; here they run on made-up models."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.errors import DeadEnd, InvalidArgument, LimitExceeded
from formatter_core.generation import (
    BeamSearch,
    Generated,
    NumpyLogits,
    OptionScore,
    OptionTrie,
    Sampling,
    log_softmax,
    option_scores,
    top_tokens,
)
from formatter_core.limits import Limits

ROW = np.array([1.0, 3.0, -np.inf, 3.0, 0.5, 2.0], dtype=np.single)


# --- top-n -------------------------------------------------------------------------------------------------------


def test_log_probabilities_sum_to_one_and_keep_what_is_forbidden() -> None:
    logprobs = log_softmax(ROW)
    assert math.isclose(np.exp(logprobs).sum(), 1.0)
    assert logprobs[2] == -np.inf
    assert logprobs.dtype == np.float64
    assert math.isclose(logprobs[1] - logprobs[0], 2.0, rel_tol=1e-6)


@pytest.mark.parametrize(
    ("n", "ids"),
    [(0, []), (1, [1, 3]), (2, [1, 3]), (3, [1, 3, 5]), (4, [1, 3, 5, 0]), (5, [1, 3, 5, 0, 4]), (9, [1, 3, 5, 0, 4])],
)
def test_the_best_tokens_with_those_as_good_as_the_last(n: int, ids: list[int]) -> None:
    logprobs = log_softmax(ROW)
    rank = {1: 1, 3: 1, 5: 3, 0: 4, 4: 5}
    (found,) = top_tokens(ROW[None], n)
    assert (found.ids, found.ranks) == (tuple(ids), tuple(rank[token] for token in ids))
    assert found.logprobs == pytest.approx([logprobs[token] for token in ids])


def test_the_list_is_bounded() -> None:
    with pytest.raises(LimitExceeded, match="max_top_n"):
        top_tokens(np.zeros((1, 10)), 4, limits=Limits(max_top_n=3))
    assert top_tokens(np.zeros((1, 10)), 2, limits=Limits(max_top_n=3))[0].ids == (0, 1, 2)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20), st.integers(0, 25))
@settings(max_examples=100, deadline=None)
def test_the_list_is_a_sort(values: list[int], n: int) -> None:
    ranked = sorted(range(len(values)), key=lambda token: (-values[token], token))
    last = values[ranked[min(n, len(values)) - 1]] if n else None
    expected = [token for token in ranked if last is not None and values[token] >= last]
    assert list(top_tokens(np.array([values], dtype=float), n)[0].ids) == expected


# --- samplers ----------------------------------------------------------------------------------------------------


def drawn(sampling: Sampling, count: int = 300, stream: int = 0) -> list[int]:
    sampler = sampling.sampler(stream)
    return [sampler(ROW.copy()) for _ in range(count)]


def test_greedy_takes_the_first_of_the_best() -> None:
    assert drawn(Sampling(), 3) == [1, 1, 1]


@pytest.mark.parametrize(
    ("sampling", "ids"),
    [
        (Sampling(temperature=2.0, seed=0), {0, 1, 3, 4, 5}),
        (Sampling(temperature=2.0, top_k=1, seed=0), {1, 3}),
        (Sampling(temperature=2.0, top_k=3, seed=0), {1, 3, 5}),
        (Sampling(temperature=2.0, top_k=100, seed=0), {0, 1, 3, 4, 5}),
        (Sampling(temperature=2.0, top_p=0.6, seed=0), {1, 3}),
        (Sampling(temperature=2.0, top_p=1e-9, seed=0), {1}),
        (Sampling(temperature=1.0, min_p=0.3, seed=0), {1, 3, 5}),
        (Sampling(temperature=2.0, min_p=1.0, seed=0), {1, 3}),
        (Sampling(temperature=2.0, top_k=4, top_p=0.9, min_p=0.9, seed=0), {1, 3}),
        (Sampling(temperature=1e-3, seed=0), {1, 3}),
    ],
    ids=str,
)
def test_candidates_are_cut(sampling: Sampling, ids: set[int]) -> None:
    assert set(drawn(sampling)) == ids


def test_draws_follow_the_probabilities() -> None:
    counts = np.bincount(drawn(Sampling(temperature=1.0, seed=1), 4000), minlength=len(ROW)) / 4000
    assert np.abs(counts - np.exp(log_softmax(ROW))).max() < 0.03


def test_a_seed_repeats_and_each_stream_is_its_own() -> None:
    warm = Sampling(temperature=1.0, seed=7)
    assert drawn(warm, 50) == drawn(warm, 50)
    assert drawn(warm, 50) != drawn(warm, 50, stream=1)
    assert drawn(Sampling(temperature=1.0), 50) != drawn(Sampling(temperature=1.0), 50)


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1}, {"temperature": math.nan}, {"top_k": -1}, {"top_p": 0}, {"top_p": 1.1}, {"min_p": 2}]
)
def test_a_faulty_sampling_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match=r"invalid sampling parameters|give a (whole|finite) number"):
        Sampling(**wrong)


# --- options -----------------------------------------------------------------------------------------------------


def model(width: int, seed: int = 0):
    """Log-probabilities that depend on all tokens so far."""

    def logits(tokens: tuple[int, ...]) -> np.ndarray:
        random = np.random.default_rng([seed, len(tokens), *tokens])
        return (random.standard_normal(width) * 2).astype(np.single)

    return logits


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=8, unique_by=tuple))
@settings(max_examples=60, deadline=None)
def test_options_share_their_beginnings_and_get_the_totals_of_each_alone(options: list[list[int]]) -> None:
    logits = model(4)
    trie = OptionTrie(options)

    def path(node: int) -> tuple[int, ...]:
        return () if node < 0 else (*path(trie.nodes[node].parent), trie.nodes[node].token_id)

    totals = trie.sums([log_softmax(logits(path(node.parent)))[node.token_id] for node in trie.nodes])
    alone = [sum(log_softmax(logits(tuple(o[:i])))[token] for i, token in enumerate(o)) for o in options]
    assert totals == pytest.approx(alone)
    assert trie.inner() == sorted({node.parent for node in trie.nodes} - {-1})
    assert len(trie.nodes) == len({tuple(o[:i]) for o in options for i in range(1, len(o) + 1)})
    assert all(node.parent < index for index, node in enumerate(trie.nodes))


def test_a_score_for_each_token_does_not_punish_length() -> None:
    short, long = OptionScore("a", (1,), -1.0), OptionScore("b", (1, 2, 3), -1.5)
    assert short.logprob > long.logprob
    assert short.mean_logprob < long.mean_logprob


def test_options_need_tokens() -> None:
    for wrong in ([], [[1], []]):
        with pytest.raises(InvalidArgument):
            OptionTrie(wrong)


def test_greedy_can_take_a_worse_option_than_the_best() -> None:
    """`a` looks best at first, but nothing probable follows it; the totals of whole options show it."""
    a, b, c, d = range(4)
    rows = {(): [0.6, 0.4, 0, 0], (a,): [0.0, 0.0, 0.5, 0.5], (b,): [0.0, 0.0, 0.05, 0.95]}

    def logprobs(tokens: tuple[int, ...]) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(np.array(rows[tokens]))

    options = [(a, c), (a, d), (b, d)]
    trie = OptionTrie(options)
    before = [() if node.parent < 0 else (trie.nodes[node.parent].token_id,) for node in trie.nodes]
    totals = trie.sums([logprobs(tokens)[node.token_id] for tokens, node in zip(before, trie.nodes, strict=True)])
    greedy = (a, max((c, d), key=lambda token: logprobs((a,))[token]))
    every = {option: sum(logprobs(option[:i])[token] for i, token in enumerate(option)) for option in options}
    best = options[int(np.argmax(totals))]
    assert best == max(every, key=lambda option: every[option]) == (b, d)
    assert every[greedy] < every[best]


# --- beams -------------------------------------------------------------------------------------------------------

VOCABULARY = Vocabulary([b"a", b"b", b"c", b"ab", None], [4])
FORMAT = formats.regex("(a|b){1,3}c?")


def advance(search: BeamSearch, logits: list[np.ndarray]) -> None:
    search.take(NumpyLogits.best(logits, search.masks, search.candidates))


def searched(width: int, steps: int, seed: int = 0) -> BeamSearch:
    logits = model(len(VOCABULARY), seed)
    search = BeamSearch(Compiler(VOCABULARY).compile(FORMAT).formatter(), width)
    for _ in range(steps):
        if search.is_over:
            break
        advance(search, [logits(beam.tokens) for beam in search.beams])
    return search


def every_output(seed: int) -> list[tuple[float, tuple[int, ...]]]:
    logits = model(len(VOCABULARY), seed)
    compiled = Compiler(VOCABULARY).compile(FORMAT)
    found = []
    for length in range(1, 6):
        for tokens in itertools.product(range(4), repeat=length - 1):
            whole = (*tokens, 4)
            if compiled.formatter().accept_tokens(whole) == length:
                total = sum(log_softmax(logits(whole[:i]))[token] for i, token in enumerate(whole))
                found.append((total, whole))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("seed", range(5))
def test_wide_beams_find_the_best_outputs_in_order(seed: int) -> None:
    expected = every_output(seed)
    search = searched(60, 10, seed)
    assert [beam.tokens for beam in search.finished[:5]] == [tokens for _, tokens in expected[:5]]
    assert search.finished[0].logprob == pytest.approx(expected[0][0])
    assert all(beam.formatter.is_finished for beam in search.finished)


def test_narrow_beams_are_never_better_than_the_best_and_always_in_the_format() -> None:
    for width in (1, 2, 3):
        search = searched(width, 10)
        assert search.is_over
        assert len(search.finished) <= width
        outputs = {tokens: total for total, tokens in every_output(0)}
        assert all(beam.logprob == pytest.approx(outputs[beam.tokens]) for beam in search.finished)


def test_a_beam_at_a_dead_end_is_dropped_and_the_others_go_on() -> None:
    holes = Vocabulary([b"a", b"b", b"x", b"a!", None], [4])  # no token spells the "y" that must follow "b"
    compiled = Compiler(holes).compile(formats.choice(["a!", "by"]))
    search = BeamSearch(compiled.formatter(), 2)
    while not search.is_over:
        advance(search, [np.array([0, 9, 0, 0, 0], dtype=np.single)] * len(search.beams))
    assert [beam.tokens for beam in search.finished] == [(3, 4)]
    assert [one.unmasked_logprob for one in search.outputs()[0].chosen] == list(search.finished[0].logprobs)
    search = BeamSearch(Compiler(holes).compile(formats.choice(["by"])).formatter(), 2)
    with pytest.raises(DeadEnd):
        for _ in range(3):
            advance(search, [np.zeros(5, dtype=np.single)] * len(search.beams))


def test_shares_of_options_add_up_to_one() -> None:
    scores = option_scores(["a", "b"], [(1,), (2, 3)], [math.log(0.1), math.log(0.3)])
    assert [score.probability for score in scores] == pytest.approx([0.25, 0.75])
    impossible = option_scores(["a", "b"], [(1,), (2,)], [-math.inf, -math.inf])
    assert [score.probability for score in impossible] == pytest.approx([0.5, 0.5])


def test_a_search_needs_a_beam() -> None:
    with pytest.raises(InvalidArgument, match="width is 0; give a whole number from 1"):
        searched(0, 1)


def test_an_output_tells_its_error() -> None:
    Generated((1,), b"a", "end").raise_error()
    with pytest.raises(ValueError, match="broken"):
        Generated((1,), b"\xc3", "error", ValueError("broken")).raise_error()
    assert Generated((1,), b"\xc3", "length").text == "\ufffd"
