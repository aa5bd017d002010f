"""Wrong calls of adapters raise errors of ours, whatever the arguments: vocabularies, hooks, results, models."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="most adapters need torch")
pytest.importorskip("tokenizers", reason="makes a tokenizer")

import torch

from formatter_core import formats
from formatter_core.errors import InvalidArgument, MalformedAnswer
from formatter_core.generation import ScoreSettings, choose, completion, continuation, greedy
from formatter_core.generation.models import TextRequest
from tests.adapters import exllamav3_stand_ins
from tests.adapters.exllamav2_stand_ins import exllamav2_of, sample, tokenizer_of
from tests.adapters.exllamav3_stand_ins import Generator, Job, exllamav3_of
from tests.adapters.llama_cpp_stand_ins import Llama, llama_cpp_of
from tests.adapters.mlx_stand_ins import mlx_of
from tests.adapters.openai_stand_ins import Answer, StandIn, client_of
from tests.adapters.transformers_loops import generate, provide_transformers
from tests.adapters.vllm_engines import ENDS, make_tokenizer
from tests.adapters.vllm_stand_ins import vllm_of
from tests.core.wrong_calls import WRONG, Call, raw_errors

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

FORMAT = formats.regex("[ab]+")


@contextmanager
def transformers_of(_: str) -> Iterator[None]:
    provide_transformers()
    yield


class Tokenizer:
    """A tokenizer for the transformers adapter, of a class that can be referred to weakly."""

    def __init__(self) -> None:
        self._tokenizer = make_tokenizer()

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self._tokenizer.id_to_token(token) for token in ids]


#: The package, what makes its stand-ins, a release of the engine, and names that are called with (tokenizer, format).
ADAPTERS: dict[str, tuple[Callable[[str], Any], str, tuple[str, ...]]] = {
    "transformers": (transformers_of, "", ("create_logits_processor",)),
    "vllm": (vllm_of, "0.31", ("create_logits_processor",)),
    "llama_cpp": (llama_cpp_of, "0.3.36", ("create_logits_processor", "create_sampler")),
    "exllamav2": (exllamav2_of, "0.3.2", ("create_filter",)),
    "exllamav3": (exllamav3_of, "1.4.1", ("create_filter",)),
    "mlx": (mlx_of, "", ("create_logits_processor",)),
}


def tokenizer_for(adapter: str) -> Any:
    """Make a tokenizer of the engine's own kind, or the object that it has instead."""
    if adapter == "llama_cpp":
        return Llama("0.3.36")
    if adapter == "exllamav2":
        inner = make_tokenizer()
        return tokenizer_of(json.loads(inner.to_str()), vocab_size=inner.get_vocab_size(), eos=ENDS[0], ends=ENDS)
    return exllamav3_stand_ins.Tokenizer(make_tokenizer(), ENDS) if adapter == "exllamav3" else Tokenizer()


class MlxModel:
    """A model of which the mlx adapter can find the width."""

    layers = ()

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        return np.zeros((*ids.shape, len(self._tokenizer)), np.single)


def calls_of(package: Any, tokenizer: Any, makers: tuple[str, ...]) -> list[Call]:
    found = [Call("create_vocabulary", package.create_vocabulary, lambda: (tokenizer,), lambda: {"end_ids": ENDS})]
    for name in makers:
        found.append(Call(name, getattr(package, name), lambda: (tokenizer, FORMAT), lambda: {"end_ids": ENDS}))
    if hasattr(package, "ForcedDrafts"):
        given = {"formatter_llama_cpp": (3,), "formatter_mlx": (MlxModel(tokenizer), tokenizer)}
        found.append(Call("ForcedDrafts", package.ForcedDrafts, lambda: given.get(package.__name__, (tokenizer, 3))))
    if hasattr(package, "create_extra_args"):
        found.append(Call("create_extra_args", package.create_extra_args, lambda: (FORMAT,)))
    if hasattr(package, "result"):
        found.append(Call("result", package.result, lambda: ("ab", FORMAT), lambda: {"vocabulary": None}))
        found.append(Call("results", package.results, lambda: (["ab"], FORMAT), lambda: {"vocabulary": None}))
    return found


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_wrong_calls_raise_errors_of_ours(adapter: str) -> None:
    stand_ins, release, makers = ADAPTERS[adapter]
    with stand_ins(release):
        calls = calls_of(import_module(f"formatter_{adapter}"), tokenizer_for(adapter), makers)
        for call in calls:
            call.function(*call.arguments(), **call.options())  # which is right
        assert raw_errors(calls, 400, seed=7) == []


