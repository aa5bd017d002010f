"""Constrained decoding for llama-cpp-python: `llama(prompt, logits_processor=create_logits_processor(llama, …))`."""

from formatter_llama_cpp.logits_processor import FormatterLogitsProcessor, NotCalled, create_logits_processor
from formatter_llama_cpp.sampler import FormatterSampler, create_sampler, mask_logits
from formatter_llama_cpp.vocabulary import create_vocabulary

__all__ = [
    "FormatterLogitsProcessor",
    "FormatterSampler",
    "NotCalled",
    "create_logits_processor",
    "create_sampler",
    "create_vocabulary",
    "mask_logits",
]
