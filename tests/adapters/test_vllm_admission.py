"""Requests wait for their formats before the engine takes them: on stand-ins of vLLM's server and workers."""

from __future__ import annotations

import asyncio
import enum
import fcntl
import gc
import json
import sys
import threading
import types
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from importlib import import_module
from logging import getLogger
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the vLLM adapter needs torch")
pytest.importorskip("tokenizers", reason="makes a tokenizer")

from formatter_core import Compiler, Cursor, Limits, Vocabulary, formats  # noqa: E402
from formatter_core.errors import EngineFailed, InvalidArgument, InvalidRegex, LimitExceeded  # noqa: E402
from tests.adapters.vllm_engines import ENDS  # noqa: E402
from tests.adapters.vllm_stand_ins import WIDER, BatchUpdate, config_of, parameters_of, patchable, vllm_of  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

WORDS = {"choice": [f"word {number}" for number in range(3000)]}  # takes more than a moment


class Invalid(Exception):
    """vLLM's error that is answered with 400."""


class Graceful(Exception):
    """vLLM's error that is answered with the status that it brings."""

    def __init__(self, message: str, http_status: int) -> None:
        super().__init__(message)
        self.http_status = http_status


class GenerationError(Exception):
    """vLLM's error for HTTP 500."""


class Worker:
    """A worker of vLLM."""


class Scheduler:
    """The process of a scheduler of vLLM."""


class AsyncEngine:
    """vLLM's asynchronous engine, as far as the admission sees it."""

    def __init__(self, config: Any) -> None:
        self.vllm_config = config
        self.taken: list[Any] = []
        self.asked = 0
        self.has_closed = False
        self.engine_core = Client(self)

    async def add_request(self, request_id: str, prompt: str, params: Any) -> str:
        self.taken.append(params)
        return request_id

    async def generate(self, prompt: str, sampling_params: Any, request_id: str) -> AsyncIterator[Any]:
        """Generate a token, then an error; any output after that shows that nobody stopped this."""
        try:
            await self.add_request(request_id, prompt, sampling_params)
            for reason in (None, "error", "never"):
                yield types.SimpleNamespace(outputs=[types.SimpleNamespace(finish_reason=reason)])
        finally:
            self.has_closed = True


class Client:
    """vLLM's client of its schedulers' processes; here it has two of them."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    async def call_utility_all_async(self, method: str, *arguments: Any) -> list[Any]:
        if method != "collective_rpc":
            return [getattr(Scheduler(), method)(*arguments)] * 2
        name, _, others, _ = arguments
        self.engine.asked += name == "formatter_prepare"
        return [[getattr(Worker(), name)(*others)]] * 2


class BeamRequest:
    """vLLM's `CompletionRequest`, as far as beams go."""

    def __init__(self, vllm_xargs: Any = None) -> None:
        self.vllm_xargs = vllm_xargs

    def to_beam_search_params(self, max_tokens: int) -> int:
        return max_tokens


class Reason(enum.IntEnum):
    STOP = 0
    ERROR = 3


class Outputs:
    """vLLM's `OutputProcessor`."""

    def process_outputs(self, engine_core_outputs: list[Any], timestamp: float | None = None) -> list[Any]:
        return [(output.finish_reason, output.stop_reason) for output in engine_core_outputs]


@pytest.fixture
def engine(tokenizer) -> Iterator[Any]:
    errors = {"VLLMValidationError": Invalid, "GracefulHTTPError": Graceful, "GenerationError": GenerationError}
    contents = {
        "vllm.exceptions": errors,
        "vllm.v1.engine": {"FinishReason": Reason},
        "vllm.v1.engine.output_processor": {"OutputProcessor": patchable(Outputs)},
        "vllm.v1.engine.async_llm": {"AsyncLLM": patchable(AsyncEngine)},
        "vllm.v1.worker.worker_base": {"WorkerBase": Worker},
        "vllm.v1.engine.core": {"EngineCore": Scheduler},
        "vllm.entrypoints.openai.completion.protocol": {"CompletionRequest": patchable(BeamRequest)},
    }
    with vllm_of("0.31", contents) as made:
        for _ in range(2):  # vLLM loads plugins once a process, or more often
            import_module("formatter_vllm.structured_outputs").register()
        config = config_of(tokenizer, ENDS)
        config.structured_outputs_config = types.SimpleNamespace(backend="auto")
        yield made["vllm.v1.engine.async_llm"].AsyncLLM(config)


