"""One vocabulary, one compile, many sequences; and no long native call stops the other threads."""

from __future__ import annotations

import gc
import random
import threading
import time
import weakref
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.engine import native, native_library
from formatter_core.engine.native import NativeEngine
from formatter_core.engine.native_calls import MakingCalls, StepCalls, making_calls, step_calls
from formatter_core.engine.protocol import OneByOne
from formatter_core.runtime.compilers import CompilersByOwner
from tests.threads import in_threads

from .conftest import END, TOKENS


class Counting:
    """A grammar engine that counts its compiles and the sequences that each grammar begins."""

    def __init__(self, engine) -> None:
        self.name, self._engine = engine.name, engine
        self.counts: Counter[str] = Counter()

    def compile(self, grammar, vocabulary, limits):
        self.counts["compiled"] += 1
        compiled, counts = self._engine.compile(grammar, vocabulary, limits), self.counts

        class Started(OneByOne):
            def start(self):
                counts["started"] += 1
                return compiled.start()

        return Started()


def test_many_sequences_are_one_compile(compiler: Compiler) -> None:
    engine = Counting(compiler._engine)
    counted = Compiler(compiler.vocabulary, engine=engine)
    formatters = []
    for _ in range(6):
        formatter = counted.compile(formats.regex("(ab|c){2,5}")).formatter()
        formatter.accept_tokens(b"abc")
        formatters += [formatter, formatter.fork()]
    assert all(formatter.text == "abc" for formatter in formatters)
    assert engine.counts == {"compiled": 1, "started": 6}


@pytest.mark.contract("vocabularies, compilers and compiled formats may be shared")
def test_threads_share_one_compile(compiler: Compiler) -> None:
    engine = Counting(compiler._engine)
    counted = Compiler(compiler.vocabulary, engine=engine)
    found = in_threads(lambda _: counted.compile({"type": "array", "items": {"type": "integer"}}))
    assert len(set(map(id, found))) == 1
    assert engine.counts["compiled"] == 1


def test_a_vocabulary_becomes_tables_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    make = native._Vocabulary.__init__

    def counted(self, library, vocabulary) -> None:
        built.append(vocabulary)
        make(self, library, vocabulary)

    monkeypatch.setattr(native._Vocabulary, "__init__", counted)
    vocabulary = Vocabulary(TOKENS, [END])
    for compiler in (Compiler(vocabulary, engine="native"), Compiler(vocabulary, engine=NativeEngine())):
        for pattern in ("a+", "b+", "[a-z]{3}"):
            compiler.compile(formats.regex(pattern)).formatter().accept_token(ord(pattern[0].replace("[", "a")))
    assert built == [vocabulary]


class Watched:
    """The native library; measures for how long no other thread came to take a step during each call.

    A step needs the GIL. So a call that holds it sees no step for at least the CPU time that it uses, however busy the
    machine is.
    """

    def __init__(self) -> None:
        self._library = native_library.load()
        self._steps: list[float] = []
        self._over = threading.Event()
        self._walker = threading.Thread(target=self._walk)
        self.waits: defaultdict[str, list[float]] = defaultdict(list)
        """By function: the longest time without a step, as a share of the call's CPU time."""

    def __enter__(self) -> Watched:
        self._walker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._walker.join()

    def _walk(self) -> None:
        while not self._over.is_set():
            self._steps.append(time.perf_counter())
            time.sleep(0.0002)

    def __getattr__(self, name: str):
        return self.watched(name, getattr(self._library, name))

    def step_calls(self, _: object) -> StepCalls:
        """Instead of the function of the same name."""
        functions = step_calls(self._library)._asdict()
        return StepCalls(**{name: self.watched(name, function) for name, function in functions.items()})

    def making_calls(self, _: object) -> MakingCalls:
        """Return the functions that make things, watched as well."""
        functions = making_calls(self._library)._asdict()
        return MakingCalls(**{name: self.watched(name, function) for name, function in functions.items()})

    def watched(self, name: str, function):

        def watched(*arguments):
            first, used, start = len(self._steps), time.thread_time(), time.perf_counter()
            answer = function(*arguments)
            used, end = time.thread_time() - used, time.perf_counter()
            times = [start, *(step for step in self._steps[first:] if start < step < end), end]
            if used > 0.001:
                self.waits[name].append(max(after - before for before, after in pairwise(times)) / used)
            return answer

        return watched


def test_other_threads_run_while_the_native_engine_compiles_and_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    long_calls = ("fcn_vocabulary_new", "new_grammar", "fill")
    draw = random.Random(1)
    with Watched() as library:
        monkeypatch.setattr(native, "step_calls", library.step_calls)
        monkeypatch.setattr(native, "making_calls", library.making_calls)
        for _ in range(20):  # a busy machine may not let the other thread run even where it could
            tokens = sorted({bytes(draw.choices(b"abcdef", k=draw.randint(1, 40))) for _ in range(40_000)})
            words = ["".join(draw.choices("abcdef", k=12)) for _ in range(12_000)]
            engine = NativeEngine()
            engine._library = library
            compiler = Compiler(Vocabulary([*tokens, None], [len(tokens)]), engine=engine)
            assert compiler.compile(formats.choice(words)).formatter().allowed_tokens()
            shortest = {name: min(library.waits[name], default=1) for name in long_calls}
            if max(shortest.values()) < 0.7:
                break
    assert max(shortest.values()) < 0.7, shortest


class Tokenizer:
    """Whatever an adapter reads a vocabulary from; it can be held weakly."""


class TestCompilersByOwner:
    def read(self) -> Vocabulary:
        self.readings = getattr(self, "readings", 0) + 1
        return Vocabulary(TOKENS, [END])

    def test_one_for_each_owner_and_key(self) -> None:
        compilers, first, second = CompilersByOwner(), Tokenizer(), Tokenizer()
        asked = [(first, None), (first, (END,)), (second, None)] * 2
        found = [compilers.get(owner, key, self.read) for owner, key in asked]
        assert found[:3] == found[3:]
        assert len(set(found)) == self.readings == 3

    def test_a_reading_that_fails_is_not_kept(self) -> None:
        compilers, owner = CompilersByOwner(), Tokenizer()

        def fails() -> Vocabulary:
            raise ValueError("not now")

        with pytest.raises(ValueError, match="not now"):
            compilers.get(owner, None, fails)
        assert compilers.get(owner, None, self.read).vocabulary.end_ids == (END,)

    def test_compilers_go_with_their_owner(self) -> None:
        compilers, owner = CompilersByOwner(), Tokenizer()
        compiler = weakref.ref(compilers.get(owner, None, self.read))
        assert compiler() is not None
        del owner
        gc.collect()
        assert compiler() is None

    def test_threads_read_once(self) -> None:
        compilers, owner = CompilersByOwner(), Tokenizer()
        found = in_threads(lambda _: compilers.get(owner, None, self.read))
        assert len(set(found)) == self.readings == 1
