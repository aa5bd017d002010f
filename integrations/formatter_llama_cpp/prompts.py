"""Prompts as token ids: texts, ids, and the messages of a chat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from formatter_core import Vocabulary
from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown, token_ids_of
from formatter_core.generation.prompts import continuation_tokens
from formatter_llama_cpp._compat_chat import chat_prompt

__all__ = ["continuation", "prompt_of"]


def prompt_of(llama: Any, prompt: Any, width: int) -> tuple[tuple[int, ...], list[str]]:
    """Return the ids of a prompt, and the stop strings of the text after it.

    Args:
        llama: the model.
        prompt: text, ids, or the messages of a chat.
        width: how many ids the model has.

    Raises:
        InvalidArgument: it has no tokens, or an id that the model lacks; messages that cannot be written.
    """
    stops: list[str] = []
    if isinstance(prompt, str):
        prompt = prompt.encode("utf-8", "replace")
    if isinstance(prompt, bytes):
        prompt = llama.tokenize(prompt, add_bos=True, special=True)
    elif isinstance(prompt, Sequence) and prompt and all(isinstance(message, Mapping) for message in prompt):
        prompt, stops = chat_prompt(llama, prompt)
    ids = token_ids_of(prompt, "prompt")
    if not ids:
        raise InvalidArgument(
            "the prompt has no tokens; give at least the model's first token (token_bos)", argument="prompt"
        )
    for token in ids:
        if not 0 <= token < width:
            raise InvalidArgument(
                f"the prompt holds {shown(token)}, but the model has the tokens 0 to {width - 1}", argument="prompt"
            )
    return ids, stops


def continuation(llama: Any, vocabulary: Vocabulary) -> Callable[[bytes], list[int] | None]:
    """Return a function that gives ids that spell exactly these bytes; None if the tokenizer has none."""

    def encode(text: bytes) -> list[int] | None:
        return continuation_tokens(vocabulary, lambda data: llama.tokenize(data, add_bos=False, special=False), text)

    return encode
