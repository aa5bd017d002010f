"""A chat model of LangChain.

::

    chat = FormatterChat.of(transformers_model("Qwen/Qwen2.5-0.5B-Instruct"))
    person = chat.with_structured_output(Person).invoke("Who wrote the first compiler?")
"""

from __future__ import annotations

from typing import Any

from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from formatter_core.layouts import Layout
from formatter_openai.local.clients import ADDRESS, http_clients

__all__ = ["FormatterChat"]


class FormatterChat(ChatOpenAI):  # type: ignore[misc]
    """A LangChain chat model that runs one of this project's models; make it with `FormatterChat.of`. It is a
    `ChatOpenAI`.
    """

    @classmethod
    def of(
        cls, model: Any, *, layout: Layout | str | None = None, name: str = "formatter", **options: Any
    ) -> FormatterChat:
        """Make a LangChain chat model that answers with the given model, also for `ainvoke` and `astream`.

        Args:
            model: a model that `completion` takes and waits for: not a model of an asynchronous client. A model that
                gives its logits runs in its own thread, one request after the other.
            layout: the layout of tool calls and reasoning, or its name; by default that of its chat template.
            name: the model's name.
            options: further options of `ChatOpenAI`, such as `temperature` and `max_tokens`.

        Raises:
            InvalidArgument: the argument is not a model.
            UnsupportedLayout: there is no layout of that name.
        """
        waiting, awaited = http_clients(model, layout)
        mine = {"base_url": ADDRESS, "api_key": SecretStr("none"), "max_retries": 0, "stream_usage": True}
        return cls(model=name, http_client=waiting, http_async_client=awaited, **{**mine, **options})

    @property
    def _llm_type(self) -> str:
        return "formatter"
