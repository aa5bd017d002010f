"""Forks of a process whose other threads are inside the library; each child has to use all that it inherited.

As a script, more of them: `python -m tests.core.forking --forks 500 --threads 8`.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import numpy as np

from formatter_core import Compiler, Formatter, FormatterBuilder, Vocabulary, bitmask, formats
from formatter_core.engine.protocol import GrammarEngine
from formatter_core.errors import ConcurrentUse

SECONDS = 30  # a child that takes longer is frozen
WORDS = [bytes([value]) for value in range(256)] + [b'{"', b'": ', b"true", b"false", b"12", b"abc", b"</s>"]


def schema(number: int) -> dict[str, object]:
    """One of many schemas, so that there is always one that is new."""
    properties = {f"k{number}": {"type": "string", "maxLength": 5 + number % 20}, "n": {"type": "integer"}}
    return {"type": "object", "properties": properties, "required": [f"k{number}"]}


def new_format(number: int) -> FormatterBuilder:
    builder = FormatterBuilder()
    return builder.append("answer ", builder.json(schema(number), name="value"), ".")


TEXT = b'answer {"k%d":"x","n":12}.'


class Busy:
    """Threads that compile, make masks, read results and make vocabularies without end."""

    def __init__(self, engine: str | GrammarEngine, threads: int) -> None:
        self.vocabulary = Vocabulary(WORDS, [len(WORDS) - 1])
        self.compiler = Compiler(self.vocabulary, engine=engine)
        self.shared = self.compiler.compile(new_format(0))
        self.idle = self.shared.formatter()
        self.idle.accept_bytes(TEXT[:10])
        self.of_threads = [self.shared.formatter() for _ in range(threads)]
        self.faults: list[BaseException] = []
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(threads)]

    @contextmanager
    def working(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._end.set()
            for thread in self._threads:
                thread.join()

    def _work(self, number: int) -> None:
        random = Random(number)
        own = self.of_threads[number]
        row = bitmask.allocate(1, len(self.vocabulary))[0]
        try:
            while not self._end.is_set():
                one = random.randrange(1000)
                if random.random() < 0.2:
                    use(Compiler(Vocabulary(WORDS, [len(WORDS) - 1]), engine=self.compiler.engine), one)
                elif random.random() < 0.5:
                    use(self.compiler, one)
                own.reset()
                for byte in TEXT % 0:
                    own.step(byte, row)
                _ = own.result("end").captures, own.fork().events(), own.explain(65), own.compiled.min_bytes
        except BaseException as error:  # noqa: BLE001 - raised where the threads are joined
            self.faults.append(error)

    def use_in_child(self, number: int) -> None:
        """All that a child may want of what it has inherited, and something of its own."""
        use(self.compiler, number)  # which a thread may just have been compiling
        use(self.compiler, 1000 + number)
        use(Compiler(self.vocabulary, engine=self.compiler.engine), number)
        use(Compiler(Vocabulary(WORDS, [len(WORDS) - 1]), engine=self.compiler.engine), number)
        finish(self.shared.formatter(), TEXT % 0)
        finish(self.idle.fork(), (TEXT % 0)[10:])
        finish(self.idle, (TEXT % 0)[10:])
        assert self.shared.min_bytes > 0
        assert gc.isenabled()
        for other in self.of_threads:
            try:
                other.reset()
                finish(other, TEXT % 0)
            except ConcurrentUse:  # of a thread that was using it at the fork, and that this process does not have
                continue


def use(compiler: Compiler, number: int) -> None:
    finish(compiler.compile(new_format(number)).formatter(), TEXT % number)
    compiler.compile(formats.regex(f"[a-c]{{{number}}}")).formatter().fill_bitmask(
        np.zeros(compiler.vocabulary.words, dtype=np.int32)
    )


def finish(formatter: Formatter, text: bytes) -> None:
    row = bitmask.allocate(1, len(WORDS))[0]
    for byte in text:
        formatter.step(byte, row)
    result = formatter.result("end")
    assert result.is_complete
    assert result.captures["value"][0]["n"] == 12


def outcome_of_child(run: Callable[[], None]) -> str:
    """Run in a forked child; return "ok", "frozen" or "failed"."""
    process = os.fork()
    if process == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        try:
            run()
        except BaseException:  # noqa: BLE001 - the child says what it was, and ends
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return "frozen" if os.WTERMSIG(status) == signal.SIGALRM else "failed"
    return "ok" if os.WEXITSTATUS(status) == 0 else "failed"


def outcomes(engine: str | GrammarEngine, threads: int, forks: int, seed: int = 1) -> Counter[str]:
    """The outcomes of many children, by how often they came."""
    random = Random(seed)
    busy = Busy(engine, threads)
    found: Counter[str] = Counter()
    with busy.working():
        for _ in range(forks):
            time.sleep(random.random() / 100)
            number = random.randrange(1, 1000)
            found[outcome_of_child(lambda number=number: busy.use_in_child(number))] += 1  # type: ignore[misc]
    if busy.faults:
        raise busy.faults[0]
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--engine", default="native")
    arguments.add_argument("--threads", type=int, default=8)
    arguments.add_argument("--forks", type=int, default=500)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    found = outcomes(given.engine, given.threads, given.forks, given.seed)
    sys.stdout.write(f"{dict(found)}\n")
    return int(set(found) != {"ok"})


if __name__ == "__main__":
    sys.exit(main())
