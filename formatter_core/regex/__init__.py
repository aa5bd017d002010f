"""Regular expressions: two syntaxes, one tree of grammar nodes."""

from __future__ import annotations

from formatter_core.regex._terminal import as_terminal
from formatter_core.regex.ecma import parse_ecma
from formatter_core.regex.rust import escape, parse_rust

__all__ = ["as_terminal", "escape", "parse_ecma", "parse_rust"]
