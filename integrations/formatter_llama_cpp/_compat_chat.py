"""The prompt that llama-cpp-python makes of the messages of a chat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from formatter_core.errors import InvalidArgument
from formatter_llama_cpp._compat import library

__all__ = ["chat_prompt", "handler_of"]


class _Prompt(Exception):
    """An exception that leaves a chat handler as soon as the prompt is made."""


class _Recorder:
    """A substitute `Llama` for a chat handler, which records the prompt of the requested completion."""

    def __init__(self, llama: Any) -> None:
        self._llama = llama

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llama, name)

    def create_completion(self, prompt: Any, stop: Any = None, **options: Any) -> Any:
        self.prompt, self.stop = prompt, stop
        raise _Prompt


def handler_of(llama: Any) -> Callable[..., Any]:
    """Return the chat handler that `create_chat_completion` calls."""
    named = getattr(llama, "_chat_handlers", {}).get(llama.chat_format)
    find = library.llama_chat_format.get_chat_completion_handler
    found: Callable[..., Any] = llama.chat_handler or named or find(llama.chat_format)
    return found


def chat_prompt(
    llama: Any, messages: Sequence[Mapping[str, Any]], *, handler: Callable[..., Any] | None = None, **options: Any
) -> tuple[list[int], list[str]]:
    """Return the ids of a prompt as `create_chat_completion` makes it, and its stop strings.

    A chat handler does not return its prompt, so it runs up to the point where it requests a completion.

    Args:
        llama: the model.
        messages: the messages of the chat.
        handler: the chat handler that writes them; by default the model's own.
        options: further arguments of the handler, such as `tools`.

    Raises:
        InvalidArgument: the handler refuses the messages.
    """
    recorder = _Recorder(llama)
    try:
        write = handler_of(llama) if handler is None else handler
        write(llama=recorder, messages=[dict(message) for message in messages], **options)
    except _Prompt:
        prompt, stop = recorder.prompt, recorder.stop or []
    except Exception as error:  # noqa: BLE001 - a template may raise anything
        raise InvalidArgument(f"the chat template refuses these messages: {error!r}", argument="prompt") from None
    else:
        raise InvalidArgument(
            "this chat handler does not ask for a completion; give the prompt as a text", argument="prompt"
        )
    ids = llama.tokenize(prompt.encode(), add_bos=True, special=True) if isinstance(prompt, str) else list(prompt)
    return ids, [stop] if isinstance(stop, str) else list(stop)
