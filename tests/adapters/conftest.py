"""Fixtures that several adapters' tests use. Engines' stand-ins are imported when they are needed: some need torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.adapters.contract")

from tests.adapters.llama_cpp_contexts import ContextLlama, add_contexts  # noqa: E402
from tests.adapters.llama_cpp_stand_ins import GENERATIONS, llama_cpp_of  # noqa: E402
from tests.adapters.openai_stand_ins import Answer, StandIn, serving  # noqa: E402


@pytest.fixture
def script() -> Iterator[StandIn]:
    """Run a server of OpenAI's protocol; a test sets its answers, and what it does about counts of tokens."""
    with serving(StandIn(lambda body, index: Answer(""))) as running:
        yield running


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """Make a tokenizer for vLLM."""
    from tests.adapters.vllm_engines import make_tokenizer

    return make_tokenizer()


@pytest.fixture(params=("0.10.1", "0.11.1", "0.31"))
def any_vllm(request: pytest.FixtureRequest) -> Iterator[str]:
    """Put stand-ins of each generation in the place of vLLM."""
    from tests.adapters.vllm_stand_ins import vllm_of

    with vllm_of(request.param):
        yield request.param


@pytest.fixture
def new_vllm() -> Iterator[None]:
    """Put stand-ins of the newest generation in the place of vLLM."""
    from tests.adapters.vllm_stand_ins import vllm_of

    with vllm_of("0.31"):
        yield


@pytest.fixture(params=["0.2.82", "0.3.7", "0.3.9", GENERATIONS[-1]])
def made(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give the contexts that are made of llama.cpp, and a model, for each generation of contexts."""
    with llama_cpp_of(request.param) as module:
        yield add_contexts(module), ContextLlama(request.param)


@pytest.fixture
def llama() -> Iterator[ContextLlama]:
    """Give a model with contexts of the newest generation."""
    with llama_cpp_of(GENERATIONS[-1]) as module:
        add_contexts(module)
        yield ContextLlama(GENERATIONS[-1])
