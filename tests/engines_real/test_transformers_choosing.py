"""Options, branches, beams, best-of-n and scores of prompts on three architectures of transformers itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers.generation", reason="needs transformers")

from formatter_core import FormatterBuilder, formats  # noqa: E402
from formatter_core.errors import BudgetTooSmall, DeadEnd, InvalidArgument, PromptTooLong  # noqa: E402
from formatter_core.generation import (  # noqa: E402
    Generated,
    ScoreSettings,
    beam_search,
    best_of,
    branches,
    choose,
    completion,
    mean_logprob,
    total_logprob,
)
from formatter_transformers import transformers_model  # noqa: E402
from tests.engines_real.transformers_models import metaspace_tokenizer, random_model, trained_tokenizer  # noqa: E402

PROMPT = "the cab is bad "
OPTIONS = ["jade", "jaded", "jab", "a cab", "a cabbage", "été", "日本", "x" * 40, "{"]


@pytest.fixture(scope="module")
def tokenizer():
    return trained_tokenizer()


@pytest.fixture(scope="module", params=["llama", "gpt2", "qwen"])
def model(request, tokenizer):
    return transformers_model(random_model(request.param, tokenizer), tokenizer=tokenizer)


def logprobs_after(model, ids: list[int]) -> np.ndarray:
    """Compute the log-probability of each token after these, by transformers alone, in float64."""
    with torch.no_grad():
        logits = model.model(torch.tensor([ids])).logits[0, -1]
    return torch.log_softmax(logits.double(), 0).numpy()


def alone(model, ids: list[int], tokens) -> float:
    return sum(float(logprobs_after(model, [*ids, *tokens[:at]])[token]) for at, token in enumerate(tokens))


def spelt(model, tokens) -> str:
    return b"".join(model.vocabulary.text_token(token) or b"" for token in tokens).decode()


# --- options -------------------------------------------------------------------------------------------------------


def test_each_option_has_the_log_probability_that_it_has_alone(model) -> None:
    scores = choose(model, PROMPT, OPTIONS)
    ids = model.encode(PROMPT)
    assert [spelt(model, score.tokens) for score in scores] == [score.text for score in scores] == OPTIONS
    for score in scores:
        assert score.logprob == pytest.approx(alone(model, ids, score.tokens), abs=2e-4)
        assert score.mean_logprob == score.logprob / len(score.tokens)
    assert sum(score.probability for score in scores) == pytest.approx(1)
    best = max(scores, key=lambda score: score.logprob)
    assert best.conditional_logprob == max(score.conditional_logprob for score in scores)


def test_one_pass_over_the_options_however_many(model) -> None:
    choose(model, PROMPT, OPTIONS[:2])
    before = model.passes
    choose(model, PROMPT, OPTIONS)
    # The prompt is in the prefix cache but for its last token, which is computed for the logits after it.
    assert model.passes - before == 2


def test_the_end_tells_an_option_from_a_longer_one(model) -> None:
    ids = model.encode(PROMPT)
    ends = list(model.vocabulary.end_ids)
    for score in choose(model, PROMPT, ["jade", "jaded"], with_end=True):
        *tokens, end = score.tokens
        assert end in ends
        after = np.logaddexp.reduce(logprobs_after(model, [*ids, *tokens])[ends])
        assert score.logprob == pytest.approx(alone(model, ids, tokens) + after, abs=2e-4)


def test_more_options_than_fit_into_one_pass(model, monkeypatch) -> None:
    whole = choose(model, PROMPT, OPTIONS)
    monkeypatch.setattr("formatter_core.generation.choosing._MAX_LOGITS_BYTES", 4 * len(model.vocabulary) * 7)
    parts = choose(model, PROMPT, OPTIONS)
    assert [score.logprob for score in parts] == pytest.approx([score.logprob for score in whole], abs=2e-4)


def test_an_attention_without_masks_of_two_dimensions_computes_rows(model, monkeypatch) -> None:
    whole = choose(model, PROMPT, OPTIONS)
    monkeypatch.setattr(type(model.forward), "takes_trees", lambda self, length: False)
    rows = choose(model, PROMPT, OPTIONS)
    assert [score.logprob for score in rows] == pytest.approx([score.logprob for score in whole], abs=2e-4)


def test_a_tokenizer_that_begins_texts_with_a_space_and_a_first_token() -> None:
    tokenizer = metaspace_tokenizer()
    model = transformers_model(random_model("llama", tokenizer), tokenizer=tokenizer)
    for prompt in ("the cab", "the cab "):
        for score in choose(model, prompt, ["jade", " jade", "[1,", "é"]):
            assert spelt(model, score.tokens) == score.text
            assert score.logprob == pytest.approx(alone(model, model.encode(prompt), score.tokens), abs=2e-4)


@pytest.mark.parametrize(
    ("options", "error"),
    [([], InvalidArgument), ([""], InvalidArgument), (["a", "a"], InvalidArgument), (["ja" * 5000], PromptTooLong)],
)
def test_faulty_options(model, options, error) -> None:
    with pytest.raises(error):
        choose(model, PROMPT, options)


# --- branches ------------------------------------------------------------------------------------------------------


def output_of(model, format, text: str) -> Generated:
    """Make an output as a loop gives it, with the tokens of the tokenizer."""
    formatter = model.compiler.compile(format).formatter()
    tokens = [*model.encode_continuation(text.encode()), model.vocabulary.end_ids[0]]
    assert formatter.accept_tokens(tokens) == len(tokens)
    return Generated(tuple(tokens), formatter.bytes, "end", formatter=formatter, prompt=tuple(model.encode(PROMPT)))


def test_the_branches_of_a_choice_as_it_was_met(model) -> None:
    b = FormatterBuilder()
    verdict = b.choice(["bad", "head", "cab"], name="verdict")
    b.append("jade ", verdict, ", ", b.integer(name="n"), ", ", verdict, ".")
    first, second = branches(model, output_of(model, b, "jade bad, 12, cab."))
    assert (first.name, first.start, first.taken) == ("verdict", 5, "bad")
    assert (second.start, second.taken) == (14, "cab")
    for met, before in ((first, "jade "), (second, "jade bad, 12, ")):
        assert sum(score.probability for score in met.scores) == pytest.approx(1)
        # A place between two tokens, and the characters from there to the hole, which every option begins with.
        tokens = output_of(model, b, "jade bad, 12, cab.").tokens
        place = max(n for n in range(len(tokens)) if len(spelt(model, tokens[:n])) <= len(before))
        begun = before[len(spelt(model, tokens[:place])) :]
        expected = []
        for score in met.scores:
            assert spelt(model, score.tokens) == begun + score.text
            expected.append(alone(model, [*model.encode(PROMPT), *tokens[:place]], score.tokens))
        assert [score.logprob for score in met.scores] == pytest.approx(expected, abs=2e-4)


def test_options_that_begin_each_other_are_told_apart_by_what_follows(model) -> None:
    b = FormatterBuilder()
    b.append(b.choice(["jade", "jaded"], name="x"), ".")
    ((met),) = branches(model, output_of(model, b, "jaded."))
    assert [spelt(model, score.tokens) for score in met.scores] == ["jade.", "jaded."]
    b = FormatterBuilder()
    b.append(b.choice(["jade", "jaded"], name="x"))
    (met,) = branches(model, output_of(model, formats.sequence(formats.text("a"), b), "ajade"))
    assert [score.tokens[-1] for score in met.scores] == [model.vocabulary.end_ids[0]] * 2
    assert sum(score.probability for score in met.scores) == pytest.approx(1)


def test_branches_need_a_format_and_a_prompt(model) -> None:
    with pytest.raises(InvalidArgument):
        branches(model, Generated((1,), b"a", "end"))
    assert branches(model, output_of(model, formats.choice(["jade"]), "jade")) == []  # no hole has a name


# --- beams ---------------------------------------------------------------------------------------------------------

FORMAT = formats.regex("(a|b){1,2}c?")


def every_output(model) -> dict[tuple[int, ...], float]:
    """Return all outputs of the format, however they are cut into tokens, with their log-probabilities."""
    compiled = model.compiler.compile(FORMAT)
    ids = model.encode(PROMPT)
    found = {}
    stack: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    while stack:
        tokens, total = stack.pop()
        formatter = compiled.formatter()
        formatter.accept_tokens(tokens)
        logprobs = logprobs_after(model, [*ids, *tokens])
        for token in formatter.allowed_tokens():
            longer = ((*tokens, token), total + float(logprobs[token]))
            if token in formatter.end_ids:
                found[longer[0]] = longer[1]
            else:
                stack.append(longer)
    return found


def test_wide_beams_find_the_best_spelling_of_all_texts_in_order(model) -> None:
    every = sorted(every_output(model).items(), key=lambda item: -item[1])
    best = {b"".join(model.vocabulary.text_token(one) or b"" for one in tokens): tokens for tokens, _ in every[::-1]}
    expected = [(tokens, total) for tokens, total in every if tokens in best.values()]
    outputs = beam_search(model, PROMPT, FORMAT, width=len(every), max_tokens=10)
    assert len({output.bytes for output in outputs}) == len(outputs) == len(expected)
    assert [total_logprob(output) for output in outputs] == pytest.approx([total for _, total in expected], abs=3e-4)
    assert [output.tokens for output in outputs[:5]] == [tokens for tokens, _ in expected[:5]]
    assert all(output.result.is_complete for output in outputs)


def test_narrow_beams_stay_in_the_format_and_say_what_they_are_worth(model) -> None:
    expected = every_output(model)
    for width in (1, 2, 3):
        outputs = beam_search(model, PROMPT, FORMAT, width=width, max_tokens=10)
        assert 1 <= len(outputs) <= width
        for output in outputs:
            assert output.prompt == tuple(model.encode(PROMPT))
            assert total_logprob(output) == pytest.approx(expected[output.tokens], abs=3e-4)
            assert len(output.chosen) == len(output.tokens)


def test_too_few_tokens_for_an_end_are_refused(model) -> None:
    with pytest.raises(BudgetTooSmall):
        beam_search(model, PROMPT, formats.regex("jj{10}"), max_tokens=2)
    for wrong, error in ((0, InvalidArgument), (10_000, PromptTooLong)):
        with pytest.raises(error):
            beam_search(model, PROMPT, FORMAT, max_tokens=wrong)


def test_best_of_n_takes_the_most_probable() -> None:
    def output(total: float, tokens: int = 1, **facts):
        from formatter_core.generation import ChosenToken

        chosen = tuple(ChosenToken(0, None, total / tokens) for _ in range(tokens))
        return Generated((0,) * tokens, b"", facts.pop("stopped", "end"), chosen=chosen, **facts)

    short, long, cut = output(-2.0), output(-3.0, 4), output(-0.1, stopped="length")
    broken = output(-0.1, stopped="error", error=DeadEnd(b"", ""))
    assert best_of([long, cut, broken, short]) == [short, long, cut]
    assert best_of([short, cut, long], key=mean_logprob) == [long, short, cut]
    with pytest.raises(InvalidArgument, match="log-probabilities"):
        best_of([Generated((1,), b"a", "end")])


# --- prompts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", [1, 3, 1000])
def test_the_tokens_of_a_prompt_in_chunks(model, positions) -> None:
    ids = model.encode(PROMPT * 2)
    memory = positions * 4 * len(model.vocabulary)
    passes = model.passes
    first, *found = model.score_prompt(ids, ScoreSettings(top=3, logprob=True, rank=True), memory_bytes=memory)
    assert model.passes - passes == math.ceil(len(ids) / positions)
    assert first is None
    assert len(found) == len(ids) - 1
    for place, one in enumerate(found, 1):
        logprobs = logprobs_after(model, ids[:place])
        assert one.token_id == ids[place]
        assert one.logprob == pytest.approx(logprobs[ids[place]], abs=2e-4)
        assert one.rank == 1 + int((logprobs > logprobs[ids[place]] + 1e-9).sum())
        assert one.top[0].token_id == int(logprobs.argmax())
        assert len(one.top) >= 3


def test_a_prompt_that_was_scored_is_not_computed_again(model) -> None:
    ids = [*model.encode(PROMPT * 3), 7]
    model.score_prompt(ids, ScoreSettings(rank=True))
    assert model.prefix_cache.covered(tuple(ids)) >= len(ids) - 1
    before = model.passes
    assert model.score_prompt(ids, ScoreSettings()) == [None] * len(ids)
    assert model.passes == before
    with pytest.raises(InvalidArgument):
        model.score_prompt([], ScoreSettings(rank=True))


def test_an_output_tells_about_its_prompt_where_that_was_asked(model) -> None:
    settings = ScoreSettings(top=2, logprob=True, rank=True, prompt=True)
    ids = model.encode(PROMPT)
    outputs = completion(model, FORMAT, scores=settings)([PROMPT, PROMPT + "jade"], samples=2)
    for output in outputs[0]:
        assert output.prompt_chosen == tuple(model.score_prompt(ids, settings))
        assert len(output.chosen) == len(output.tokens)
    assert len(outputs[1][0].prompt_chosen) == len(model.encode(PROMPT + "jade"))
    assert completion(model, FORMAT)(PROMPT).prompt_chosen == ()


def test_branches_of_an_output_of_the_loop(model) -> None:
    b = FormatterBuilder()
    b.append("jade ", b.choice(["bad", "head"], name="verdict"), ".")
    output = completion(model, b, forced_text="off", scores=ScoreSettings(logprob=True))(PROMPT)
    (met,) = branches(model, output)
    assert met.taken in ("bad", "head")
    assert sum(score.probability for score in met.scores) == pytest.approx(1)
    scores = ScoreSettings(branches=True)
    for samples in completion(model, b, forced_text="off", scores=scores)([PROMPT, "the "], samples=2):
        for one in samples:
            assert [hole.taken for hole in one.branches] == list(one.captures["verdict"])
    assert completion(model, b, forced_text="off", scores=scores)(PROMPT).branches[0].start == met.start
    with pytest.raises(InvalidArgument, match="branches"):
        completion(model, scores=scores)


def test_an_earlier_output_with_more_text_is_a_prompt(model) -> None:
    first = completion(model, formats.choice(["jade"]))("the ")
    ids = [*model.encode("the "), *first.tokens[:-1], *model.encode_continuation(b" is ")]
    for score in choose(model, first + " is ", ["bad", "head"]):
        assert score.logprob == pytest.approx(alone(model, ids, score.tokens), abs=2e-4)
    assert beam_search(model, first + " is ", FORMAT, max_tokens=8)[0].prompt == tuple(ids)
    assert len(model.score_prompt(first + " is ", ScoreSettings(rank=True))) == len(ids)


def test_a_profiler_sees_masks_beside_the_forward_pass(model) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        completion(model, FORMAT, forced_text="off")(PROMPT)
    names = {event.key for event in profiler.key_averages()}
    assert {"formatter: masks", "formatter: forward", "formatter: pick"} <= names


def test_the_benchmark_of_top_tokens_runs(monkeypatch) -> None:
    from benchmarks import top_tokens as benchmark

    monkeypatch.setattr(benchmark, "WIDTH", 1000)
    monkeypatch.setattr(benchmark, "STEPS", 3)
    report = benchmark.generation("cpu", [2], rounds=1)
    assert set(report["2"]) == set(benchmark.VARIANTS)
    assert all(one["total"] > 0 for one in report["2"].values())
    assert set(benchmark.batch(1)) >= {"float32, n = 5", "bfloat16, n = 64"}
