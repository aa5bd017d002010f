"""The scheduler on stand-ins of llama.cpp's contexts, where every output can be compared exactly."""

from __future__ import annotations

import itertools
import re
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

from formatter_core import FormatterBuilder, formats
from formatter_core.errors import ConcurrentUse, InvalidArgument, TokenRejected
from formatter_core.generation import Generated, Sampling
from formatter_core.runtime.result import Retracted, TextAdded, ValueCompleted
from tests.adapters.contract import END, OTHER_END, PAD, TOKENS
from tests.adapters.llama_cpp_contexts import ContextLlama, logits_of
from tests.adapters.llama_cpp_stand_ins import GENERATIONS
from tests.core.wrong_calls import WRONG, Call, raw_errors
from tests.threads import in_threads

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

WORD = formats.regex("[a-z]{2,6}( [a-z]{2,4}){0,2}[.]")
IS_WORD = re.compile("[a-z]{2,6}( [a-z]{2,4}){0,2}[.]")
NEWEST = GENERATIONS[-1]


def alone(prompt: list[int], job: dict[str, Any], sample: int = 0) -> tuple[list[int], str]:
    """Write one sequence by a loop as plain as can be, for comparison."""
    from formatter_llama_cpp.vocabulary import compiler_for

    llama = ContextLlama(NEWEST)
    format = job.get("format")
    most = job.get("max_tokens")
    compiled = None if format is None else compiler_for(llama).compile(format)
    formatter = compiled and (compiled.formatter() if most is None else compiled.formatter_within(most))
    sampler, ids = job.get("sampling", Sampling()).sampler(sample), []
    while len(ids) < (128 if most is None else most):
        logits = logits_of([*prompt, *ids])
        if formatter is not None:
            masked = np.full_like(logits, -np.inf)
            masked[formatter.allowed_tokens()] = logits[formatter.allowed_tokens()]
            logits = masked
        ids.append(sampler(logits))
        if formatter is not None:
            formatter.accept_token(ids[-1])
        if ids[-1] in (END, OTHER_END):
            return ids, "end"
    return ids, "length"


def outputs_of(request: Any) -> list[Generated]:
    return [sample.output for sample in request.samples]


def scheduler_of(llama: ContextLlama, **options: Any) -> Any:
    from formatter_llama_cpp import Scheduler

    return Scheduler(llama, **options)


def run(scheduler: Any) -> None:
    for _ in range(10_000):
        if scheduler.is_idle:
            return
        scheduler.step()
    raise AssertionError("the scheduler does not come to an end")


def test_every_generation_shares_a_prompt(made: Any) -> None:
    contexts, llama = made
    job = {"format": WORD, "max_tokens": 40, "sampling": Sampling(temperature=1.0, seed=1)}
    with scheduler_of(llama, max_sequences=4) as scheduler:
        request = scheduler.submit("a prompt of some length", samples=6, **job)
        run(scheduler)
        generated = sum(len(output.tokens) for output in outputs_of(request))
        ended = sum(output.stopped == "end" for output in outputs_of(request))
        assert scheduler.decoded <= len(request.prompt) + generated - ended
        for index, output in enumerate(outputs_of(request)):
            assert (list(output.tokens), output.stopped) == alone(list(request.prompt), job, index)
    assert not contexts[0].is_open


@pytest.mark.parametrize(("places", "cells", "batch"), [(16, 512, 32), (16, 200, 16), (1, 100, 8), (3, 90, 3)])
def test_any_mixture_equals_its_solo_runs(llama: ContextLlama, places: int, cells: int, batch: int) -> None:
    random = np.random.default_rng(places)
    starts = ["", "the ", "the first part that is shared by several prompts, "]
    all_formats = [None, WORD, formats.choice(["yes", "no"]), {"type": "integer", "minimum": 0, "maximum": 999}]
    with scheduler_of(llama, max_sequences=places, context_size=cells, batch=batch) as scheduler:
        submitted = []
        for number in range(60):
            job = {
                "format": all_formats[random.integers(4)],
                "max_tokens": int(random.integers(1, 20)),
                "sampling": Sampling(temperature=float(number % 2), seed=number),
            }
            prompt = starts[random.integers(3)] + "abc"[random.integers(3)]
            submitted.append((job, scheduler.submit(prompt, samples=int(random.integers(1, 4)), **job)))
            for _ in range(int(random.integers(0, 3))):
                scheduler.step()
                held = sum(len(cell[2]) > 0 for cell in scheduler.context._context.cells)
                assert held == scheduler.context.used <= cells
        run(scheduler)
        assert all(
            scheduler.context.tokens[place] == scheduler.context._context.sequence(place) for place in range(places)
        )
    for job, request in submitted:
        for index, output in enumerate(outputs_of(request)):
            assert (list(output.tokens), output.stopped) == alone(list(request.prompt), job, index)
            assert output.result is None or output.result.is_complete or output.stopped == "length"


