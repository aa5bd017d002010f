"""Every public call of every object of the llama.cpp adapter, in every state that the object can be in.

    PYTHONPATH=.:integrations PYTHON -m tests.engines_real.llama_cpp_states

PYTHON is that of an environment with llama-cpp-python and gguf. Each line that is printed is one call: the object, its
state and the call, then what came of it. A call's name is printed before it is made, so that the last line of a process
that dies says which call it was.
"""

from __future__ import annotations

import copy
import ctypes
import pickle
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from formatter_core import formats
from formatter_core.errors import FormatterError
from formatter_core.generation import Sampling, completion
from formatter_core.generation.models import StreamedValues
from formatter_llama_cpp import (
    ForcedDrafts,
    FormatterLogitsProcessor,
    FormatterSampler,
    LlamaModel,
    Request,
    Sample,
    Scheduler,
    create_logits_processor,
    create_sampler,
    create_vocabulary,
    generate_parallel,
    llama_model,
    mask_logits,
)
from formatter_llama_cpp.context import Entry, SharedContext
from formatter_llama_cpp.model import LlamaBatch
from tests.engines_real.llama_cpp_models import write_bpe

__all__ = ["CALLS", "STATES", "uncovered"]

#: In the last three, a call of another thread is going on, or the model is closed by another thread meanwhile.
STATES = ("new", "running", "finished", "closed", "owner closed", "other thread", "closed by a thread")

_LINE = formats.regex("[a-z]{3,8}( [a-z]{2,6}){1,3}[.!]")
_JOB: dict[str, Any] = {"format": _LINE, "max_tokens": 24, "sampling": Sampling(temperature=1.0, seed=5)}
_PROMPT = "the name of a person"

Call = Callable[[Any, "World"], Any]


class World:
    """A model, and one object of each kind; `begin`, `run` and `finish` bring them into their states."""

    def __init__(self, path: Path) -> None:
        self.llama = llama_cpp.Llama(
            str(path), n_ctx=256, n_threads=1, n_threads_batch=1, verbose=False, seed=1, type_k=0, type_v=0
        )
        self.vocabulary = create_vocabulary(self.llama)
        self.scheduler = Scheduler(self.llama, max_sequences=3, context_size=256)
        self.other = Scheduler(self.llama, max_sequences=1, context_size=64)
        self.request = self.scheduler.submit(_PROMPT, samples=2, **_JOB)
        self.updates = self.scheduler.run()
        self.processor = create_logits_processor(self.llama, _LINE)
        self.sampler = create_sampler(self.llama, _LINE)
        self.chain: Any = None
        self.model = llama_model(self.llama, max_sequences=4, context_size=128)
        self.batch = self.model.start([self.model.encode(_PROMPT)] * 2)
        self.drafts = ForcedDrafts()
        self.output: Any = None
        self.objects: dict[type, Any] = {
            Scheduler: self.scheduler,
            Request: self.request,
            Sample: self.request.samples[0],
            SharedContext: self.scheduler.context,
            Iterator: self.updates,
            FormatterLogitsProcessor: self.processor,
            FormatterSampler: self.sampler,
            ForcedDrafts: self.drafts,
            LlamaModel: self.model,
            LlamaBatch: self.batch,
            World: self,
        }

    def run(self) -> None:
        """Write a part of an output with each object."""
        for _ in range(2):
            next(self.updates, None)
            self.scheduler.step()
        stream = self.llama.create_completion(_PROMPT, max_tokens=20, logits_processor=self.processor, stream=True)
        for _ in range(3):
            next(stream)
        self.sample(3)
        self.batch.forward([[5], [6, 7]])

    def finish(self) -> None:
        """Write a whole output with each object."""
        for _ in self.scheduler.run():
            pass
        self.output = self.llama.create_completion(_PROMPT, max_tokens=60, logits_processor=self.processor)
        self.sample(40)
        self.batch.forward([[5], []])

    def sample(self, most: int) -> None:
        """Take tokens in a loop of our own."""
        if self.chain is None:
            self.chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
            self.sampler.add_to(self.chain)
            llama_cpp.llama_sampler_chain_add(self.chain, llama_cpp.llama_sampler_init_dist(1))
        self.llama.reset()
        self.llama.eval(self.llama.tokenize(_PROMPT.encode()))
        for _ in range(most):
            if self.sampler.formatter.is_finished:
                break
            self.llama.eval([llama_cpp.llama_sampler_sample(self.chain, self.llama.ctx, -1)])

    def certain(self, ids: np.ndarray, most: int) -> list[int]:
        """Return the requests' proposals."""
        return [len(ids), 5][:most]

    def close(self) -> None:
        """Close each object that can be closed, not the model."""
        self.scheduler.close()
        self.updates.close()
        if self.chain is not None:
            llama_cpp.llama_sampler_free(self.chain)
            self.chain = None

    def work(self) -> None:
        """Write a whole output in another thread, with each kind of object that two threads may use."""
        with suppress(FormatterError):
            for _ in self.scheduler.run():
                pass
        for _ in range(20):
            with suppress(FormatterError):
                self.batch.forward([[5]] * len(self.batch))
                self.batch.crop([4] * len(self.batch))


