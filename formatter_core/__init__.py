"""Constrained decoding that people trust: which tokens may come next, so that a model's output follows a format."""

from formatter_core import bitmask, errors, formats
from formatter_core.compiled import CompiledFormat
from formatter_core.compiler import Compiler
from formatter_core.format import Format
from formatter_core.formats import FormatterBuilder
from formatter_core.formatter import Formatter
from formatter_core.limits import Limits
from formatter_core.result import Capture, Event, HoleOpened, Result, Retracted, TextAdded, ValueCompleted
from formatter_core.vocabulary import Vocabulary

__all__ = [
    "Capture",
    "CompiledFormat",
    "Compiler",
    "Event",
    "Format",
    "Formatter",
    "FormatterBuilder",
    "HoleOpened",
    "Limits",
    "Result",
    "Retracted",
    "TextAdded",
    "ValueCompleted",
    "Vocabulary",
    "bitmask",
    "errors",
    "formats",
]
