"""Requests of a server wait here until their format is compiled, so that no other request waits for it.

Processes beside that of the server find out whether a format compiles. It is refused with HTTP 400 if something is
wrong with it, and with 503 if too many costly ones wait. Then the workers compile it, on threads beside their steps,
and only then its request is sent to them.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary, ref

from formatter_core.errors import FormatterError, QueueFull
from formatter_core.runtime.background import BackgroundCompiler
from formatter_vllm import _compat, _compat_beams, _compat_parameters, _compat_server, metrics
from formatter_vllm.compilers import SHORT_CONTENT, RequestCompiler, compiler_of, living_compilers, narrowed
from formatter_vllm.judge import Judge
from formatter_vllm.requests import content_of, content_of_structured_outputs
from formatter_vllm.settings import read_settings
from formatter_vllm.vocabulary import create_vocabulary, logger

__all__ = ["Admission", "install", "prepare"]

#: The name of `prepare` as a method of vLLM's workers.
_METHOD = "formatter_prepare"
#: Seconds after which a thread that compiles lets the loop of the server or the worker go on; Python has 0.005.
_SWITCH_SECONDS = 0.001
#: How far behind the server and the model the processes for costly formats come if all need the same processors.
_NICE = 10
#: How many contents that compile are remembered.
_KEPT = 1000
#: Seconds between two questions whether the workers are ready.
_PAUSE = 0.01
#: Seconds after which a format that nobody has looked at needs a place among the costly ones. Where the server has its
#: processors, it is looked at long before; where others take them, honest requests are worth this wait.
_PATIENCE = 1.0


def install(structured_outputs_of: Callable[[Any, Any], tuple[str, str, bool] | None] | None = None) -> None:
    """Have requests wait for their formats in every asynchronous engine of this process; may be called again.

    Args:
        structured_outputs_of: by vLLM's configuration and parameters of a request, the kind of structured outputs that
            it asks for, what goes with it, and whether it stands behind reasoning; None where our backend keeps none.
    """
    admissions: WeakKeyDictionary[Any, Admission] = WeakKeyDictionary()
    failure_ids: set[int] = set()

    async def admit(engine: Any, parameters: Any) -> None:
        content, outcome, began = "", "refused", monotonic()
        try:
            own = content_of(_compat_parameters.arguments_of(parameters))
            if own is not None:
                content = own
            else:
                config = getattr(_compat_server.config_of(engine), "structured_outputs_config", None)
                wanted = None if structured_outputs_of is None else structured_outputs_of(config, parameters)
                if wanted is None:
                    return
                content = content_of_structured_outputs(*wanted)
            if engine not in admissions:
                admissions[engine] = Admission(engine)
            await admissions[engine].admit(content)
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

    def check_beams(arguments: Any, is_structured: bool) -> None:
        try:
            is_refused = content_of(arguments) is not None or (is_structured and structured_outputs_of is not None)
        except FormatterError as error:
            raise _compat_server.invalid_error(str(error)) from None
        if is_refused:
            raise _compat_server.invalid_error("beam search in vLLM keeps no format; leave use_beam_search out")

    sys.setswitchinterval(_SWITCH_SECONDS)
    _compat_beams.refuse_beams(check_beams)
    _compat_server.add_to_workers(_METHOD, lambda _, *arguments: prepare(*arguments))
    if _compat_server.wrap_add_request(admit):
        _compat_server.report_failures(failure_ids, metrics.count_failure)


class Admitted:
    """A content that compiles."""

    is_prepared = False


class Admission:
    """The waiting room of one engine.

    Attributes:
        failure_id: the id with which requests of the logits processor end if they fail, so that vLLM reports an error.
    """

    def __init__(self, engine: Any) -> None:
        self.failure_id: int | None = None
        self._engine = ref(engine)
        self._loop = asyncio.get_running_loop()
        self._background: asyncio.Future[BackgroundCompiler[Admitted] | None] | None = None
        self._compiler: RequestCompiler | None = None  # held for the hook, which finds there what was admitted
        self._kept: deque[Admitted] = deque(maxlen=_KEPT)

    async def admit(self, content: str) -> None:
        """Return when the engine can begin with a request for this content at once.

        Raises:
            FormatterError: it is refused, or `QueueFull`.
        """
        if self._background is None:
            self._background = asyncio.ensure_future(asyncio.to_thread(self._begin))
        background = await asyncio.shield(self._background)
        if background is None:  # the logits processor says that there is no tokenizer
            return
        is_costly = len(content) > SHORT_CONTENT or None  # a full queue is reported at once
        waiting = asyncio.wrap_future(background.submit(content, is_costly=is_costly))
        await asyncio.wait([waiting], timeout=_PATIENCE)
        background.reserve(content)
        admitted = await asyncio.shield(waiting)
        if not admitted.is_prepared:
            await self._prepare(content, is_costly=False)
            admitted.is_prepared = True

    def _begin(self) -> BackgroundCompiler[Admitted] | None:
        """Read the engine's tokens: at the first request, on a thread."""
        compiler = _compiler_for(_compat_server.config_of(self._engine()))
        if compiler is None:
            return None
        self._compiler, self.failure_id = compiler, compiler.failure_id
        settings = read_settings()
        short = Judge(compiler.vocabulary, narrowed(settings.limits), nice=0)
        judges: SimpleQueue[Judge] = SimpleQueue()
        for _ in range(settings.threads):
            judges.put(Judge(compiler.vocabulary, settings.limits, nice=_NICE))
        compiler.admission = BackgroundCompiler(
            partial(self._check_and_prepare, judges),
            try_shortly=partial(self._check_shortly, short),
            threads=settings.threads,
            queue_size=settings.queue_size,
        )
        return compiler.admission

    def _check_shortly(self, judge: Judge, content: str) -> Admitted:
        judge.check(content)
        return self._admitted()

    def _check_and_prepare(self, judges: SimpleQueue[Judge], content: str) -> Admitted:
        """Check a costly content, and wait for the workers, which never get more of them than there are threads."""
        judge = judges.get()
        try:
            judge.check(content)
        finally:
            judges.put(judge)
        asyncio.run_coroutine_threadsafe(self._prepare(content, is_costly=True), self._loop).result()
        admitted = self._admitted()
        admitted.is_prepared = True
        return admitted

    def _admitted(self) -> Admitted:
        admitted = Admitted()
        self._kept.append(admitted)
        return admitted

    async def _prepare(self, content: str, *, is_costly: bool) -> None:
        """Wait until all workers have compiled this content."""
        engine = self._engine()
        while engine is not None and not all(await _compat_server.call_workers(engine, _METHOD, content, is_costly)):
            await asyncio.sleep(_PAUSE)


def _compiler_for(config: Any) -> RequestCompiler | None:
    try:
        tokenizer = _compat.tokenizer_of(config)
        return None if tokenizer is None else compiler_of(create_vocabulary(tokenizer, model=config))
    except Exception as error:  # noqa: BLE001 - requests without a format are served all the same
        logger.warning("formatter_vllm cannot serve formats with this tokenizer: %s", error)
        return None


def prepare(content: str, is_costly: bool) -> bool:
    """In a worker, between two steps: whether a request for this content can begin at once; if not, it is compiled.

    A content that is refused is ready: its request says so.
    """
    try:
        compilers = living_compilers()
        futures = [compiler.background.submit(content, is_costly=is_costly) for compiler in compilers]
        return all(future.done() and not isinstance(future.exception(), QueueFull) for future in futures)
    except QueueFull:
        return False
