"""Sequences on models made up here: outputs shaped like the prompts, ends, draws, forced text, errors."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import HoleOpened, ValueCompleted, formats
from formatter_core.errors import (
    BudgetTooSmall,
    DeadEnd,
    FormatterError,
    IncompleteResult,
    InvalidArgument,
)
from formatter_core.generation import (
    Finished,
    FormatEvent,
    Generated,
    LogitsModel,
    SamplingRows,
    ScoreSettings,
    TextDelta,
    TextRequest,
    completion,
    continuation,
    greedy,
    log_softmax,
    multinomial,
)
from formatter_core.generation.draws import sequence_key, uniforms
from formatter_core.generation.stopping import TextStream
from tests.core.tiny_logits_model import END, STOP, WIDTH, TinyModel, by_tokens, card, writes

WARM = multinomial(temperature=1.0)
ALL_LOGPROBS = ScoreSettings(logprob=True)


# --- shapes ------------------------------------------------------------------------------------------------------


def test_what_is_finished_is_not_lost_with_the_others() -> None:
    class Breaks(TinyModel):
        def start(self, prompts, *, room=0):
            if (ord("b"),) in [tuple(prompt) for prompt in prompts]:
                raise MemoryError("the model is out of memory")
            return super().start(prompts, room=room)

    write = continuation(Breaks(by_tokens()), max_tokens=3, batch=2)
    outputs = write(["a", "c", "b", "d"])
    assert [output.stopped for output in outputs] == ["length", "length", "error", "error"]
    assert all(isinstance(output.error, MemoryError) for output in outputs[2:])
    with pytest.raises(MemoryError):
        write(["b", "a"])


def test_an_output_has_text_tokens_logprobs_captures_and_a_value() -> None:
    logits = by_tokens(1)
    output = completion(TinyModel(logits), card(), scores=ALL_LOGPROBS, forced_text="off")("Hi")
    assert output.text == bytes(output.bytes).decode()
    assert output.stopped == "end"
    assert output.tokens[-1] == END
    assert output.prompt == tuple(b"Hi")
    assert output.value == {"name": output.captures["name"][0], "age": output.captures["age"][0]}
    whole = (*output.prompt, *output.tokens)
    expected = [float(log_softmax(logits(whole[: 2 + i]))[token]) for i, token in enumerate(output.tokens)]
    assert output.unmasked_logprobs == pytest.approx(expected, abs=1e-5)
    assert all(masked >= free - 1e-6 for masked, free in zip(output.logprobs, expected, strict=True))


def test_without_scores_nothing_is_told() -> None:
    output = completion(TinyModel(by_tokens()), card(), scores=ScoreSettings())("a")
    assert output.chosen == ()
    assert output.result.is_complete


# --- ends --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text", "stopped"),
    [
        ({}, "one, two; three", "end"),
        ({"max_tokens": 5}, "one, ", "length"),
        ({"stop_strings": ", "}, "one", "stop_string"),
        ({"stop_strings": ["three", "two"]}, "one, ", "stop_string"),
        ({"stop_strings": ["e", "one"]}, "", "stop_string"),
        ({"stop_strings": ["one, two; three!"]}, "one, two; three", "end"),
        ({"stop_strings": [", x"], "max_tokens": 5}, "one, ", "length"),
        ({"stop_ids": [ord(";")]}, "one, two", "stop_token"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_where_a_continuation_ends(options, text, stopped, streams) -> None:
    write = continuation(TinyModel(writes(b"one, two; three", prompt=1)), **options)
    if streams:
        *before, last = write.stream("x")
        assert "".join(event.text for event in before) == text
        assert sum((event.tokens for event in before), ()) == last.output.tokens
        output = last.output
    else:
        output = write("x")
    assert (output.text, output.stopped) == (text, stopped)


def test_ends_can_be_suppressed() -> None:
    output = continuation(TinyModel(writes(b"ab", prompt=1)), max_tokens=6, ignore_eos=True)("x")
    assert output.stopped == "length"
    assert len(output.tokens) == 6
    assert END not in output.tokens


def test_a_completion_without_a_format_ends_with_the_model() -> None:
    output = completion(TinyModel(writes(b"that is it", prompt=1)))("x")
    assert (output.text, output.stopped, output.value) == ("that is it", "end", "that is it")


def test_a_cut_output_tells_what_is_missing() -> None:
    output = completion(TinyModel(by_tokens()), card(), max_tokens=4, fit=False)("x")
    assert output.stopped == "length"
    with pytest.raises(IncompleteResult):
        output.value  # noqa: B018


@given(st.lists(st.sampled_from([b"a", b"b", b"ab", b"\xc3", b"\xa9", b"aab"]), max_size=12))
@settings(max_examples=200, deadline=None)
@pytest.mark.parametrize("stops", [(b"ab",), (b"aab", b"b"), ("é".encode(),), (b"aa", b"aaab")])
def test_no_part_of_a_stop_string_is_ever_told(stops, parts) -> None:
    stream = TextStream(stops)
    told = ""
    whole = b"".join(parts)
    ends = [(whole.find(stop) + len(stop), whole.find(stop)) for stop in stops if stop in whole]
    end = min(ends, default=(0, len(whole)))[1]
    for part in parts:
        told += stream.add(part)
        assert whole[:end].decode("utf-8", "replace").startswith(told.rstrip("\ufffd"))
    assert stream.bytes == whole[:end]
    assert told + stream.finish() == whole[:end].decode("utf-8", "replace")


# --- draws -------------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_samples_whatever_the_batch() -> None:
    model = TinyModel(by_tokens())
    short: Any = {"sampling": WARM, "max_tokens": 12, "fit": False}
    for format in (None, card()):
        alone = completion(model, format, **short)("b", samples=4, seed=7)
        assert len({output.tokens for output in alone}) == 4
        together = completion(model, format, **short)(["a", "b", "c"], samples=4, seed=7)
        assert [output.tokens for output in together[1]] == [output.tokens for output in alone]
        in_parts = completion(model, format, **short, batch=3)(["a", "b"], samples=4, seed=7)
        assert [output.tokens for output in in_parts[1]] == [output.tokens for output in alone]
        repeated = completion(model, format, **short)(["b", "b", "b", "b"], seed=7)
        assert [output.tokens for output in repeated] == [output.tokens for output in alone]
        other = completion(model, format, **short)("b", samples=4, seed=8)
        assert [output.tokens for output in other] != [output.tokens for output in alone]


def test_without_a_seed_draws_are_new_and_a_sampling_may_bring_one() -> None:
    model = TinyModel(by_tokens())
    write = continuation(model, sampling=WARM, max_tokens=20)
    assert write("a").tokens != write("a").tokens
    seeded = continuation(model, sampling=type(WARM)(temperature=1.0, seed=3), max_tokens=20)
    assert seeded("a").tokens == seeded("a").tokens == write("a", seed=3).tokens


def test_draws_are_spread_evenly_and_differ_between_sequences_and_places() -> None:
    keys = [sequence_key(0, (1, 2), sample) for sample in range(200)]
    numbers = np.array([uniforms(keys, [place] * 200) for place in range(50)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert len(np.unique(numbers)) == numbers.size
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert abs(counts - 500).max() < 110
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 0.04


def test_samples_follow_the_distribution() -> None:
    row = np.full(WIDTH, -np.inf, dtype=np.single)
    row[[65, 66, 67]] = np.log([0.5, 0.3, 0.2])
    outputs = continuation(TinyModel(lambda tokens: row), sampling=WARM, max_tokens=1)("x", samples=3000, seed=1)
    shares = [sum(output.text == letter for output in outputs) / 3000 for letter in "ABC"]
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.03)


def test_a_sampler_of_ones_own() -> None:
    seen = []

    def second_best(logits: np.ndarray, rows: SamplingRows) -> np.ndarray:
        seen.append((list(rows.prompts), list(rows.samples), [len(tokens) for tokens in rows.tokens]))
        assert rows.uniforms.shape == (len(logits),)
        return np.argsort(-logits, axis=1, kind="stable")[:, 1]

    outputs = continuation(TinyModel(writes(b"\x00" * 9, prompt=1)), sampling=second_best, max_tokens=2)(
        ["a", "b"], samples=2
    )
    assert [output.bytes for row in outputs for output in row] == [b"\x01\x01"] * 4
    assert seen == [([0, 0, 1, 1], [0, 1, 0, 1], [0] * 4), ([0, 0, 1, 1], [0, 1, 0, 1], [1] * 4)]


# --- one prefill -------------------------------------------------------------------------------------------------


def test_a_prompt_is_computed_once_for_all_its_samples() -> None:
    model = TinyModel(by_tokens())
    continuation(model, sampling=WARM, max_tokens=5)(["abc", "abc", "xyz"], samples=8, seed=1)
    assert model.computed.count(tuple(b"abc")) == model.computed.count(tuple(b"xyz")) == 1
    assert model.computed.count(tuple(b"ab")) == 1
    assert model.passes == 1 + 4  # the last token of an output is never computed


def test_finished_sequences_are_not_computed_on() -> None:
    model = TinyModel(by_tokens())
    outputs = completion(model, formats.regex("[ab]{1,9}"), sampling=WARM, forced_text="off")("x", samples=16, seed=2)
    longest = max(len(output.tokens) for output in outputs)
    assert model.passes == longest  # one prefill, none after the last token
    assert len(model.computed) == 1 + sum(len(output.tokens) - 1 for output in outputs)
    assert sorted(model.remembered) == sorted((120, *output.tokens[:-1]) for output in outputs)


# --- outputs as prompts ------------------------------------------------------------------------------------------


def test_a_number_of_tokens_that_is_given_is_a_budget() -> None:
    model = TinyModel(by_tokens(3))
    whole = completion(model, card())("x")
    needed = model.compiler.compile(card()).min_tokens
    assert needed < len(whole.tokens)
    for most in range(needed, len(whole.tokens) + 2):
        output = completion(model, card(), max_tokens=most)("x")
        assert output.result.is_complete
        assert len(output.tokens) <= most
    too_few = completion(model, card(), max_tokens=needed - 1)
    with pytest.raises(BudgetTooSmall, match=f"give at least {needed}"):
        too_few("x")
    with pytest.raises(BudgetTooSmall):
        list(too_few.stream("x"))
    failed, free = too_few(["x", "y"], formats=[card(), None])
    assert isinstance(failed.error, BudgetTooSmall)
    assert free.error is None
    part = completion(model, card(), max_tokens=needed - 1, fit=False)("x")
    assert part.stopped == "length"
    rest = completion(model, card(), max_tokens=len(whole.tokens))(part)
    assert rest.result.is_complete


# --- forced text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("scores", [None, ALL_LOGPROBS, ScoreSettings()], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_drafts_change_nothing(seed, scores, batch) -> None:
    """Drafts do not change how the model spells certain text, be it with the tokens of the drafts or with others."""
    format = formats.regex('the (cat|name) "(ab|na|é){1,3}": name, name')
    outputs = {}
    for mode in ("off", "drafts"):
        write = completion(
            TinyModel(by_tokens(seed)), format, forced_text=mode, sampling=WARM, scores=scores, batch=batch
        )
        outputs[mode] = write(["x", "yz"], samples=5, seed=seed)
    for off, drafts in zip(itertools.chain(*outputs["off"]), itertools.chain(*outputs["drafts"]), strict=True):
        assert off.tokens == drafts.tokens
        assert off.logprobs == pytest.approx(drafts.logprobs, abs=1e-5)
        assert len(drafts.chosen) == len(off.chosen)


def test_drafts_that_the_model_draws_save_passes() -> None:
    text = b'{"name": "cat", "age": 7}'
    tokens = TinyModel(by_tokens()).encode_continuation(text)
    assert tokens is not None

    def logits(so_far: tuple[int, ...]) -> np.ndarray:
        row = np.zeros(WIDTH, dtype=np.single)
        row[(*tokens, END)[min(len(so_far) - 1, len(tokens))]] = 20
        return row

    passes = {}
    for mode in ("off", "exact", "drafts"):
        model = TinyModel(logits)
        output = completion(model, card(), forced_text=mode)("x")
        assert output.tokens == (*tokens, END)
        passes[mode] = model.passes
    assert passes["drafts"] < passes["exact"] <= passes["off"]


def test_drafts_stream_and_stop_as_tokens_do() -> None:
    for seed in range(3):
        events = {}
        for mode in ("off", "drafts"):
            write = completion(
                TinyModel(by_tokens(seed)), card(), forced_text=mode, sampling=WARM, stop_strings=["age"], max_tokens=30
            )
            events[mode] = [event for event in write.stream("x", seed=seed) if isinstance(event, Finished)]
        assert events["off"][0].output.tokens == events["drafts"][0].output.tokens
        assert events["off"][0].output.stopped == events["drafts"][0].output.stopped


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scores", [ScoreSettings(), ALL_LOGPROBS])
def test_forced_text_is_exact_and_saves_passes(seed, scores) -> None:
    outputs, passes = {}, {}
    format = formats.regex('(yes|no) "[ab]{1,3}" -----------(0|1)+-----------')
    for mode in ("off", "exact"):
        model = TinyModel(by_tokens(seed))
        outputs[mode] = completion(model, format, forced_text=mode, sampling=WARM, scores=scores)(
            "x", samples=3, seed=seed
        )
        passes[mode] = model.passes
    for off, exact in zip(outputs["off"], outputs["exact"], strict=True):
        assert off.tokens == exact.tokens
        assert off.logprobs == pytest.approx(exact.logprobs, abs=1e-5)
        assert off.unmasked_logprobs == pytest.approx(exact.unmasked_logprobs, abs=1e-4)
        assert off.passes_saved == 0
        assert exact.passes_saved > 20
    assert passes["exact"] < passes["off"] - 20


def test_passes_saved_are_those_that_were_not_made() -> None:
    model = TinyModel(by_tokens())
    output = completion(model, formats.regex("-{30}(a|b)={30}"))("x")
    assert model.passes == 2  # the prompt, and what comes before the choice
    assert len(output.tokens) == 62
    assert output.passes_saved == 60


def test_canonical_text_takes_the_tokenizer_s_tokens() -> None:
    model = TinyModel(by_tokens(1))
    format = formats.regex('the cat: "name": [0-9]{2}')
    output = completion(model, format, forced_text="canonical", scores=ALL_LOGPROBS)("x")
    prefix = model.encode_continuation(b'the cat: "name": ')
    assert list(output.tokens[: len(prefix)]) == prefix
    assert len(output.unmasked_logprobs) == len(output.tokens)
    assert output.result.is_complete
    assert output.passes_saved >= len(prefix) - 2


def test_canonical_text_keeps_back_what_may_merge() -> None:
    """`na` is certain, but `name` may be what follows: the tokenizer would then have written another token."""
    model = TinyModel(by_tokens(1))
    before: list[tuple[int, ...]] = []

    def watch(logits: np.ndarray, rows: SamplingRows) -> np.ndarray:
        before.append(tuple(rows.tokens[0]))
        return logits.argmax(axis=1)

    completion(model, formats.regex("the na(me|il)"), forced_text="canonical", sampling=watch)("x")
    assert before[0] == (258,)


def test_lists_of_best_tokens_need_every_place() -> None:
    model = TinyModel(by_tokens())
    assert completion(model, formats.regex("-{30}(a|b)"), scores=ScoreSettings(top=2))("x").passes_saved == 0


# --- events ------------------------------------------------------------------------------------------------------


def test_events_tell_text_captures_and_the_whole_output() -> None:
    write = completion(TinyModel(by_tokens(1)), card(), sampling=WARM)
    events = list(write.stream(["a", "b"], samples=2, seed=5))
    outputs = write(["a", "b"], samples=2, seed=5)
    for prompt, sample in itertools.product(range(2), range(2)):
        own = [event for event in events if (event.prompt, event.sample) == (prompt, sample)]
        assert isinstance(own[-1], Finished)
        output = own[-1].output
        assert output.tokens == outputs[prompt][sample].tokens
        assert "".join(event.text for event in own if isinstance(event, TextDelta)) == output.text
        told = [event.event for event in own if isinstance(event, FormatEvent)]
        assert [event.name for event in told if isinstance(event, HoleOpened)] == ["name", "age"]
        assert {e.name: e.value for e in told if isinstance(e, ValueCompleted)} == output.value
    # The sequences are written side by side.
    first = next(i for i, event in enumerate(events) if isinstance(event, Finished))
    assert {(event.prompt, event.sample) for event in events[:first]} == set(itertools.product(range(2), range(2)))


@pytest.mark.parametrize("forced_text", ["exact", "canonical", "drafts", "off"])
@pytest.mark.parametrize(
    "scores",
    [
        ScoreSettings(),
        ALL_LOGPROBS,
        ScoreSettings(unmasked=False),
        ScoreSettings(top=3, logprob=True, rank=True),
        ScoreSettings(logprob=False),
    ],
    ids=str,
)
def test_a_stream_tells_the_scores_of_its_tokens(forced_text, scores) -> None:
    write = completion(TinyModel(by_tokens(1)), card(), sampling=WARM, scores=scores, forced_text=forced_text)
    for options in ({}, {"stop_strings": ["age"]}, {"max_tokens": 40}):
        events = list(write.stream("x", n=2, seed=5, **options))
        for sample in range(2):
            *told, last = (event for event in events if event.sample == sample)
            deltas = [event for event in told if isinstance(event, TextDelta)]
            assert tuple(itertools.chain(*(event.chosen for event in deltas))) == last.output.chosen
            assert tuple(itertools.chain(*(event.tokens for event in deltas))) == last.output.tokens
            if scores.top and forced_text == "off":  # each token comes with its own
                assert all([one.token_id for one in event.chosen] == list(event.tokens) for event in deltas)


# --- errors ------------------------------------------------------------------------------------------------------


def test_logits_that_are_not_numbers_end_that_sequence_alone() -> None:
    healthy = by_tokens()

    def logits(tokens: tuple[int, ...]) -> np.ndarray:
        row = healthy(tokens)
        if tokens[0] == ord("b") and len(tokens) == 4:
            row[:] = np.nan
        return row

    good, bad, last = completion(TinyModel(logits), card(), forced_text="off")(["a", "b", "c"])
    assert bad.stopped == "error"
    assert len(bad.tokens) == 3
    with pytest.raises(FormatterError, match="not numbers"):
        bad.value  # noqa: B018
    with pytest.raises(FormatterError, match="not numbers"):
        bad.raise_error()
    expected = completion(TinyModel(healthy), card())(["a", "c"])
    assert [good.tokens, last.tokens] == [output.tokens for output in expected]


def test_a_text_that_the_vocabulary_cannot_spell_ends_that_sequence_alone() -> None:
    model = TinyModel(by_tokens(), holes=[ord("Z")])
    for mode in ("off", "exact", "canonical"):
        write = completion(model, formats.regex("(a|bZ)c"), sampling=WARM, forced_text=mode)
        outputs = write("x", samples=12, seed=1)
        assert {(output.bytes, output.stopped) for output in outputs} == {(b"ac", "end"), (b"b", "error")}
        assert {type(output.error) for output in outputs} == {type(None), DeadEnd}


def test_a_sampler_that_leaves_the_format_is_stopped() -> None:
    output = completion(TinyModel(by_tokens()), card(), sampling=lambda logits, rows: np.full(len(logits), STOP))("x")
    assert output.stopped == "error"
    assert "sampler" in str(output.error)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (completion, {"max_tokens": 0}),
        (completion, {"batch": 0}),
        (completion, {"forced_text": "always"}),
        (continuation, {"stop_strings": [""]}),
        (continuation, {"stop_strings": [3]}),
    ],
)
def test_faulty_settings_are_refused(make, options) -> None:
    with pytest.raises(InvalidArgument):
        make(TinyModel(by_tokens()), **options)


def test_what_is_no_model_and_what_is_no_number_of_samples() -> None:
    with pytest.raises(InvalidArgument, match="is not a model"):
        completion("gpt2")
    with pytest.raises(InvalidArgument, match="samples"):
        continuation(TinyModel(by_tokens()))("a", samples=0)
    with pytest.raises(InvalidArgument, match="samples"):
        continuation(TinyModel(by_tokens())).stream("a", samples=0)
    with pytest.raises(InvalidArgument, match="samples"):
        continuation(TinyModel(by_tokens()))("a", samples=10**15)
    with pytest.raises(InvalidArgument, match="seed"):
        continuation(TinyModel(by_tokens()))("a", seed=10**5000)
    with pytest.raises(InvalidArgument, match="another vocabulary"):
        completion(TinyModel(by_tokens()), TinyModel(by_tokens()).compiler.compile(card()))
    assert isinstance(TinyModel(by_tokens()), LogitsModel)


# --- models behind an API ----------------------------------------------------------------------------------------


class Echo:
    """An `ApiModel` that answers with what it was asked."""

    def __init__(self) -> None:
        self.requests: list[TextRequest] = []

    def complete(self, prompts, request):
        self.requests.append(request)
        return [
            [Generated((), f"{prompt}{sample}".encode(), "end", prompt=prompt) for sample in range(request.samples)]
            for prompt in prompts
        ]

    def stream_complete(self, prompts, request):
        for prompt, outputs in enumerate(self.complete(prompts, request)):
            for sample, output in enumerate(outputs):
                yield TextDelta(prompt, sample, output.text, ())
                yield Finished(prompt, sample, output)


def test_a_model_behind_an_api_is_asked_for_text() -> None:
    model = Echo()
    write = completion(model, card(), max_tokens=9, sampling=WARM)
    assert write("a").text == "a0"
    assert [[output.text for output in row] for row in write(["a", "b"], samples=2, seed=4)] == [
        ["a0", "a1"],
        ["b0", "b1"],
    ]
    request = model.requests[-1]
    assert (request.max_tokens, request.sampling, request.samples, request.seed) == (9, WARM, 2, 4)
    go_on = continuation(model, stop_strings=["."])
    assert go_on(write("a") + "!").text == "aa0!0"
    assert model.requests[-1].stop_strings == (".",)
    assert [event.output.text for event in go_on.stream("q") if isinstance(event, Finished)] == ["q0"]


def test_what_an_api_cannot_do_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="token ids"):
        continuation(Echo(), stop_ids=[1])
    with pytest.raises(InvalidArgument, match="samples by itself"):
        completion(Echo(), sampling=lambda logits, rows: logits.argmax(1))
    with pytest.raises(InvalidArgument, match="takes text"):
        continuation(Echo())([1, 2])
    with pytest.raises(InvalidArgument, match="behind an API"):
        continuation(TinyModel(by_tokens()))(continuation(Echo())("a"))


# --- every prompt in its own way ----------------------------------------------------------------------------------


def test_a_model_says_how_tokens_are_chosen_where_the_call_does_not() -> None:
    model = TinyModel(by_tokens(4))
    model.sampling = multinomial(1.5, top_k=9)
    assert continuation(model, max_tokens=9)("a", seed=1).tokens == (
        continuation(model, max_tokens=9, sampling=multinomial(1.5, top_k=9))("a", seed=1).tokens
    )
    del model.sampling
    assert continuation(model, max_tokens=9)("a") == continuation(model, max_tokens=9, sampling=greedy())("a")


# --- ids in other shapes ------------------------------------------------------------------------------------------


# --- natural mistakes --------------------------------------------------------------------------------------------


def test_a_copied_writer_writes_the_same_on_the_same_model() -> None:
    write = completion(TinyModel(by_tokens(1)), card())
    for duplicate in (copy.copy(write), copy.deepcopy(write)):
        assert duplicate.model is write.model
        assert duplicate("Hi").text == write("Hi").text


@pytest.mark.parametrize("wrong", [WIDTH, 10**7, -1])
def test_a_stop_id_that_the_model_lacks_is_refused(wrong: int) -> None:
    with pytest.raises(InvalidArgument, match=r"stop_ids holds.*the model has the tokens 0 to"):
        continuation(TinyModel(by_tokens()), stop_ids=[3, wrong])


def test_an_exception_late_in_a_call_leaves_what_is_finished() -> None:
    class Failing(TinyModel):
        calls = 0

        def pick(self, *arguments, **options):
            self.calls += 1
            if self.calls in self.at:
                raise OSError("of the model")
            return super().pick(*arguments, **options)

    model = Failing(by_tokens())
    model.at = {8, 9}
    prompts = [f"{number}" for number in range(6)]
    outputs = continuation(model, max_tokens=3, batch=1, ignore_eos=True)(prompts)
    assert [type(output.error) for output in outputs] == [type(None)] * 2 + [OSError] * 2 + [type(None)] * 2
    assert [output.stopped for output in outputs] == ["length"] * 2 + ["error"] * 2 + ["length"] * 2
    model.calls, model.at = 0, {1}
    with pytest.raises(OSError, match="of the model"):  # nothing is lost
        continuation(model, max_tokens=3)(prompts)
