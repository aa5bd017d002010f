"""The vLLM adapter under runners like vLLM's: which row is whose, and what goes wrong."""

from __future__ import annotations

import gc
import json
import logging
import re
import subprocess
import sys
import types
import weakref
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch", reason="the vLLM adapter needs torch")
tokenizers = pytest.importorskip("tokenizers", reason="makes a tokenizer")

from formatter_core import Compiler, FormatterBuilder, formats  # noqa: E402
from formatter_core.errors import IncompleteResult, InvalidFormat, UnsupportedEngineVersion  # noqa: E402
from tests.adapters.vllm_stand_ins import (  # noqa: E402
    GENERATIONS,
    UNKNOWN,
    WIDER,
    BatchRunner,
    BatchUpdate,
    Request,
    SlotRunner,
    config_of,
    parameters_of,
    vllm_of,
)

ENDS = (0, 1)
WORD, NUMBER, LIST = r"[ab]{3,9}", r"-?(0|[1-9][0-9]{0,6})", r"\[(true|[0-9]{1,3})(, (true|[0-9]{1,3})){0,4}\]"
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": ["é", True, None]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def tokenizer():
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|end|>", "<|turn|>", "<|call|>"],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(['{"a": 17, "b": "é"}', "abab abba [true, 17, 203] true", '{"b": null}'] * 5, trainer)
    return made


@pytest.fixture(params=GENERATIONS)
def any_vllm(request):
    with vllm_of(request.param):
        yield request.param


@pytest.fixture
def new_vllm():
    with vllm_of("0.31"):
        yield


@dataclass
class Engine:
    """The adapter in an engine: what the tests need of both runners."""

    hook: type
    config: types.SimpleNamespace
    tokenizer: object
    compiler: Compiler

    @property
    def width(self) -> int:
        return self.tokenizer.get_vocab_size() + WIDER

    def batch(self, seed: int = 0, **options) -> BatchRunner:
        return BatchRunner(self.hook(self.config, torch.device("cpu"), False), self.width, seed, **options)

    def slots(self, seed: int = 0, **options) -> SlotRunner:
        return SlotRunner(lambda states: self.hook(self.config, states), self.width, seed, **options)

    def request(self, format=None, *, end_ids=ENDS, chunks=1, **parameters) -> Request:
        from formatter_vllm import create_extra_args

        arguments = None if format is None else create_extra_args(format)
        compiled = None if format is None else self.compiler.compile(format)
        return Request(parameters_of(arguments, end_ids=end_ids, **parameters), compiled, chunks)

    def text(self, request: Request) -> str:
        ends = {*ENDS, *request.parameters.all_stop_token_ids}
        kept = [token for token in request.output if token not in ends]
        return self.tokenizer.decode(kept, skip_special_tokens=False)


def engine_of(tokenizer, named=True) -> Engine:
    from formatter_vllm import FormatterLogitsProcessor, create_vocabulary

    config = config_of(tokenizer, ENDS, named=[FormatterLogitsProcessor] if named else [])
    compiler = Compiler(create_vocabulary(tokenizer, model=config))
    return Engine(FormatterLogitsProcessor, config, tokenizer, compiler)


def mixed(engine: Engine) -> tuple[list[Request], list[str | None]]:
    patterns = [WORD, NUMBER, None, LIST, WORD, None, LIST, NUMBER, LIST]
    requests = [
        engine.request(None if pattern is None else formats.regex(pattern), chunks=1 + index % 3)
        for index, pattern in enumerate(patterns)
    ]
    return requests, patterns


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

    def test_an_output_that_shrinks_or_is_cleared(self, any_vllm, tokenizer) -> None:
        engine = engine_of(tokenizer)
        runner = engine.batch()
        request = engine.request(formats.regex(WORD))
        waiting = [request]
        for _ in range(3):
            runner.step([], waiting)
        del request.output[1:]
        runner.step([], waiting)
        request.output.clear()
        while not request.is_done:
            runner.step([], waiting)
        assert re.fullmatch(WORD, engine.text(request))

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

    def test_drafts_after_the_end_are_refused(self, new_vllm, tokenizer) -> None:
        engine = engine_of(tokenizer)
        runner = engine.slots(drafts=4)
        requests = [engine.request(formats.choice(["a", "ab"])) for _ in range(12)]
        runner.run(requests)
        assert {engine.text(request) for request in requests} <= {"a", "ab"}


@pytest.fixture(params=["batch", "slots"])
def runner_of(request, new_vllm, tokenizer):
    engine = engine_of(tokenizer)
    return engine, getattr(engine, request.param)


