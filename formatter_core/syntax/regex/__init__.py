"""Regular expressions: two syntaxes, which the library reads, and a third that is written as one of them."""

from __future__ import annotations

from formatter_core.syntax.regex.python import rust_of_python
from formatter_core.syntax.regex.reader import escape, parse_ecma, parse_rust
from formatter_core.syntax.regex.terminal import as_terminal

__all__ = ["as_terminal", "escape", "parse_ecma", "parse_rust", "rust_of_python"]