@pytest.mark.parametrize("adapter", sorted({*ADAPTERS} - {"vllm"}))  # whose requests are sent to other processes
def test_a_hook_cannot_be_copied(adapter: str) -> None:
    """Two copies would follow two outputs with one state."""
    stand_ins, release, makers = ADAPTERS[adapter]
    with stand_ins(release):
        for name in makers:
            hook = getattr(import_module(f"formatter_{adapter}"), name)(tokenizer_for(adapter), FORMAT, end_ids=ENDS)
            for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(InvalidArgument, match="create one for each"):
                    duplicate(hook)


#: Values that look like the output of some engine but are none.
OUTPUTS: tuple[Callable[[], Any], ...] = (
    lambda: {"choices": 5},
    lambda: {"choices": [5]},
    lambda: {"choices": [{"text": None}]},
    lambda: {"choices": [{"message": 5}]},
    lambda: {"choices": [{"message": {"content": 5}}]},
    lambda: {"choices": {"text": "a"}},
    lambda: {"eos_reason": 5},
    lambda: {"eos_reason": "stop_string", "full_completion": 5},
    lambda: {"eos_reason": "stop_string", "full_completion": "\ud800"},
    lambda: {"eos_reason": []},
    lambda: SimpleNamespace(text="a"),
    lambda: SimpleNamespace(text="a", finish_reason=[]),
    lambda: SimpleNamespace(text=5, finish_reason="stop"),
    lambda: SimpleNamespace(message=5, finish_reason="stop"),
    lambda: SimpleNamespace(token_ids=5, finish_reason="stop"),
    lambda: SimpleNamespace(token_ids=["a"], finish_reason="length"),
    lambda: SimpleNamespace(token_ids=[97, 2**70], stop_reason=-1, finish_reason="stop"),
    lambda: SimpleNamespace(sequences=5),
    lambda: SimpleNamespace(sequences=torch.zeros((0, 0))),
    lambda: torch.zeros((1, 3), dtype=torch.int64),
    lambda: torch.full((1, 3), -1),
    lambda: torch.full((1, 3), torch.nan),
    lambda: torch.zeros((2, 2, 2), dtype=torch.int64),
    lambda: torch.zeros((0, 3), dtype=torch.int64),
)


def used_hooks(adapter: str, package: Any, makers: tuple[str, ...]) -> Iterator[Any]:
    """Make each hook that has methods for results, and give it one token."""
    tokenizer = tokenizer_for(adapter)
    for name in makers if adapter != "vllm" else ():
        hook = getattr(package, name)(tokenizer, FORMAT, end_ids=ENDS)
        if adapter == "transformers":
            generate(lambda hook: hook(torch.tensor([[97]]), torch.zeros((1, len(tokenizer)))), hook)
        elif adapter == "exllamav2":
            hook.begin("")
            sample(torch.zeros(tokenizer.config.vocab_size), [hook], lambda _: 97)
            hook.feed(torch.tensor([[97]]))
        elif adapter == "exllamav3":
            job = Job([hook], stop_conditions=())
            job.generator = Generator("1.4.1")
            job.activate()
            hook.get_next_logit_mask()
            hook.accept_token(97)
        elif name == "create_sampler":
            hook.accept(97)
        elif adapter == "mlx":
            hook(np.array([0]), np.zeros((1, len(tokenizer)), dtype=np.single))
        else:
            ids = np.array([0], dtype=np.intc)
            hook(ids, np.zeros(tokenizer.n_vocab(), dtype=np.single))
        yield hook


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_wrong_outputs_raise_errors_of_ours(adapter: str) -> None:
    stand_ins, release, makers = ADAPTERS[adapter]
    with stand_ins(release):
        package = import_module(f"formatter_{adapter}")
        calls = [
            Call(f"{type(hook).__name__}.{name}", getattr(hook, name), lambda: (None,))
            for hook in used_hooks(adapter, package, makers)
            for name in ("result", "results")
            if hasattr(hook, name)
        ]
        if adapter == "transformers":
            calls += [
                Call("formatter_after", hook.formatter_after, lambda: (torch.tensor([[97, 98]]),))
                for hook in used_hooks(adapter, package, makers)
            ]
        if adapter == "vllm":
            vocabulary = package.create_vocabulary(Tokenizer(), end_ids=ENDS)
            calls += [Call("result", package.result, lambda: (None, FORMAT), lambda: {"vocabulary": vocabulary})]
            calls += [Call("results", package.results, lambda: ([None], FORMAT), lambda: {"vocabulary": vocabulary})]
            calls += [
                Call("results of one", lambda output: package.results([output], FORMAT), lambda: (None,)),
                Call(
                    "results of ids",
                    lambda output: package.result(output, FORMAT, vocabulary=vocabulary),
                    lambda: (None,),
                ),
            ]
        assert calls
        assert raw_errors(calls, 400, seed=5, wrong=(*WRONG, *OUTPUTS)) == []


