"""Models behind OpenAI-compatible servers, whose answers are checked; and clients whose requests our models answer."""

from formatter_openai.async_model import AsyncOpenAIModel
from formatter_openai.local.clients import async_openai_client, http_clients, openai_client
from formatter_openai.model import OpenAIModel, openai_model

__all__ = ["AsyncOpenAIModel", "OpenAIModel", "async_openai_client", "http_clients", "openai_client", "openai_model"]
