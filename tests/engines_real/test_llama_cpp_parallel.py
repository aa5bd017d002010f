"""Many sequences from shared prompts on llama-cpp-python itself."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("gguf", reason="the models are written with the gguf package")
pytest.importorskip("tokenizers", reason="the vocabulary of a model is trained with the tokenizers package")

from formatter_core import FormatterBuilder, formats  # noqa: E402
from formatter_core.errors import BudgetTooSmall, InvalidArgument, InvalidFormat, LimitExceeded  # noqa: E402
from formatter_core.generation import Finished, Sampling, beam_search, choose, completion, log_softmax, total_logprob  # noqa: E402
from formatter_core.runtime.result import HoleOpened, TextAdded, ValueCompleted  # noqa: E402
from formatter_llama_cpp import (  # noqa: E402
    DecodeFailed,
    PromptTooLong,
    Scheduler,
    create_logits_processor,
    create_vocabulary,
    generate_parallel,
    llama_model,
)
from tests.engines_real.llama_cpp_models import write_bpe, write_spm  # noqa: E402
from tests.schemas import closed  # noqa: E402

SCHEMA = closed({"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}})
LINE = formats.regex("[a-z]{3,8}( [a-z]{2,6}){1,3}[.!]")
IS_LINE = re.compile("[a-z]{3,8}( [a-z]{2,6}){1,3}[.!]")
WARM = Sampling(temperature=1.0, top_k=50, seed=3)
LONG_PROMPT = "the name of a person is Ada and the age is forty two people live in Delhi Oslo Lima or Quito " * 3


@pytest.fixture(scope="module", params=["bpe", "spm"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    write = {"bpe": write_bpe, "spm": write_spm}[request.param]
    return write(tmp_path_factory.mktemp("models") / f"{request.param}.gguf")


F32 = 0  # of the types of ggml
#: The largest difference of logits between batches with cells of 32 bits. Old releases look up SiLU in 16 bits.
ROUNDING = 1e-3 if hasattr(llama_cpp, "llama_sampler_init") else 1e-2


def load(model: Path, **options: Any) -> Any:
    # With cells of 32 bits the logits of different batches differ by 1e-5, with the usual 16 bits by 4e-3.
    cells = {"type_k": F32, "type_v": F32}
    options = {"n_ctx": 1024, "n_threads": 1, "n_threads_batch": 1, "verbose": False, "seed": 1, **options}
    try:
        return llama_cpp.Llama(str(model), **{**cells, **options})
    except ValueError:  # some releases take nothing but 16 bits for the values
        return llama_cpp.Llama(str(model), **{**cells, "type_v": None, **options})


@pytest.fixture(scope="module")
def llama(model: Path) -> Iterator[Any]:
    llama = load(model)
    yield llama
    close(llama)


def close(llama: Any) -> None:
    """Close a model; releases before 0.2.77 free it when nothing holds it."""
    if hasattr(llama, "close"):
        llama.close()


def run(scheduler: Scheduler) -> None:
    for _ in scheduler.run():
        pass


def greedy(llama: Any, prompt: str, format: Any, max_tokens: int) -> list[int]:
    ends, ids = create_vocabulary(llama).end_ids, []
    processor = None if format is None else create_logits_processor(llama, format, max_tokens=max_tokens)
    ids_before = llama.tokenize(prompt.encode(), special=True)
    tokens = llama.generate(ids_before, temp=0, repeat_penalty=1.0, logits_processor=processor)
    for token in itertools.islice(tokens, max_tokens):
        ids.append(token)
        if token in ends:
            break
    return ids


# --- one prompt, many samples ------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [None, LINE, SCHEMA], ids=["free", "regex", "schema"])
def test_greedy_output_is_that_of_generate(llama: Any, format: Any) -> None:
    for prompt in ("the name", LONG_PROMPT):
        (outputs,) = generate_parallel(llama, [prompt], samples=5, format=format, max_tokens=60)
        expected = greedy(llama, prompt, format, 60)
        assert len(outputs) == 5
        for output in outputs:
            assert list(output.tokens) == expected


def test_a_prompt_is_computed_once_for_all_its_samples(llama: Any) -> None:
    with Scheduler(llama, max_sequences=8) as scheduler:
        request = scheduler.submit(LONG_PROMPT, samples=8, format=LINE, max_tokens=40, sampling=WARM)
        run(scheduler)
        generated = sum(len(sample.output.tokens) - 1 for sample in request.samples)
        cut = sum(sample.output.stopped == "length" for sample in request.samples)
        # Less where the end was forced, with the text before it.
        assert len(request.prompt) <= scheduler.decoded <= len(request.prompt) + generated
        assert not cut
        texts = [sample.output.text for sample in request.samples]
    assert all(IS_LINE.fullmatch(text) for text in texts)
    assert len(set(texts)) > 1


def test_a_conversation_goes_on_from_the_cells_of_its_last_turn(llama: Any) -> None:
    with Scheduler(llama, max_sequences=2) as scheduler:
        request = scheduler.submit(LONG_PROMPT, format=LINE, max_tokens=40)
        run(scheduler)
        before = scheduler.decoded
        turn = [*request.prompt, *request.samples[0].output.tokens, *llama.tokenize(b"the", add_bos=False)]
        scheduler.submit(turn, format=LINE, max_tokens=1)
        run(scheduler)
        assert scheduler.decoded - before <= 5


# --- continuous batching -----------------------------------------------------------------------------------------


def jobs(count: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(5)
    prompts = ["the name", "people live in", LONG_PROMPT, LONG_PROMPT + "Oslo", "the age of Ada is", "red green blue"]
    builder = FormatterBuilder()
    builder.append("age ", builder.integer(name="age", minimum=0, maximum=150), ".")
    all_formats = [None, LINE, SCHEMA, builder, formats.choice(["yes", "no", "maybe"])]
    return [
        {
            "prompt": prompts[random.integers(len(prompts))],
            "format": all_formats[random.integers(len(all_formats))],
            "max_tokens": int(random.integers(1, 50)),
            "sampling": Sampling(temperature=float(number % 2), seed=number),
        }
        for number in range(count)
    ]


class Recording:
    """A sampler that keeps the masked logits which it was asked about."""

    def __init__(self, sampler: Any) -> None:
        self.sampler, self.rows = sampler, []

    def __call__(self, logits: np.ndarray) -> int:
        self.rows.append(logits.copy())
        return self.sampler(logits)


def submit(scheduler: Scheduler, job: dict[str, Any]) -> tuple[Any, Recording]:
    (sample,) = scheduler.submit(**job).samples
    sample.sampler = Recording(sample.sampler)
    return sample, sample.sampler


def together_and_alone(llama: Any) -> Iterator[tuple[Any, Recording, Any, Recording]]:
    """Run a hundred requests that arrive while others run, and give each with its solo run."""
    waiting, submitted = jobs(100), []
    with Scheduler(llama, max_sequences=16, context_size=2048) as scheduler:
        random = np.random.default_rng(0)
        while waiting or not scheduler.is_idle:
            for _ in range(min(len(waiting), int(random.integers(0, 6)))):
                submitted.append(submit(scheduler, waiting.pop(0)))
            scheduler.step()
            assert scheduler.context.used <= scheduler.context.context_size
    assert len(submitted) == 100
    with Scheduler(llama, max_sequences=1) as scheduler:
        for job, (sample, rows) in zip(jobs(100), submitted, strict=True):
            alone, rows_alone = submit(scheduler, job)
            run(scheduler)
            yield sample, rows, alone, rows_alone


def greatest_difference(first: list[np.ndarray], second: list[np.ndarray], count: int) -> float:
    """Compare the logits at the first places, which must have the same mask at each."""
    found = 0.0
    for row, other in zip(first[:count], second[:count], strict=True):
        allowed = np.isfinite(row)
        assert np.array_equal(allowed, np.isfinite(other))
        found = max(found, float(np.abs(row[allowed] - other[allowed]).max()))
    return found


def test_a_hundred_requests_that_arrive_while_others_run_equal_their_solo_runs(llama: Any) -> None:
    for sample, rows, alone, rows_alone in together_and_alone(llama):
        output, expected = sample.output, alone.output
        assert output.error is None
        assert (output.tokens, output.stopped) == (expected.tokens, expected.stopped)
        assert greatest_difference(rows.rows, rows_alone.rows, len(output.tokens)) < ROUNDING
        if output.result is not None and output.stopped == "end":
            assert output.result.is_complete


@pytest.mark.parametrize(("options", "rounding"), [({}, 0.02), ({"flash_attn": True}, 0.2)], ids=["f16", "flash"])
def test_with_cells_of_16_bits_nothing_but_rounding_differs(
    model: Path, options: dict[str, Any], rounding: float
) -> None:
    """Up to the first token that a draw, or two close logits, decide otherwise; what follows is another text."""
    llama = load(model, type_k=None, type_v=None, **options)
    same = 0
    for sample, rows, alone, rows_alone in together_and_alone(llama):
        tokens, expected = sample.output.tokens, alone.output.tokens
        differs = next((i for i, (a, b) in enumerate(itertools.zip_longest(tokens, expected)) if a != b), None)
        same += differs is None
        count = len(tokens) if differs is None else differs + 1
        assert greatest_difference(rows.rows, rows_alone.rows, count) < rounding
    assert same >= 80
    close(llama)


@pytest.mark.parametrize("stop", [["a"], [" e", "or"], ["é", "!"], "th"], ids=repr)
def test_stop_strings_cut_as_create_completion_does(llama: Any, stop: Any) -> None:
    for prompt, format in itertools.product(("the name", "people live in", LONG_PROMPT), (None, LINE)):
        processor = None if format is None else create_logits_processor(llama, format, max_tokens=40)
        options = {"max_tokens": 40, "temperature": 0, "logits_processor": processor}
        upstream = llama.create_completion(prompt, stop=stop, repeat_penalty=1.0, **options)["choices"][0]
        with Scheduler(llama, max_sequences=2) as scheduler:
            request = scheduler.submit(prompt, format=format, max_tokens=40, stop_strings=stop)
            told = "".join(update.text for update in scheduler.run())
        (output,) = [sample.output for sample in request.samples]
        assert output.text == told
        text = output.bytes.decode(errors="ignore")
        assert upstream["finish_reason"] == ("length" if output.stopped == "length" else "stop")
        # Behind bytes that are no whole character create_completion counts no tokens.
        assert upstream["text"].startswith(text) if output.stopped == "length" else upstream["text"] == text


def test_updates_tell_the_text_as_it_is_written(llama: Any) -> None:
    with Scheduler(llama, max_sequences=4) as scheduler:
        builder = FormatterBuilder()
        builder.append(
            "Name: ",
            builder.regex("[A-Z][a-z]{2,8}", name="name"),
            ", é: ",
            builder.integer(name="n", minimum=0, maximum=999),
            ".",
        )
        request = scheduler.submit("the", samples=3, format=builder, max_tokens=80, sampling=WARM, events=True)
        free = scheduler.submit("the", max_tokens=20, sampling=WARM)
        texts: dict[Any, str] = {}
        told: dict[Any, list[Any]] = {}
        for update in scheduler.run():
            texts[update.sample] = texts.get(update.sample, "") + update.text
            told.setdefault(update.sample, []).extend(update.events)
            assert (update.output is not None) == (update.token_id is None)
    for sample in [*request.samples, *free.samples]:
        assert texts[sample] == sample.output.text
    for sample in request.samples:
        kinds = [type(event) for event in told[sample]]
        assert {HoleOpened, TextAdded, ValueCompleted} <= set(kinds)
        values = [event.value for event in told[sample] if isinstance(event, ValueCompleted)]
        assert (values[0], values[-1]) == (
            sample.output.result.captures["name"][0],
            sample.output.result.captures["n"][0],
        )


# --- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(llama_cpp, "llama_sampler_init"), reason="older releases do not look at the ids")
def test_a_decode_that_fails_ends_whose_fault_it_is(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with Scheduler(llama, max_sequences=3) as scheduler:
        good = [scheduler.submit(prompt, format=LINE, max_tokens=60) for prompt in ("the name", "people")]
        bad = scheduler.submit("red green", max_tokens=60)
        for _ in range(3):
            scheduler.step()
        # A token that does not exist: llama.cpp refuses the whole batch.
        bad.samples[0].pending = [10**6]
        run(scheduler)
        assert bad.samples[0].output.stopped == "error"
        assert isinstance(bad.samples[0].output.error, DecodeFailed)
        for request, prompt in zip(good, ("the name", "people"), strict=True):
            assert list(request.samples[0].output.tokens) == greedy(llama, prompt, LINE, 60)
        again = scheduler.submit("the name", format=LINE, max_tokens=60)
        run(scheduler)
        assert again.samples[0].output.tokens == good[0].samples[0].output.tokens


def test_what_cannot_be_is_refused_at_once(llama: Any) -> None:
    with Scheduler(llama, max_sequences=2, context_size=256) as scheduler:
        with pytest.raises(PromptTooLong) as caught:
            scheduler.submit([5] * 256)
        assert (caught.value.tokens, caught.value.context_size) == (256, 256)
        cut = scheduler.submit([5] * 250, max_tokens=100)
        for wrong in ({"prompt": []}, {"prompt": [llama.n_vocab()]}, {"prompt": "a", "samples": 0}):
            with pytest.raises(InvalidArgument):
                scheduler.submit(**wrong)
        with pytest.raises(InvalidArgument):
            scheduler.submit("a", max_tokens=0)
        with pytest.raises(InvalidFormat):
            scheduler.submit("a", format="not a schema")
        with pytest.raises(LimitExceeded, match="max_top_n"):
            scheduler.submit("a", top_logprobs=1000)
        run(scheduler)
        assert len(cut.samples[0].output.tokens) <= 6
    with Scheduler(llama, max_sequences=64, context_size=8) as scheduler, pytest.raises(PromptTooLong):
        scheduler.submit([5] * 8)
    with pytest.raises(InvalidArgument, match="max_sequences"):
        Scheduler(llama, max_sequences=10_000)
    with pytest.raises(InvalidArgument, match="one entry for each"):
        generate_parallel(llama, ["a"], formats=[None, None])


def test_a_full_context_changes_no_output(llama: Any) -> None:
    """Samples that were taken back and computed again, against each alone."""
    outputs = {}
    for context_size in (2048, 128):
        with Scheduler(llama, max_sequences=16, context_size=context_size) as scheduler:
            requests = [
                scheduler.submit(f"{word} {word}", samples=4, format=LINE, max_tokens=60, sampling=WARM)
                for word in ("the name", "people", "red", "Ada")
            ]
            for _ in scheduler.run():
                assert scheduler.context.used <= context_size
        outputs[context_size] = [sample.output.tokens for request in requests for sample in request.samples]
    assert outputs[128] == outputs[2048]


def test_the_messages_of_a_chat_are_a_prompt(llama: Any) -> None:
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Who?"}]
    for format in (LINE, formats.regex("[a-z ]{20,90}")):
        processor = create_logits_processor(llama, format)
        upstream = llama.create_chat_completion(
            messages, max_tokens=40, temperature=0, repeat_penalty=1.0, logits_processor=processor
        )["choices"][0]
        with Scheduler(llama) as scheduler:
            request = scheduler.submit(messages, format=format, max_tokens=40)
            run(scheduler)
        (output,) = [sample.output for sample in request.samples]
        assert upstream["message"]["content"] == output.text
    with Scheduler(llama) as scheduler, pytest.raises(InvalidArgument, match="chat template"):
        scheduler.submit([{"content": 5}])


def test_contexts_come_and_go(llama: Any) -> None:
    for _ in range(20):
        with Scheduler(llama, max_sequences=2, context_size=256) as scheduler:
            scheduler.submit("the", max_tokens=2)
            scheduler.step()
    kept = Scheduler(llama, max_sequences=2, context_size=256)
    del kept


@pytest.mark.skipif(not hasattr(llama_cpp.Llama, "close"), reason="before 0.2.77 no model can be closed")
def test_a_model_may_be_closed_before_its_scheduler(model: Path) -> None:
    llama = load(model, n_ctx=256)
    scheduler = Scheduler(llama, max_sequences=2)
    scheduler.submit("the", max_tokens=2)
    scheduler.step()
    llama.close()
    with pytest.raises(InvalidArgument, match="closed"):
        scheduler.step()
    scheduler.close()


# --- log-probabilities -------------------------------------------------------------------------------------------


def solo_logprobs(llama: Any, ids: list[int]) -> np.ndarray:
    llama.reset()
    llama.eval(ids)
    return log_softmax(np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(llama.ctx, -1), (llama.n_vocab(),)))


def test_log_probabilities_with_and_without_the_format(llama: Any) -> None:
    (outputs,) = generate_parallel(
        llama, ["the name"], samples=2, format=LINE, max_tokens=12, sampling=WARM, top_logprobs=4
    )
    prompt = llama.tokenize(b"the name", special=True)
    compiled = create_logits_processor(llama, LINE).compiled
    for output in outputs:
        formatter = compiled.formatter()
        assert len(output.chosen) == len(output.tokens)
        for place, chosen in enumerate(output.chosen):
            free = solo_logprobs(llama, [*prompt, *output.tokens[:place]])
            allowed = formatter.allowed_tokens()
            masked = np.full_like(free, -np.inf)
            masked[allowed] = free[allowed] - np.logaddexp.reduce(free[allowed])
            assert chosen.token_id == output.tokens[place]
            assert math.isclose(chosen.unmasked_logprob, free[chosen.token_id], abs_tol=ROUNDING)
            assert math.isclose(chosen.logprob, masked[chosen.token_id], abs_tol=ROUNDING)
            for top, row in ((chosen.top, masked), (chosen.unmasked_top, free)):
                count = min(4, int(np.isfinite(row).sum()))
                assert [score.logprob for score in top[:count]] == pytest.approx(
                    sorted(row)[::-1][:count], abs=ROUNDING
                )
            formatter.accept_token(chosen.token_id)


def test_options_are_scored_as_each_alone(llama: Any) -> None:
    options = ["Delhi", "Delhi or Oslo", "Oslo", "Lima", "Lim", "Quito!", " forty", "naïve", "日本"]
    prompt = "two people live in "
    scores = choose(llama_model(llama), prompt, options)
    ends = choose(llama_model(llama), prompt, options, with_end=True)
    vocabulary = create_vocabulary(llama)
    before = llama.tokenize(prompt.encode(), special=True)
    for option, score, with_end in zip(options, scores, ends, strict=True):
        assert b"".join(vocabulary.tokens[token] for token in score.tokens).decode() == option
        total = sum(
            solo_logprobs(llama, [*before, *score.tokens[:place]])[token] for place, token in enumerate(score.tokens)
        )
        assert math.isclose(score.logprob, total, abs_tol=1e-2)
        assert math.isclose(score.mean_logprob, total / len(score.tokens), abs_tol=1e-2)
        last = solo_logprobs(llama, [*before, *score.tokens])[list(vocabulary.end_ids)]
        assert math.isclose(with_end.logprob, total + np.logaddexp.reduce(last), abs_tol=1e-2)
    assert [score.text for score in scores] == options
    for wrong in ([], ["a", "a"], ["a", ""]):
        with pytest.raises(InvalidArgument):
            choose(llama_model(llama), prompt, wrong)


def test_one_option_of_one_token_needs_the_prompt_alone(llama: Any) -> None:
    (score,) = choose(llama_model(llama), llama.tokenize(b"the name"), ["!"])
    assert len(score.tokens) == 1
    assert score.logprob < 0


def test_beams_are_the_best_of_all_texts_where_they_are_wide_enough(llama: Any) -> None:
    format = formats.choice(["no", "nil", "yes"])
    vocabulary = create_vocabulary(llama)
    before = llama.tokenize(b"people", special=True)
    compiled = create_logits_processor(llama, format).compiled

    def spelt(ids: list[int], total: float, formatter: Any) -> Iterator[tuple[float, tuple[int, ...]]]:
        row = solo_logprobs(llama, [*before, *ids])
        for token in formatter.allowed_tokens():
            if token in vocabulary.end_ids:
                yield total + row[token], (*ids, token)
            else:
                following = formatter.fork()
                following.accept_token(token)
                yield from spelt([*ids, token], total + row[token], following)

    every = sorted(spelt([], 0.0, compiled.formatter()), reverse=True)
    found = beam_search(llama_model(llama, max_sequences=len(every)), "people", format, width=len(every), max_tokens=10)
    assert found[0].tokens == every[0][1]
    assert all(output.result.is_complete for output in found)
    narrow = beam_search(llama_model(llama), "people", format, width=2, max_tokens=10)
    assert {output.text for output in narrow} <= {"no", "nil", "yes"}


@pytest.mark.parametrize("width", [3, 5, 8, 20])
def test_beams_have_distinct_texts_and_find_all_that_there_are(llama: Any, width: int) -> None:
    options = ["yes", "no", "maybe", "Delhi", "Oslo"]
    model = llama_model(llama, max_sequences=32)
    for prompt in ("the", "people live in", "the name"):
        found = beam_search(model, prompt, formats.choice(options), width=width)
        texts = [output.text for output in found]
        assert len(set(texts)) == len(texts) == min(width, len(options))
        totals = [total_logprob(output) for output in found]
        assert totals == sorted(totals, reverse=True)


def test_many_options_and_long_ones(llama: Any) -> None:
    model = llama_model(llama, max_sequences=16, context_size=256)
    words = ["".join(word) for word in itertools.product("abcdefg", repeat=3)]
    assert len(words) > 256
    assert sum(score.probability for score in choose(model, "the name", words)) == pytest.approx(1)
    long = [word * 30 for word in words[:20]]
    assert [score.text for score in choose(model, "the name", long)] == long
    with pytest.raises(PromptTooLong, match=r"the prompt has . tokens and what follows it"):
        choose(model, "the", ["a" * 1000, "b"])


def test_beams_in_a_schema(llama: Any) -> None:
    outputs = beam_search(llama_model(llama), "the", SCHEMA, width=3, max_tokens=120)
    for output in outputs:
        value = json.loads(output.text)
        assert output.result.value == value
        assert 0 <= value["age"] <= 99
    assert len({output.tokens for output in outputs}) == len(outputs)


# --- options by their short names --------------------------------------------------------------------------------


def test_short_names_say_the_same(llama: Any) -> None:
    drawn = Sampling(temperature=0.9, top_p=0.8, top_k=20, min_p=0.01)
    prompts = ["the name", "the age"]
    options: dict[str, Any] = {"format": LINE, "max_tokens": 20}
    long = generate_parallel(llama, prompts, samples=2, sampling=drawn, seed=3, top_logprobs=2, **options)
    fields: dict[str, Any] = {"temperature": 0.9, "top_p": 0.8, "top_k": 20, "min_p": 0.01}
    short = generate_parallel(llama, prompts, n=2, seed=[3, 3], logprobs=2, **fields, **options)
    assert [[one.tokens for one in row] for row in long] == [[one.tokens for one in row] for row in short]
    assert any(len(token.top) >= 2 for row in short for one in row for token in one.chosen)
    each = generate_parallel(llama, prompts, formats=[["yes", "no"], None], max_tokens=[9, 2], stop_strings=["\x00"])
    assert each[0][0].value in ("yes", "no")
    assert len(each[1][0].tokens) <= 2


def test_without_fit_an_output_is_cut(llama: Any) -> None:
    ((cut,),) = generate_parallel(llama, ["the"], format={"type": "array", "minItems": 9}, max_tokens=3, fit=False)
    assert cut.stopped == "length"
    with pytest.raises(BudgetTooSmall):
        generate_parallel(llama, ["the"], format={"type": "array", "minItems": 9}, max_tokens=3)


# --- conversations -----------------------------------------------------------------------------------------------


def test_a_conversation_is_a_prompt_as_the_chat_handler_writes_it(llama: Any) -> None:
    messages: Any = [{"role": "user", "content": "the name"}]
    written = llama.create_chat_completion(messages, max_tokens=12, temperature=0, repeat_penalty=1.0)
    output = completion(llama_model(llama), max_tokens=12)(messages)
    # The library leaves out the bytes of a character that others are missing of.
    assert output.text.replace("\ufffd", "") == (written["choices"][0]["message"]["content"] or "")
    assert completion(llama_model(llama), ["yes", "no"])(messages).value in ("yes", "no")
    with pytest.raises(InvalidArgument, match="refuses"):
        llama_model(llama).encode_chat([{"role": "user"}])


def test_of_a_long_list_one_that_ends_makes_way_for_the_next(llama: Any) -> None:
    model = llama_model(llama, max_sequences=3)
    write = completion(model, max_tokens=40)
    prompts = [f"the {word} name" for word in ("first", "second", "third", "a", "the", "of", "b", "c")]
    each = [formats.regex(f"[0-9]{{{count}}}") for count in (30, 2, 3, 9, 1, 20, 2, 5)]
    alone = [write(prompt, format=format) for prompt, format in zip(prompts, each, strict=True)]
    assert [output.tokens for output in write(prompts, formats=each)] == [output.tokens for output in alone]
    events = list(write.stream(prompts, formats=each))
    end_of_first = next(i for i, one in enumerate(events) if one.prompt == 0 and isinstance(one, Finished))
    assert {event.prompt for event in events[:end_of_first]} > {0, 1, 2, 3}
    stops = iter([False] * 6)
    cut = write(prompts, formats=each, cancelled=lambda: next(stops, True))
    assert {output.stopped for output in cut} == {"cancelled", "end"}


def test_a_list_longer_than_a_batch_is_computed_in_several(llama: Any) -> None:
    outputs = completion(llama_model(llama, max_sequences=4), ["yes", "no"])([f"prompt {i}" for i in range(11)], n=2)
    assert {output.value for row in outputs for output in row} <= {"yes", "no"}
    assert [len(row) for row in outputs] == [2] * 11