def asked_both_ways(model: Any, prompts: Any, request: Any) -> None:
    model.complete(prompts, request)
    list(model.stream_complete(prompts, request))


def calls_of_openai(script: StandIn) -> list[Call]:
    openai_model, client = import_module("formatter_openai").openai_model, client_of(script)
    model = openai_model("small", client=client, server="vllm")
    options: dict[str, Any] = {
        "server": "vllm",
        "endpoint": "chat",
        "system": None,
        "processed_logprobs": False,
        "extra": {},
        "parallel": 2,
    }
    request: dict[str, Any] = {
        "format": FORMAT,
        "max_tokens": 5,
        "stop_strings": ("x",),
        "sampling": greedy(),
        "samples": 1,
        "seed": 1,
        "scores": ScoreSettings(logprob=True),
    }

    def used(*arguments: Any, **changed: Any) -> None:
        asked_both_ways(openai_model(*arguments, **changed), ["Who?"], TextRequest(FORMAT))

    def requested(**changed: Any) -> None:
        asked_both_ways(model, ["Who?"], TextRequest(**changed))

    def written(make: Callable[..., Any], *more: Any) -> Callable[..., None]:
        def call(prompt: Any, **changed: Any) -> None:
            writer = make(model, *more, **changed)
            writer(prompt)
            list(writer.stream(prompt))

        return call

    def chosen(prompt: Any, options: Any, with_end: Any) -> None:
        with suppress(MalformedAnswer):  # the stand-in does not write under a grammar
            choose(openai_model("small", client=client, server="llama_server"), prompt, options, with_end=with_end)

    writing = {name: request[name] for name in ("max_tokens", "sampling", "scores")}
    return [
        Call("openai_model", used, lambda: ("small",), lambda: {"client": client, **options}),
        Call("complete", lambda *given: asked_both_ways(model, *given), lambda: (["Who?"], TextRequest(FORMAT))),
        Call("TextRequest", requested, tuple, lambda: dict(request)),
        Call("completion", written(completion, FORMAT), lambda: ("Who?",), lambda: dict(writing)),
        Call("choose", chosen, lambda: ("Who?", ["ab", "b"]), lambda: {"with_end": False}),
        Call("continuation", written(continuation), lambda: ("Who?",), lambda: {**writing, "stop_strings": "x"}),
    ]


@pytest.mark.parametrize("seed", range(2))
def test_wrong_calls_of_models_behind_servers_raise_errors_of_ours(script: StandIn, seed: int) -> None:
    """The server's answers are of no kind, too."""
    pytest.importorskip("openai", reason="needs the openai client")
    script.answer = lambda body, index: Answer("ab")
    calls = calls_of_openai(script)
    for call in calls:
        call.function(*call.arguments(), **call.options())  # which is right
    assert raw_errors(calls, 250, seed) == []
