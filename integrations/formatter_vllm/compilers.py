"""The compilers of this process, one per vocabulary; they compile at once, or beside a server's loop."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any
from weakref import WeakValueDictionary

from formatter_core import CompiledFormat, Compiler, Limits, Vocabulary, check
from formatter_core.engine.native import NativeEngine
from formatter_core.errors import BudgetTooSmall, FormatterError, LimitExceeded
from formatter_core.formats.chat_answer import ChatAnswerFormat
from formatter_core.limits.cache import ByteBoundedCache
from formatter_core.limits.forking import hold_during_fork
from formatter_core.runtime.background import BackgroundCompiler
from formatter_vllm.requests import forced_text_of, is_to_fit, read_format
from formatter_vllm.settings import Settings, read_settings

__all__ = [
    "BYTES_PER_PROGRAM_BYTE",
    "NICE",
    "SHORT_CONTENT",
    "RequestCompiler",
    "budgets_of",
    "check_budget",
    "check_content",
    "compiler_for_results",
    "compiler_of",
    "living_compilers",
    "narrowed",
]

#: A format that is compiled within these numbers takes at most some 20 ms of CPU time.
_SHORT_NODES, _SHORT_WORK = 5_000, 50_000
#: The memory of a loaded format per byte of its program: automata and masks; there are no Python objects.
BYTES_PER_PROGRAM_BYTE = 16
#: The niceness of processes and threads for costly formats, relative to the server and the model.
NICE = 10
#: Longer contents take longer even to read.
SHORT_CONTENT = 8_000


@dataclass(eq=False)
class _Ready:
    """The compiled form of a request's content."""

    compiled: CompiledFormat
    follows_prompt: bool  # whether the prompt may have opened or ended reasoning


