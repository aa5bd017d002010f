"""Admission of requests: a request waits here until its format is compiled, so that no other request waits for it.

Separate processes compile formats, the cheap ones first, and those of each client in turn. A request is refused with
HTTP 400 if its format is invalid, and with 503 if it would wait too long in the queue. Then the processes that make
masks load the compiled format on background threads, and only then the request is sent to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import chain, starmap, zip_longest
from queue import SimpleQueue
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary, ref

from formatter_core.errors import FormatterError, QueueFull
from formatter_core.limits.cache import ByteBoundedCache
from formatter_core.runtime.background import BackgroundCompiler
from formatter_vllm import (
    _compat,
    _compat_beams,
    _compat_engine,
    _compat_failures,
    _compat_parameters,
    _compat_server,
    failures,
    metrics,
    rust_front_end,
)
from formatter_vllm._compat_sources import say
from formatter_vllm.compilers import (
    BYTES_PER_PROGRAM_BYTE,
    NICE,
    SHORT_CONTENT,
    RequestCompiler,
    check_budget,
    compiler_of,
    living_compilers,
    narrowed,
)
from formatter_vllm.figures import figures, totals
from formatter_vllm.judge import Judge, Verdict
from formatter_vllm.preparation import METHOD, Preparation, prepare
from formatter_vllm.requests import KEY, content_of, content_of_structured_outputs
from formatter_vllm.settings import read_settings
from formatter_vllm.vocabulary import create_vocabulary, logger

__all__ = ["Admission", "install"]

#: The name of `figures` as a method of vLLM's workers and schedulers, and the seconds after which it is called again.
_FIGURES, _INTERVAL = "formatter_figures", 5.0
#: Seconds to wait for the cause of a failure.
_PATIENCE = 5.0


def install(structured_outputs_of: Callable[[Any, Any], tuple[str, str, bool] | None] | None = None) -> None:
    """Make requests wait for their formats in every asynchronous engine of this process; this may be called again.

    Args:
        structured_outputs_of: gives, for vLLM's configuration and a request's parameters, the kind of structured
            outputs, their specification, and whether they follow reasoning; None if this backend serves none.
    """
    admissions: WeakKeyDictionary[Any, Admission] = WeakKeyDictionary()
    failure_ids: set[int] = set()

    async def admit(engine: Any, request_id: str, parameters: Any) -> None:
        content, outcome, began = "", "refused", monotonic()
        try:
            own = content_of(_compat_parameters.arguments_of(parameters))
            if own is not None:
                content = own
            else:
                config = getattr(_compat_engine.config_of(engine), "structured_outputs_config", None)
                wanted = None if structured_outputs_of is None else structured_outputs_of(config, parameters)
                if wanted is None:
                    return
                content = content_of_structured_outputs(*wanted)
            if engine not in admissions:
                admissions[engine] = Admission(engine)
                _compat_server.know_clients()
                _compat_failures.report_failures(failure_ids)
            max_tokens = _compat_parameters.max_tokens_of(parameters)
            await admissions[engine].admit(content, max_tokens, is_structured=own is None)
            if own is not None:
                _compat_parameters.set_request_id(parameters, request_id)
            failure_id = None if own is None else admissions[engine].failure_id
            if failure_id is not None:
                _compat_parameters.add_stop_id(parameters, failure_id)
                failure_ids.add(failure_id)
            outcome = "admitted"
        except QueueFull as error:
            outcome = "busy"
            raise _compat_server.busy_error(str(error)) from None
        except FormatterError as error:
            raise _compat_server.invalid_error(str(error)) from None
        finally:
            if content:
                metrics.count_request(content, outcome, monotonic() - began)

    def has_format(parameters: Any) -> bool:
        has_own = structured_outputs_of is not None and getattr(parameters, "structured_outputs", None) is not None
        return has_own or KEY in (_compat_parameters.arguments_of(parameters) or {})

    def check_beams(arguments: Any, is_structured: bool) -> None:
        try:
            is_refused = content_of(arguments) is not None or (is_structured and structured_outputs_of is not None)
        except FormatterError as error:
            raise _compat_server.invalid_error(str(error)) from None
        if is_refused:
            raise _compat_server.invalid_error("vLLM's beam search does not enforce formats; leave use_beam_search out")

    def say_beams(name: str) -> None:
        say("beam search beside a format is not refused in a %s: it has no to_beam_search_params", name)

    _compat_beams.refuse_beams(check_beams, say_beams)
    _compat_engine.add_method(_FIGURES, lambda _: figures(sum(one.cached_bytes for one in living_compilers())))
    _compat_engine.add_method(METHOD, lambda _, new, asked: prepare(new, asked))
    _compat_engine.add_method(failures.METHOD, lambda _, request_id: failures.cause_of(request_id))
    if not _compat_engine.wrap_add_request(admit):
        say("requests wait for their formats inside the engine, without figures: AsyncLLM.add_request is not as needed")
    if rust_front_end.is_in_front():
        rust_front_end.install(structured_outputs_of, _compiler_for)
    if not _compat_failures.can_report_failures():
        say('requests whose format fails end with "stop": OutputProcessor.process_outputs is not as needed')
    elif not _compat_failures.explain_failures(has_format, _cause_of):
        say("why a request failed is in the log alone, not in the answer: AsyncLLM.generate is not as needed")


class Admitted:
    """A content that was compiled successfully.

    Attributes:
        stored: the compiled format as bytes, until a process has loaded it.
        is_costly: whether compiling it took long.
        size: bytes of the compiled format.
        budgets: the numbers of tokens that are enough; None if the output need not fit.
        prepared: by whether it is in structured outputs, whether the processes that make masks have it.
    """

    def __init__(self, verdict: Verdict, *, is_costly: bool) -> None:
        self.stored = verdict.stored
        self.is_costly = is_costly
        self.size = verdict.size * BYTES_PER_PROGRAM_BYTE
        self.budgets = verdict.budgets
        self.prepared: set[bool] = set()


class Admission:
    """The waiting room of one engine.

    Attributes:
        failure_id: the id with which requests of the logits processor end if they fail, so that vLLM reports an error.
    """

    def __init__(self, engine: Any) -> None:
        self.failure_id: int | None = None
        self._engine = ref(engine)
        self._preparation = Preparation(self._engine)
        self._watching: asyncio.Task[None] | None = None
        self._background: asyncio.Future[BackgroundCompiler[Admitted] | None] | None = None
        self._compiler: RequestCompiler | None = None  # kept alive for the hook, which finds the admitted contents here
        # Less than the processes that make masks keep, so that these still have what is known here.
        self._kept: ByteBoundedCache[Admitted] = ByteBoundedCache(
            read_settings().cache_bytes // 4, lambda one: one.size
        )

    async def admit(self, content: str, max_tokens: int | None, *, is_structured: bool) -> None:
        """Wait until the engine can begin with a request for this content at once.

        Args:
            max_tokens: the request's limit on output tokens.
            is_structured: whether the content is in vLLM's structured outputs.

        Raises:
            FormatterError: the content is refused, or `QueueFull`.
        """
        if self._background is None:
            self._background = asyncio.ensure_future(asyncio.to_thread(self._begin))
        background = await asyncio.shield(self._background)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        if background is None:  # the logits processor says that there is no tokenizer
            return
        is_costly = len(content) > SHORT_CONTENT or None
        future = background.submit(content, is_costly=is_costly, client=_compat_server.client_of_request())
        admitted = await asyncio.shield(asyncio.wrap_future(future))  # other requests may wait for the same content
        self._kept.get(admitted, lambda: admitted)
        check_budget(admitted.budgets, max_tokens)
        if is_structured not in admitted.prepared:
            await self._prepare(content, admitted, is_structured)
            admitted.prepared.add(is_structured)

    def _begin(self) -> BackgroundCompiler[Admitted] | None:
        """Read the engine's tokens: at the first request, on a thread."""
        compiler = _compiler_for(_compat_engine.config_of(self._engine()))
        if compiler is None:
            return None
        self._compiler, self.failure_id = compiler, compiler.failure_id
        settings = read_settings()
        short = Judge(compiler.vocabulary, narrowed(settings.limits), nice=0)
        judges: SimpleQueue[Judge] = SimpleQueue()
        for _ in range(settings.threads):
            judges.put(Judge(compiler.vocabulary, settings.limits, nice=NICE))
        compiler.admission = BackgroundCompiler(
            partial(self._check, judges),
            try_shortly=lambda content: self._admitted(short.check(content), is_costly=False),
            threads=settings.threads,
            max_wait=settings.max_wait,
            queue_size=settings.queue_size,
        )
        return compiler.admission

    def _check(self, judges: SimpleQueue[Judge], content: str) -> Admitted:
        judge = judges.get()
        try:
            return self._admitted(judge.check(content), is_costly=True)
        finally:
            judges.put(judge)

    def _admitted(self, verdict: Verdict, *, is_costly: bool) -> Admitted:
        metrics.observe_compile(verdict.seconds)
        admitted = Admitted(verdict, is_costly=is_costly)
        return self._kept.get(admitted, lambda: admitted)

    async def _prepare(self, content: str, admitted: Admitted, is_structured: bool) -> None:
        """Have the processes that make masks load this content."""
        stored, admitted.stored = admitted.stored, None
        preparation = self._preparation
        prepare = preparation.by_schedulers if is_structured else preparation.by_workers
        await prepare(content, stored, is_costly=admitted.is_costly)

    async def _watch(self) -> None:
        """Keep the metrics up to date with the figures of all processes, while the engine lives: in one API server."""
        while metrics.is_owner() and (engine := self._engine()) is not None:
            try:
                workers = await _compat_engine.call_workers(engine, _FIGURES)
                schedulers = await _compat_engine.call_schedulers(engine, _FIGURES)
            except Exception as error:  # noqa: BLE001 - metrics are worth no request; vLLM reports an engine that died
                logger.debug("the metrics are no longer updated: %s", error)
                return
            metrics.update(starmap(totals, zip_longest(workers, schedulers)))
            del engine
            await asyncio.sleep(_INTERVAL)


async def _cause_of(engine: Any, request_id: str) -> str | None:
    """Return the reason why a request failed, from the processes that make masks; None if none of them has one."""
    try:
        asked = _compat_engine.call_workers, _compat_engine.call_schedulers
        asking = asyncio.gather(*(ask(engine, failures.METHOD, request_id) for ask in asked))
        workers, schedulers = await asyncio.wait_for(asking, _PATIENCE)
    except Exception as error:  # noqa: BLE001 - vLLM's own error is the answer then
        logger.debug("why request %s failed is not known: %s", request_id, error)
        return None
    return next((cause for cause in (*chain.from_iterable(workers), *schedulers) if cause is not None), None)


def _compiler_for(config: Any) -> RequestCompiler | None:
    try:
        tokenizer = _compat.tokenizer_of(config)
        return None if tokenizer is None else compiler_of(create_vocabulary(tokenizer, model=config))
    except Exception as error:  # noqa: BLE001 - requests without a format are served all the same
        logger.warning("formatter_vllm cannot serve formats with this tokenizer: %s", error)
        return None
