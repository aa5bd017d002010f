"""Clients of the `openai` package whose requests a model in this process answers, without a server."""
