"""Constrained decoding that people trust: which tokens may come next, so that a model's output follows a format."""

from formatter_core.limits import Limits
from formatter_core.vocabulary import Vocabulary

__all__ = ["Limits", "Vocabulary"]