def stopped_at(text: bytes, stops: list[str]) -> bytes | None:
    """Return the text before the stop string that is complete first, byte by byte."""
    for end in range(len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop.encode())]
        if found:
            return text[: end - max(len(stop.encode()) for stop in found)]
    return None


STOPS = [["b"], ["ab", "bc"], ["c d", "."], ["é"], ["xyz", "q"], [" a", " b", " c", " d"]]


@pytest.mark.parametrize("stops", STOPS, ids=repr)
@pytest.mark.parametrize("format", [None, WORD], ids=["free", "word"])
def test_stop_strings_end_a_text_before_them(llama: ContextLlama, stops: list[str], format: Any) -> None:
    job: dict[str, Any] = {"format": format, "max_tokens": 40, "sampling": Sampling(temperature=5.0, seed=2)}
    with scheduler_of(llama, max_sequences=3) as scheduler:
        without = scheduler.submit("p", samples=12, **job)
        request = scheduler.submit("p", samples=12, stop_strings=stops, **job)
        told: dict[Any, str] = {}
        while not scheduler.is_idle:
            for update in scheduler.step():
                told[update.sample] = told.get(update.sample, "") + update.text
    stopped = 0
    for sample, free in zip(request.samples, outputs_of(without), strict=True):
        output, expected = sample.output, stopped_at(free.bytes, stops)
        assert output.tokens == free.tokens[: len(output.tokens)]
        assert told[sample] == output.text
        if expected is None:
            assert (output.bytes, output.stopped) == (free.bytes, free.stopped)
            continue
        stopped += 1
        assert (output.bytes, output.stopped) == (expected, "stop_string")
        if format is not None:
            assert output.result.bytes == expected
            assert not output.result.is_complete
    assert stopped or format is None or stops == ["é"]


@pytest.mark.parametrize("top", [None, 0, 2])
def test_updates_have_the_scores_of_their_tokens(llama: ContextLlama, top: int | None) -> None:
    with scheduler_of(llama, max_sequences=2) as scheduler:
        asked = {} if top is None else {"top_logprobs": top}
        request = scheduler.submit("p", samples=3, max_tokens=8, sampling=Sampling(temperature=2.0, seed=1), **asked)
        updates = list(scheduler.run())
    for sample in request.samples:
        own = [update for update in updates if update.sample is sample]
        assert tuple(update.chosen for update in own if update.chosen is not None) == sample.output.chosen
        if top is not None:
            assert [update.chosen and update.chosen.token_id for update in own] == [update.token_id for update in own]


def test_events_never_tell_a_part_of_a_stop_string(llama: ContextLlama) -> None:
    builder = FormatterBuilder()
    builder.append("x", builder.regex("[a-d ]{4,16}", name="words"), "!")
    with scheduler_of(llama, max_sequences=4) as scheduler:
        options = {"format": builder, "max_tokens": 40, "sampling": Sampling(temperature=5.0, seed=4), "events": True}
        request = scheduler.submit("p", samples=20, stop_strings=["bc", "a d", "cad"], **options)
        told: dict[Any, list[Any]] = {}
        texts: dict[Any, str] = {}
        while not scheduler.is_idle:
            for update in scheduler.step():
                told.setdefault(update.sample, []).extend(update.events)
                texts[update.sample] = texts.get(update.sample, "") + update.text
                words = "".join(event.text for event in told[update.sample] if isinstance(event, TextAdded))
                assert not words or texts[update.sample].startswith("x" + words)
    kinds = {sample.output.stopped for sample in request.samples}
    assert kinds >= {"stop_string"}
    for sample in request.samples:
        words = "".join(event.text for event in told[sample] if isinstance(event, TextAdded))
        assert texts[sample] == sample.output.text == "x" + words + "!" * texts[sample].count("!")
        assert not any(isinstance(event, Retracted) for event in told[sample])
        if sample.output.stopped == "end":
            assert [each.value for each in told[sample] if isinstance(each, ValueCompleted)] == [
                sample.output.text[1:-1]
            ]


