"""A chat generator of Haystack.

::

    generator = FormatterChatGenerator(transformers_model(name), generation_kwargs={"response_format": Person})
    generator.run([ChatMessage.from_user("Who wrote the first compiler?")])["replies"]
"""

from __future__ import annotations

from typing import Any

from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.utils import Secret

from formatter_core.errors import InvalidArgument
from formatter_core.layouts import Layout
from formatter_openai._compat import AsyncOpenAI, OpenAI
from formatter_openai.local.clients import clients

__all__ = ["FormatterChatGenerator"]


class FormatterChatGenerator(OpenAIChatGenerator):  # type: ignore[misc]
    """A Haystack component that runs one of this project's models: `response_format` and tools are enforced.

    Args:
        model: a model that `completion` takes and waits for. A model that gives its logits runs in its own thread.
        layout: the layout of tool calls and reasoning, or its name; by default that of its chat template.
        name: the model's name.
        options: further options of `OpenAIChatGenerator`, such as `generation_kwargs` and `tools`.

    Raises:
        InvalidArgument: the argument is not a model.
        UnsupportedLayout: there is no layout of that name.
    """

    def __init__(
        self, model: Any, *, layout: Layout | str | None = None, name: str = "formatter", **options: Any
    ) -> None:
        super().__init__(api_key=Secret.from_token("none"), model=name, **options)
        self._answering: tuple[OpenAI, AsyncOpenAI] = clients(model, layout)

    def warm_up(self) -> None:
        """Set the client that the model answers."""
        self.client = self._answering[0]

    async def warm_up_async(self) -> None:
        """Take the asynchronous one."""
        self.async_client = self._answering[1]

    def to_dict(self) -> dict[str, Any]:
        """Refuse: a model is no data.

        Raises:
            InvalidArgument: always.
        """
        raise InvalidArgument("a model cannot be written into a pipeline's data; add the component in your program")
