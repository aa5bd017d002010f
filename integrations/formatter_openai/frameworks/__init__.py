"""Classes of frameworks that take our models: each is the framework's own for OpenAI, answered in this process."""
