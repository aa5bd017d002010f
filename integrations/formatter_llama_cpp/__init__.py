"""Constrained decoding for llama-cpp-python: `llama(prompt, logits_processor=create_logits_processor(llama, …))`."""

from formatter_llama_cpp.context import DecodeFailed
from formatter_llama_cpp.factory import create_logits_processor, create_sampler
from formatter_llama_cpp.forced_drafts import ForcedDrafts
from formatter_llama_cpp.logits_processor import FormatterLogitsProcessor
from formatter_llama_cpp.model import LlamaModel, llama_model
from formatter_llama_cpp.parallel import generate_parallel
from formatter_llama_cpp.requests import PromptTooLong, Request, Update
from formatter_llama_cpp.sampler import FormatterSampler, mask_logits
from formatter_llama_cpp.samples import Sample
from formatter_llama_cpp.scheduler import Scheduler, SchedulerInterrupted
from formatter_llama_cpp.vocabulary import create_vocabulary

__all__ = [
    "DecodeFailed",
    "ForcedDrafts",
    "FormatterLogitsProcessor",
    "FormatterSampler",
    "LlamaModel",
    "PromptTooLong",
    "Request",
    "Sample",
    "Scheduler",
    "SchedulerInterrupted",
    "Update",
    "create_logits_processor",
    "create_sampler",
    "create_vocabulary",
    "generate_parallel",
    "llama_model",
    "mask_logits",
]
