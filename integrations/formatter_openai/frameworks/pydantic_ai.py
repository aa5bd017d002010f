"""A model of pydantic-ai.

::

    agent = Agent(FormatterModel(transformers_model("Qwen/Qwen2.5-0.5B-Instruct")), output_type=Person)
    person = agent.run_sync("Who wrote the first compiler?").output
"""

from __future__ import annotations

from typing import Any

from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from formatter_core.layouts import Layout
from formatter_openai.local.clients import async_openai_client

__all__ = ["FormatterModel"]


class FormatterModel(OpenAIChatModel):  # type: ignore[misc]
    """A model for an `Agent`: output types become formats, and tool calls always match their descriptions.

    An `output_type` is a format of the answer (`NativeOutput`) unless the agent sets another mode, so it needs no tool
    calls.

    Args:
        model: a model that `completion` takes. A model that gives its logits runs in its own thread.
        layout: the layout of tool calls and reasoning, or its name; by default that of its chat template.
        name: the model's name in messages and usage.
        settings: the settings of every request, such as `{"max_tokens": 500, "temperature": 0}`.

    Raises:
        InvalidArgument: the argument is not a model.
        UnsupportedLayout: there is no layout of that name.
    """

    def __init__(
        self,
        model: Any,
        *,
        layout: Layout | str | None = None,
        name: str = "formatter",
        settings: ModelSettings | None = None,
    ) -> None:
        client = async_openai_client(model, layout=layout)
        profile = OpenAIModelProfile(
            default_structured_output_mode="native",
            supports_json_schema_output=True,
            supports_image_input=False,
            supports_document_input=False,
            json_schema_transformer=None,  # schemas are enforced unchanged
            openai_supports_strict_tool_definition=False,
        )
        super().__init__(name, provider=OpenAIProvider(openai_client=client), profile=profile, settings=settings)

    @property
    def system(self) -> str:
        """The provider's name in messages and traces."""
        return "formatter"
