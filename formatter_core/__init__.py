"""Constrained decoding that people trust: which tokens may come next, so that a model's output follows a format."""

from formatter_core import errors, formats
from formatter_core.formats import FormatterBuilder
from formatter_core.formats.protocol import Format
from formatter_core.formats.writing import to_gbnf, to_kbnf
from formatter_core.layouts import ChatAnswer, Layout, ToolCall
from formatter_core.limits import Limits
from formatter_core.runtime import bitmask
from formatter_core.runtime.chat_deltas import ChatDeltas
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.runtime.compiler import Compiler
from formatter_core.runtime.cursor import Cursor
from formatter_core.runtime.formatter import Formatter
from formatter_core.runtime.result import Capture, Event, HoleOpened, Result, Retracted, TextAdded, ValueCompleted
from formatter_core.runtime.without_vocabulary import check, parse
from formatter_core.vocabulary import Vocabulary

__version__ = "0.1.0"

__all__ = [
    "Capture",
    "ChatAnswer",
    "ChatDeltas",
    "CompiledFormat",
    "Compiler",
    "Cursor",
    "Event",
    "Format",
    "Formatter",
    "FormatterBuilder",
    "HoleOpened",
    "Layout",
    "Limits",
    "Result",
    "Retracted",
    "TextAdded",
    "ToolCall",
    "ValueCompleted",
    "Vocabulary",
    "__version__",
    "bitmask",
    "check",
    "errors",
    "formats",
    "parse",
    "to_gbnf",
    "to_kbnf",
]