def parameters(wanted: Any, **others: Any) -> Any:
    return parameters_of(None if wanted is None else {"formatter": json.dumps(wanted)}, end_ids=ENDS, **others)


def ask(engine: Any, *wanted: Any) -> list[Any]:
    """Send requests at once, and return the outcome of each."""

    async def run() -> list[Any]:
        made = [engine.add_request(str(number), "x", parameters(one)) for number, one in enumerate(wanted)]
        return await asyncio.gather(*made, return_exceptions=True)

    return asyncio.run(run())


def test_requests_pass(engine) -> None:
    assert ask(engine, {"regex": "a+"}, None, {"choice": ["a", "b"]}) == ["0", "1", "2"]
    assert len(engine.taken) == 3


def test_a_request_that_fails_in_the_worker_ends_with_an_error(engine, tokenizer) -> None:
    assert ask(engine, {"regex": "abc"}) == ["0"]
    (asked,) = engine.taken
    (failure_id,) = asked.stop_token_ids
    assert failure_id in asked.all_stop_token_ids
    assert failure_id >= tokenizer.get_vocab_size()
    processor = import_module("formatter_vllm").FormatterLogitsProcessor(engine.vllm_config, "cpu", False)
    asked.allowed_token_ids = [tokenizer.token_to_id("1")]
    processor.update_state(BatchUpdate(1, [], [(0, asked, [5], [])], []))
    logits = torch.full((1, tokenizer.get_vocab_size() + WIDER), -torch.inf)
    logits[0, asked.allowed_token_ids] = 1.0
    assert torch.isfinite(processor.apply(logits)[0]).nonzero().flatten().tolist() == [failure_id]
    outputs = sys.modules["vllm.v1.engine.output_processor"].OutputProcessor()  # type: ignore[attr-defined]
    ended = [(Reason.STOP, failure_id), (Reason.STOP, 7), (Reason.STOP, None), (None, None)]
    given = [types.SimpleNamespace(finish_reason=reason, stop_reason=stop) for reason, stop in ended]
    assert outputs.process_outputs(given, timestamp=1.0) == [(Reason.ERROR, None), *ended[1:]]


def generated(engine: Any, request: Any, request_id: str) -> list[str | None]:
    """Return how the outputs of a request end, up to the first error, as a server reads them."""

    async def run() -> list[str | None]:
        found: list[str | None] = []
        async for output in engine.generate("x", request, request_id):
            found.append(output.outputs[0].finish_reason)
            if found[-1] == "never":
                break
        return found

    return asyncio.run(run())


def test_the_answer_to_a_request_that_failed_says_why(engine, tokenizer) -> None:
    """Whichever process knows it: a worker that makes masks, or the scheduler that keeps structured outputs."""
    asked = parameters({"regex": "abc"})
    asyncio.run(engine.add_request("r-1", "x", asked))
    processor = import_module("formatter_vllm").FormatterLogitsProcessor(engine.vllm_config, "cpu", False)
    asked.allowed_token_ids = [tokenizer.token_to_id("1")]
    processor.update_state(BatchUpdate(1, [], [(0, asked, [5], [])], []))
    processor.apply(torch.full((1, tokenizer.get_vocab_size() + WIDER), -torch.inf))
    with pytest.raises(
        GenerationError, match=r"^request r-1 aborted after 0 tokens: every token .* is forbidden by another rule"
    ):
        generated(engine, asked, "r-1")
    assert engine.has_closed
    grammar = import_module("formatter_vllm.backend").FormatterGrammar(
        Compiler(Vocabulary.of_bytes()).compile(formats.regex("ab")).formatter()
    )
    assert not grammar.accept_tokens("1_r-2-0123abcd", [ord("x")])
    with pytest.raises(GenerationError, match=r"^request 1_r-2-0123abcd aborted"):
        generated(engine, asked, "r-2")