class TestEnds:
    def test_the_requests_own_stop_ids(self, runner_of) -> None:
        engine, make = runner_of
        stop = engine.tokenizer.token_to_id("b")
        requests = [engine.request(formats.regex("a{2,5}"), end_ids=[*ENDS, stop]) for _ in range(10)]
        runner = make()
        runner.run(requests)
        assert {request.output[-1] for request in requests} > {stop}
        assert all(re.fullmatch("a{2,5}", engine.text(request)) for request in requests)

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
            ({"json_schema": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}, "uniqueItems"),
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
        assert "min_tokens=2" in caplog.text

    def test_a_token_that_the_mask_did_not_allow(self, runner_of, caplog) -> None:
        engine, make = runner_of
        runner = make()
        runner.random.random = lambda: 1.0
        bad, good = engine.request(formats.regex("ab{50}")), engine.request(formats.regex(WORD))
        sample = runner.sample
        letters = iter([engine.tokenizer.token_to_id("?")])
        runner.sample = lambda masked: (
            (next(letters, None) if len(bad.output) == 4 and len(good.output) < 9 else None) or sample(masked)
        )
        with caplog.at_level(logging.ERROR, logger="formatter_vllm"):
            runner.run([bad, good])
        assert bad.output[-1] in ENDS
        assert "token" in caplog.text
        assert runner.processor.failures >= 1

    def test_a_fault_of_our_own_ends_the_constrained_requests(self, runner_of, monkeypatch, caplog) -> None:
        engine, make = runner_of
        runner = make()

        def broken(*_args, **_kwargs):
            raise MemoryError("no more")

        monkeypatch.setattr("formatter_vllm.masks.torch_bitmask.apply_inplace", broken)
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


def formats_end_only(engine: Engine):
    """A format that is complete at once: what a request that cannot go on is offered."""
    return engine.compiler.compile(formats.regex(""))


class TestValidation:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"formatter": {"regex": "a("}}, "position 1"),
            ({"formatter": {"json_schema": {"type": "strin"}}}, "type"),
            ({"formatter": {"json_schema": {"properties": {"x": {"$ref": "#/nowhere"}}}}}, "/properties/x"),
            ({"formatter": {"json_schema": {"type": "integer", "minimum": 3, "maximum": 1}}}, "no document"),
            ({"formatter": {"kbnf": "start ::= other;"}}, "other"),
            ({"formatter": {"choice": []}}, "choice"),
            ({"formatter": {"choice": "abc"}}, "list"),
            ({"formatter": {"format": {"type": "nothing"}}}, "type"),
            ({"formatter": {"format": {"type": "json_schema", "schema": {}}}}, "json_schema"),
            ({"formatter": {}}, "exactly one"),
            ({"formatter": None}, "NoneType"),
            ({"formatter": "regex"}, "JSON text"),
            ({"formatter": "[" * 100_000}, "JSON text"),
            ({"formatter": {"regex": "[a-z]{1000000}"}}, "Limits.repeat"),
        ],
    )
    def test_a_fault_is_told_when_the_request_comes_in(self, new_vllm, arguments, message) -> None:
        from formatter_vllm import FormatterLogitsProcessor

        with pytest.raises(ValueError, match=re.escape(message)):
            FormatterLogitsProcessor.validate_params(parameters_of(arguments))

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"min_tokens": 3}, "min_tokens"),
            ({"structured_outputs": object()}, "structured_outputs"),
            ({"guided_decoding": object()}, "guided_decoding"),
        ],
    )
    def test_parameters_that_cannot_hold_together(self, new_vllm, parameters, message) -> None:
        from formatter_vllm import FormatterLogitsProcessor

        FormatterLogitsProcessor.validate_params(parameters_of(None, **parameters))
        with pytest.raises(ValueError, match=message):
            FormatterLogitsProcessor.validate_params(parameters_of({"formatter": {"regex": "a"}}, **parameters))

    @pytest.mark.parametrize("arguments", [None, {}, {"other": 1}])
    def test_requests_without_a_format_are_none_of_our_business(self, new_vllm, arguments) -> None:
        from formatter_vllm import FormatterLogitsProcessor

        FormatterLogitsProcessor.validate_params(parameters_of(arguments, min_tokens=2))

    def test_special_tokens_are_checked_where_the_tokenizer_is_known(self, new_vllm, tokenizer) -> None:
        from formatter_vllm import FormatterLogitsProcessor, create_extra_args

        call, text = tokenizer.token_to_id("<|call|>"), tokenizer.token_to_id("a")
        for token_id in (call, text):
            arguments = create_extra_args(formats.token(token_id))
            FormatterLogitsProcessor.validate_params(parameters_of(arguments))
        engine = engine_of(tokenizer)
        processor = engine.hook(engine.config, torch.device("cpu"), False)
        processor.validate_params(parameters_of(create_extra_args(formats.token(call))))
        with pytest.raises(ValueError, match="is text"):
            processor.validate_params(parameters_of(create_extra_args(formats.token(text))))


