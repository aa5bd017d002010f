"""Wrong calls of what adapters offer to make vocabularies and hooks raise errors of ours, whatever the arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip("torch", reason="most adapters need torch")
pytest.importorskip("tokenizers", reason="makes a tokenizer")

from formatter_core import formats
from tests.adapters.exllamav2_stand_ins import exllamav2_of
from tests.adapters.exllamav3_stand_ins import exllamav3_of
from tests.adapters.llama_cpp_stand_ins import Llama, llama_cpp_of
from tests.adapters.transformers_loops import provide_transformers
from tests.adapters.vllm_engines import ENDS, make_tokenizer
from tests.adapters.vllm_stand_ins import vllm_of
from tests.core.wrong_calls import Call, raw_errors

FORMAT = formats.regex("[ab]+")


@contextmanager
def transformers_of(_: str) -> Iterator[None]:
    provide_transformers()
    yield


class Tokenizer:
    """What the transformers adapter needs of a tokenizer: another one's, in a class that can be referred to weakly."""

    def __init__(self) -> None:
        self._tokenizer = make_tokenizer()

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


#: The package, what makes its stand-ins, a release of the engine, and names that are called with (tokenizer, format).
ADAPTERS: dict[str, tuple[Callable[[str], Any], str, tuple[str, ...]]] = {
    "transformers": (transformers_of, "", ("create_logits_processor",)),
    "vllm": (vllm_of, "0.31", ("create_logits_processor",)),
    "llama_cpp": (llama_cpp_of, "0.3.36", ("create_logits_processor", "create_sampler")),
    "exllamav2": (exllamav2_of, "0.3.2", ("create_filter",)),
    "exllamav3": (exllamav3_of, "1.4.1", ("create_filter",)),
}


def calls_of(package: Any, makers: tuple[str, ...]) -> list[Call]:
    tokenizer: Any = Llama("0.3.36") if package.__name__ == "formatter_llama_cpp" else Tokenizer()
    found = [Call("create_vocabulary", package.create_vocabulary, lambda: (tokenizer,), lambda: {"end_ids": ENDS})]
    for name in makers:
        found.append(Call(name, getattr(package, name), lambda: (tokenizer, FORMAT), lambda: {"end_ids": ENDS}))
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
        assert raw_errors(calls_of(import_module(f"formatter_{adapter}"), makers), 400, seed=7) == []
