"""The backend: what a request asks for as a format, compiled once, and where SGLang finds it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import (
    GRAMMAR_BACKEND_REGISTRY,
    BaseGrammarBackend,
    InvalidGrammarObject,
    register_grammar_backend,
    register_vocab_mask_buffer,
)
from sglang.srt.server_args import add_grammar_backend_choices

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.runtime import torch_bitmask
from formatter_sglang.grammar import FormatterGrammar

__all__ = ["FormatterGrammarBackend", "register"]

logger = logging.getLogger(__name__)

NAME = "formatter"


def register() -> None:
    """Make `--grammar-backend formatter` known to SGLang; called twice, it changes nothing.

    SGLang calls it by itself where the package is installed: it is an entry point of the group `sglang.srt.plugins`.
    """
    if NAME not in GRAMMAR_BACKEND_REGISTRY:
        register_grammar_backend(NAME, create_backend)
        add_grammar_backend_choices([NAME])


def create_backend(
    server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | None = None
) -> FormatterGrammarBackend:
    """What SGLang calls when it starts; the first argument is not needed."""
    return FormatterGrammarBackend(tokenizer, vocab_size, eos_token_ids)


class FormatterGrammarBackend(BaseGrammarBackend):  # type: ignore[misc]  # sglang is not there when types are checked
    """Compiles requests in SGLang's executor, outside the GIL; a request that is refused says why.

    Args:
        tokenizer: one of transformers.
        vocab_size: how many logits the model gives.
        eos_token_ids: the ids that end an output; by default the tokenizer's.

    Raises:
        InvalidVocabulary: the tokenizer cannot be read.
    """

    def __init__(self, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | None = None) -> None:
        super().__init__()
        ends = None if eos_token_ids is None else sorted(eos_token_ids)
        self.compiler = Compiler(Vocabulary.from_huggingface(tokenizer, end_ids=ends, size=vocab_size))

    def dispatch_json(self, key_string: str) -> Any:
        """A JSON Schema as text; `$$ANY$$` is what SGLang writes for "any object"."""
        text = '{"type": "object"}' if key_string == "$$ANY$$" else key_string
        return self._grammar(lambda: text, key_string)

    def dispatch_regex(self, key_string: str) -> Any:
        """A regular expression for the whole text, in Rust's syntax."""
        return self._grammar(lambda: formats.regex(key_string), key_string)

    def dispatch_ebnf(self, key_string: str) -> Any:
        """A grammar in XGrammar's notation."""
        return self._grammar(lambda: formats.ebnf(key_string), key_string)

    def dispatch_structural_tag(self, key_string: str) -> Any:
        """XGrammar's structural tags, as JSON text."""
        return self._grammar(lambda: formats.structural_tag(key_string), key_string)

    def initialize_vocab_mask_buffer(self, name: str, vocab_size: int, max_rows: int, device: Any) -> torch.Tensor:
        """Rows that are used again for every step; on the host, where masks are made."""
        rows = torch_bitmask.allocate(max_rows, max(vocab_size, len(self.compiler.vocabulary)), fill="all")
        buffer: torch.Tensor = register_vocab_mask_buffer(name, rows, max_rows)
        return buffer

    def _grammar(self, make: Any, spec: str) -> Any:
        try:
            return FormatterGrammar(self.compiler.compile(make()))
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this request, and this one alone
            logger.warning("a grammar is refused: %s", error)
            return InvalidGrammarObject(str(error))
