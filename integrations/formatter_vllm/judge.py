"""A process that finds out whether formats compile, so that the event loop of a server never waits for Python's lock.

A thread that compiles would hold that lock most of the time, and the loop asks for it again after each message that it
sends. So the threads of the admission send what they compile to processes like this one, and wait for the verdict.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from formatter_core import Compiler, Limits, Vocabulary
from formatter_core.errors import EngineFailed, FormatterError
from formatter_vllm.requests import read_format

__all__ = ["Judge"]

_MODULE = "formatter_vllm.judge"


class Judge:
    """One such process, begun with the first question; one thread at a time may ask. It ends when this object goes.

    Args:
        vocabulary: the tokens to compile for.
        limits: what one format may cost.
        nice: how far behind others the process comes if all need the same processors.
    """

    def __init__(self, vocabulary: Vocabulary, limits: Limits, nice: int = 0) -> None:
        self._settings = (vocabulary, limits, nice)
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Judge of {self._settings[0]!r}, {self._settings[1]}>"

    def check(self, content: str) -> None:
        """Raise what is wrong with a content.

        Raises:
            FormatterError: whatever reading and compiling it raise.
            EngineFailed: the process died of it.
        """
        with self._lock:
            try:
                if self._running is None:
                    self._running = self._start()
                _, pipe = self._running
                pipe.send(content)
                error = pipe.recv()
            except (OSError, EOFError) as fault:
                self.close()
                raise EngineFailed("native", "the process that compiles formats died") from fault
        if error is not None:
            raise error

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
        process = subprocess.Popen(words, pass_fds=[theirs.fileno()], env=env)  # noqa: S603 - a module of ours
        theirs.close()
        ours.send(self._settings)
        return process, ours


def _serve(pipe: Connection) -> None:
    """Answer until the other side is closed."""
    vocabulary, limits, nice = pipe.recv()
    os.nice(nice)
    compiler = Compiler(vocabulary, limits=limits, cache_bytes=0)  # those who ask keep the verdicts
    while True:
        try:
            content = pipe.recv()
        except EOFError:
            return
        try:
            compiler.compile(read_format(content))
            error: Exception | None = None
        except FormatterError as found:
            error = found.with_traceback(None)
        except Exception as found:  # noqa: BLE001 - the answer to this content, and no end of the process
            error = EngineFailed("native", repr(found))
        pipe.send(error)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
