"""The prompt that llama-cpp-python makes of the messages of a chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from formatter_core.errors import InvalidArgument
from formatter_llama_cpp._compat import library

__all__ = ["chat_prompt"]


class _Prompt(Exception):
    """Leaves a chat handler as soon as the prompt is made."""


class _Recorder:
    """A `Llama` for a chat handler, which is asked for a completion and notes the prompt."""

    def __init__(self, llama: Any) -> None:
        self._llama = llama

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llama, name)

    def create_completion(self, prompt: Any, stop: Any = None, **options: Any) -> Any:
        self.prompt, self.stop = prompt, stop
        raise _Prompt


def chat_prompt(llama: Any, messages: Sequence[Mapping[str, Any]], **options: Any) -> tuple[list[int], list[str]]:
    """The ids of a prompt as `create_chat_completion` makes it, and the strings at which it stops.

    A chat handler does not return its prompt, so it is run up to the point where it asks for a completion.

    Raises:
        InvalidArgument: the handler refuses the messages.
    """
    recorder = _Recorder(llama)
    try:
        named = getattr(llama, "_chat_handlers", {}).get(llama.chat_format)
        find = library.llama_chat_format.get_chat_completion_handler
        handler = llama.chat_handler or named or find(llama.chat_format)
        handler(llama=recorder, messages=[dict(message) for message in messages], **options)
    except _Prompt:
        prompt, stop = recorder.prompt, recorder.stop or []
    except Exception as error:
        raise InvalidArgument(f"the chat template refuses these messages: {error!r}", argument="prompt") from error
    else:
        raise InvalidArgument("this chat handler does not ask for a completion; give the prompt as a text")
    ids = llama.tokenize(prompt.encode(), add_bos=True, special=True) if isinstance(prompt, str) else list(prompt)
    return ids, [stop] if isinstance(stop, str) else list(stop)