def test_a_failure_of_which_nothing_is_known_and_a_request_without_a_format_stay_vllms(engine) -> None:
    assert generated(engine, parameters({"regex": "abc"}), "r-3") == [None, "error", "never"]
    assert generated(engine, parameters(None), "r-1") == [None, "error", "never"]


def test_behind_a_front_end_that_runs_none_of_this_the_scheduler_checks_and_reports(engine, monkeypatch) -> None:
    class Core:
        def preprocess_add_request(self, request: Any) -> tuple[Any, int]:
            return request, 0

    class Loop:
        def update_from_output(self, outputs: list[Any]) -> dict[int, Any]:
            return {0: types.SimpleNamespace(outputs=outputs)}

    for name, content in (
        ("vllm.v1.engine.core", {"EngineCore": Core}),
        ("vllm.v1.core.sched.scheduler", {"Scheduler": Loop}),
        ("vllm.outputs", {"RequestError": types.SimpleNamespace}),
    ):
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", "1")
    for _ in range(2):
        import_module("formatter_vllm.structured_outputs").register()
    core: Any = Core()
    core.vllm_config = engine.vllm_config

    def taken(arguments: Any) -> Any:
        request = types.SimpleNamespace(request_id="r-9", sampling_params=parameters_of(arguments, end_ids=ENDS))
        return core.preprocess_add_request(request)[0].sampling_params

    for faulty, message in (({"formatter": '{"regex": "("}'}, "not closed"), ({"formater": "{}"}, "did you mean")):
        with pytest.raises(Invalid, match=message):
            taken(faulty)
    assert taken(None) == parameters_of(None, end_ids=ENDS)
    (failure_id,) = taken({"formatter": '{"regex": "a"}'}).stop_token_ids
    import_module("formatter_vllm.failures").CountingFailureLog(getLogger("formatter_vllm")).report(
        Cursor.failed(ValueError("this is why"), [0]), request_id="r-9"
    )
    ended = [(Reason.STOP, failure_id), (Reason.STOP, 7), (None, None)]
    given = [
        types.SimpleNamespace(request_id="r-9", finish_reason=reason, stop_reason=stop, error=None)
        for reason, stop in ended
    ]
    failed, *others = Loop().update_from_output(given)[0].outputs
    assert (failed.finish_reason, failed.stop_reason) == (Reason.ERROR, None)
    assert failed.error.message.endswith("this is why")
    assert [(one.finish_reason, one.stop_reason, one.error) for one in others] == [(*one, None) for one in ended[1:]]


def test_requests_are_counted(engine, monkeypatch) -> None:
    counted: list[Any] = []

    class Metric:
        def __init__(self, name: str, text: str, labels: Any = (), *, multiprocess_mode: str = "all") -> None:
            self.name, self.values = name, ()

        def labels(self, *values: str) -> Metric:
            self.values = values
            return self

        def inc(self, amount: float = 1.0) -> None:
            if amount:
                counted.append((self.name, *self.values))

        def observe(self, seconds: float) -> None:
            assert seconds >= 0

        def set(self, value: float) -> None:
            gauges[self.name] = value

    gauges: dict[str, float] = {}
    client = types.SimpleNamespace(Counter=Metric, Gauge=Metric, Histogram=Metric)
    monkeypatch.setitem(sys.modules, "prometheus_client", client)
    ask(engine, {"regex": "a+"})
    ask(engine, {"regex": "a("})
    ask(engine, {"made up": 1})
    ask(engine, None)
    name = "formatter_requests"
    assert counted == [(name, "regex", "admitted"), (name, "regex", "refused"), (name, "other", "refused")]
    for cached in ([5.0, 6.0], [4.0]):  # what engines keep becomes less, too
        import_module("formatter_vllm.metrics").update({"cached bytes": each} for each in cached)
        assert gauges == {"formatter_cache_bytes": sum(cached)}