@contextmanager
def in_state(path: Path, state: str) -> Iterator[World]:
    """Return a world whose objects are in a state."""
    world, thread = World(path), None
    if state in ("running", "closed", "owner closed"):
        world.run()
    if state in ("finished", "closed"):
        world.finish()
    if state == "closed":
        world.close()
    if state == "owner closed":
        world.llama.close()
    if state in ("other thread", "closed by a thread"):
        for _ in range(6):
            world.scheduler.submit(_PROMPT, samples=3, **_JOB)
        thread = threading.Thread(target=world.work if state == "other thread" else world.llama.close)
        thread.start()
    try:
        yield world
    finally:
        if thread is not None:
            thread.join()
        world.close()
        world.llama.close()


def _row(world: World) -> np.ndarray:
    return np.zeros(len(world.vocabulary), dtype=np.single)


def _ids() -> np.ndarray:
    return np.array([1, 2, 3], dtype=np.intc)


def _formatter(world: World) -> Any:
    return world.processor.compiled.formatter()


def _candidates(world: World) -> Any:
    data = (llama_cpp.llama_token_data * len(world.vocabulary))(*[(n, 0.0, 0.0) for n in range(len(world.vocabulary))])
    array = llama_cpp.llama_token_data_array(data, len(data), -1, False)
    return ctypes.pointer(array)


def _in_chain(sampler: Any, world: World) -> None:
    """Put it into a chain of its own, which frees it, and sample."""
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    try:
        sampler.add_to(chain)
    finally:
        llama_cpp.llama_sampler_free(chain)


def _native(sampler: Any, _: World) -> None:
    llama_cpp.llama_sampler_free(sampler.native())


def _loop(scheduler: Any, _: World) -> int:
    return sum(1 for _ in scheduler.run())


def _with(hook: Any, _: World) -> None:
    with hook:
        pass


def _outlives(sample: Any, world: World, call: Callable[[Any], Any]) -> None:
    """Change a sequence from outside by a call, and run on to the end."""
    call(sample)
    with suppress(FormatterError):
        _loop(world.scheduler, world)


#: Methods that every object has and nobody calls on purpose.
_COPIES: dict[str, Call] = {
    "repr": lambda one, _: repr(one),
    "copy": lambda one, _: copy.copy(one),
    "deepcopy": lambda one, _: copy.deepcopy(one),
    "pickle": lambda one, _: pickle.dumps(one),
}