class RequestCompiler:
    """A compiler of requests' contents for one vocabulary; it is safe to share.

    Attributes:
        compiler: the compiler of the formats.
        admission: the queue that compiles contents before requests start; None if requests do not wait.
    """

    def __init__(self, compiler: Compiler, settings: Settings) -> None:
        self.compiler = compiler
        self.admission: BackgroundCompiler[Any] | None = None
        self._settings = settings
        self._ready: ByteBoundedCache[_Ready] = ByteBoundedCache(
            settings.cache_bytes // 2, lambda ready: len(ready.compiled.program.data) * BYTES_PER_PROGRAM_BYTE
        )
        self._stored: dict[str, tuple[bytes, bool]] = {}  # while they are made ready; and if costly

    def __repr__(self) -> str:
        return f"<RequestCompiler of {self.compiler!r}>"

    def compile(self, content: str, prompt_ids: Callable[[], Sequence[int]] = tuple) -> CompiledFormat:
        """Return the compiled form of a request's content.

        It is known, is being compiled, or is compiled in this thread.

        Args:
            prompt_ids: gives the request's prompt, which may have opened or ended the reasoning of a chat answer.

        Raises:
            FormatterError: the error of reading or compiling it.
        """
        ready = self._kept(self.background.get(content))
        compiled = ready.compiled
        if not ready.follows_prompt:
            return compiled
        return self.compiler.after_prompt(compiled, prompt_ids()).with_forced_text(compiled.forced_text)

    def prepare(self, content: str, stored: bytes | None = None, *, is_costly: bool = False) -> Future[Any]:
        """Make a content ready on a thread, for `compile`; the future has the refusal, if it is refused.

        Args:
            stored: what another process compiled it to.
        """
        if stored is not None:
            self._stored[content] = stored, is_costly
        future = self.background.submit(content, is_costly=is_costly)
        future.add_done_callback(lambda _: self._stored.pop(content, None))
        return future

    @property
    def cached_bytes(self) -> int:
        """The size in bytes of the compiled formats that are cached for later requests."""
        return self._ready.bytes

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary."""
        return self.compiler.vocabulary

    @cached_property
    def failure_id(self) -> int | None:
        """An id that no text or format uses, with which failed requests end; None if there is no such id."""
        vocabulary = self.vocabulary
        ruled_out = {*vocabulary.end_ids, *vocabulary.special_tokens.values()}
        ids = range(len(vocabulary) - 1, -1, -1)
        return next((i for i in ids if i not in ruled_out and vocabulary.text_token(i) is None), None)

    @cached_property
    def background(self) -> BackgroundCompiler[_Ready]:
        """The compiler that compiles on threads, to make masks."""
        return BackgroundCompiler(self._compile, threads=self._settings.threads)

    @cached_property
    def _costly_loader(self) -> Compiler:
        """The compiler for formats that take so long to load that the masks of other requests would wait."""
        if self.compiler.engine != NativeEngine.name:
            return self.compiler
        engine = NativeEngine(shares_automata=False)
        return Compiler(self.vocabulary, engine=engine, limits=self._settings.limits, cache_bytes=0)

    @cached_property
    def _short_compiler(self) -> Compiler:
        return Compiler(self.vocabulary, limits=narrowed(self._settings.limits), cache_bytes=0)

    def check_shortly(self, content: str) -> None:
        """Raise what is wrong, as far as that takes a moment.

        Raises:
            LimitExceeded: it takes longer, whether something is wrong or not.
            FormatterError: what is wrong.
        """
        self._short_compiler.compile(read_format(_checked_short(content)))

    def _kept(self, ready: _Ready) -> _Ready:
        return self._ready.get(ready, lambda: ready)

    def _compile(self, content: str) -> _Ready:
        stored, is_costly = self._stored.pop(content, (None, False))
        if is_costly:
            _step_back()
        forced_text = forced_text_of(content) or self._settings.forced_text
        if stored is not None:
            with suppress(FormatterError):  # of another vocabulary, for example
                loader = self._costly_loader if is_costly else self.compiler
                compiled = loader.from_bytes(stored, type=Any).with_forced_text(forced_text)
                return self._kept(_Ready(compiled, follows_prompt=False))
        compiled = self.compiler.compile(read_format(content))
        for _ in _after_prompts(self.compiler, compiled):
            pass  # kept by the compiler, for prompts that end so
        follows_prompt = isinstance(compiled.format, ChatAnswerFormat)
        return self._kept(_Ready(compiled.with_forced_text(forced_text), follows_prompt))


_compilers: WeakValueDictionary[str, RequestCompiler] = WeakValueDictionary()
_lock = threading.Lock()
hold_during_fork(_lock)


def compiler_of(vocabulary: Vocabulary) -> RequestCompiler:
    """Return the compiler of an engine's vocabulary; engines of this process share it while one of them lives."""
    with _lock:
        compiler = _compilers.get(vocabulary.fingerprint)
        if compiler is None:
            settings = read_settings()
            own = Compiler(vocabulary, limits=settings.limits, cache_bytes=settings.cache_bytes // 2)
            compiler = _compilers[vocabulary.fingerprint] = RequestCompiler(own, settings)
        return compiler


def living_compilers() -> list[RequestCompiler]:
    """Return the compilers of the engines in this process."""
    with _lock:
        return list(_compilers.values())


def compiler_for_results(vocabulary: Vocabulary) -> Compiler:
    """Return the compiler of a vocabulary outside of an engine; an engine's compiler if this process has one."""
    with _lock:
        found = _compilers.get(vocabulary.fingerprint)
    return _kept_compiler(vocabulary) if found is None else found.compiler


@lru_cache(maxsize=4)
def _kept_compiler(vocabulary: Vocabulary) -> Compiler:
    return Compiler(vocabulary)


def _after_prompts(compiler: Compiler, compiled: CompiledFormat) -> Iterator[CompiledFormat]:
    """Yield the compiled forms of a chat answer after prompts that have opened or ended its reasoning."""
    format = compiled.format
    if isinstance(format, ChatAnswerFormat) and format.layout.reasoning is not None:
        for ending in (format.layout.reasoning.open, format.layout.reasoning.open + format.layout.reasoning.close):
            if not (format.reasoning == "off" and format.layout.opens_reasoning(ending)):
                yield compiler.compile(format.after(ending))


def budgets_of(compiler: Compiler, compiled: CompiledFormat) -> tuple[int, ...]:
    """Return how many tokens suffice for a complete output, for each kind of prompt that makes a difference.

    Raises:
        UnsupportedByEngine: the engine keeps no budgets.
    """
    found: list[int] = []
    for one in (compiled, *_after_prompts(compiler, compiled)):
        with suppress(BudgetTooSmall):  # it has no output that the vocabulary can spell
            found.append(one.min_tokens)
    return tuple(found)


def check_budget(budgets: tuple[int, ...] | None, max_tokens: int | None) -> None:
    """Refuse a request whose output cannot be complete within `max_tokens`, whatever its prompt.

    Args:
        budgets: see `budgets_of`; None if the output need not fit.

    Raises:
        BudgetTooSmall: it says how many tokens are enough for any prompt.
    """
    if budgets is not None and max_tokens is not None and max_tokens < min(budgets, default=sys.maxsize):
        raise BudgetTooSmall(max_tokens, max(budgets, default=None))


def check_content(content: str, max_tokens: int | None = None) -> None:
    """Raise if a request's format is invalid; check it against the engine's tokens if this process has one vocabulary.

    On an event loop, which must not block, this takes only a moment: longer checks are done by the engine, and checks
    that need `max_tokens` by the admission.

    Raises:
        FormatterError: the error of reading or compiling it.
    """
    compilers = living_compilers()
    compiler = compilers[0] if len(compilers) == 1 else None
    admission = None if compiler is None else compiler.admission
    known = None if admission is None else admission.known(content)
    if known is not None:
        check_budget(known.budgets, max_tokens)
        return
    if not _on_event_loop():
        if compiler is not None:
            compiled = compiler.compile(content)
            if is_to_fit(content):
                check_budget(budgets_of(compiler.compiler, compiled), max_tokens)
        else:
            check(read_format(content), limits=read_settings().limits)
        return
    try:
        if compiler is not None:
            compiler.check_shortly(content)
        else:
            check(read_format(_checked_short(content)), limits=narrowed(read_settings().limits))
    except LimitExceeded as error:
        if error.is_fixed:
            raise


def narrowed(limits: Limits) -> Limits:
    """Return limits that keep a compilation short."""
    return replace(limits, nodes=min(limits.nodes, _SHORT_NODES), work=min(limits.work, _SHORT_WORK))


def _step_back() -> None:
    """Have this thread, which loads only costly formats, come after the one that runs the model."""
    if sys.platform == "linux":  # elsewhere a priority is that of a whole process
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _checked_short(content: str) -> str:
    """Return the content if reading it takes only a moment.

    Raises:
        LimitExceeded: it takes longer.
    """
    if len(content) > SHORT_CONTENT:
        raise LimitExceeded("characters", SHORT_CONTENT, "the format")
    return content


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
