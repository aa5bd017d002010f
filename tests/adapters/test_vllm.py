"""The vLLM adapter under runners like vLLM's: which row is whose, and what goes wrong."""

from __future__ import annotations

import gc
import logging
import random
import re
import sys
import weakref

import pytest

torch = pytest.importorskip("torch", reason="the vLLM adapter needs torch")
pytest.importorskip("tokenizers", reason="makes a tokenizer")

from formatter_core import formats  # noqa: E402
from tests.adapters.vllm_engines import (  # noqa: E402
    ENDS,
    LIST,
    WORD,
    engine_of,
    formats_end_only,
    mixed,
)
from tests.adapters.vllm_stand_ins import (  # noqa: E402
    UNKNOWN,
    BatchUpdate,
    Request,
    config_of,
    parameters_of,
)

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")


class TestBatches:
    """The V1 runner."""

    @pytest.mark.parametrize("is_async", [False, True])
    @pytest.mark.parametrize("seed", range(6))
    def test_rows_that_come_go_move_and_return(self, any_vllm, tokenizer, seed, is_async) -> None:
        engine = engine_of(tokenizer)
        runner = engine.batch(seed, is_async=is_async)
        requests, patterns = mixed(engine)
        runner.run(requests, aborted=requests[3:4])
        assert runner.preemptions
        for index, (request, pattern) in enumerate(zip(requests, patterns, strict=True)):
            if pattern is not None and index != 3:
                assert re.fullmatch(pattern, engine.text(request))
        assert runner.processor.failures == 0

    def test_several_outputs_of_one_prompt_share_parameters_and_format(self, any_vllm, tokenizer) -> None:
        engine = engine_of(tokenizer)
        runner = engine.batch(rows=3)
        first = engine.request(formats.regex(WORD))
        requests = [first, *(Request(first.parameters, first.compiled) for _ in range(5))]
        runner.run(requests)
        assert all(re.fullmatch(WORD, engine.text(request)) for request in requests)

    def test_an_output_that_is_another_one_of_the_same_length(self, any_vllm, tokenizer) -> None:
        engine = engine_of(tokenizer)
        runner = engine.batch()
        request = engine.request(formats.regex("a{40}|b{40}"))
        waiting = [request]
        runner.step([], waiting)
        letter = {97: "b", 98: "a"}[ord(engine.text(request)[0])]
        other = [engine.tokenizer.token_to_id(letter)] * 30
        request.output[:] = other[:20]
        runner.step([], waiting)
        request.output[:] = other
        while not request.is_done:
            runner.step([], waiting)
        assert engine.text(request) == letter * 40

    def test_calls_that_no_token_follows_change_nothing(self, any_vllm, tokenizer) -> None:
        engine = engine_of(tokenizer)
        runner = engine.batch()
        waiting = [engine.request(formats.regex("ab"), chunks=5)]
        for _ in range(4):
            runner.step([], waiting)
        runner.run([])
        assert engine.text(Request(parameters_of(end_ids=ENDS), None)) == ""

    @pytest.mark.parametrize("is_followed", [True, False])
    def test_a_finished_request_leaves_no_state_behind(self, any_vllm, tokenizer, is_followed) -> None:
        engine = engine_of(tokenizer)
        runner = engine.batch(rows=1)
        requests = [engine.request(formats.regex(WORD)), *([engine.request()] if is_followed else [])]
        requests[0].output = type("Output", (list,), {})()
        watched = weakref.ref(requests[0].output)
        runner.run(requests)
        requests.clear()
        gc.collect()
        assert watched() is None


class TestSlots:
    """Model Runner V2."""

    @pytest.mark.parametrize("drafts", [0, 1, 4])
    @pytest.mark.parametrize("seed", range(5))
    def test_slots_that_are_taken_again(self, new_vllm, tokenizer, seed, drafts) -> None:
        engine = engine_of(tokenizer)
        runner = engine.slots(seed, drafts=drafts)
        requests, patterns = mixed(engine)
        runner.run(requests, aborted=requests[3:4])
        assert runner.preemptions
        assert drafts < 4 or runner.accepted
        for index, (request, pattern) in enumerate(zip(requests, patterns, strict=True)):
            if pattern is not None and index != 3:
                assert re.fullmatch(pattern, engine.text(request))
        assert runner.processor.failures == 0

    def test_logits_of_a_batch_without_formats_are_left_alone(self, new_vllm, tokenizer) -> None:
        engine = engine_of(tokenizer)
        runner = engine.slots()
        runner.run([engine.request() for _ in range(6)])

    @pytest.mark.parametrize("drafts", [0, 3])
    def test_masks_do_not_wait_for_the_forward_pass_where_there_are_no_drafts(
        self, new_vllm, tokenizer, drafts
    ) -> None:
        engine = engine_of(tokenizer)
        runner = engine.slots(drafts=drafts)
        requests, _ = mixed(engine)
        runner.run(requests)
        assert len(runner.copies) > 20
        assert set(runner.copies) == ({0, 1} if drafts else {0})


