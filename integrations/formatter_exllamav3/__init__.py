"""Constrained decoding for ExLlamaV3: `Job(…, filters=[create_filter(tokenizer, …)])`."""

from formatter_exllamav3.filter import FormatterFilter, NotUsed, UsedTwice, create_filter
from formatter_exllamav3.vocabulary import create_vocabulary

__all__ = ["FormatterFilter", "NotUsed", "UsedTwice", "create_filter", "create_vocabulary"]
