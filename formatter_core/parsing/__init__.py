"""The plain Python parser: recognition, captures, events. The oracle and the kbnf profile rely on it."""

from formatter_core.parsing.parser import Recognizer, captures_of, min_bytes, parse

__all__ = ["Recognizer", "captures_of", "min_bytes", "parse"]
