"""Constrained decoding for ExLlamaV3: `Job(…, filters=[create_filter(tokenizer, …)])`."""

from formatter_exllamav3.factory import create_filter
from formatter_exllamav3.filter import FormatterFilter
from formatter_exllamav3.vocabulary import create_vocabulary

__all__ = ["FormatterFilter", "create_filter", "create_vocabulary"]