def card() -> FormatterBuilder:
    b = FormatterBuilder()
    return b.append("n=", b.integer(minimum=0, maximum=120, name="n"), "; ", b.regex("[ab]{1,6}", name="w"), ".")


@dataclass
class Point:
    a: int
    b: str


class TestRequests:
    @pytest.mark.parametrize("format", [formats.regex(NUMBER), SCHEMA, Point, card(), formats.choice(["a", "é"])])
    def test_whatever_compile_takes_goes_there_and_back(self, format) -> None:
        from formatter_vllm import create_extra_args, create_vllm_xargs
        from formatter_vllm.requests import read_format

        over_http = create_vllm_xargs(format)
        assert all(isinstance(value, str) for value in over_http.values())
        for arguments in (create_extra_args(format), json.loads(json.dumps(over_http))):
            assert read_format(arguments).key() == formats.from_json(formats.as_format(format).to_json()).key()

    def test_the_short_keys(self) -> None:
        from formatter_vllm.requests import read_format

        assert read_format({"formatter": {"regex": NUMBER}}).key() == formats.regex(NUMBER).key()
        assert read_format({"formatter": {"choice": ["a", "b"]}}).key() == formats.choice(["a", "b"]).key()
        text = json.dumps({"json_schema": SCHEMA})
        assert read_format({"formatter": text}).key() == formats.json_schema(SCHEMA).key()
        assert read_format({"formatter": {"kbnf": 'start ::= "a";'}}).key() == formats.kbnf('start ::= "a";').key()


def output(text=None, ids=None, finish="stop", stop=None):
    return types.SimpleNamespace(text=text, token_ids=ids, finish_reason=finish, stop_reason=stop)


def choice(content, finish="stop", stop=None):
    message = types.SimpleNamespace(content=content)
    return types.SimpleNamespace(message=message, finish_reason=finish, stop_reason=stop)


class TestResults:
    @pytest.mark.parametrize("made", [output('{"a": 7, "b": "x"}'), choice('{"a": 7, "b": "x"}'), '{"a": 7, "b": "x"}'])
    def test_typed_values(self, made) -> None:
        from formatter_vllm import read_result

        result = read_result(Point, made)
        assert result.is_complete
        assert result.value == Point(7, "x")

    def test_captures(self) -> None:
        from formatter_vllm import read_result

        assert read_result(card(), output("n=17; abba.")).captures == {"n": (17,), "w": ("abba",)}

    @pytest.mark.parametrize(
        ("text", "finish", "stop", "ended"),
        [
            ("12", "length", None, "length"),
            ("12", "stop", "9", "stop_string"),
            ("12", "abort", None, "error"),
            ("12", None, None, None),
            ("1x", "stop", None, "end"),
            ("", "stop", None, "end"),
        ],
    )
    def test_a_cut_or_broken_answer_is_never_a_good_one(self, text, finish, stop, ended) -> None:
        from formatter_vllm import read_result

        result = read_result(formats.regex("[0-9]{1,5}"), output(text, finish=finish, stop=stop))
        assert result.ended == ended
        assert not result.is_complete
        with pytest.raises(IncompleteResult):
            _ = result.value

    def test_a_text_that_nothing_may_follow_is_complete_however_it_ended(self) -> None:
        from formatter_vllm import read_result

        assert read_result(formats.regex("[0-9]{2}"), output("12", finish="length")).value == "12"

    def test_a_chat_answer_that_was_cut_before_it_began(self) -> None:
        from formatter_vllm import read_result

        assert not read_result(formats.regex("a"), choice(None, finish="length")).is_complete

    def test_by_token_ids(self, tokenizer) -> None:
        from formatter_vllm import create_vocabulary, read_result

        vocabulary = create_vocabulary(tokenizer, end_ids=ENDS)
        call, ids = tokenizer.token_to_id("<|call|>"), tokenizer.encode("abab").ids
        format = formats.sequence(formats.token(call), formats.regex(WORD))
        assert read_result(format, output("abab", [call, *ids, 1]), vocabulary=vocabulary).is_complete
        for broken in ([call, *ids], [*ids, 0], [call, *ids, 0, *ids]):
            finish = "length" if broken[-1] not in ENDS else "stop"
            assert not read_result(format, output("abab", broken, finish), vocabulary=vocabulary).is_complete

    def test_by_token_ids_with_a_stop_id_of_the_request(self, tokenizer) -> None:
        from formatter_vllm import create_vocabulary, read_result

        vocabulary = create_vocabulary(tokenizer, end_ids=ENDS)
        stop = tokenizer.token_to_id(";")
        ids = [*tokenizer.encode("abab").ids, stop]
        assert read_result(formats.regex(WORD), output("abab", ids, stop=stop), vocabulary=vocabulary).value == "abab"

    def test_what_is_no_output(self) -> None:
        from formatter_vllm import read_result

        with pytest.raises(InvalidFormat, match="outputs"):
            read_result(formats.regex("a"), types.SimpleNamespace(outputs=[]))


