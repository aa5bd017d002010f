"""Classes of frameworks that take this project's models: each is the framework's own for OpenAI, answered in this
process.
"""
