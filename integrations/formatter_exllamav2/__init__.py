"""Constrained decoding for ExLlamaV2: `generator.generate(…, filters=[create_filter(tokenizer, …)])`."""

from formatter_exllamav2.factory import create_filter
from formatter_exllamav2.filter import FormatterFilter
from formatter_exllamav2.vocabulary import create_vocabulary

__all__ = ["FormatterFilter", "create_filter", "create_vocabulary"]