class TestEntryPoint:
    def test_it_masks_where_the_class_was_not_named(self, any_vllm, tokenizer) -> None:
        from formatter_vllm.entry_point import EntryPointLogitsProcessor

        engine = engine_of(tokenizer, named=False)
        engine.hook = EntryPointLogitsProcessor
        requests, patterns = mixed(engine)
        engine.batch().run(requests)
        for request, pattern in zip(requests, patterns, strict=True):
            assert pattern is None or re.fullmatch(pattern, engine.text(request))

    @pytest.mark.parametrize("named", ["formatter_vllm:FormatterLogitsProcessor", None])
    def test_it_is_idle_where_the_class_was_named(self, new_vllm, tokenizer, named) -> None:
        from formatter_vllm.entry_point import EntryPointLogitsProcessor

        engine = engine_of(tokenizer)
        if named is not None:
            engine.config.model_config.logits_processors = [named]
        processor = EntryPointLogitsProcessor(engine.config, torch.device("cpu"), False)
        parameters = parameters_of({"formatter": {"regex": "a"}}, end_ids=ENDS)
        processor.update_state(BatchUpdate(1, [], [(0, parameters, [5], [])], []))
        assert not processor.add_request(0, parameters)
        logits = torch.zeros(1, engine.width)
        assert torch.equal(processor.apply(logits.clone()), logits)
        with pytest.raises(ValueError, match="regex"):
            processor.validate_params(parameters_of({"formatter": {"regex": 1}}))

    @pytest.mark.parametrize("fault", ["no interface", "another method"])
    def test_it_never_keeps_vllm_from_starting(self, new_vllm, fault) -> None:
        names = ("vllm.v1.sample.logits_processor", "vllm.v1.worker.gpu.sample.logits_processor")
        for name in names:
            if fault == "no interface":
                del sys.modules[name].LogitsProcessor
            else:
                interface = type("LogitsProcessor", (sys.modules[name].LogitsProcessor,), {"new": abstract()})
                sys.modules[name].LogitsProcessor = interface
        from formatter_vllm.entry_point import EntryPointLogitsProcessor

        processor = EntryPointLogitsProcessor(object(), object())
        processor.update_state(None)
        assert not processor.add_request(0, parameters_of())
        assert processor.apply("logits") == "logits"
        EntryPointLogitsProcessor.validate_params(parameters_of())
        with pytest.raises(ValueError, match="cannot keep a format"):
            EntryPointLogitsProcessor.validate_params(parameters_of({"formatter": {"regex": "a"}}))


def abstract():
    def new(self) -> None: ...

    new.__isabstractmethod__ = True
    return new


class TestImports:
    def test_a_vllm_without_an_interface_is_too_old(self, new_vllm) -> None:
        del sys.modules["vllm.v1.sample.logits_processor"], sys.modules["vllm.v1.worker.gpu.sample.logits_processor"]
        with pytest.raises(UnsupportedEngineVersion, match=r"0\.10\.1"):
            import formatter_vllm.logits_processor  # noqa: F401

    def test_clients_need_neither_vllm_nor_torch(self) -> None:
        code = (
            "import sys, formatter_vllm; formatter_vllm.create_vllm_xargs({'type': 'null'}); "
            "assert formatter_vllm.read_result({'type': 'null'}, 'null').value is None; "
            "sys.exit(bool({'vllm', 'torch'} & set(sys.modules)))"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