@pytest.fixture(params=["batch", "slots"])
def runner_of(request, new_vllm, tokenizer):
    engine = engine_of(tokenizer)
    return engine, getattr(engine, request.param)


class TestEnds:
    def test_stop_ids_that_no_logit_has_are_left_out(self, runner_of) -> None:
        engine, make = runner_of
        requests = [engine.request(formats.regex(WORD), end_ids=[*ends, 10**6]) for ends in (ENDS, [])]
        make().run(requests)
        assert all(re.fullmatch(WORD, engine.text(request)) for request in requests)

    def test_ends_are_repeated_where_they_are_ignored(self, runner_of) -> None:
        engine, make = runner_of
        request = engine.request(formats.regex(WORD), ignore_eos=True)
        make().run([request])
        assert len(request.output) == 60
        assert re.fullmatch(WORD, engine.text(request))


class TestFailures:
    """A request that cannot go on ends with the cause; the others go on."""

    def run_beside_a_good_one(self, runner_of, parameters, caplog) -> Request:
        engine, make = runner_of
        runner = make()
        runner.random.random = lambda: 1.0  # no preemption
        bad = Request(parameters, formats_end_only(engine))
        good = engine.request(formats.regex(WORD))
        with caplog.at_level(logging.ERROR, logger="formatter_vllm"):
            runner.run([bad, good])
        assert re.fullmatch(WORD, engine.text(good))
        assert runner.processor.failures == 1
        return bad

    @pytest.mark.parametrize(
        ("wanted", "cause"),
        [
            ({"regex": "("}, "position 0"),
            ({"json_schema": {"type": "array", "items": {"type": "object"}, "uniqueItems": True}}, "uniqueItems"),
            ({"regex": "a", "choice": ["b"]}, "exactly one"),
            ("{", "JSON text"),
            (7, "int"),
        ],
    )
    def test_a_bad_request_that_nobody_checked(self, runner_of, wanted, cause, caplog) -> None:
        """As in vLLM 0.10.1, which has no `validate_params`."""
        bad = self.run_beside_a_good_one(runner_of, parameters_of({"formatter": wanted}, end_ids=ENDS), caplog)
        assert set(bad.output) <= set(ENDS)
        assert cause in caplog.text

    def test_parameters_that_nobody_checked(self, runner_of, caplog) -> None:
        bad = self.run_beside_a_good_one(
            runner_of, parameters_of({"formatter": {"regex": "a"}}, end_ids=ENDS, min_tokens=2), caplog
        )
        assert set(bad.output) <= set(ENDS)
        assert "min_tokens" in caplog.text

    def test_a_fault_of_our_own_ends_the_constrained_requests(self, runner_of, monkeypatch, caplog) -> None:
        engine, make = runner_of
        runner = make()

        def broken(*_args, **_kwargs):
            raise MemoryError("no more")

        monkeypatch.setattr("formatter_vllm.masks.step", broken)
        free, bound = engine.request(), engine.request(formats.regex(WORD))
        bound.compiled = formats_end_only(engine)
        with caplog.at_level(logging.ERROR, logger="formatter_vllm"):
            runner.run([free, bound])
        assert set(bound.output) <= set(ENDS)
        assert len(free.output) > 1
        assert "no more" in caplog.text

    def test_an_engine_without_a_tokenizer(self, new_vllm, tokenizer) -> None:
        engine = engine_of(tokenizer)
        engine.config.model_config.skip_tokenizer_init = True
        runner = engine.batch()
        request = Request(parameters_of({"formatter": {"regex": "a"}}, end_ids=ENDS), formats_end_only(engine))
        runner.run([request, engine.request()])
        assert set(request.output) <= set(ENDS)
        assert runner.processor.failures == 1

    def test_an_engine_with_a_tokenizer_that_cannot_be_read_starts(self, any_vllm, tokenizer) -> None:
        engine = engine_of(tokenizer)
        engine.config.model_config.tokenizer = object()
        engine.config.model_config.get_vocab_size = lambda: engine.width
        runner = engine.batch()
        runner.run([Request(parameters_of({"formatter": {"regex": "a"}}, end_ids=ENDS), formats_end_only(engine))])
        assert runner.processor.failures == 1

    @pytest.mark.parametrize("rule", ["allowed_token_ids", "bad_words"])
    def test_other_rules_that_leave_nothing(self, runner_of, rule, caplog) -> None:
        engine, make = runner_of
        runner = make()
        runner.check = lambda *_: None
        only = engine.tokenizer.token_to_id("a")
        request = engine.request(formats.regex("aab"), **{rule: [only]})
        plain = runner.logits

        def forbidding(rows: int):
            logits = torch.full((rows, engine.width), -torch.inf)
            logits[:, only] = plain(rows)[:, only]
            return logits

        runner.logits = forbidding
        with caplog.at_level(logging.ERROR, logger="formatter_vllm"):
            runner.run([request])
        assert engine.text(request) == "aa"
        assert request.output[-1] in ENDS
        assert "forbidden by another rule" in caplog.text

    def test_tokens_that_stay_unknown_end_the_request(self, any_vllm, tokenizer, caplog) -> None:
        """Asynchronous scheduling where the class was found by its entry point alone."""
        engine = engine_of(tokenizer, named=False)
        engine.config.scheduler_config.async_scheduling = True
        processor = engine.hook(engine.config, torch.device("cpu"), False)
        output: list[int] = []
        parameters = parameters_of({"formatter": {"regex": WORD}}, end_ids=ENDS)
        processor.update_state(BatchUpdate(1, [], [(0, parameters, [5], output)], []))
        processor.apply(torch.zeros(1, engine.width))
        output.append(UNKNOWN)
        processor.update_state(None)
        with caplog.at_level(logging.ERROR, logger="formatter_vllm"):
            masked = processor.apply(torch.zeros(1, engine.width))
        assert torch.isfinite(masked[0]).nonzero().flatten().tolist() == list(ENDS)
        assert "--logits-processors" in caplog.text