def fails(logits: np.ndarray) -> int:
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("sampler", "error", "message"),
    [
        (lambda logits: -1, InvalidArgument, "-1"),
        (lambda logits: 10**6, InvalidArgument, "1000000"),
        (lambda logits: int(np.flatnonzero(logits == -np.inf)[0]), TokenRejected, "not allowed"),
        (fails, RuntimeError, "broken"),
    ],
    ids=["below", "above", "masked", "raises"],
)
def test_a_sampler_that_fails_ends_its_sequence_alone(
    llama: ContextLlama, sampler: Any, error: type[Exception], message: str
) -> None:
    with scheduler_of(llama, max_sequences=2) as scheduler:
        bad, good = (scheduler.submit("p", max_tokens=40, format=WORD) for _ in range(2))
        bad.samples[0].sampler = sampler
        run(scheduler)
    with pytest.raises(error, match=message):
        bad.samples[0].output.raise_error()
    assert bad.samples[0].output.tokens == ()
    assert good.samples[0].output.result.is_complete


def test_a_scheduler_that_was_interrupted_in_a_step_says_so(llama: ContextLlama) -> None:
    from formatter_llama_cpp import SchedulerInterrupted

    def interrupt(logits: Any) -> int:
        raise KeyboardInterrupt

    with scheduler_of(llama, max_sequences=2) as scheduler:
        first, second = (scheduler.submit("p", max_tokens=40, format=WORD) for _ in range(2))
        scheduler.step()
        second.samples[0].sampler = interrupt
        with pytest.raises(KeyboardInterrupt):
            run(scheduler)
        for _ in range(2):
            with pytest.raises(SchedulerInterrupted):
                scheduler.step()
        for call in (lambda: scheduler.submit("p"), lambda: list(scheduler.run())):
            with pytest.raises(SchedulerInterrupted):
                call()
    for output in [*outputs_of(first), *outputs_of(second)]:
        assert isinstance(output.error, SchedulerInterrupted)
    assert "interrupted" in repr(scheduler)


