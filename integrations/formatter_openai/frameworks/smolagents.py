"""A model of smolagents, with structured outputs and tool calls that are always valid.

::

    agent = CodeAgent([], FormatterModel(transformers_model(name)), use_structured_outputs_internally=True)
"""

from __future__ import annotations

from typing import Any

from smolagents import OpenAIModel

from formatter_core.layouts import Layout
from formatter_openai.local.clients import openai_client

__all__ = ["FormatterModel"]


class FormatterModel(OpenAIModel):  # type: ignore[misc]
    """A model for agents: `response_format` is enforced, and tool calls always match the tools' descriptions.

    Args:
        model: a model that `completion` takes and waits for. A model that gives its logits runs in its own thread.
        layout: the layout of tool calls and reasoning, or its name; by default that of its chat template.
        name: the model's name.
        options: the options of every request, such as `temperature` and `max_tokens`.

    Raises:
        InvalidArgument: the argument is not a model.
        UnsupportedLayout: there is no layout of that name.
    """

    def __init__(
        self, model: Any, *, layout: Layout | str | None = None, name: str = "formatter", **options: Any
    ) -> None:
        self._answering = openai_client(model, layout=layout)
        super().__init__(name, **options)

    def create_client(self) -> Any:
        """Return the client that sends the requests."""
        return self._answering