class TestPerRequest:
    """The V0 engine: one callable for all sequences of a request, told neither which sequence nor which step it is."""

    @pytest.fixture
    def old_vllm(self, any_vllm):
        for name in [name for name in sys.modules if name.endswith("sample.logits_processor")]:
            del sys.modules[name]

    def make(self, tokenizer, format, **options):
        from formatter_vllm import create_logits_processor

        config = config_of(tokenizer, ENDS)
        return create_logits_processor(tokenizer, format, model=config, **options), config.model_config.get_vocab_size()

    def test_sequences_that_part_and_are_copied_and_come_back(self, old_vllm, tokenizer) -> None:
        processor, width = self.make(tokenizer, formats.regex(LIST))
        expected = processor._compiled
        rng, generator = random.Random(0), torch.Generator().manual_seed(0)
        sequences: list[list[int]] = [[] for _ in range(20)]
        for _ in range(25):
            rng.shuffle(sequences)
            if rng.random() < 0.3:
                sequences[-1] = list(sequences[0])  # as in a search that copies its best sequence
                processor = rng.choice([processor, processor.clone()])
            for output in sequences:
                given = torch.randn(width, generator=generator)
                masked = processor([5, 6], tuple(output), given.clone())
                state = expected.formatter()
                state.accept_tokens(output)
                assert masked.isfinite().nonzero().flatten().tolist() == state.allowed_tokens()
                if not output or output[-1] not in ENDS:
                    output.append(int(torch.multinomial(torch.softmax(masked, -1), 1, generator=generator)))
        assert sum(re.fullmatch(LIST, tokenizer.decode(output)) is not None for output in sequences) > 5

    def test_the_ends_of_the_request(self, old_vllm, tokenizer) -> None:
        stop = tokenizer.token_to_id("b")
        processor, width = self.make(tokenizer, formats.regex("a*"), end_ids=[*ENDS, stop])
        masked = processor([], [tokenizer.token_to_id("a")], torch.zeros(width))
        assert torch.isfinite(masked[[*ENDS, stop]]).all()

    def test_a_fault_of_our_own_leaves_the_end_alone(self, old_vllm, tokenizer, monkeypatch, caplog) -> None:
        processor, width = self.make(tokenizer, formats.regex("ab"))
        monkeypatch.setattr("formatter_vllm.masks.step", lambda *_: 1 / 0)
        masked = processor([], [], torch.zeros(width))
        assert masked.isfinite().nonzero().flatten().tolist() == list(ENDS)
        assert "ZeroDivisionError" in caplog.text

    def test_a_token_that_the_mask_did_not_allow_is_told_once(self, old_vllm, tokenizer, caplog) -> None:
        processor, width = self.make(tokenizer, formats.regex("ab"))
        output = [tokenizer.token_to_id("?")]
        for _ in range(3):
            masked = processor([], list(output), torch.zeros(width))
            assert masked.isfinite().nonzero().flatten().tolist() == list(ENDS)
            output.append(tokenizer.token_to_id("a"))
        assert caplog.text.count("request aborted after 1 token: token") == 1
