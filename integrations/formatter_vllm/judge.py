"""A process that compiles formats, so that neither a server's event loop nor a step of the model waits for compiling.

A compiling thread holds the GIL most of the time, and the loop needs the GIL again after each message that it sends. So
the threads of the admission send contents to processes like this one. The verdict contains the compiled format as
bytes, which the workers load in a fraction of the time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from ctypes import CDLL
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from time import process_time
from typing import Any, NamedTuple

from formatter_core import Compiler, Limits, Vocabulary
from formatter_core.errors import EngineFailed, FormatterError, InvalidFormat
from formatter_core.formats.chat_answer import ChatAnswerFormat
from formatter_vllm.compilers import budgets_of
from formatter_vllm.requests import is_to_fit, read_format

__all__ = ["Judge", "Verdict"]

_MODULE = "formatter_vllm.judge"


class Verdict(NamedTuple):
    """The result of compiling a content in a separate process.

    Attributes:
        seconds: the CPU seconds of compiling.
        size: bytes of the compiled format's program.
        stored: the compiled format as bytes; None if it still depends on the prompt.
        budgets: the numbers of tokens that are enough, from `budgets_of`; None if the output need not fit.
    """

    seconds: float = 0.0
    size: int = 0
    stored: bytes | None = None
    budgets: tuple[int, ...] | None = None


class Judge:
    """A process that compiles. It starts with the first request, serves one thread at a time, and ends when this object
    is freed.

    Args:
        vocabulary: the tokens to compile for.
        limits: bounds on the cost of one format.
        nice: the niceness of the process.
    """

    def __init__(self, vocabulary: Vocabulary, limits: Limits, nice: int = 0) -> None:
        self._settings = (vocabulary, limits, nice)
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Judge of {self._settings[0]!r}, {self._settings[1]}>"

    def check(self, content: str) -> Verdict:
        """Compile a content, or raise its error.

        Raises:
            FormatterError: any error of reading and compiling it.
            EngineFailed: the process died while compiling it.
        """
        with self._lock:
            try:
                if self._running is None:
                    self._running = self._start()
                _, pipe = self._running
                pipe.send(content)
                answer: tuple[Any, ...] | Exception = pipe.recv()
            except (OSError, EOFError) as fault:
                self.close()
                raise EngineFailed("native", "the process that compiles formats died") from fault
        if isinstance(answer, Exception):
            raise answer
        return Verdict(*answer)

    def close(self) -> None:
        """End the process; the next question begins another one."""
        running, self._running = self._running, None
        if running is not None:
            process, pipe = running
            pipe.close()
            process.kill()
            process.wait()

    def _start(self) -> tuple[subprocess.Popen[bytes], Connection]:
        ours, theirs = Pipe()
        words = [sys.executable, "-m", _MODULE, str(theirs.fileno())]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(words, pass_fds=[theirs.fileno()], env=env)  # noqa: S603 - a module of this package
        theirs.close()
        ours.send(self._settings)
        return process, ours


def _serve(pipe: Connection) -> None:
    """Answer until the other side is closed."""
    vocabulary, limits, nice = pipe.recv()
    os.nice(nice)
    compiler = Compiler(vocabulary, limits=limits, cache_bytes=0)  # the callers keep the verdicts
    while True:
        try:
            content = pipe.recv()
        except EOFError:
            return
        try:
            answer: tuple[Any, ...] | Exception = tuple(_verdict(compiler, content))
        except FormatterError as found:
            answer = found.with_traceback(None)
        except Exception as found:  # noqa: BLE001 - the answer to this content, and no end of the process
            answer = EngineFailed("native", repr(found))
        pipe.send(answer)
        _return_memory()


def _verdict(compiler: Compiler, content: str) -> Verdict:
    begun = process_time()
    compiled = compiler.compile(read_format(content))
    seconds, stored = process_time() - begun, None
    if not isinstance(compiled.format, ChatAnswerFormat):
        with suppress(InvalidFormat):  # a format that cannot be stored is compiled again
            stored = compiled.to_bytes()
    budgets = budgets_of(compiler, compiled) if is_to_fit(content) else None
    return Verdict(seconds, len(compiled.program.data), stored, budgets)


def _return_memory() -> None:
    """Give back to the system what a compile needed for a while; glibc alone keeps hundreds of megabytes."""
    with suppress(OSError, AttributeError):  # another C library
        CDLL(None).malloc_trim(0)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
