"""Faithful samples against enumeration: the model's own distribution, given the format."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from formatter_core import formats
from formatter_core.errors import FormatterError, InvalidArgument, NoExactSample
from formatter_core.generation import (
    Faithful,
    Finished,
    Sampling,
    ScoreSettings,
    TextDelta,
    completion,
    greedy,
    multinomial,
)
from formatter_core.generation.lost_mass import LostMass, Node
from tests.core.enumeration import FORMATS, agreement, outputs_of
from tests.core.tiny_logits_model import END, WIDTH, TinyModel, by_tokens, following
from tests.sampling import sampled

WARM = multinomial()
WORDS = FORMATS["words"]
PROMPT = tuple(b"x")


def tokens_of(outputs: list[Any]) -> list[tuple[int, ...]]:
    for output in outputs:
        output.raise_error()
    return [output.tokens for output in outputs]


# --- the distribution --------------------------------------------------------------------------------------------

#: Draws of fixed seeds: the least of these p-values, over all cases, is far from what a wrong distribution gives.
LEAST = 1e-3


@pytest.mark.parametrize("name", ["words", "bits", "two digits", "escapes", "text with holes", "sums", "spaces"])
def test_samples_are_those_of_the_model_given_the_format(name: str) -> None:
    model = TinyModel(by_tokens(1, 0.5))
    expected = outputs_of(model, FORMATS[name], PROMPT, WARM)
    draw = completion(model, FORMATS[name], sampling=WARM, faithful=True)
    plain = completion(model, FORMATS[name], sampling=WARM)
    assert agreement(expected, tokens_of(draw("x", samples=600, seed=1))).p_value > LEAST
    assert agreement(expected, tokens_of(plain("x", samples=600, seed=1))).p_value < LEAST / 10


@pytest.mark.parametrize(
    "sampling",
    [Sampling(0.6), Sampling(1.6), Sampling(1.0, top_k=120), Sampling(1.0, top_p=0.9), Sampling(1.2, min_p=0.1)],
    ids=str,
)
def test_the_model_is_what_the_sampling_makes_of_it(sampling: Sampling) -> None:
    model = TinyModel(by_tokens(4, 0.7))
    expected = outputs_of(model, FORMATS["two digits"], PROMPT, sampling)
    draw = completion(model, FORMATS["two digits"], sampling=sampling, faithful=True)
    outputs = draw("x", samples=500, seed=1)
    assert agreement(expected, tokens_of(outputs)).p_value > LEAST
    assert {output.tokens for output in outputs} <= set(expected)


def test_samples_are_independent_of_each_other() -> None:
    model = TinyModel(by_tokens(3, 0.5))
    expected = outputs_of(model, FORMATS["bits"], PROMPT, WARM)
    total = sum(expected.values())
    draw = completion(model, FORMATS["bits"], sampling=WARM, faithful=True)
    pairs = [tuple(tokens_of(draw("x", samples=2, seed=seed))) for seed in range(200)]
    both = {(a, b): p * q / total for a, p in expected.items() for b, q in expected.items()}
    assert agreement(both, pairs).p_value > LEAST


@pytest.mark.parametrize("forced_text", ["exact", "off"])
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_neither_batches_nor_forced_text_change_the_distribution(batch: int, forced_text) -> None:
    model = TinyModel(by_tokens(2, 0.5))
    expected = outputs_of(model, WORDS, PROMPT, WARM)
    draw = completion(model, WORDS, sampling=WARM, faithful=True, batch=batch, forced_text=forced_text)
    assert agreement(expected, tokens_of(draw("x", samples=400, seed=2))).p_value > LEAST


@pytest.mark.parametrize("memory_bytes", [0, 3000, 20_000])
def test_without_memory_samples_stay_exact(memory_bytes: int) -> None:
    model = TinyModel(following(FORMATS["a rare ending"], by_tokens(0, 0.5), 7.0))
    format = FORMATS["a rare ending"]
    expected = outputs_of(model, format, PROMPT, WARM)
    draw = completion(model, format, sampling=WARM, faithful=Faithful(memory_bytes=memory_bytes))
    outputs = draw("x", samples=500, seed=1)
    assert agreement(expected, tokens_of(outputs)).p_value > LEAST
    assert draw.lost_mass.bytes <= max(memory_bytes, 20_000)  # the first beginning is always known


def test_tokens_that_are_not_listed_are_drawn_too() -> None:
    """Half of the mass lies on thousands of improbable tokens, of which no list is kept."""

    def logits(tokens: tuple[int, ...]) -> np.ndarray:
        row = np.full(WIDTH, -6.0, dtype=np.single)
        row[97:110] = np.linspace(3, -9, 13) if len(tokens) < 3 else -20
        row[END] = -2 if len(tokens) < 3 else 4
        return row

    model, format = TinyModel(logits), formats.regex("[a-z]{1,2}")
    expected = outputs_of(model, format, PROMPT, WARM)
    outputs = completion(model, format, sampling=WARM, faithful=True)("x", samples=3000, seed=1)
    assert agreement(expected, tokens_of(outputs)).p_value > LEAST


@pytest.mark.parametrize("seed", sampled(range(3), 1))
def test_samples_that_draw_an_unlisted_token_at_once_are_exact(seed: int) -> None:
    """Many drafts need the model at the same beginning, for the same few tokens, and the first one lists its own."""
    logits = np.full(WIDTH, -20.0, dtype=np.single)
    logits[[97, 98, 99]] = [0.0, -8.5, -8.7]  # only the first is listed
    model = TinyModel(lambda tokens: logits if len(tokens) < 2 else np.eye(WIDTH, dtype=np.single)[END] * 50)
    format = formats.regex("[abc]")
    expected = outputs_of(model, format, PROMPT, WARM)
    draw = completion(model, format, sampling=WARM, faithful=Faithful(keep=True), batch=3000)
    draw("x", seed=5)
    assert agreement(expected, tokens_of(draw("x", samples=20_000, seed=seed))).p_value > LEAST


def test_each_prompt_format_and_sampling_of_a_call_counts_for_itself() -> None:
    model = TinyModel(by_tokens(5, 0.5))
    bits = FORMATS["bits"]
    draw = completion(model, WORDS, sampling=WARM, faithful=True)
    sampling = [WARM, Sampling(1.3), WARM]
    found = draw(["x", "x", "yz"], samples=300, seed=1, formats=[WORDS, bits, bits], sampling=sampling)
    for outputs, format, prompt, how in zip(found, [WORDS, bits, bits], [b"x", b"x", b"yz"], sampling, strict=True):
        expected = outputs_of(model, format, tuple(prompt), how)
        assert agreement(expected, tokens_of(outputs)).p_value > LEAST


def test_free_text_beside_a_format_is_sampled_as_it_is() -> None:
    draw = completion(TinyModel(by_tokens(5)), WORDS, sampling=WARM, faithful=True, max_tokens=4)
    free, words = draw(["x", "y"], formats=[None, WORDS], seed=1)
    plain = completion(TinyModel(by_tokens(5)), sampling=WARM, max_tokens=4)
    assert free.tokens == plain("x", seed=1).tokens
    assert words.stopped == "end"


# --- ends --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit", [True, False])
def test_outputs_are_complete_within_their_tokens(fit: bool) -> None:
    format = formats.regex("[ab]*c")
    model = TinyModel(following(format, by_tokens(0, 0.5), 4.0))
    expected = outputs_of(model, format, PROMPT, WARM, max_tokens=4)
    draw = completion(model, format, sampling=WARM, faithful=True, max_tokens=4, fit=fit)
    outputs = draw("x", samples=500, seed=1)
    assert {output.stopped for output in outputs} == {"end"}
    assert agreement(expected, tokens_of(outputs)).p_value > LEAST


def test_a_stop_string_ends_an_output() -> None:
    model, format = TinyModel(by_tokens(1, 0.5)), FORMATS["two digits"]
    whole = outputs_of(model, format, PROMPT, WARM)
    draw = completion(model, format, sampling=WARM, faithful=True, stop_strings="7")
    outputs = draw("x", samples=300, seed=1)
    assert {output.stopped for output in outputs} == {"end", "stop_string"}
    assert all("7" not in output.text for output in outputs)
    kept = {tokens: p for tokens, p in whole.items() if ord("7") not in tokens}
    assert agreement(kept, [one.tokens for one in outputs if one.stopped == "end"]).p_value > LEAST


def test_completions_take_stop_strings() -> None:
    output = completion(TinyModel(by_tokens(1)), FORMATS["until"], stop_strings=["cat"], sampling=WARM)("x", seed=2)
    assert (output.stopped, "cat" in output.text) == ("stop_string", False)
    assert not output.result.is_complete


def test_the_end_may_be_taken_as_certain() -> None:
    def logits(tokens: tuple[int, ...]) -> np.ndarray:
        row = np.zeros(WIDTH, dtype=np.single)
        if len(tokens) > 2:
            row[END] = -3.0 * (tokens[-1] == ord("1"))  # the end is less probable behind some outputs
        return row

    model, format = TinyModel(logits), FORMATS["two digits"]
    beginnings = {tokens[:-1]: 1.0 for tokens in outputs_of(model, format, PROMPT, WARM)}
    draw = completion(model, format, sampling=WARM, faithful=Faithful(with_end=False))
    outputs = draw("x", samples=2000, seed=1)
    assert agreement(beginnings, [tokens[:-1] for tokens in tokens_of(outputs)]).p_value > LEAST
    with_end = completion(model, format, sampling=WARM, faithful=True)("x", samples=2000, seed=1)
    assert agreement(beginnings, [tokens[:-1] for tokens in tokens_of(with_end)]).p_value < LEAST


def test_an_output_can_be_gone_on_with() -> None:
    model = TinyModel(by_tokens(1, 0.5))
    compiled = model.compiler.compile(WORDS)
    part = completion(model, compiled, max_tokens=1, fit=False, sampling=WARM)("x", seed=1)
    whole = outputs_of(model, compiled, PROMPT, WARM)
    expected = {tokens: p for tokens, p in whole.items() if tokens[:1] == part.tokens}
    outputs = completion(model, compiled, sampling=WARM, faithful=True)(part, samples=300, seed=1)
    assert agreement(expected, tokens_of(outputs)).p_value > LEAST


# --- what comes with an output -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", [WARM, Sampling(0.7, top_k=200)], ids=str)
def test_an_output_has_its_log_probabilities(sampling: Sampling) -> None:
    model = TinyModel(by_tokens(1, 0.5))
    expected = outputs_of(model, WORDS, PROMPT, WARM)
    for output in completion(model, WORDS, sampling=sampling, faithful=True)("x", samples=5, seed=1):
        assert output.unmasked_logprob == pytest.approx(math.log(expected[output.tokens]), abs=1e-3)
        assert output.masked_logprob is not None
        assert output.draws >= 1
        assert output.log_weight is None


def test_the_first_sample_takes_drafts_and_later_ones_hardly_any() -> None:
    draw = completion(TinyModel(by_tokens(1)), WORDS, sampling=WARM, faithful=True)
    outputs = draw("x", samples=1000, seed=1)
    assert outputs[0].draws > 1
    assert sum(output.draws for output in outputs) < 1.5 * len(outputs)


def test_a_seed_repeats() -> None:
    draw = completion(TinyModel(by_tokens(1)), WORDS, sampling=WARM, faithful=True)
    first = tokens_of(draw("x", samples=20, seed=1))
    assert tokens_of(draw("x", samples=20, seed=1)) == first
    assert tokens_of(draw("x", samples=20, seed=2)) != first


def test_samples_are_streamed_when_they_are_kept() -> None:
    draw = completion(TinyModel(by_tokens(1)), WORDS, sampling=WARM, faithful=True)
    events = list(draw.stream("x", samples=3, seed=1))
    for sample in range(3):
        own = [event for event in events if event.sample == sample]
        (finished,) = [event for event in own if isinstance(event, Finished)]
        assert "".join(event.text for event in own if isinstance(event, TextDelta)) == finished.output.text
        assert finished.output.result.is_complete


# --- bounds ------------------------------------------------------------------------------------------------------


def test_too_many_drafts_are_an_error_that_says_what_is_known() -> None:
    draw = completion(TinyModel(by_tokens(1)), WORDS, sampling=WARM, faithful=Faithful(max_draws=2, memory_bytes=0))
    outputs = draw("x", samples=4, seed=1)
    assert {output.stopped for output in outputs} == {"error"}
    with pytest.raises(NoExactSample, match="none of 2 drafts") as caught:
        _ = outputs[0].value
    assert caught.value.draws == 2
    assert 0 < caught.value.mass < 1


def test_weighted_samples_take_the_place_of_exact_ones() -> None:
    model = TinyModel(by_tokens(1, 0.5))
    expected = outputs_of(model, WORDS, PROMPT, WARM)
    how = Faithful(max_draws=1, otherwise="weighted", memory_bytes=0)
    outputs = completion(model, WORDS, sampling=WARM, faithful=how)("x", samples=3000, seed=1)
    weights: Counter[tuple[int, ...]] = Counter()
    for output in outputs:
        assert output.stopped == "end"
        weights[output.tokens] += math.exp(output.log_weight)
    assert sum(weights.values()) / len(outputs) == pytest.approx(sum(expected.values()), rel=0.2)
    share = weights.most_common(1)[0][1] / sum(weights.values())
    assert share == pytest.approx(max(expected.values()) / sum(expected.values()), rel=0.2)


def test_a_sampling_that_leaves_no_output_is_an_error() -> None:
    draw = completion(TinyModel(by_tokens(1)), WORDS, sampling=multinomial(top_k=1), faithful=True)
    with pytest.raises(NoExactSample, match="probability above 0"):
        _ = draw("x", seed=1).value


def test_memory_is_counted_as_it_is() -> None:
    tracemalloc = pytest.importorskip("tracemalloc")
    model, format = TinyModel(by_tokens(1, 0.5)), FORMATS["dates"]
    draw = completion(model, format, sampling=WARM, faithful=Faithful(keep=True))
    draw("x", seed=1)
    tracemalloc.start()
    try:
        before = draw.lost_mass.bytes
        draw("yz", samples=200, seed=1)
        used = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*lost_mass.py")])
        counted = draw.lost_mass.bytes - before
    finally:
        tracemalloc.stop()
    assert sum(one.size for one in used.statistics("filename")) < 1.5 * counted


def test_memory_is_bounded_and_old_prompts_make_way() -> None:
    draw = completion(
        TinyModel(by_tokens(1, 0.5)), WORDS, sampling=WARM, faithful=Faithful(memory_bytes=60_000, keep=True)
    )
    for prompt in range(1, 20):
        assert all(output.stopped == "end" for output in draw([prompt], samples=20, seed=1))
        assert 0 < draw.lost_mass.bytes <= 60_000
    draw.lost_mass.clear()
    assert (draw.lost_mass.bytes, draw.lost_mass.nodes) == (0, 0)


def test_what_was_learnt_is_kept_if_asked_for() -> None:
    model = TinyModel(by_tokens(1))
    for keep in (False, True):
        draw = completion(model, WORDS, sampling=WARM, faithful=Faithful(keep=keep))
        draw("x", samples=300, seed=1)
        model.passes = 0
        draws = draw("x", samples=5, seed=2)
        assert (sum(output.draws for output in draws) == 5) == keep
        assert (model.passes < 5) == keep


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interruption_leaves_nothing_behind(error) -> None:
    class Interrupted(TinyModel):
        left = 10**9

        def weigh(self, logits, allowed, sampling):
            self.left -= 1
            if self.left < 0:
                raise error
            return TinyModel.weigh(logits, allowed, sampling)

    model = Interrupted(by_tokens(1, 0.5))
    draw = completion(model, WORDS, sampling=WARM, faithful=Faithful(keep=True))
    model.left = 3
    with pytest.raises(error):
        draw("x", samples=5, seed=1)
    assert draw.lost_mass.bytes == 0
    model.left = 10**9
    expected = outputs_of(model, WORDS, PROMPT, WARM)
    assert agreement(expected, tokens_of(draw("x", samples=300, seed=1))).p_value > LEAST
    stream = draw.stream("x", samples=5, seed=1)
    next(stream)
    stream.close()
    assert draw.lost_mass.bytes == 0


def test_logits_that_are_not_numbers_end_their_own_sequence() -> None:
    function = by_tokens(1, 0.5)

    def logits(tokens: tuple[int, ...]) -> np.ndarray:
        return np.full(WIDTH, np.nan, dtype=np.single) if tokens[:1] == (ord("y"),) else function(tokens)

    good, bad = completion(TinyModel(logits), WORDS, sampling=WARM, faithful=True)(["x", "y"], seed=1)
    assert good.stopped == "end"
    with pytest.raises(FormatterError, match="no token can be chosen"):
        _ = bad.value


# --- wrong calls -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampling": greedy()}, "no distribution"),
        ({"sampling": lambda logits, rows: logits.argmax(axis=1)}, "no distribution"),
        ({"forced_text": "canonical"}, "canonical"),
        ({"top_logprobs": 3}, "lists of best tokens"),
        ({"scores": ScoreSettings(rank=True)}, "ranks"),
        ({"faithful": "yes"}, "faithful"),
    ],
)
def test_what_has_no_faithful_samples_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        completion(TinyModel(by_tokens()), WORDS, **{"faithful": True, **options})("x")


def test_a_model_that_does_not_weigh_is_refused() -> None:
    class Plain(TinyModel):
        weigh = None

    with pytest.raises(InvalidArgument, match="probabilities"):
        completion(Plain(by_tokens()), WORDS, faithful=True)


@pytest.mark.parametrize(
    "wrong", [{"max_draws": 0}, {"otherwise": "maybe"}, {"memory_bytes": -1}, {"keep": 1}, {"with_end": "x"}]
)
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Faithful(**wrong)


def test_greedy_by_default_becomes_temperature_1() -> None:
    model = TinyModel(by_tokens(1, 0.5))
    assert completion(model, WORDS, faithful=True).sampling == Sampling(1.0)


# --- the trie ----------------------------------------------------------------------------------------------------


def node(*shares: float) -> Node:
    return Node.of(np.array(shares, dtype=np.single), 1.0, 0.0, 0.0)


def test_what_is_lost_below_is_known_above() -> None:
    known = LostMass(10**6)
    root = known.begin("key", node(0.5, 0.25, 0.0), set())
    child = known.add("key", root, 0, node(0.1, 0.1, 0.0))
    assert root.kept == pytest.approx(0.75)
    child.learnt()
    assert root.kept == pytest.approx(0.5 * 0.2 + 0.25)
    child.lose(0)
    child.learnt()
    assert root.kept == pytest.approx(0.5 * 0.1 + 0.25)
    assert root.pick(0.049).token == 0
    assert root.pick(0.051).token == 1
    assert root.pick(0.051).kept == 1.0
    assert root.pick(0.0).kept == pytest.approx(0.1)
    assert known.add("key", root, 0, node(1.0, 0.0, 0.0)) is child
    assert known.nodes == 2


def test_without_room_a_node_is_left_alone() -> None:
    known = LostMass(0)
    root = known.begin("key", node(0.5, 0.5), set())
    alone = known.add("key", root, 0, node(0.5, 0.0))
    below = known.add("key", alone, 0, node(0.1, 0.0))
    below.learnt()
    assert alone.kept == pytest.approx(0.05)
    assert root.kept == 1.0
    assert known.nodes == 1
