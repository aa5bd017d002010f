"""Constrained decoding for vLLM: `--logits-processors formatter_vllm:FormatterLogitsProcessor`, a format per request.

Importing this package imports no vLLM: `create_extra_args`, `result` and `results` serve clients, which need none. Only
`FormatterLogitsProcessor` does, and `create_logits_processor` imports torch.
"""

from typing import TYPE_CHECKING, Any

from formatter_vllm.requests import create_extra_args
from formatter_vllm.results import result, results
from formatter_vllm.vocabulary import create_vocabulary

if TYPE_CHECKING:
    from formatter_vllm.logits_processor import FormatterLogitsProcessor
    from formatter_vllm.per_request import create_logits_processor

__all__ = [
    "FormatterLogitsProcessor",
    "create_extra_args",
    "create_logits_processor",
    "create_vocabulary",
    "result",
    "results",
]


def __getattr__(name: str) -> Any:
    if name == "FormatterLogitsProcessor":
        from formatter_vllm.logits_processor import FormatterLogitsProcessor

        return FormatterLogitsProcessor
    if name == "create_logits_processor":
        from formatter_vllm.per_request import create_logits_processor

        return create_logits_processor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