CALLS: dict[type, dict[str, Call]] = {
    Scheduler: {
        **_COPIES,
        "cancel": lambda one, world: one.cancel(world.request),
        "cancel of a sample": lambda one, world: one.cancel(world.request.samples[0]),
        "cancel in another": lambda one, world: world.other.cancel(world.request),
        "cancel of something else": lambda one, _: one.cancel(5),
        "close": lambda one, _: one.close(),
        "close of its context": lambda one, world: [one.context.close(), _loop(one, world)],
        "context": lambda one, _: one.context,
        "decoded": lambda one, _: one.decoded,
        "is_idle": lambda one, _: one.is_idle,
        "run": _loop,
        "step": lambda one, _: [one.step() for _ in range(3)],
        "submit": lambda one, world: [one.submit(_PROMPT, **_JOB), _loop(one, world)],
        "submit of a chat": lambda one, _: one.submit([{"role": "user", "content": "Who?"}], max_tokens=2),
        "vocabulary": lambda one, _: one.vocabulary,
        "with": _with,
    },
    Request: {
        "repr": lambda one, _: bool(repr(type(one))),
        "format": lambda one, _: one.format,
        "forced_text": lambda one, _: one.forced_text,
        "has_events": lambda one, _: one.has_events,
        "is_finished": lambda one, _: one.is_finished,
        "logits_processors": lambda one, _: one.logits_processors,
        "max_tokens": lambda one, _: one.max_tokens,
        "prompt": lambda one, _: one.prompt,
        "prompt_logits": lambda one, _: one.prompt_logits,
        "samples": lambda one, _: one.samples,
        "top": lambda one, _: one.top,
    },
    Sample: {
        "canonical": lambda one, world: one.canonical(lambda data: list(data)),
        "check": lambda one, _: one.check(),
        "choose": lambda one, world: one.choose(_row(world)),
        "fail": lambda one, world: _outlives(one, world, lambda one: one.fail(ValueError("of the test"))),
        "generated": lambda one, _: one.generated().text,
        "new_events": lambda one, _: one.new_events(),
        "new_text": lambda one, _: one.new_text(),
        "new_values": lambda one, _: one.new_values(0, 0, StreamedValues(snapshots=True, deltas=True)),
        "only_token": lambda one, _: one.only_token(),
        "output": lambda one, _: one.output and one.output.result,
        "prepare": lambda one, _: one.prepare(),
        "stop": lambda one, world: _outlives(one, world, lambda one: one.stop("cancelled")),
        "take": lambda one, world: _outlives(one, world, lambda one: one.take(50, world.vocabulary)),
        "update": lambda one, world: _outlives(one, world, lambda one: one.update(None)),
    },
    SharedContext: {
        **_COPIES,
        "batch": lambda one, _: one.batch,
        "cells_of": lambda one, _: one.cells_of([(0, 3), (1, 2)]),
        "check_open": lambda one, _: one.check_open(),
        "close": lambda one, _: one.close(),
        "context_size": lambda one, _: one.context_size,
        "decode": lambda one, _: one.decode([Entry(5, (2,), True)]),
        "logits": lambda one, _: one.logits(0).sum(),
        "max_sequences": lambda one, _: one.max_sequences,
        "share": lambda one, _: one.share(0, 2, 2),
        "tokens": lambda one, _: list(one.tokens),
        "truncate": lambda one, _: one.truncate(0, 1),
        "turns": lambda one, _: one.turns.is_mine,
        "used": lambda one, _: one.used,
        "width": lambda one, _: one.width,
    },
    Iterator: {"next": lambda one, _: next(one, None), "list": lambda one, _: list(one)},
    FormatterLogitsProcessor: {
        **_COPIES,
        "__call__": lambda one, world: one(_ids(), _row(world)),
        "append": lambda one, world: [one.append(lambda ids, scores: scores), one(_ids(), _row(world))],
        "clear": lambda one, world: [one.clear(), one(_ids(), _row(world))],
        "compiled": lambda one, _: one.compiled,
        "count": lambda one, _: one.count(5),
        "error": lambda one, _: one.error,
        "extend": lambda one, _: one.extend([]),
        "formatter": lambda one, _: one.formatter.text,
        "index": lambda one, _: one.index(list.__getitem__(one, 0)),
        "insert": lambda one, _: one.insert(0, lambda ids, scores: scores),
        "pop": lambda one, world: [one.pop(), one(_ids(), _row(world))],
        "raise_error": lambda one, _: one.raise_error(),
        "remove": lambda one, _: one.remove(list.__getitem__(one, 0)),
        "reset": lambda one, _: one.reset(),
        "result": lambda one, _: one.result(),
        "result of an output": lambda one, world: one.result(world.output or "the"),
        "result of an echo": lambda one, world: one.result(_PROMPT + " is"),
        "reverse": lambda one, _: one.reverse(),
        "sort": lambda one, _: one.sort(key=id),
        "with": _with,
    },
    FormatterSampler: {
        **_COPIES,
        "accept": lambda one, _: one.accept(50),
        "add_to": _in_chain,
        "add_to nothing": lambda one, _: one.add_to(None),
        "add_to something else": lambda one, _: one.add_to(5),
        "apply": lambda one, world: one.apply(_candidates(world)),
        "error": lambda one, _: one.error,
        "fork": lambda one, _: one.fork(),
        "formatter": lambda one, _: one.formatter.text,
        "native": _native,
        "raise_error": lambda one, _: one.raise_error(),
        "reset": lambda one, _: one.reset(),
        "result": lambda one, _: one.result(),
    },
    ForcedDrafts: {
        **_COPIES,
        "__call__": lambda one, _: one(_ids()),
        "ask": lambda one, world: [one.ask(world.certain), one(_ids())],
        "ask of something else": lambda one, _: one.ask(5),
    },
    LlamaModel: {
        **_COPIES,
        "allowed_logprobs": lambda one, world: one.allowed_logprobs(_logits(world), _allowed(world)),
        "batch_grows": lambda one, _: one.batch_grows,
        "best": lambda one, world: one.best(_logits(world), _allowed(world), 2),
        "compiler": lambda one, _: one.compiler,
        "completion": lambda one, _: completion(one, _LINE, batch=2, max_tokens=30)(["the", "a name"]),
        "deepcopy of a writer": lambda one, _: copy.deepcopy(completion(one, _LINE, max_tokens=30))("the"),
        "encode": lambda one, _: one.encode("the name"),
        "encode_chat": lambda one, _: one.encode_chat([{"role": "user", "content": "Who?"}]),
        "encode_continuation": lambda one, _: one.encode_continuation(b"the name"),
        "layout": lambda one, _: one.layout,
        "logprobs": lambda one, world: one.logprobs(_logits(world), [0], [5]),
        "max_batch": lambda one, _: one.max_batch,
        "max_length": lambda one, _: one.max_length,
        "pick": lambda one, _: one.pick,
        "start": lambda one, _: one.start([[5, 6], [5, 7, 8]]).logits.sum(),
        "vocabulary": lambda one, _: one.vocabulary,
        "weigh": lambda one, world: one.weigh(_logits(world), _allowed(world), Sampling(1.0)),
    },
    LlamaBatch: {
        **_COPIES,
        "add": lambda one, _: one.add([[5, 6, 9]]),
        "crop": lambda one, _: one.crop([2, 2]),
        "forward": lambda one, _: one.forward([[5], [6, 7]]).sum(),
        "forward_scored": lambda one, _: one.forward_scored([[5], [6, 7]]).sum(),
        "forward_tree": lambda one, _: [one.select([0]), one.forward_tree([5, 6, 7], [-1, 0, 0]).sum()],
        "len": lambda one, _: len(one),
        "logits": lambda one, _: one.logits.sum(),
        "remember": lambda one, _: one.remember(0),
        "select": lambda one, _: one.select([1, 1, 0]),
        "tokens": lambda one, _: one.tokens,
    },
    # The functions, on a model in each state.
    World: {
        "Scheduler": lambda _, world: Scheduler(world.llama, max_sequences=1).close(),
        "create_logits_processor": lambda _, world: create_logits_processor(world.llama, _LINE),
        "create_sampler": lambda _, world: create_sampler(world.llama, _LINE),
        "create_vocabulary": lambda _, world: create_vocabulary(world.llama),
        "generate_parallel": lambda _, world: generate_parallel(world.llama, ["the"], context_size=64, **_JOB),
        "llama_model": lambda _, world: llama_model(world.llama),
        "mask_logits": lambda _, world: mask_logits(world.llama, _formatter(world)),
        "mask_logits of a row that is not there": lambda _, world: mask_logits(world.llama, _formatter(world), 3),
        "mask_logits of something else": lambda _, world: mask_logits(5, _formatter(world)),
    },
}

