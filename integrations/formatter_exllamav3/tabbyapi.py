"""Grammars for TabbyAPI that replace its own: its `backends/exllamav3/grammar.py` must contain only this line.

from formatter_exllamav3.tabbyapi import ExLlamaV3Grammar
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from formatter_core import formats
from formatter_core.errors import FormatterError
from formatter_exllamav3.factory import create_filter

__all__ = ["ExLlamaV3Grammar"]


class ExLlamaV3Grammar:
    """The filters of one request; TabbyAPI makes one such object per request, and calls a method for each field.

    An invalid format raises TabbyAPI's own `GrammarParseError`, which its server answers with status 400; a release
    that lacks this class gets the `FormatterError`.

    Attributes:
        filters: for the request's job.
    """

    def __init__(self) -> None:
        self.filters: list[Any] = []

    def add_json_schema_filter(self, schema: Any, tokenizer: Any, trigger_token_id: int | None = None) -> None:
        """Add a filter for a JSON Schema, or for an OpenAI `response_format` that names one."""
        if isinstance(schema, dict) and {"schema", "name"} <= schema.keys():
            schema = schema["schema"]
        self._add(lambda: formats.json_schema(schema), tokenizer, trigger_token_id)

    def add_regex_filter(self, pattern: str, tokenizer: Any, trigger_token_id: int | None = None) -> None:
        """Add a filter for a regular expression of the whole text, in Rust's syntax."""
        self._add(lambda: formats.regex(pattern), tokenizer, trigger_token_id)

    def add_grammar_filter(self, grammar_string: str, tokenizer: Any, trigger_token_id: int | None = None) -> None:
        """Add a filter for a grammar in GBNF, whose rules have `::=`, or in Lark's notation."""
        notation = formats.gbnf if "::=" in str(grammar_string) else formats.lark
        self._add(lambda: notation(grammar_string), tokenizer, trigger_token_id)

    def add_kbnf_filter(self, kbnf_string: str, tokenizer: Any, trigger_token_id: int | None = None) -> None:
        """Add a filter for a grammar in KBNF, which older releases of TabbyAPI take."""
        self._add(lambda: formats.kbnf(kbnf_string), tokenizer, trigger_token_id)

    def _add(self, make: Callable[[], Any], tokenizer: Any, trigger_token_id: int | None) -> None:
        try:
            self.filters.append(create_filter(tokenizer, make(), trigger_token=trigger_token_id))
        except FormatterError as error:
            refusal = _refusal()
            if refusal is None:
                raise
            raise refusal(str(error)) from None


def _refusal() -> Callable[[str], Exception] | None:
    """Return TabbyAPI's error for a refused request, if this release has one."""
    try:
        found: Callable[[str], Exception] | None = getattr(
            importlib.import_module("common.errors"), "GrammarParseError", None
        )
    except ImportError:
        return None
    return found
