"""Regular expressions: two syntaxes, and a third that is read as one of them, one tree of grammar nodes."""

from __future__ import annotations

from formatter_core.syntax.regex.ecma import parse_ecma
from formatter_core.syntax.regex.python import rust_of_python
from formatter_core.syntax.regex.rust import escape, parse_rust
from formatter_core.syntax.regex.terminal import as_terminal

__all__ = ["as_terminal", "escape", "parse_ecma", "parse_rust", "rust_of_python"]
