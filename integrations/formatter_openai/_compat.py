"""What the adapter needs of the openai package; no other module looks at it."""

from __future__ import annotations

from formatter_core.errors import UnsupportedEngineVersion

try:
    from openai import APIError, BadRequestError, OpenAI
except ImportError as error:
    raise UnsupportedEngineVersion(
        "openai", found="(too old, or absent)", needed=">= 1.40", missing="OpenAI"
    ) from error

__all__ = ["APIError", "BadRequestError", "OpenAI"]
