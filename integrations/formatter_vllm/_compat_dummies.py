"""Stand-ins of vLLM's objects, as far as structured outputs read them, for the dummy requests of `_compat_probe`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from formatter_core import Vocabulary
from formatter_vllm._compat_structured_outputs import MANAGER, PARAMETERS

__all__ = ["END", "REQUESTS", "WRITTEN", "Reasoner", "manager_of", "parameters_of", "request_of"]

#: The formats of the dummy requests, and tokens (bytes) that one of them writes.
_PATTERN, WRITTEN = "ab+c", b"ab"
#: The number of dummy requests.
REQUESTS = 5
#: The end id of `Vocabulary.of_bytes()`.
END = 256


class Reasoner:
    """A reasoning parser of a model that never ends its reasoning."""

    def __init__(self, tokenizer: Any = None, **options: Any) -> None:
        pass

    def is_reasoning_end(self, input_ids: Any) -> bool:
        return False

    def is_reasoning_end_streaming(self, input_ids: Any, delta_ids: Any) -> bool:
        return False


def parameters_of() -> Any:
    """Make parameters of a dummy request that vLLM has checked."""
    found = import_module(PARAMETERS)
    wanted = found.StructuredOutputsParams(regex=_PATTERN)
    parameters = found.SamplingParams(structured_outputs=wanted, max_tokens=len(WRITTEN))
    config = _config(0)
    parameters._validate_structured_outputs(config.model_config, config.structured_outputs_config, object())
    return parameters


def manager_of(backend: Any, drafts: int) -> Any:
    """Make vLLM's manager of structured outputs, with this backend and this many drafts per request."""
    manager = import_module(MANAGER).StructuredOutputManager(_config(drafts))
    manager.formatter_backend, manager.tokenizer = backend, Vocabulary.of_bytes()
    return manager


def request_of(name: str, parameters: Any) -> Any:
    """Make a vLLM request with this id."""
    kind: Callable[..., Any] = import_module("vllm.v1.request").Request
    return kind(request_id=name, prompt_token_ids=[END], sampling_params=parameters, pooling_params=None)


def _config(drafts: int) -> Any:
    """Make a `VllmConfig` with the fields that structured outputs read."""
    return SimpleNamespace(
        model_config=SimpleNamespace(
            skip_tokenizer_init=True, is_diffusion=False, get_vocab_size=lambda: len(Vocabulary.of_bytes())
        ),
        structured_outputs_config=SimpleNamespace(
            backend="auto", reasoning_parser="", reasoning_parser_plugin="", enable_in_reasoning=False
        ),
        scheduler_config=SimpleNamespace(max_num_seqs=REQUESTS + 1),
        parallel_config=SimpleNamespace(distributed_executor_backend="external_launcher"),  # grammars at once
        speculative_config=SimpleNamespace(num_speculative_tokens=drafts) if drafts else None,
        num_speculative_tokens=drafts,
    )
