"""Constrained decoding: computes which tokens may come next, so that a model's output follows a format.

A public name is imported when it is first used: `import formatter_core` alone loads nothing else, not even numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from formatter_core import errors, formats
    from formatter_core.formats.builder import FormatterBuilder
    from formatter_core.formats.json_reader import JsonDelta
    from formatter_core.formats.partial import Partial
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
    "JsonDelta",
    "Layout",
    "Limits",
    "Partial",
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

#: The names by the module that has them; a module without names is a public name itself.
_HOMES = {
    "errors": (),
    "formats": (),
    "formats.builder": ("FormatterBuilder",),
    "formats.json_reader": ("JsonDelta",),
    "formats.partial": ("Partial",),
    "formats.protocol": ("Format",),
    "formats.writing": ("to_gbnf", "to_kbnf"),
    "layouts": ("ChatAnswer", "Layout", "ToolCall"),
    "limits": ("Limits",),
    "runtime.bitmask": (),
    "runtime.chat_deltas": ("ChatDeltas",),
    "runtime.compiled": ("CompiledFormat",),
    "runtime.compiler": ("Compiler",),
    "runtime.cursor": ("Cursor",),
    "runtime.formatter": ("Formatter",),
    "runtime.result": ("Capture", "Event", "HoleOpened", "Result", "Retracted", "TextAdded", "ValueCompleted"),
    "runtime.without_vocabulary": ("check", "parse"),
    "vocabulary": ("Vocabulary",),
}

if not TYPE_CHECKING:  # a type checker knows the imports above, and that there are no other names

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            is_module = not names and home.split(".")[-1] == name
            if is_module or name in names:
                module = import_module(f"{__name__}.{home}")
                value = module if is_module else getattr(module, name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