def test_figures_of_all_processes_are_added_up(engine) -> None:
    """Workers of one scheduler do the same work, and one of them may live in its process."""
    totals = import_module("formatter_vllm.figures").totals
    workers = [{"process": 1, "mask seconds": 2.0}, {"process": 2, "mask seconds": 3.0, "failures DeadEnd": 1.0}]
    assert totals(workers, {"process": 3, "mask seconds": 4.0}) == {"mask seconds": 7.0, "failures DeadEnd": 1.0}
    assert totals(workers, {"process": 2, "mask seconds": 3.0}) == {"mask seconds": 3.0, "failures DeadEnd": 1.0}
    assert totals(workers, None) == {"mask seconds": 3.0, "failures DeadEnd": 1.0}


def test_one_of_several_api_servers_counts_what_engines_did(engine, monkeypatch, tmp_path) -> None:
    metrics = import_module("formatter_vllm.metrics")
    assert metrics.is_owner()
    metrics._lock.cache_clear()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    assert metrics.is_owner()
    assert metrics.is_owner()
    with (tmp_path / "formatter.lock").open("a") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as another API server asks


def test_whose_a_request_is(engine) -> None:
    """Its connection and its API key, as the web framework has them."""
    fastapi = types.ModuleType("fastapi")
    server = import_module("formatter_vllm._compat_server")
    seen: list[Any] = []

    class FastAPI:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            seen.append(server.client_of_request())

    fastapi.FastAPI = FastAPI  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "fastapi", fastapi)
        for _ in range(2):
            server.know_clients()

    async def run() -> None:
        for scope in (
            {"type": "http", "client": ("a", 1), "headers": [(b"authorization", b"Bearer x")]},
            {"type": "http", "client": ("a", 2), "headers": []},
            {"type": "lifespan"},
        ):
            await asyncio.create_task(FastAPI()(scope, None, None))

    asyncio.run(run())
    assert seen == [(("a", 1), b"Bearer x"), (("a", 2),), None]


def test_a_process_says_which_contents_it_has(engine, monkeypatch) -> None:
    preparation = import_module("formatter_vllm.preparation")
    made: list[Any] = []

    class Compiler:
        def prepare(self, content: str, stored: bytes | None, *, is_costly: bool) -> Any:
            made.append(Future())
            return made[-1]

    monkeypatch.setattr(preparation, "living_compilers", lambda: [Compiler()])
    new = [(name, "x", None, True) for name in ("1", "2", "")]
    assert preparation.prepare(new, ["1", "2"]) == []
    made[1].set_exception(InvalidRegex("no", pattern="(", position=0))
    assert preparation.prepare([], ["1", "2"]) == ["2"]
    made[0].set_result(None)
    assert preparation.prepare([], ["1", "unknown"]) == ["1", "unknown"]
    assert not preparation._under_way


@pytest.mark.parametrize("wanted", [WORDS, {"regex": "a{3}"}])
def test_workers_load_what_was_compiled(engine, wanted, monkeypatch) -> None:
    compilers = import_module("formatter_vllm.compilers")
    hook = import_module("formatter_vllm").FormatterLogitsProcessor(engine.vllm_config, "cpu", False)
    monkeypatch.setattr(compilers, "read_format", None)
    assert ask(engine, wanted) == ["0"]
    assert hook.failures == 0
    assert compilers.living_compilers()[0].compile(json.dumps(wanted)).formatter().allowed_tokens()


def test_beam_search_is_refused_beside_a_format(engine) -> None:
    request = sys.modules["vllm.entrypoints.openai.completion.protocol"].CompletionRequest  # type: ignore[attr-defined]
    assert request(None).to_beam_search_params(7) == 7
    with pytest.raises(Invalid, match="use_beam_search"):
        request({"formatter": '{"regex": "a"}'}).to_beam_search_params(7)
    with pytest.raises(Invalid, match="did you mean"):
        request({"formater": '{"regex": "a"}'}).to_beam_search_params(7)