#: Calls that change nothing, which share a world.
_READ = {*_COPIES, *CALLS[Request], "cancel in another", "cancel of something else", "context", "decoded", "is_idle"}
_READ |= {"vocabulary", "batch", "cells_of", "check_open", "context_size", "max_sequences", "tokens", "turns", "used"}
_READ |= {"width", "compiled", "count", "error", "formatter", "index", "len", "compiler", "max_length", "pick", "best"}
_READ |= {
    "allowed_logprobs",
    "weigh",
    "logprobs",
    "generated",
    "output",
    "raise_error",
    "result",
    "result of an output",
    "result of an echo",
}
_READ |= {"add_to nothing", "add_to something else", "fork", *CALLS[World]} - {"generate_parallel"}
#: Calls that two threads cannot make: the model's own context is its caller's.
_ONE_THREAD = {"generate_parallel", "mask_logits", "mask_logits of a row that is not there"}


def _logits(world: World) -> np.ndarray:
    return np.zeros((1, len(world.vocabulary)))


def _allowed(world: World) -> np.ndarray:
    return np.full((1, world.vocabulary.words), -1, dtype=np.int32)


def uncovered(path: Path) -> list[str]:
    """Return the public names of the objects that the table lacks."""
    world = World(path)
    try:
        return [
            f"{kind.__name__}.{name}"
            for kind, one in world.objects.items()
            if kind not in (World, Iterator)
            for name in dir(one)
            if not name.startswith("_") and name not in CALLS[kind] and not _is_plain(one, name)
        ]
    finally:
        world.close()
        world.llama.close()


def _is_plain(one: Any, name: str) -> bool:
    """Tell whether a name is an attribute with a value of the object itself."""
    return name in getattr(one, "__dict__", {}) or (isinstance(one, Sample) and name == "forces")


def outcome(call: Call, one: Any, world: World) -> str:
    """Return the outcome of a call in one word, or what was wrong."""
    try:
        call(one, world)
    except FormatterError as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 - whatever it is, it is to be reported
        return f"wrong: raw {error!r}"[:200]
    return "right"


def main() -> None:
    """Make every call, those that change something each in a world of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_bpe(Path(folder) / "model.gguf")
        _tell("uncovered", *uncovered(path), end="\n")
        for state in STATES:
            for kind, calls in CALLS.items():
                names = [name for name in calls if name not in _ONE_THREAD or state not in STATES[-2:]]
                alone = [[name] for name in names if name not in _READ]
                for group in [[name for name in names if name in _READ], *alone]:
                    with in_state(path, state) as world:
                        for name in group:
                            _tell(kind.__name__, state, name, "")
                            _tell(outcome(calls[name], world.objects[kind], world), end="\n")


def _tell(*words: str, end: str = "") -> None:
    sys.stdout.write("\t".join(words) + end)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
