"""Models behind OpenAI-compatible servers, whose answers are checked; and clients whose requests this project's models
answer.
"""

from formatter_openai.async_model import AsyncOpenAIModel
from formatter_openai.local.clients import async_openai_client, http_clients, openai_client
from formatter_openai.model import OpenAIModel, openai_model
from formatter_openai.reports import Enforcement

__all__ = [
    "AsyncOpenAIModel",
    "Enforcement",
    "OpenAIModel",
    "async_openai_client",
    "http_clients",
    "openai_client",
    "openai_model",
]