def test_a_format_never_ends_with_the_id_of_failures(engine, tokenizer) -> None:
    assert ask(engine, {"regex": "a"}) == ["0"]
    (asked,) = engine.taken
    processor = import_module("formatter_vllm").FormatterLogitsProcessor(engine.vllm_config, "cpu", False)
    output = [tokenizer.token_to_id("a")]
    processor.update_state(BatchUpdate(1, [], [(0, asked, [5], output)], []))
    logits = processor.apply(torch.zeros(1, tokenizer.get_vocab_size() + WIDER))
    assert torch.isfinite(logits[0]).nonzero().flatten().tolist() == [*ENDS]


def test_a_fault_is_answered_with_400_and_never_reaches_the_engine(engine) -> None:
    refused = ask(engine, {"regex": "a("}, {"json_schema": {"type": "strin"}}, {"regex": "a("}, "no object")
    assert [type(one) for one in refused] == [Invalid] * 4
    assert "position 1" in str(refused[0])
    assert not engine.taken


def test_an_output_that_cannot_fit_is_answered_with_400_and_what_is_enough(engine) -> None:
    """Each request has its own `max_tokens`, beside a format that is known."""

    def answered(wanted: Any, max_tokens: int) -> Any:
        request = engine.add_request("0", "x", parameters({**wanted, "fit": True}, max_tokens=max_tokens))
        return asyncio.run(asyncio.wait_for(request, 60))

    number = {"regex": "[1-9]{5}"}
    with pytest.raises(Invalid, match="max_tokens = 5; give at least 6"):
        answered(number, 5)
    assert answered(number, 6) == "0"
    with pytest.raises(Invalid, match="max_tokens = 5; give at least 6"):
        answered(number, 5)
    reasoned = {**number, "after_reasoning": True}  # a prompt may have opened the reasoning, or ended it
    assert answered(reasoned, 6) == "0"
    with pytest.raises(Invalid, match="max_tokens = 5") as caught:
        answered(reasoned, 5)
    assert int(str(caught.value).rsplit(" ", 1)[1]) > 12
    hook = import_module("formatter_vllm").FormatterLogitsProcessor
    for pattern in (number["regex"], "[a-c]{5}"):  # the other one is not known: where no loop waits, it is compiled
        with pytest.raises(ValueError, match="give at least 6"):
            hook.validate_params(parameters({"regex": pattern, "fit": True}, max_tokens=5))


@pytest.mark.parametrize("wanted", [WORDS, {"regex": "a{3}"}])
def test_workers_compile_a_format_before_its_first_request(engine, wanted) -> None:
    compilers = import_module("formatter_vllm.compilers")
    hook = import_module("formatter_vllm").FormatterLogitsProcessor(engine.vllm_config, "cpu", False)
    assert ask(engine, wanted, wanted) == ["0", "1"]
    (compiler,) = compilers.living_compilers()
    assert compiler.background.known(json.dumps(wanted)) is not None
    asked = engine.asked
    assert ask(engine, wanted) == ["0"]
    assert engine.asked == asked
    assert hook.failures == 0


def test_the_hook_does_not_check_again_what_was_admitted(engine, monkeypatch) -> None:
    compilers, hook = (
        import_module("formatter_vllm.compilers"),
        import_module("formatter_vllm").FormatterLogitsProcessor,
    )

    async def run() -> None:
        await engine.add_request("0", "x", parameters({"regex": "ab"}))
        gc.collect()
        monkeypatch.setattr(compilers, "read_format", None)
        hook.validate_params(parameters({"regex": "ab"}))

    asyncio.run(run())


