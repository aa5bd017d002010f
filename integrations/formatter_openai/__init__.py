"""Models behind OpenAI-compatible servers: the format goes to the server, and every answer is checked against it."""

from formatter_openai.model import OpenAIModel, openai_model

__all__ = ["OpenAIModel", "openai_model"]
