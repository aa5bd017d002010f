"""Models behind OpenAI-compatible servers: the format goes to the server, and every answer is checked against it."""

from formatter_openai.async_model import AsyncOpenAIModel
from formatter_openai.model import OpenAIModel, openai_model

__all__ = ["AsyncOpenAIModel", "OpenAIModel", "openai_model"]