@pytest.mark.parametrize("settings", ['{"queue_size": 2}', '{"max_wait": 1e-9}'])
def test_what_would_wait_too_long_is_answered_with_503(engine, monkeypatch, settings) -> None:
    gate = threading.Event()

    def check(self: Any, content: str) -> Any:
        if self.is_short:
            raise LimitExceeded("work", 1, content)
        assert gate.wait(60)
        return import_module("formatter_vllm.judge").Verdict()

    judge = import_module("formatter_vllm.judge").Judge
    short_limits = import_module("formatter_vllm.compilers").narrowed(Limits())
    monkeypatch.setattr(judge, "is_short", property(lambda self: self._settings[1] == short_limits), raising=False)
    monkeypatch.setattr(judge, "check", check)
    monkeypatch.setenv("FORMATTER_VLLM_SETTINGS", settings)

    async def run() -> list[Any]:
        first = asyncio.ensure_future(engine.add_request("0", "x", parameters({"regex": "a0"})))
        await asyncio.sleep(0.5)
        others = [engine.add_request(str(i), "x", parameters({"regex": f"a{i}"})) for i in range(1, 6)]
        made = [asyncio.ensure_future(one) for one in others]
        for _ in range(300):
            await asyncio.sleep(0.1)
            if sum(one.done() for one in made) >= 2:
                break
        busy = [one.exception() for one in made if one.done()]
        gate.set()
        return [await first, busy, await asyncio.gather(*made, return_exceptions=True)]

    first, busy, _ = asyncio.run(run())
    assert first == "0"
    assert len(busy) >= 2
    assert all(error.http_status == 503 for error in busy)


def test_the_judge_says_what_is_wrong_and_survives_its_own_death() -> None:
    judge = import_module("formatter_vllm.judge").Judge(Vocabulary.of_bytes(), Limits())
    judge.check('{"regex": "a"}')
    with pytest.raises(InvalidRegex) as caught:
        judge.check('{"regex": "("}')
    assert caught.value.position == 0
    process, _ = judge._running
    process.kill()
    with pytest.raises(EngineFailed):
        judge.check('{"regex": "a"}')
    judge.check('{"regex": "a"}')
    process, _ = judge._running
    judge.close()
    assert process.poll() is not None


def test_on_an_event_loop_the_check_of_the_hook_takes_a_moment(engine) -> None:
    hook = import_module("formatter_vllm").FormatterLogitsProcessor

    async def check(wanted: Any) -> None:
        hook.validate_params(parameters(wanted))

    costly = {"json_schema": {"allOf": [{"pattern": f".*{i}.{{{i}}}.*"} for i in range(3, 15)], "uniqueItems": 3}}
    asyncio.run(check({"choice": ["x" * 20_000]}))  # left to the engine, and so is what would need long
    with pytest.raises(ValueError, match="position"):
        asyncio.run(check({"regex": "a("}))
    with pytest.raises(ValueError, match="uniqueItems"):
        hook.validate_params(parameters(costly))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "limits, cache_bytes"),
        ('{"thread": 1}', "threads"),
        ('{"threads": 0}', "threads"),
        ('{"max_wait": 0}', "max_wait"),
        ('{"max_wait": "9"}', "max_wait"),
        ('{"spelling": "wide"}', "canonical"),
        ('{"whitespace": {}}', "flexible"),
        ('{"forced_text": "off"}', "longest"),
        ('{"limits": {"work": -1}}', "work"),
        ('{"limits": {"wrok": 1}}', "nodes"),
    ],
)
def test_wrong_settings_keep_vllm_from_starting(monkeypatch, text, message) -> None:
    monkeypatch.setenv("FORMATTER_VLLM_SETTINGS", text)
    with pytest.raises(InvalidArgument, match=message):
        import_module("formatter_vllm.structured_outputs").register()


def test_limits_are_set_by_the_operator(engine, monkeypatch) -> None:
    monkeypatch.setenv("FORMATTER_VLLM_SETTINGS", '{"limits": {"repeat": 10}}')
    (refused,) = ask(engine, {"regex": "a{11}"})
    assert "Limits.repeat" in str(refused)
    assert ask(engine, {"regex": "a{10}"}) == ["0"]
