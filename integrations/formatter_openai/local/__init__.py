"""Clients of the `openai` package whose requests a model of ours answers, in this process and without a server."""