class Interrupt:
    """Raises KeyboardInterrupt at some line of the scheduler's own code, counted from where it is entered."""

    def __init__(self, line: int) -> None:
        self.left = line
        self.is_raised = False

    def __enter__(self) -> Interrupt:
        sys.settrace(self._call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _call(self, frame: Any, event: str, argument: Any) -> Any:
        is_ours = re.search("formatter_llama_cpp|generation/written", frame.f_code.co_filename)
        return self._line if is_ours else None

    def _line(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.is_raised = True
                raise KeyboardInterrupt
        return self._line


def streamed(scheduler: Any, texts: dict[Any, str], line: int | None = None) -> bool:
    """Run to the end, or to an interruption, and join the texts of the updates."""
    try:
        with Interrupt(-1 if line is None else line) as interrupt:
            for update in scheduler.run():
                texts[update.sample] = texts.get(update.sample, "") + update.text
    except KeyboardInterrupt:
        assert interrupt.is_raised
        return True
    return False


def test_an_interruption_anywhere_leaves_right_outputs_or_errors(llama: ContextLlama) -> None:
    from formatter_llama_cpp import SchedulerInterrupted

    jobs: list[dict[str, Any]] = [
        {"prompt": prompt, "samples": 2, "format": format, "max_tokens": 14, "sampling": Sampling(1.0, seed=5)}
        for prompt, format in (
            ("p", WORD),
            ("a prompt that is longer", None),
            ("p", formats.choice(["yes, it is", "no"])),
        )
    ]
    random, outcomes = np.random.default_rng(3), set[str]()
    for line in random.integers(1, 12_000, 60):
        texts: dict[Any, str] = {}
        with scheduler_of(llama, max_sequences=3, context_size=64, batch=8) as scheduler:
            requests = [scheduler.submit(**job) for job in jobs]
            was_interrupted = streamed(scheduler, texts, int(line))
            if was_interrupted:  # going on
                try:
                    streamed(scheduler, texts)
                except SchedulerInterrupted:
                    outcomes.add("dead")
                else:
                    outcomes.add("alive")
            else:
                outcomes.add("undisturbed")
        for request, job in zip(requests, jobs, strict=True):
            for index, output in enumerate(outputs_of(request)):
                if output.error is not None:
                    assert isinstance(output.error, SchedulerInterrupted)
                    continue
                expected = alone(list(request.prompt), job, index)
                assert (list(output.tokens), output.stopped) == expected
                if outcomes != {"dead"} and not was_interrupted:
                    assert texts[request.samples[index]] == output.text
    assert "dead" in outcomes


@pytest.mark.parametrize("context_size", [48, 64, 100, 200])
def test_a_full_context_changes_no_output(made: Any, context_size: int) -> None:
    contexts, llama = made
    jobs: list[dict[str, Any]] = [
        {
            "prompt": "x" * (number % 4 * 5) + str(number),
            "samples": 1 + number % 3,
            "format": [None, WORD][number % 2],
            "max_tokens": 24,
            "sampling": Sampling(temperature=number % 3 * 2.0, seed=number),
        }
        for number in range(12)
    ]
    with scheduler_of(llama, max_sequences=8, context_size=context_size, batch=16) as scheduler:
        requests = [scheduler.submit(**job) for job in jobs]
        while not scheduler.is_idle:
            scheduler.step()
            assert scheduler.context.used == len(contexts[-1].cells) <= context_size
    for request, job in zip(requests, jobs, strict=True):
        for index, output in enumerate(outputs_of(request)):
            assert (list(output.tokens), output.stopped) == alone(list(request.prompt), job, index)


def test_short_outputs_run_together_whatever_they_might_have_written(llama: ContextLlama) -> None:
    with scheduler_of(llama, max_sequences=16, context_size=512) as scheduler:
        short = formats.regex("[a-z]{6,12}[.]")
        requests = [scheduler.submit(f"p{number}", format=short, max_tokens=256) for number in range(64)]
        run(scheduler)
        tokens = sum(len(output.tokens) for request in requests for output in outputs_of(request))
        assert tokens / scheduler.context._context.decodes >= 12


def test_a_prompt_that_does_not_fit_is_passed_over_and_comes_in_the_end(llama: ContextLlama) -> None:
    with scheduler_of(llama, max_sequences=4, context_size=120) as scheduler:
        first = scheduler.submit("a", max_tokens=60)
        long = scheduler.submit("x" * 105, max_tokens=5)
        short = [scheduler.submit(f"b{number}", max_tokens=4) for number in range(200)]
        finished: list[Any] = []
        while not scheduler.is_idle:
            finished.extend(update.sample.request for update in scheduler.step() if update.output is not None)
    assert finished.index(short[0]) < finished.index(long) < finished.index(short[-1])
    assert list(outputs_of(long)[0].tokens) == alone(list(long.prompt), {"max_tokens": 5})[0]
    assert list(outputs_of(first)[0].tokens) == alone(list(first.prompt), {"max_tokens": 60})[0]


def test_the_context_is_at_least_as_large_as_its_sequences_need(llama: ContextLlama) -> None:
    small = ContextLlama(NEWEST, n_ctx=64)
    for max_sequences, expected in ((1, 512), (4, 512)):
        with scheduler_of(small, max_sequences=max_sequences) as scheduler:
            assert scheduler.context.context_size == expected
    with scheduler_of(ContextLlama(NEWEST, n_ctx=4096), max_sequences=1) as scheduler:
        assert scheduler.context.context_size == 4096
    with scheduler_of(ContextLlama(NEWEST), max_sequences=8, context_size=4) as scheduler:
        assert scheduler.context.context_size == 4
    for far_too_large in (10**9, 2**32 + 100):  # llama.cpp would take the memory, or read a number of 32 bits
        with pytest.raises(InvalidArgument, match=f"context_size is {far_too_large}, but 2 sequences"):
            scheduler_of(small, max_sequences=2, context_size=far_too_large)


FORCED = formats.sequence(
    formats.choice(["n: ", "m: "]), formats.regex("[0-9]"), formats.choice([", and that is all."])
)


@pytest.mark.parametrize("temperature", [0.0, 3.0])
def test_forced_text_is_computed_in_one_decode(llama: ContextLlama, temperature: float) -> None:
    job: dict[str, Any] = {"format": FORCED, "max_tokens": 40, "sampling": Sampling(temperature, seed=2)}
    found = {}
    for forced in ("off", "exact", "canonical"):
        with scheduler_of(llama, max_sequences=4) as scheduler:
            request = scheduler.submit("p", samples=4, forced_text=forced, **job)
            run(scheduler)
            found[forced] = [output.tokens for output in outputs_of(request)], scheduler.context._context.decodes
        assert all(output.result.is_complete for output in outputs_of(request))
    assert found["off"][0] == found["exact"][0]
    # The tokens of the stand-in are bytes and a few more, and of bytes alone there is one way to spell the text.
    assert found["canonical"][1] <= 12 < found["off"][1]
    assert found["exact"][1] <= found["off"][1]


def test_a_cut_in_forced_text(llama: ContextLlama) -> None:
    with scheduler_of(llama, max_sequences=1) as scheduler:
        requests = [
            scheduler.submit("p", format=FORCED, max_tokens=most, forced_text="canonical", stop_strings=stop)
            for most in (3, 9, 40)
            for stop in ((), ("that",))
        ]
        run(scheduler)
    for request in requests:
        (output,) = outputs_of(request)
        assert len(output.tokens) <= request.max_tokens
        assert "that" not in output.text or output.stopped != "stop_string"
    assert {outputs_of(request)[0].stopped for request in requests} == {"length", "stop_string", "end"}


def test_logits_processors_come_before_the_format(llama: ContextLlama) -> None:
    seen = []

    def prefer(ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        seen.append(ids.tolist())
        scores[[ord("q"), ord("Q")]] += 100
        return scores

    with scheduler_of(llama, max_sequences=2) as scheduler:
        typed = scheduler.submit("p", format=formats.regex("[a-z]{5}"), logits_processor=prefer)
        free = scheduler.submit("p", max_tokens=3, logits_processor=[prefer, prefer])
        run(scheduler)
    assert outputs_of(typed)[0].text == "qqqqq"
    assert outputs_of(free)[0].text[0] in "qQ"
    assert [PAD, ord("p")] in seen
    assert [PAD, *b"pqq"] in seen


def test_numbers_out_of_range_are_refused(llama: ContextLlama) -> None:
    for wrong in ({"context_size": 0}, {"context_size": -1}, {"batch": 0}, {"max_sequences": 0}):
        with pytest.raises(InvalidArgument):
            scheduler_of(llama, **wrong)
    with scheduler_of(llama) as scheduler:
        for wrong in ({"top_logprobs": -1}, {"samples": 0}, {"max_tokens": -3}, {"forced_text": "all"}):
            with pytest.raises(InvalidArgument):
                scheduler.submit("p", **wrong)
        for prompt in ([], [10**9], [-1], ["a"], 5, None, [{"role": "user"}]):
            with pytest.raises(InvalidArgument):
                scheduler.submit(prompt)
        for wrong in (
            {"samples": 2, "n": 2},
            {"temperature": 1.0, "sampling": Sampling()},
            {"logprobs": 1, "top_logprobs": 1},
        ):
            with pytest.raises(InvalidArgument, match="say the same thing"):
                scheduler.submit("a", **wrong)
        with pytest.raises(InvalidArgument, match="the name here is stop_strings"):
            scheduler.submit("a", stop="x")
        assert scheduler.is_idle


def test_stop_strings_that_are_none_are_refused(llama: ContextLlama) -> None:
    from formatter_llama_cpp import generate_parallel

    with scheduler_of(llama, max_sequences=1) as scheduler:
        for wrong in ("", ["a", ""], [b"a"]):
            with pytest.raises(InvalidArgument, match="strings that are not empty"):
                scheduler.submit("p", stop_strings=wrong)
    ((one,), (other,)) = generate_parallel(llama, ["p", "q"], max_tokens=30, stop_strings=iter(["e", "a"]))
    assert one.text == one.text.split("e")[0].split("a")[0]
    assert other.text == other.text.split("e")[0].split("a")[0]


def test_all_live_sequences_advance_in_one_decode(llama: ContextLlama) -> None:
    with scheduler_of(llama, max_sequences=8) as scheduler:
        scheduler.submit("p", samples=8, max_tokens=10, sampling=Sampling(temperature=1.0, seed=0))
        run(scheduler)
        assert scheduler.context._context.decodes <= 11


def test_what_prompts_share_is_computed_once(llama: ContextLlama) -> None:
    with scheduler_of(llama, max_sequences=4, batch=16) as scheduler:
        requests = [scheduler.submit("x" * 60 + end, max_tokens=1) for end in ("ab", "cd", "ef")]
        run(scheduler)
        assert scheduler.decoded == len(requests[0].prompt) + 2 + 2


def test_a_long_prompt_does_not_stop_the_others(llama: ContextLlama) -> None:
    with scheduler_of(llama, max_sequences=2, batch=8) as scheduler:
        writing = scheduler.submit("p", max_tokens=60)
        scheduler.step()
        long = scheduler.submit("x" * 200, max_tokens=5)
        for _ in range(10):
            told = [update.sample for update in scheduler.step() if update.token_id is not None]
            assert told == [writing.samples[0]]
        run(scheduler)
    assert list(outputs_of(long)[0].tokens) == alone(list(long.prompt), {"max_tokens": 5})[0]


def test_cancelled_at_any_time(llama: ContextLlama) -> None:
    for steps in range(0, 14, 2):
        with scheduler_of(llama, max_sequences=3, batch=8) as scheduler:
            requests = [scheduler.submit(f"a prompt {number}", samples=2, max_tokens=8) for number in range(4)]
            for _ in range(steps):
                scheduler.step()
            scheduler.cancel(requests[1])
            scheduler.cancel(requests[2].samples[0])
            scheduler.cancel(requests[2].samples[0])
            run(scheduler)
        for request in requests:
            expected = alone(list(request.prompt), {"max_tokens": 8})[0]
            for output in outputs_of(request):
                assert list(output.tokens) == expected[: len(output.tokens)]
                assert output.stopped in (
                    ("cancelled", "length", "end") if request in requests[1:3] else ("length", "end")
                )


def test_closing_cancels_what_is_left(llama: ContextLlama) -> None:
    with scheduler_of(llama, max_sequences=1) as scheduler:
        requests = [scheduler.submit("p", max_tokens=50) for _ in range(3)]
        scheduler.step()
    assert [outputs_of(request)[0].stopped for request in requests] == ["cancelled"] * 3


def test_a_decode_without_room_ends_one_sequence(llama: ContextLlama) -> None:
    from formatter_llama_cpp import DecodeFailed

    with scheduler_of(llama, max_sequences=3, context_size=64) as scheduler:
        requests = [scheduler.submit(prompt, max_tokens=12) for prompt in ("abc", "def")]
        for _ in range(3):
            scheduler.step()
        scheduler.context._context.n_ctx = 0  # another process took the memory, say
        scheduler.step()
        scheduler.context._context.n_ctx = 64
        assert all(isinstance(outputs_of(request)[0].error, DecodeFailed) for request in requests)
        after = scheduler.submit("abc", max_tokens=12)
        run(scheduler)
    assert list(outputs_of(after)[0].tokens) == alone(list(after.prompt), {"max_tokens": 12})[0]


def test_models_that_cannot_share_are_refused(llama: ContextLlama) -> None:
    llama.lora_path = "some/adapter"
    with pytest.raises(InvalidArgument, match="LoRA"):
        scheduler_of(llama)
    llama.lora_path = None
    import llama_cpp

    llama_cpp.llama_model_is_recurrent = lambda model: True
    with pytest.raises(InvalidArgument, match="recurrent"):
        scheduler_of(llama)


@pytest.mark.parametrize("seed", range(2))
def test_wrong_calls_raise_errors_of_ours(llama: ContextLlama, seed: int) -> None:
    from formatter_llama_cpp import generate_parallel

    # Without numbers that ask for as much memory.
    wrong = [make for make in WRONG if not isinstance(value := make(), int) or value <= 2**30]
    options = {"samples": 2, "formats": [None, WORD], "max_tokens": 9, "sampling": Sampling(), "stop_strings": "q"}
    counts = {"seed": 1, "top_logprobs": 1, "max_sequences": 2, "context_size": 64}
    parallel = partial(generate_parallel, llama)
    call = Call("generate_parallel", parallel, lambda: (["a", "b"],), lambda: {**options, **counts})
    assert raw_errors([call], 250, seed, wrong) == []


def test_prompts_and_outputs_stand_in_order(llama: ContextLlama) -> None:
    from formatter_llama_cpp import generate_parallel

    prompts = ["a", b"bc", [PAD, ord("d")]]
    found = generate_parallel(llama, prompts, samples=2, formats=[WORD, None, WORD], max_tokens=30, max_sequences=2)
    expected = [[PAD, *b"a"], [PAD, *b"bc"], [PAD, *b"d"]]
    for outputs, prompt, format in zip(found, expected, (WORD, None, WORD), strict=True):
        for output in outputs:
            assert list(output.tokens) == alone(prompt, {"format": format, "max_tokens": 30})[0]
            text = b"".join(TOKENS[token] or b"" for token in output.tokens if token < len(TOKENS))
            assert output.bytes == text
    assert len(list(itertools.chain(*found))) == 6


# --- threads, other schedulers, closed ones ----------------------------------------------------------------------


def test_threads_share_a_scheduler(llama: ContextLlama) -> None:
    """As the threads of a web server do: each submits, runs, and reads its own output."""
    jobs = [{"format": WORD, "max_tokens": 30, "sampling": Sampling(1.0, seed=seed)} for seed in range(6)]
    seen: list[Any] = []
    with scheduler_of(llama, max_sequences=3, context_size=256) as scheduler:

        def serve(number: int) -> list[Generated]:
            outputs = []
            for _ in range(3):
                request = scheduler.submit(f"prompt {number}", **jobs[number])
                cancelled = scheduler.submit("other", **jobs[number])
                for update in scheduler.run():
                    seen.append((update.sample, update.output is not None))
                    scheduler.cancel(cancelled)
                outputs.append(request.samples[0].output)
            return outputs

        found = in_threads(serve, 6)
        assert scheduler.is_idle
    for number, outputs in enumerate(found):
        ids = [PAD, *f"prompt {number}".encode()]
        assert {output.tokens for output in outputs} == {tuple(alone(ids, jobs[number])[0])}
    finished = [sample for sample, is_over in seen if is_over]
    assert len(finished) == len(set(finished)) == 6 * 3 * 2, "each outcome is returned once"


def test_a_call_from_inside_a_step_is_refused(llama: ContextLlama) -> None:
    with scheduler_of(llama, max_sequences=2, context_size=128) as scheduler:
        waiting = scheduler.submit("another", max_tokens=3)
        calls = [scheduler.step, scheduler.close, lambda: next(scheduler.run()), lambda: scheduler.submit("x")]
        for call in [*calls, lambda: scheduler.cancel(waiting)]:
            request = scheduler.submit("prompt", max_tokens=3, logits_processor=lambda *_, call=call: call())
            for _ in scheduler.run():
                pass
            assert isinstance(request.samples[0].output.error, ConcurrentUse)


def test_only_its_own_requests_are_cancelled(llama: ContextLlama) -> None:
    with scheduler_of(llama, context_size=128) as one, scheduler_of(llama, context_size=128) as other:
        request = one.submit("prompt", samples=2, max_tokens=4)
        one.step()
        for wrong in (request, request.samples[0], 5, None, [request]):
            with pytest.raises(InvalidArgument):
                other.cancel(wrong)
        for _ in one.run():
            pass
        assert [sample.output.stopped for sample in request.samples] == ["length"] * 2
        other.cancel(request)  # finished: nothing to cancel


def test_a_bad_prompt_fails_alone(llama: ContextLlama) -> None:
    from formatter_llama_cpp import PromptTooLong, generate_parallel

    prompts: list[Any] = ["good", [], [10**7], "long " * 100, 5, [{"role": "user"}], "good"]
    outputs = generate_parallel(llama, prompts, samples=2, max_tokens=4, context_size=128)
    assert [len(row) for row in outputs] == [2] * len(prompts)
    errors = [type(output.error) for row in outputs for output in row[:1]]
    assert errors == [type(None), *[InvalidArgument] * 2, PromptTooLong, *[InvalidArgument] * 2, type(None)]
    assert outputs[0][0].tokens == outputs[-1][0].tokens
    with pytest.raises(InvalidArgument):
        generate_parallel(llama, ["good"], max_tokens=0)


def test_an_exception_late_in_a_call_leaves_what_is_finished(
    llama: ContextLlama, monkeypatch: pytest.MonkeyPatch
) -> None:
    from formatter_llama_cpp import context, generate_parallel

    decode, left = context.SharedContext.decode, 12

    def failing(self: Any, entries: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError("of the test")
        decode(self, entries)

    monkeypatch.setattr(context.SharedContext, "decode", failing)
    prompts = [f"prompt {number}" for number in range(9)]
    outputs = [row[0] for row in generate_parallel(llama, prompts, max_tokens=4, max_sequences=2, context_size=128)]
    errors = [output.error for output in outputs]
    assert errors[0] is None
    assert isinstance(errors[-1], OSError)
    assert all(output.tokens for output in outputs if output.error is None)
