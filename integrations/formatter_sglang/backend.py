"""The grammar backend for SGLang: it turns a request into a format and compiles each format once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from sglang.srt.constrained.base_grammar_backend import (
    GRAMMAR_BACKEND_REGISTRY,
    BaseGrammarBackend,
    InvalidGrammarObject,
    register_grammar_backend,
)
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
from sglang.srt.constrained.torch_ops.token_filter_torch_ops import set_token_filter_torch
from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.runtime_context import get_serving
from sglang.srt.server_args import add_grammar_backend_choices

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.errors.arguments import token_ids_of
from formatter_sglang.grammar import FormatterGrammar

__all__ = ["FormatterGrammarBackend", "register"]

logger = logging.getLogger(__name__)
NAME = "formatter"


def register() -> None:
    """Make `--grammar-backend formatter` known; SGLang calls it by itself, as a plugin. Twice changes nothing."""
    if NAME not in GRAMMAR_BACKEND_REGISTRY:
        register_grammar_backend(NAME, create_backend)
        add_grammar_backend_choices([NAME])


def create_backend(
    server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | None = None
) -> BaseGrammarBackend:
    """Create the grammar backend; SGLang calls this when it starts.

    With a reasoning parser, a format begins after the model's reasoning.
    """
    backend, serving = FormatterGrammarBackend(tokenizer, vocab_size, eos_token_ids), get_serving()
    if not serving.reasoning_parser:
        return backend
    parser = ReasoningParser(model_type=serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer)
    return ReasonerGrammarBackend(backend, parser, tokenizer, enable_strict_thinking=serving.enable_strict_thinking)


def _dispatch(make: Callable[[str], Any]) -> Callable[[FormatterGrammarBackend, str], Any]:
    """Make a method that compiles one kind of request; `make` makes its format from the request's text."""

    def dispatch(self: FormatterGrammarBackend, key_string: str) -> Any:
        try:
            return FormatterGrammar(self.compiler.compile(make(key_string)))
        except Exception as error:  # noqa: BLE001 - any error ends this request and no other
            logger.warning("grammar refused: %s", error)
            return InvalidGrammarObject(str(error))

    return dispatch


class FormatterGrammarBackend(BaseGrammarBackend):  # type: ignore[misc]  # sglang is not there when types are checked
    """A grammar backend that compiles requests in SGLang's executor, outside the GIL; a refused request gets the
    reason.

    Args:
        tokenizer: a tokenizer of transformers.
        vocab_size: the number of logits of the model.
        eos_token_ids: the ids that end an output; by default the tokenizer's.

    Raises:
        InvalidVocabulary: the tokenizer cannot be read.
    """

    def __init__(self, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | None = None) -> None:
        super().__init__()
        ends = None if eos_token_ids is None else sorted(token_ids_of(eos_token_ids, "eos_token_ids"))
        self.vocabulary = Vocabulary.from_huggingface(tokenizer, end_ids=ends, size=vocab_size)
        self.compiler = Compiler(self.vocabulary)

    # The wrapper for reasoning calls a backend for rows while there is no grammar yet, and for tokens to exclude.
    is_support_token_filter = True
    set_token_filter = staticmethod(set_token_filter_torch)
    allocate_vocab_mask = FormatterGrammar.allocate_vocab_mask
    move_vocab_mask = staticmethod(FormatterGrammar.move_vocab_mask)
    apply_vocab_mask = staticmethod(FormatterGrammar.apply_vocab_mask)

    dispatch_json = _dispatch(  # no two of SGLang's backends have the same order of keys, so any is taken
        lambda text: formats.json_schema({"type": "object"} if text == "$$ANY$$" else text, key_order="any")
    )
    dispatch_regex = _dispatch(formats.regex)  # the whole text, in Rust's syntax
    dispatch_ebnf = _dispatch(formats.ebnf)
    dispatch_structural_tag = _dispatch(formats.structural_tag)
