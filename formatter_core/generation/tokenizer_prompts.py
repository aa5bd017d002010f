"""Write prompts with a tokenizer of transformers, for the models whose inference engine uses one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from formatter_core.errors import InvalidArgument
from formatter_core.generation.prompts import continuation_tokens
from formatter_core.layouts import Layout
from formatter_core.layouts.lookup import known_layout
from formatter_core.runtime.compiler import Compiler
from formatter_core.vocabulary import Vocabulary

__all__ = ["TokenizerPrompts", "continuation"]


def continuation(tokenizer: Any, vocabulary: Vocabulary) -> Callable[[bytes], list[int] | None]:
    """Return a function that gives ids for exactly these bytes; None if there are none or they split characters."""
    return partial(
        continuation_tokens, vocabulary, lambda data: tokenizer.encode(data.decode(), add_special_tokens=False)
    )


class TokenizerPrompts:
    """A base class for a `LogitsModel` whose tokenizer has the methods of transformers' tokenizers.

    Attributes:
        compiler: what formats are compiled with, each once.
        tokenizer: the model's tokenizer.
    """

    compiler: Compiler
    tokenizer: Any

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens, one for each logit."""
        return self.compiler.vocabulary

    @property
    def layout(self) -> Layout | None:
        """The layout of the model's turns, from its chat template; None if it is not known."""
        return known_layout(self.tokenizer)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a prompt, with the tokens that the tokenizer puts before a text."""
        return list(self.tokenizer.encode(text))

    def encode_chat(self, messages: Sequence[dict[str, Any]], **options: Any) -> list[int]:
        """Return the ids of a conversation up to the model's answer; takes the arguments of `apply_chat_template`.

        Raises:
            InvalidArgument: the tokenizer has no chat template.
        """
        has_template = getattr(self.tokenizer, "chat_template", "") is not None
        if not getattr(self.tokenizer, "has_chat_template", has_template) and "chat_template" not in options:
            raise InvalidArgument("the tokenizer has no chat template; give the prompt as text", argument="prompt")
        wanted = {"add_generation_prompt": True, **options, "tokenize": True, "return_dict": False}
        return list(self.tokenizer.apply_chat_template(list(messages), **wanted))

    def encode_continuation(self, text: bytes) -> list[int] | None:
        """Return ids that spell exactly these bytes; None if there are none, or the bytes are not whole characters."""
        return continuation(self.tokenizer, self.vocabulary)(text)
